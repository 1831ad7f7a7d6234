"""Two network namespaces joined by a veth pair, and a TCP transfer between them whose bytes are known."""
import contextlib
import json
import os
import subprocess
import sys

A, B = "198.18.201.1", "198.18.201.2"

# Sends argv[3] bytes to argv[1]:argv[2] in pieces of argv[4]; prints what the kernel says of the connection.
SENDER = """
import ctypes, json, socket, struct, sys, time
mark = getattr(ctypes.CDLL(None), "lapwing_mark_step", None)
if mark: mark(1)
peer, port, n, piece = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
s = socket.create_connection((peer, port))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
data = bytes(piece)
for i in range(n // piece):
    s.sendall(data)
    if len(sys.argv) > 5: time.sleep(float(sys.argv[5]))
s.shutdown(socket.SHUT_WR)
assert int(s.recv(100)) == n
info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
print(json.dumps({"port": s.getsockname()[1], "n_retransmits": struct.unpack_from("I", info, 100)[0], "mss": struct.unpack_from("I", info, 16)[0]}))
s.close()
time.sleep(0.3)
"""
RECEIVER = """
import ctypes, socket, sys
mark = getattr(ctypes.CDLL(None), "lapwing_mark_step", None)
if mark: mark(1)
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], 0), family=family)
print(listener.getsockname()[1], flush=True)
for i in range(int(sys.argv[2])):
    s = listener.accept()[0]
    n = 0
    while piece := s.recv(1 << 20): n += len(piece)
    s.sendall(b"%d" % n)
    s.close()
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def inside(host, *command):
    return ["ip", "netns", "exec", host, *command]


@contextlib.contextmanager
def two_hosts(a="lwPa", b="lwPb"):
    """Hosts @a (198.18.201.1) and @b (.2), device eth0 in each. Removed at the end, whatever happens."""
    for name in (a, b):
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
    try:
        for name in (a, b):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", a, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", b)
        for name, address in ((a, A), (b, B)):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        yield a, b
    finally:
        for name in (a, b):
            subprocess.run(["ip", "netns", "del", name])


@contextlib.contextmanager
def routed_hosts(a="lwPa", b="lwPb", router="lwPr"):
    """The same with a router in between, whose forward hook can drop what neither end drops. @b is 198.18.202.2."""
    for name in (a, b, router):
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
    try:
        for name in (a, b, router):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for i, (name, end) in enumerate(((a, 1), (b, 2))):
            ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"r{i}", "netns", router)
            ip("-n", router, "addr", "add", f"198.18.{201 + i}.254/24", "dev", f"r{i}")
            ip("-n", router, "link", "set", f"r{i}", "up")
            ip("-n", name, "addr", "add", f"198.18.{201 + i}.{end}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "route", "add", "default", "via", f"198.18.{201 + i}.254")
        subprocess.run(inside(router, "sysctl", "-qw", "net.ipv4.ip_forward=1"), check=True)
        yield a, b, router
    finally:
        for name in (a, b, router):
            subprocess.run(["ip", "netns", "del", name])


def shape(host, rate):
    subprocess.run(inside(host, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "64kb",
                          "limit", "8mb"), check=True)


def drop(host, hook, frac):
    """Every packet with a TCP payload has the chance @frac to vanish at @hook (input, forward) of @host."""
    rules = (f"add table ip lwP; add chain ip lwP c {{ type filter hook {hook} priority 0; }};"
             f"add rule ip lwP c ip length > 100 numgen random mod 1000 < {int(frac * 1000)} drop")
    subprocess.run(inside(host, "nft", rules), check=True)


def nic(host, counter, device="eth0"):
    return int(subprocess.run(inside(host, "cat", f"/sys/class/net/{device}/statistics/{counter}"), check=True,
                              capture_output=True, text=True).stdout)


@contextlib.contextmanager
def receiver(host, address, n=1):
    """Gives the port of a receiver of @n connections."""
    process = subprocess.Popen(inside(host, "/usr/bin/python3", "-c", RECEIVER, address, str(n)), stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def sender(peer, port, n_bytes, piece_bytes=1 << 16, pause_s=None):
    return ["/usr/bin/python3", "-c", SENDER, peer, str(port), str(n_bytes), str(piece_bytes),
            *([str(pause_s)] if pause_s else [])]


def run(command, code=0, timeout=60, **environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment})
    if code is not None and done.returncode != code:
        sys.exit(f"{command}: exit {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
    return done


def record(host, run_file, options, command, **more):
    """The sender's own words, as JSON."""
    lapwing = os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing")
    done = run(inside(host, lapwing, "record", "-o", run_file, *options, "--", *command), **more)
    return json.loads(done.stdout)
