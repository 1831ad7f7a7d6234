#!/usr/bin/env python3
"""Bytes per TCP connection: exactly what the program moved, and within 1 of what the kernel says."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import rings  # noqa: E402
import traced  # noqa: E402

PROGRAM = traced.program("socket_cases")
PERIOD, CLOSE, EXIT = 1, 2, 3
NO_RING = 2


def connections(processes):
    """{(pid, local port): {"samples": [...], "info": [...]}} of every connection that was announced."""
    found = {}
    for process in processes.values():
        ports = {}
        for event in rings.of_kind(process, "SOCKET"):
            assert event["socket"] not in ports, f"announced twice: {event}"
            assert event["local"] == event["peer"] == bytes(10) + b"\xff\xff\x7f\0\0\1", event
            ports[event["socket"]] = event["local_port"]
            found[process["pid"], event["local_port"]] = {"samples": [], "info": [], "event": event}
        for kind, key in (("SOCKET_BYTES", "samples"), ("TCP_INFO", "info")):
            for event in rings.of_kind(process, kind):
                found[process["pid"], ports[event["socket"]]][key].append(event)
    return found


def check_case(name, n_processes=1, last=CLOSE, has_info=True):
    job = traced.run([PROGRAM, name])
    assert job.code == 0, f"{name}: {job.code}\n{job.stderr}"
    assert len(job.processes) == n_processes, f"{name}: {len(job.processes)} processes traced"
    assert not any(process["lost"] for process in job.processes.values())
    found = connections(job.processes)
    ends = [line.split()[1:] for line in job.stdout.splitlines() if line.startswith("end ")]
    assert len(ends) == len(found), f"{name}: {len(found)} connections instead of {ends}"
    worst = 0
    for end, port, sent, received in ends:
        matching = [(pid, found[pid, own]) for pid, own in found if own == int(port)]
        if len(matching) > 1:  # a connection that parent and child both used
            matching = [(pid, one) for pid, one in matching
                        if (pid == max(job.processes)) == (end == "child")]
        one = matching[0][1]
        final = one["samples"][-1]
        moved = (final["sent_bytes"], final["received_bytes"])
        assert moved == (int(sent), int(received)), f"{name}: end {end}: {moved}, not {sent}, {received}"
        assert final["op"] == last and all(sample["op"] == PERIOD for sample in one["samples"][:-1]), final
        if n_processes > 1:
            continue  # the kernel counts what both processes sent
        assert one["info"][-1]["op"] == last
        worst = max(worst, abs(one["info"][-1]["acked_bytes"] - moved[0]),
                    abs(one["info"][-1]["received_bytes"] - moved[1]))
    assert worst <= 1, f"{name}: TCP_INFO differs by {worst}"
    kernel = f", TCP_INFO within {worst}" if n_processes == 1 else ""
    print(f"{name}: {len(ends)} ends, bytes exact{kernel}")
    return job, found


def every_call_is_counted_and_what_moves_nothing_is_not():
    for name in ("calls", "nonblocking", "peek", "errno"):
        check_case(name)


def descriptors_come_and_go():
    for name in ("dup", "dup2_over", "close_range", "vfork"):
        check_case(name)
    check_case("fork", n_processes=2)


def a_loss_is_told_before_the_process_is_killed():
    job = traced.run([PROGRAM, "killed"])
    assert job.code == -signal.SIGKILL, (job.code, job.stderr)
    (loss,) = rings.of_kind(job.only(), "LOSS")
    assert (loss["op"], loss["count"]) == (NO_RING, 1), loss


def a_passed_descriptor_is_classified_at_its_first_use():
    job = traced.run([PROGRAM, "passed"])
    assert job.code == 0, job.stderr
    (one,) = connections(job.processes).values()  # the parent was never marked
    assert (one["samples"][-1]["sent_bytes"], one["samples"][-1]["received_bytes"]) == (5000, 0)
    print(f"passed: 5000 bytes on port {one['event']['local_port']}")


def bytes_moved_before_the_first_mark_count():
    check_case("early")


def other_sockets_are_left_alone():
    job = traced.run([PROGRAM, "others"])
    assert job.code == 0, job.stderr
    assert not connections(job.processes)


def an_unmarked_process_leaves_nothing():
    job = traced.run([PROGRAM, "inert"])
    assert job.code == 0 and not job.processes, job.stderr


def open_connections_are_sampled_by_period_and_at_exit():
    _, found = check_case("period", last=EXIT)
    for one in found.values():
        times = [sample["t0"] for sample in one["samples"]]
        gaps = [later - sooner for sooner, later in zip(times, times[1:-1])]
        assert 4 <= len(times) <= 7 and min(gaps) >= 95e6, gaps
        assert one["samples"] == sorted(one["samples"], key=lambda sample: sample["sent_bytes"])


def the_hook_can_be_turned_off():
    job = traced.run([PROGRAM, "calls"], hooks="-socket")
    assert job.code == 0 and not connections(job.processes)


def print_the_cost_of_a_round_trip(n_pairs=7):
    """Interleaved pairs; no verdict: the machine is shared."""
    rounds = {"plain": [], "traced": []}
    for _ in range(n_pairs):
        plain = subprocess.run([PROGRAM, "ping_pong"], check=True, capture_output=True, text=True).stdout
        rounds["plain"].append(float(plain.split()[1]))
        rounds["traced"].append(float(traced.run([PROGRAM, "ping_pong"]).stdout.split()[1]))
    differences = sorted(b - a for a, b in zip(rounds["plain"], rounds["traced"]))
    for name, values in rounds.items():
        values.sort()
        print(f"1-byte round trip, {name}: {values[n_pairs // 2]:.0f} ns ({values[0]:.0f} to {values[-1]:.0f})")
    print(f"difference of pairs: {differences[n_pairs // 2]:.0f} ns ({differences[0]:.0f} to {differences[-1]:.0f})")


if __name__ == "__main__":
    every_call_is_counted_and_what_moves_nothing_is_not()
    descriptors_come_and_go()
    a_loss_is_told_before_the_process_is_killed()
    a_passed_descriptor_is_classified_at_its_first_use()
    bytes_moved_before_the_first_mark_count()
    other_sockets_are_left_alone()
    an_unmarked_process_leaves_nothing()
    open_connections_are_sampled_by_period_and_at_exit()
    the_hook_can_be_turned_off()
    print_the_cost_of_a_round_trip()
