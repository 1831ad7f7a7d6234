#!/usr/bin/env python3
"""Is what lapwing says of the network so? Real torch.distributed over Gloo, real links between network namespaces.

    tests/rig/net_truth.py [--runs N] [--lock FILE] [--only PART,...] [--results FILE]                    (needs root)

reconcile  bytes of known tensors against sockets, TCP_INFO, NIC counters and packets, within 0.1 %
apart      a ring and a parameter server, told apart in every run
slow       a rank whose link is cut to a third: named, and its capacity within 5 %
loss       1 % of the packets to one rank are dropped from the middle of a run on: found, and the operations slowed
held       one rank gives its peers a small window, from the middle of a run or from its start: named, with what it cost
other      bytes of another process on the same NIC: stated, and whose they are

--quick is for the test suite: fewer and shorter runs. With --lock (or LAPWING_RIG_LOCK) runs that are timed hold that file's
lock. Exit status 1 when a bound does not hold; every miss is named.
"""
import argparse
import contextlib
import fcntl
import os
import statistics
import sys
import tempfile
import time

import net_job
import net_space

MIB = 1 << 20
RECONCILE_FRAC, CAPACITY_FRAC, OTHER_FRAC = 0.001, 0.05, 0.01
PAYLOAD_FRAC = 0.0005  # of sources that count payload: what Gloo sends beside the tensors
UNATTRIBUTED_FRAC = 0.001
OTHERS_LEAST = 1.5  # of what the cut link carries: others carry three times that, and are told what they did at least, with waits for the cut one
SLOWER_FRAC = 0.35  # of what the job itself measured that loss, or a window, cost it
LOST_FRAC, LOST_OFF_FRAC = 0.01, 0.5  # what timers resend by mistake comes on top
HIT_FRAC = 0.8  # of the operations that ran meanwhile: the first step of them may be half without
REACH_LEAST, REACH_MOST = 0.85, 1.05
WINDOW_BYTES, SMALL_BUFFER_BYTES = 2048, 4096  # on links that are not shaped: each such window waits for its acknowledgement
PYTHON = net_job.PYTHON


