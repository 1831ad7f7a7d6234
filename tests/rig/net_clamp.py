"""Clamp the window that a process gives its peers, on the TCP connections that it has: net_clamp.py PID BYTES"""
import ctypes
import os
import socket
import sys

SYS_PIDFD_GETFD = 438
TCP_WINDOW_CLAMP, SO_RCVBUFFORCE = 10, 33


def main():
    pid, n_bytes = int(sys.argv[1]), int(sys.argv[2])
    process, libc = os.pidfd_open(pid), ctypes.CDLL(None, use_errno=True)
    n = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if not os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
            continue
        copy = libc.syscall(SYS_PIDFD_GETFD, process, int(fd), 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), f"pidfd_getfd of {fd}")
        with socket.socket(fileno=copy) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                # a buffer of a set size, as it is: where the kernel may enlarge it, the clamp goes with it
                one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2)
                one.setsockopt(socket.IPPROTO_TCP, TCP_WINDOW_CLAMP, n_bytes)
                n += 1
    return n == 0


sys.exit(main())
