"""Test hosts for what is said of networks: a network namespace each, on a bridge in one more, each egress shaped.

198.18.0.0/15 is the benchmarking range (RFC 2544): nothing outside these namespaces uses it. Needs root.
"""
import contextlib
import subprocess

HUB, HOST = "lwAhub", "lwA{}"
ADDRESS = "198.18.79.{}"
BURST_BYTES = 32 << 10  # of a shaped link's bucket: so much passes at once after each wait


def sh(command, **options):
    return subprocess.run(command.split(), check=True, capture_output=True, text=True, **options).stdout


def sh_in(host, *command):
    subprocess.run(["ip", "netns", "exec", host, *command], check=True, capture_output=True)


def down(n):
    for name in [HUB, *(HOST.format(i) for i in range(n))]:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def shape(host, rate):
    sh(f"ip netns exec {host} tc qdisc replace dev eth0 root tbf rate {rate} burst {BURST_BYTES} limit 64mb")


@contextlib.contextmanager
def hosts(n, rates=(), control="reno"):
    """Names of @n hosts; host i's egress is shaped to @rates[i], "" = not. All their ports are in HUB."""
    names = [HOST.format(i) for i in range(n)]
    down(n)  # of a test that was killed
    try:
        for name in [HUB, *names]:
            sh(f"ip netns add {name}")
            sh(f"ip netns exec {name} sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
            sh(f"ip -n {name} link set lo up")
        sh(f"ip -n {HUB} link add br0 type bridge")
        sh(f"ip -n {HUB} addr add {ADDRESS.format(254)}/24 dev br0")
        sh(f"ip -n {HUB} link set br0 up")
        for i, name in enumerate(names):
            sh(f"ip -n {HUB} link add v{i} type veth peer name eth0 netns {name}")
            sh(f"ip -n {HUB} link set v{i} master br0")
            sh(f"ip -n {HUB} link set v{i} up")
            sh(f"ip -n {name} addr add {ADDRESS.format(i + 1)}/24 dev eth0")
            sh(f"ip -n {name} link set eth0 up")
            sh(f"ip netns exec {name} sysctl -qw net.ipv4.tcp_slow_start_after_idle=0 net.ipv4.tcp_congestion_control={control}")
            if i < len(rates) and rates[i]:
                shape(name, rates[i])
        yield names
    finally:
        down(n)


def lose(one_in):
    """A shell command that drops one in @one_in of the TCP packets with data that its namespace receives."""
    return ("nft 'add table ip lwA; add chain ip lwA in { type filter hook input priority 0; };"
            f" add rule ip lwA in iifname eth0 ip protocol tcp ip length > 1000 numgen random mod {one_in} 0 drop'")


def one_packet_a_frame(host):
    """Without merging a rule sees every packet, not 64 KiB of them at once."""
    sh(f"ip netns exec {host} ethtool -K eth0 tso off gso off gro off")
