#!/usr/bin/env python3
"""`record --pcap` where it cannot, or not any more: the job never notices, and the run or stderr says what is missing."""
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
from two_hosts import B, inside, ip, receiver, record, run, sender, two_hosts  # noqa: E402

BUILD = os.environ["LAPWING_BUILD_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
FOLDER = tempfile.mkdtemp(prefix="lapwing-pcap-")
RUN = os.path.join(FOLDER, "run.lapwing")
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def rows(sql, path=RUN):
    with sqlite3.connect(path) as store:
        store.row_factory = sqlite3.Row
        return [dict(row) for row in store.execute(sql)]


def wrong_words_are_told_before_the_command_starts(a):
    mark = os.path.join(FOLDER, "started")
    for options, words in ((["--pcap=nosuch0"], "nosuch0: no such network device; there are "),
                           (["--pcap", "--pcap-filter", "tcp prot 5"], "filter 'tcp prot 5': "),
                           (["--pcap", "--pcap-filter", "host nosuch.invalid."], "filter 'host nosuch.invalid.': "),
                           (["--pcap", "--pcap-filter", "x" * 5000], "too long")):
        done = run(inside(a, LAPWING, "record", "-o", RUN, *options, "--", "touch", mark), code=1)
        assert words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
        assert not os.path.exists(mark) and not os.path.exists(RUN), "the command ran, or a run file was left"
    done = run([LAPWING, "record", "-o", RUN, "--pcap-filter", "tcp", "--", "touch", mark], code=2)
    assert "--pcap-filter needs --pcap" in done.stderr


# Leaves a child that makes a ring, which is none, as often as it is removed.
LATE = """
import os, time
if os.fork(): os._exit(0)
for fd in range(3): os.close(fd)
end = time.monotonic() + 1.5
path = os.environ["LAPWING_DIR"] + "/late.ring"
while time.monotonic() < end:
    try: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError: break
try: os.unlink(path)
except OSError: pass
"""


def without_the_capability_it_says_which_and_with_it_no_root_is_needed(a, b):
    copy = os.path.join(FOLDER, "copy")
    for name in ("bin/lapwing", "bin/lapwingd", "lib/liblapwing.so"):
        os.makedirs(os.path.dirname(os.path.join(copy, name)), exist_ok=True)
        shutil.copy(os.path.join(BUILD, name), os.path.join(copy, name))
    os.chmod(FOLDER, 0o777)
    lapwing = os.path.join(copy, "bin", "lapwing")
    with receiver(b, B) as port:
        command = sender(B, port, 1 << 20)
        done = run(inside(a, *NOBODY, lapwing, "record", "-o", RUN, "--pcap=eth0", "--", *command), code=1)
        assert f"CAP_NET_RAW is missing: `sudo setcap cap_net_raw+p {copy}/bin/lapwingd`" in done.stderr, done.stderr
        done = run(inside(a, *NOBODY, lapwing, "doctor"))
        assert "CAP_NET_RAW is missing" in done.stdout, done.stdout
        quiet = os.path.join(FOLDER, "quiet.lapwing")
        run(["setcap", "cap_net_raw+p", os.path.join(copy, "bin/lapwingd")])
        assert "Packet capture             yes" in run(inside(a, *NOBODY, lapwing, "doctor")).stdout
        run(inside(a, *NOBODY, lapwing, "record", "-o", RUN, "--pcap=eth0", "--", *command))
    (one,) = rows("SELECT * FROM v_flow WHERE is_sent = 1")
    assert one["stream_bytes"] == 1 << 20, one
    # A ring that comes while the collector clears up makes it begin again: with the device that it has.
    run(inside(a, *NOBODY, lapwing, "record", "-q", "-o", RUN, "--pcap=eth0", "--", "/usr/bin/python3", "-c", LATE), code=None)
    captures = rows("SELECT * FROM capture")
    assert len(captures) > 1 and not any(capture["problem"] for capture in captures), captures
    assert all(capture["end_ns"] for capture in captures), captures
    done = run(inside(a, "setpriv", "--no-new-privs", *NOBODY[1:], lapwing, "record", "-o", quiet, "--pcap", "--", "true"), code=1)
    assert "no_new_privs" in done.stderr, done.stderr
    bound = ["setpriv", "--bounding-set", "-net_raw"]
    done = run(inside(a, *bound, lapwing, "record", "-o", quiet, "--pcap", "--", "true"), code=1)
    assert "--cap-add NET_RAW" in done.stderr, done.stderr
    run(inside(a, *bound, lapwing, "record", "-o", quiet, "--", "true"))  # what needs no packets still works


def started_by_a_rank_the_job_is_recorded_and_the_run_says_why_not(a, b):
    """Variables alone: the first rank starts the collector."""
    for device, problem in (("nosuch0", "nosuch0: no such network device"), ("eth0", None)):
        out = os.path.join(FOLDER, f"rank-{device}.lapwing")
        with receiver(b, B) as port:
            run(inside(a, *sender(B, port, 1 << 20, 1 << 14, 0.03)), LD_PRELOAD=os.path.join(BUILD, "lib/liblapwing.so"), LAPWING_OUT=out,
                LAPWING_PCAP=device)
        for _ in range(100):
            if os.path.exists(out) and rows("SELECT closed FROM run", out) == [{"closed": 1}]:
                break
            time.sleep(0.1)
        (capture,) = rows("SELECT * FROM capture", out)
        if problem:
            assert problem in capture["problem"] and rows("SELECT count(*) AS n FROM socket", out)[0]["n"] == 1, capture
            assert problem in run([LAPWING, "info", out], code=3).stdout
        else:
            (one,) = rows("SELECT * FROM v_flow WHERE is_sent = 1", out)
            assert 1 << 18 < one["stream_bytes"] <= 1 << 20, one  # the capture may begin after the connection


def a_device_that_goes_away_ends_the_capture_and_not_the_job(a, b):
    ip("-n", a, "link", "add", "dummy7", "type", "veth", "peer", "name", "dummy8")
    ip("-n", a, "link", "set", "dummy7", "up")
    job = subprocess.Popen(inside(a, LAPWING, "record", "-q", "-o", RUN, "--pcap=dummy7", "--", "sh", "-c", "sleep 3; exit 5"),
                           stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    ip("-n", a, "link", "del", "dummy7")
    assert (job.communicate()[1], job.returncode) == ("", 5)
    (capture,) = rows("SELECT * FROM capture")
    (loss,) = rows("SELECT * FROM capture_loss")
    assert capture["problem"].startswith("dummy7: "), capture
    assert loss["n"] == 0 and 1e9 < loss["end_ns"] - loss["start_ns"] < 3e9, loss
    assert "packets not captured: --pcap of dummy7: " in " ".join(run([LAPWING, "report", RUN], code=3).stdout.split())
    print(f"device gone: {capture['problem']}")


def one_that_goes_down_or_gets_another_name_is_captured_on(a, b):
    for name in ("eth0", "eth9"):
        job = subprocess.Popen(inside(a, LAPWING, "record", "-q", "-o", RUN, "--pcap=eth0", "--", "sleep", "5"))
        time.sleep(1)
        assert "promiscuity 0" in run(["ip", "-n", a, "-d", "link", "show", "eth0"]).stdout
        ip("-n", a, "link", "set", "eth0", "down")
        time.sleep(0.5)
        if name != "eth0":
            ip("-n", a, "link", "set", "eth0", "name", name)
        ip("-n", a, "link", "set", name, "up")
        with receiver(b, B) as port:  # libpcap does not notice at once
            run(inside(a, *sender(B, port, 1 << 20, 1 << 14, 0.02)))
        assert job.wait() == 0
        (capture,) = rows("SELECT * FROM capture")
        n = rows("SELECT coalesce(sum(payload_bytes), 0) AS n FROM packet_bin")[0]["n"]
        print(f"device down and up as {name}: {capture['problem']}; {n} bytes afterwards")
        assert capture["problem"] is None and capture["device"] == "eth0" and n >= 1 << 20, (capture, n)
    ip("-n", a, "link", "set", "eth9", "down")
    ip("-n", a, "link", "set", "eth9", "name", "eth0")
    ip("-n", a, "link", "set", "eth0", "up")


# As many small UDP packets as fast as it goes, to the port of RoCE.
FLOOD = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((sys.argv[1], 4791))
for i in range(int(sys.argv[2])):
    try: s.send(b"x" * 64)
    except OSError: pass
"""


def what_the_kernel_drops_is_counted_with_its_interval(a, b):
    """The reader stands still while more packets come than its ring holds."""
    job = subprocess.Popen(inside(a, LAPWING, "record", "-q", "-o", RUN, "--pcap=eth0", "--", "sleep", "9"))
    time.sleep(1)
    reader = int(run(["pgrep", "-n", "-P", str(job.pid), "lapwingd"]).stdout)
    os.kill(reader, signal.SIGSTOP)
    n = 400000
    try:
        run(inside(a, "/usr/bin/python3", "-c", FLOOD, B, str(n)))
    finally:
        os.kill(reader, signal.SIGCONT)
    assert job.wait() == 0
    (capture,) = rows("SELECT * FROM capture")
    losses = rows("SELECT * FROM capture_loss WHERE n")
    (seen,) = rows("SELECT sum(n_packets) AS n FROM packet_bin")
    print(f"reader stopped: {capture['n_received']} read, {capture['n_dropped']} dropped in {len(losses)} interval(s)")
    assert capture["n_dropped"] > 1000 and sum(loss["n"] for loss in losses) == capture["n_dropped"]
    assert seen["n"] == capture["n_received"]
    assert abs(capture["n_received"] + capture["n_dropped"] - n) <= 0.001 * n, capture
    info = run([LAPWING, "info", RUN], code=3).stdout
    assert f"INCOMPLETE: {capture['n_dropped']} dropped in" in info, info


def a_killed_collector_gets_a_successor_with_a_capture_of_its_own(a, b):
    job = subprocess.Popen(inside(a, LAPWING, "record", "-q", "-o", RUN, "--pcap=eth0", "--", "sleep", "8"), stderr=subprocess.PIPE)
    with receiver(b, B) as port:
        time.sleep(0.5)
        run(inside(a, *sender(B, port, 1 << 20)))
        time.sleep(2.8)  # strangers' seconds are stored two seconds later
    os.kill(int(run(["pgrep", "-n", "-P", str(job.pid), "lapwingd"]).stdout), signal.SIGKILL)
    killed_ns = time.monotonic_ns()
    with receiver(b, B) as port:
        time.sleep(0.5)
        run(inside(a, *sender(B, port, 1 << 20)))
    job.communicate()
    assert job.returncode == 0
    first, second = rows("SELECT * FROM capture ORDER BY id")
    assert "killed" in first["problem"] and second["problem"] is None, (first, second)
    (last,) = rows("SELECT max(b.last_ns) AS ns FROM packet_bin b JOIN flow f ON f.id = b.flow_id WHERE f.capture_id = 1")
    (loss,) = rows("SELECT * FROM capture_loss WHERE capture_id = 1")
    assert first["end_ns"] == last["ns"] == loss["start_ns"] and loss["n"] == 0, (first, last, loss)
    assert loss["start_ns"] < killed_ns < loss["end_ns"], (loss, killed_ns)
    assert 0 <= second["start_ns"] - loss["end_ns"] < 1e8 or 0 <= loss["end_ns"] - second["start_ns"] < 1e8, (loss, second)
    (sum_of_second,) = rows("SELECT sum(b.payload_bytes) AS n FROM packet_bin b JOIN flow f ON f.id = b.flow_id WHERE f.capture_id = 2")
    assert sum_of_second["n"] >= 1 << 20, sum_of_second
    info = run([LAPWING, "info", RUN], code=3).stdout
    assert "its reader was killed" in info, info


def many_strangers_narrow_the_filter_to_the_jobs_peers(a, b):
    with receiver(b, B) as port:
        stranger = subprocess.Popen(inside(a, os.path.join(BUILD, "tests", "flood"), "eth0", "60000", "6", "8"), stdout=subprocess.DEVNULL)
        record(a, RUN, ["--pcap=eth0"], sender(B, port, 1 << 20, 1 << 12, 0.015))
        stranger.wait()
    (capture,) = rows("SELECT * FROM capture")
    (one,) = rows("SELECT * FROM v_flow WHERE is_sent = 1")
    (strange,) = rows("SELECT sum(n_packets) AS n, min(first_ns) AS first, max(last_ns) AS last FROM v_flow WHERE destination_port = 601")
    print(f"strangers: {strange['n']} packets in {(strange['last'] - strange['first']) / 1e9:.1f} s until the filter was"
          f" '{capture['filter']}'")
    assert f"host {B}" in capture["filter"], capture
    assert one["stream_bytes"] == 1 << 20, one
    assert strange["last"] < one["last_ns"] - 5e8, (strange, one)
    assert rows("SELECT count(*) AS n FROM capture_loss WHERE n = 0")[0]["n"] >= 1


def main():
    with two_hosts("lwPc", "lwPd") as (a, b):
        wrong_words_are_told_before_the_command_starts(a)
        without_the_capability_it_says_which_and_with_it_no_root_is_needed(a, b)
        started_by_a_rank_the_job_is_recorded_and_the_run_says_why_not(a, b)
        many_strangers_narrow_the_filter_to_the_jobs_peers(a, b)
        a_device_that_goes_away_ends_the_capture_and_not_the_job(a, b)
        one_that_goes_down_or_gets_another_name_is_captured_on(a, b)
        what_the_kernel_drops_is_counted_with_its_interval(a, b)
        a_killed_collector_gets_a_successor_with_a_capture_of_its_own(a, b)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(FOLDER)
