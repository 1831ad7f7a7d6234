"""One end of a transfer, as a recorded process: traffic_end.py KEY=VALUE... (see DEFAULTS). Prints a line of JSON."""
import ctypes
import json
import os
import socket
import struct
import sys
import time

DEFAULTS = {"role": "send", "address": "127.0.0.1", "port": "7711", "bytes": "0", "settle_s": "1",
            "sndbuf": "0", "rcvbuf": "0", "read_bytes_per_s": "0", "hold_s": "0.5", "pairs": "0", "ports": "1", "again": "0"}


# of the kernel's struct tcp_info: name in the store, offset, bytes, ns or 1 of a unit
FIELDS = [("min_rtt_ns", 148, 4, 1000), ("n_retransmits", 100, 4, 1), ("acked_bytes", 120, 8, 1), ("received_bytes", 128, 8, 1),
          ("n_segments_out", 136, 4, 1), ("n_segments_in", 140, 4, 1), ("busy_ns", 168, 8, 1000), ("rwnd_limited_ns", 176, 8, 1000),
          ("sndbuf_limited_ns", 184, 8, 1000), ("sent_bytes", 200, 8, 1), ("retransmitted_bytes", 208, 8, 1)]


def own_view(connection):
    """What the kernel tells the program itself."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return {name: int.from_bytes(info[at:at + n], "little") * scale for name, at, n, scale in FIELDS}


def mark():
    ctypes.CDLL(None).lapwing_mark_step(ctypes.c_uint64(1))


def receive(connection, options):
    n, start = 0, time.monotonic()
    rate = float(options["read_bytes_per_s"])
    while True:
        data = connection.recv(1 << 14 if rate else 1 << 20)
        if not data:
            return n
        n += len(data)
        if rate:
            time.sleep(max(0, n / rate - (time.monotonic() - start)))


def one_end(options):
    listener = None
    if options["role"] == "receive":
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if int(options["rcvbuf"]):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(options["rcvbuf"]))
        listener.bind((options["address"], int(options["port"])))
        listener.listen(5)
    mark()
    time.sleep(float(options["settle_s"]))  # the first look at its namespace is before the traffic
    start = time.monotonic_ns()
    if listener:
        connection, _ = listener.accept()
        n = receive(connection, options)
    else:
        connection = socket.socket()
        if int(options["sndbuf"]):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(options["sndbuf"]))
        connection.connect((options["address"], int(options["port"])))
        data, n = bytes(1 << 20), int(options["bytes"])
        for at in range(0, n, len(data)):
            connection.sendall(data[:n - at])
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)  # the other end has read all of it and closed
    name, info = connection.getsockname(), own_view(connection)
    connection.close()
    end = time.monotonic_ns()
    time.sleep(float(options["hold_s"]))
    return {"bytes": n, "port": name[1], "start_ns": start, "end_ns": end, "info": info}


def many(options):
    """Connections of this process with itself."""
    listeners = []
    for port in range(int(options["ports"])):
        listener = socket.socket()
        listener.bind((options["address"], 0))
        listener.listen(4096)
        listeners.append(listener)
    mark()
    kept = []
    for i in range(int(options["pairs"])):
        listener = listeners[i % len(listeners)]
        kept.append(socket.create_connection(listener.getsockname()))
        kept.append(listener.accept()[0])
        kept[-2].sendall(b"x")
        kept[-1].recv(1)
    time.sleep(float(options["hold_s"]))
    return {"n": len(kept)}


def again(options):
    """Connections of this process with itself, one after the other, from the same port to the same port; reset at the end."""
    listener = socket.create_server((options["address"], 7711))
    mark()
    sizes = [10_000 * (i + 1) for i in range(int(options["again"]))]
    for n in sizes:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.bind((options["address"], 7712))
        connection.connect(listener.getsockname())
        other = listener.accept()[0]
        connection.sendall(bytes(n))
        other.recv(n, socket.MSG_WAITALL)
        time.sleep(float(options["hold_s"]))
        connection.close()
        other.close()
    return {"sizes": sizes}


def main():
    options = {**DEFAULTS, **dict(word.split("=", 1) for word in sys.argv[1:])}
    kind = many if int(options["pairs"]) else again if int(options["again"]) else one_end
    line = json.dumps(kind(options)) + "\n"
    os.write(1, line.encode())  # whole, whoever else writes there


if __name__ == "__main__":
    main()