class Found:
    def __init__(self, options):
        self.options, self.lines, self.misses = options, [], []

    def say(self, text=""):
        self.lines.append(text)
        print(text, flush=True)

    def table(self, heading, rows):
        self.say("| " + " | ".join(heading) + " |")
        self.say("|" + "---|" * len(heading))
        for row in rows:
            self.say("| " + " | ".join(str(cell) for cell in row) + " |")
        self.say()

    def check(self, holds, text):
        if not holds:
            self.misses.append(text)
            self.say(f"**MISS: {text}**\n")

    @contextlib.contextmanager
    def timed(self):
        """While nobody else measures on this machine."""
        if not self.options.lock:
            yield
            return
        with open(self.options.lock, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def off(value, wanted):
    return f"{value:.0f} ({100 * (value / wanted - 1):+.4f} %)"


def own(network, key, i):
    return sum(link[key] or 0 for link in network["links"] if link["from"] == i)


def reconcile(found, folder):
    n_steps, sizes = (6 if found.options.quick else 16), [8 * MIB, 4 * MIB, 1 * MIB]
    found.say("## Bytes of known tensors against every source\n")
    found.say(f"{n_steps} steps, each an allreduce of {', '.join(f'{size // MIB} MiB' for size in sizes)} of torch over Gloo. Expected: 2 (N - 1) / N of that, "
              "sent by each rank. Sockets: as hooked, between ranks, whole run. NIC: tx_bytes less a header for each frame; up to all that was sent again is in it. Packets: payload "
              "of libpcap in the network namespace of the bridge, what was sent twice once. What is above 0: Gloo's preambles, and rendezvous.\n")
    rows = []
    for n in (2, 4):
        path = os.path.join(folder, f"reconcile{n}.lapwing")
        with net_space.hosts(n, ["800mbit"] * n) as names:
            net_job.record(path, names, "ring", n_steps, 20, sizes, ["--pcap=any", "--sample-ms", "50"])
        network = net_job.ask("report", path)["network"]
        wanted = n_steps * sum(sizes) * 2 * (n - 1) / n
        nics = {nic["addresses"]: nic for nic in network["nics"]}
        for i in range(n):
            nic = nics[net_space.ADDRESS.format(i + 1)]
            # what was sent again is in the counter, unless the first was lost before it; what was sent before its first reading is in neither
            again = own(network, "n_retransmits", i) * 1448
            sources = {"sockets": own(network, "run_bytes", i), "TCP_INFO": own(network, "acked_bytes", i),
                       "NIC": nic["tx_bytes"] - nic["header_tx_bytes"], "packets": own(network, "packet_bytes", i)}
            others_frac = (nic["other_tx_bytes"] + nic["other_rx_bytes"]) / (nic["tx_bytes"] + nic["rx_bytes"])
            rows.append([n, i, f"{wanted:.0f}", *(off(value, wanted) for value in sources.values()), f"{again}", f"{nic['header_tx_bytes']:.0f}", f"{100 * others_frac:.4f} %"])
            found.check(others_frac <= UNATTRIBUTED_FRAC, f"N = {n}, rank {i}: {100 * others_frac:.4f} % unattributed, and nobody else was there")
            for name, value in sources.items():
                frac = RECONCILE_FRAC if name == "NIC" or found.options.quick else PAYLOAD_FRAC
                least = value - again if name == "NIC" else value
                found.check(least <= (1 + frac) * wanted and value >= (1 - frac) * wanted, f"N = {n}, rank {i}: {name} {off(value, wanted)}")
        said = network["algorithm"]
        found.check(said["name"] == ("ring" if n > 2 else "pair"), f"N = {n}: {said}")
    found.table(["N", "rank", "expected", "sockets", "TCP_INFO", "NIC", "packets", "sent again", "headers", "unattributed"], rows)


def apart(found, folder):
    runs = found.options.runs
    found.say("## A ring and a parameter server\n")
    right, told = 0, []
    for turn in range(runs):
        kind = ("ring", "ps")[turn % 2]
        n = (4, 3)[turn // 2 % 2]
        path = os.path.join(folder, "apart.lapwing")
        with net_space.hosts(n, ["1gbit"] * n) as names:
            net_job.record(path, names, kind, 6, 5, [MIB, MIB // 2, MIB // 4])
        network = net_job.ask("report", path)["network"]
        said = network["algorithm"]
        hot = [rank["rank"] for rank in network["by_rank"] if rank["is_hot"]]
        is_right = (said["name"], said["hub"], hot) == (("ring", None, []) if kind == "ring" else ("star", 0, [0]))
        right += is_right
        told.append((kind, n, said))
        found.check(is_right, f"run {turn}, {kind} of {n}: {said}, hot {hot}")
    found.say(f"{right} of {runs} runs told right, half of them a ring (allreduce of torch over Gloo), half a server at rank 0 (send and receive), "
              "of 3 and of 4 ranks; the server is named and is the only hot rank.\n")
    for kind, n, said in told[:2]:
        found.say(f"- {kind} of {n}: {said['name']}: {said['evidence']}")
    found.say()


def slow_worker(found, folder):
    """Of a server's, where all meet: cut to a tenth it sends alone most of the time."""
    path = os.path.join(folder, "slow_worker.lapwing")
    with found.timed(), net_space.hosts(4, ["300mbit", "300mbit", "30mbit", "300mbit"]) as names:
        net_job.record(path, names, "ps", 10, 50, [2 * MIB, MIB])
    network = net_job.ask("report", path)["network"]
    rank = network["by_rank"][2]
    capacity, wanted = rank["capacity_bytes_per_s"] or 0, 30e6 / 8
    found.check((network["slow_rank"], network["slow_to"]) == (2, None), f"server of 3: rank {network['slow_rank']} to {network['slow_to']} named, not 2")
    found.check(capacity <= (1 + CAPACITY_FRAC) * wanted, f"server of 3: capacity {capacity}")
    return ["4, server at 0", 2, network["slow_rank"], f"{capacity * 8 / 1e6:.1f} Mbit/s (of 30)", rank["capacity_from"],
            f"{network['others_bytes_per_s'] * 8 / 1e6:.0f} Mbit/s", ""]


def slow(found, folder):
    found.say("## A link cut to a third\n")
    rows = []
    sizes = [4 * MIB, 2 * MIB, MIB]
    cases = [(4, 2), (2, 1)] if found.options.quick else [(4, 2), (4, 0), (2, 0), (2, 1)]
    for n, slow_rank in cases:
        path = os.path.join(folder, f"slow{n}.lapwing")
        rates = [300] * n
        rates[slow_rank] = 100
        with found.timed(), net_space.hosts(n, [f"{rate}mbit" for rate in rates]) as names:
            net_job.record(path, names, "ring", 10 if found.options.quick else 12, 50, sizes)
        network = net_job.ask("report", path)["network"]
        reach = network["reach"]
        rank = network["by_rank"][slow_rank]
        others = statistics.median(r["capacity_bytes_per_s"] or 0 for r in network["by_rank"] if r["rank"] != slow_rank)
        capacity, wanted = rank["capacity_bytes_per_s"] or 0, 100e6 / 8
        for other in network["by_rank"]:
            # what they carried at least is no more than what they carry, and a full bucket for each message, as each waits for the cut link
            if other["rank"] != slow_rank:
                bucket_frac = len(sizes) * 2 * (n - 1) * net_space.BURST_BYTES / other["sent_bytes"]
                most = 3 * wanted * (1 + CAPACITY_FRAC) * (1 + bucket_frac)
                found.check(wanted < (other["capacity_bytes_per_s"] or 0) <= most, f"N = {n}: rank {other}, {most:.0f} bytes/s at most")
        found.check(others >= OTHERS_LEAST * wanted, f"N = {n}: others {others:.0f} bytes/s")
        found.check(network["slow_to"] == (slow_rank - 1) % n, f"N = {n}: to rank {network['slow_to']}")
        rows.append([n, slow_rank, network["slow_rank"], f"{capacity * 8 / 1e6:.1f} Mbit/s ({100 * (capacity / wanted - 1):+.1f} %)", rank["capacity_from"],
                     f"{others * 8 / 1e6:.0f} Mbit/s", f"{100 * (reach['mean_frac'] or 0):.0f} %, {100 * (reach['fitted_frac'] or 0):.0f} % of rank {reach['rank']}'s"])
        found.check(network["slow_rank"] == slow_rank, f"N = {n}: rank {network['slow_rank']} named, not {slow_rank}")
        found.check(abs(capacity / wanted - 1) <= CAPACITY_FRAC, f"N = {n}, rank {slow_rank}: {rows[-1][3]}")
        # all wait for that link: what they miss of it is alpha
        found.check(reach["rank"] == slow_rank and REACH_LEAST <= reach["mean_frac"] <= REACH_MOST, f"N = {n}: reach {reach}")
        advice = [one["text"] for one in net_job.ask("advise", path)["findings"] if one["id"] == "network.slow_link"]
        found.check(any(f"rank {slow_rank} " in text for text in advice), f"N = {n}: advice {advice}")
    if not found.options.quick:
        rows.append(slow_worker(found, folder))
    found.table(["N", "cut", "named", "its capacity (100 Mbit/s)", "from", "others (300 Mbit/s)", "allreduces reach: mean, fitted"], rows)


def check_cost(found, what, said_s, cost_s, cause, n_ops):
    """@cause of the last @n_ops operations. Others may be touched too (readings are apart, and TCP sends a segment again by
    mistake now and then), but not called slowed."""
    n_hit = cause["n_ops_meanwhile"]
    found.check(n_hit >= HIT_FRAC * n_ops, f"{what}: {n_hit} operations meanwhile, of {n_ops}")
    found.check(0.5 * n_ops <= cause["n_ops_slowed"] <= n_ops + 3, f"{what}: {cause['n_ops_slowed']} operations slowed")
    found.check(abs(said_s - cost_s) <= SLOWER_FRAC * cost_s, f"{what}: lost {said_s * 1e3:.0f} ms, truth {cost_s * 1e3:.0f} ms")


def loss(found, folder):
    n, n_steps = 4, 32  # so many that some of each size run without, though TCP sends again by mistake too
    path = os.path.join(folder, "loss.lapwing")
    with found.timed(), net_space.hosts(n, ["200mbit"] * n) as names:
        for name in names:
            net_space.one_packet_a_frame(name)
        said = net_job.record(path, names, "ring", n_steps, 30, [3 * MIB, 2 * MIB, MIB], ["--pcap=any"], at={1: f"{n_steps // 2}:{net_space.lose(100)}"})
    network = net_job.ask("report", path)["network"]
    retransmits = network["retransmits"]
    half = n_steps // 2
    before, after = said["steps_s"][2:half], said["steps_s"][half + 1:]
    cost_s = (statistics.mean(after) - statistics.median(before)) * len(after)
    lost_frac = LOST_FRAC * (n_steps - half) / n_steps
    found.say("## Loss from the middle of a run on\n")
    found.say(f"{n_steps} steps of 3 allreduces on {n} ranks; from step {half} on rank 1 loses one packet in 100.\n")
    found.table(["", "said", "truth"], [
        ["link with most", f"rank {retransmits['worst_from']} to {retransmits['worst_to']}", "to rank 1"],
        ["segments sent again there", f"{retransmits['worst_n']:.0f}", ""],
        ["that is of what goes there", f"{100 * retransmits['worst_frac']:.2f} %", f"{lost_frac * 100:.2f} %"],
        ["operations meanwhile, slowed", f"{retransmits['n_ops_meanwhile']}, {retransmits['n_ops_slowed']}", f"{3 * (n_steps - half)}"],
        ["time lost", f"{retransmits['lost_ns'] / 1e6:.0f} ms", f"{cost_s * 1e3:.0f} ms by the job's own clock"],
        ["times within", f"{retransmits['resolution_ns'] / 1e6:.0f} ms", ""]])
    found.check(retransmits["worst_to"] == 1, f"link {retransmits['worst_from']} to {retransmits['worst_to']}")
    found.check(abs(retransmits["worst_frac"] / lost_frac - 1) <= LOST_OFF_FRAC, f"{retransmits['worst_frac']:.4f} of that link's segments, {lost_frac:.4f} lost")
    check_cost(found, "loss", retransmits["lost_ns"] / 1e9, cost_s, retransmits, 3 * (n_steps - half))
    advice = [one["text"] for one in net_job.ask("advise", path)["findings"] if one["id"] == "network.loss"]
    found.check(any("to 1 " in text for text in advice), f"advice {advice}")


def held(found, folder):
    n, n_steps = 4, 16 if found.options.quick else 24
    half, path = n_steps // 2, os.path.join(folder, "held.lapwing")
    clamp = f"env -u LD_PRELOAD {PYTHON} {os.path.join(net_job.HERE, 'net_clamp.py')} $PPID {WINDOW_BYTES}"
    sizes = [12 * MIB, 8 * MIB, 4 * MIB]
    with found.timed(), net_space.hosts(n) as names:
        said = net_job.record(path, names, "ring", n_steps, 30, sizes, at={2: f"{half}:{clamp}"})
    slowed = net_job.ask("report", path)["network"]["slowed"]
    window = next((one for one in slowed["causes"] if one["cause"] == "window"), None)
    before, after = said["steps_s"][2:half], said["steps_s"][half + 1:]
    cost_s = (statistics.mean(after) - statistics.median(before)) * len(after)
    found.say("## A receiver's window that is small\n")
    found.say(f"{n_steps} steps of 3 allreduces on {n} ranks; from step {half} on rank 2 gives its peers a window of {WINDOW_BYTES} bytes.\n")
    found.check(window is not None, f"no window among the causes: {slowed}, truth {cost_s * 1e3:.0f} ms")
    if window:
        found.table(["", "said", "truth"], [
            ["link that was held back most", f"rank {window['worst_from']} to {window['worst_to']}, for {window['worst_amount'] / 1e6:.0f} ms", "to rank 2"],
            ["operations meanwhile, slowed", f"{window['n_ops_meanwhile']}, {window['n_ops_slowed']}", f"{3 * (n_steps - half)}"],
            ["against", window["against"], "those without"],
            ["time lost", f"{window['lost_ns'] / 1e6:.0f} ms", f"{cost_s * 1e3:.0f} ms by the job's own clock"],
            ["by all causes, each operation once", f"{slowed['lost_ns'] / 1e6:.0f} ms", ""]])
        found.check(window["worst_to"] == 2, f"link {window['worst_from']} to {window['worst_to']}")
        check_cost(found, "held", window["lost_ns"] / 1e9, cost_s, window, 3 * (n_steps - half))
        found.check(window["lost_ns"] <= slowed["lost_ns"] <= sum(one["lost_ns"] for one in slowed["causes"]), f"in all {slowed['lost_ns']:.0f} ns")
    held_from_the_start(found, path, n, sizes)


def held_from_the_start(found, path, n, sizes):
    """No operation ran without: what it cost cannot be told, but who held whom back is."""
    with found.timed(), net_space.hosts(n) as names:
        net_space.sh_in(names[1], "sysctl", "-qw", f"net.ipv4.tcp_rmem=4096 {SMALL_BUFFER_BYTES} {SMALL_BUFFER_BYTES}")
        net_job.record(path, names, "ring", 10, 30, sizes)
    network = net_job.ask("report", path)["network"]
    window = next((one for one in network["slowed"]["causes"] if one["cause"] == "window"), None)
    advice = [one["text"] for one in net_job.ask("advise", path)["findings"] if one["id"] == "network.held"]
    found.say(f"With net.ipv4.tcp_rmem of {SMALL_BUFFER_BYTES} bytes on rank 1's host from the start:\n")
    for text in advice:
        found.say(f"- {text}")
    found.say()
    found.check(len(advice) == 1 and all(words in advice[0] for words in (" to rank 1 for ", "net.ipv4.tcp_rmem", "what it cost cannot be told")), f"advice {advice}")
    found.check(window is not None and window["worst_to"] == 1, f"causes {network['slowed']['causes']}")


def other(found, folder):
    n, n_bytes, path = 2, 20 * MIB, os.path.join(folder, "other.lapwing")
    hub, clean = net_space.ADDRESS.format(254), "env -u LD_PRELOAD"
    program = f"{PYTHON} {os.path.join(net_job.HERE, 'net_other.py')}"
    with net_space.hosts(n, ["400mbit"] * n) as names:
        net_job.record(path, names, "ring", 20, 50, [4 * MIB, 2 * MIB, MIB], ["--sample-ms", "50"],
                       at={0: f"3:{clean} {program} send {hub} 2049 {n_bytes} >/dev/null 2>&1 &"},
                       beside=f"{clean} {program} listen {hub} 2049 & sink=$!;", after="kill $sink 2>/dev/null; wait $sink;")
    network = net_job.ask("report", path)["network"]
    nic = next(nic for nic in network["nics"] if nic["addresses"] == net_space.ADDRESS.format(1))
    quiet = next(nic for nic in network["nics"] if nic["addresses"] == net_space.ADDRESS.format(2))
    found.say("## Traffic of another process\n")
    found.table(["", "said", "truth"], [
        ["unattributed, out of rank 0's host", f"{nic['other_tx_bytes'] / MIB:.2f} MiB", f"{n_bytes / MIB:.0f} MiB and headers, to port 2049"],
        ["first candidate", nic["candidates"][0]["who"] if nic["candidates"] else "none", f"another process, port 2049 (NFS) at {hub}"],
        ["unattributed at rank 1's host", f"{(quiet['other_tx_bytes'] + quiet['other_rx_bytes']) / MIB:.3f} MiB", "0"]])
    # a header for each frame, of up to 64 KiB or of one segment, and some sent again
    found.check(n_bytes <= nic["other_tx_bytes"] <= n_bytes * 1.07, f"{nic['other_tx_bytes']:.0f} of {n_bytes} bytes and headers")
    found.check(bool(nic["candidates"]) and "port 2049 (NFS)" in nic["candidates"][0]["who"] and nic["candidates"][0]["is_storage"]
                and nic["candidates"][0]["out_bytes"] >= 0.5 * n_bytes, f"candidates {nic['candidates']}")
    found.check(quiet["other_tx_bytes"] + quiet["other_rx_bytes"] < OTHER_FRAC * quiet["tx_bytes"], f"rank 1: {quiet['other_tx_bytes']:.0f} bytes")


PARTS = {"reconcile": reconcile, "apart": apart, "slow": slow, "loss": loss, "held": held, "other": other}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--lock", default=os.environ.get("LAPWING_RIG_LOCK"))
    parser.add_argument("--results")
    options = parser.parse_args()
    found = Found(options)
    found.say("# What is said of the network, held against real jobs\n")
    found.say("Printed by `make rig-net` (tests/rig/net_truth.py): hosts are network namespaces on a bridge, links are shaped by tc tbf.\n")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only.split(","):
            start_s = time.monotonic()
            PARTS[name](found, folder)
            print(f"{name}: {time.monotonic() - start_s:.0f} s", file=sys.stderr, flush=True)
    found.say("Every bound holds." if not found.misses else "Missed: " + "; ".join(found.misses))
    if options.results:
        with open(options.results, "w") as file:
            file.write("\n".join(found.lines) + "\n")
    return bool(found.misses)


if __name__ == "__main__":
    sys.exit(main())
