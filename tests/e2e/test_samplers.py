#!/usr/bin/env python3
"""What the samplers store of real traffic between two network namespaces of this test: bytes that agree to the last
one with the hook's and with the program's, loss, limits; interfaces and namespaces that go; no permission; many sockets."""
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

BUILD, SOURCE = os.environ["LAPWING_BUILD_DIR"], os.environ["LAPWING_SOURCE_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
END = os.path.join(SOURCE, "tests", "e2e", "traffic_end.py")
PYTHON = "/usr/bin/python3"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("LAPWING_") and k != "LD_PRELOAD"}
A, B = "lwSa", "lwSb"  # sender, receiver
ADDRESS = {A: "198.18.30.1", B: "198.18.30.2"}
DEVICE = {A: "vsa", B: "vsb"}
FRAME_BYTES = 14 + 20 + 32  # Ethernet, IPv4, TCP with timestamps; a veth counts no preamble and no checksum
N_BYTES = 200_000_000


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def remove_namespaces():
    for name in (A, B):
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


@contextlib.contextmanager
def namespaces():
    remove_namespaces()  # of a test that was killed
    try:
        for name in (A, B):
            run("ip", "netns", "add", name)
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                "net.ipv6.conf.default.disable_ipv6=1")
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "link", "add", DEVICE[A], "netns", A, "type", "veth", "peer", "name", DEVICE[B], "netns", B)
        for name in (A, B):
            run("ip", "-n", name, "addr", "add", ADDRESS[name] + "/24", "dev", DEVICE[name])
            run("ip", "-n", name, "link", "set", DEVICE[name], "up")
        yield
    finally:
        remove_namespaces()


def record(folder, script, *options, prefix=(), **environment):
    """Record a shell script. Return: (run file as a connection, its lines of JSON, the process)."""
    path = os.path.join(folder, "run.lapwing")
    done = subprocess.run([*prefix, LAPWING, "record", "-q", "-o", path, *options, "--", "/bin/bash", "-c", script],
                          capture_output=True, text=True, timeout=110, env={**ENVIRONMENT, **environment})
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    return db, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done


def transfer(folder, *options, send="", receive="", tail="", n_bytes=N_BYTES):
    """N_BYTES from A to B. Return: as record(), lines are the sender's and the receiver's."""
    common = f"{PYTHON} {END} address={ADDRESS[B]}"
    script = (f"ip netns exec {B} {common} role=receive {receive} > {folder}/receiver & "
              f"ip netns exec {A} {common} role=send bytes={n_bytes} {send}; wait; cat {folder}/receiver; {tail}")
    return record(folder, script, *options)


def one(db, sql, *values):
    rows = db.execute(sql, values).fetchall()
    assert len(rows) == 1, (sql, [tuple(row) for row in rows], [tuple(row) for row in db.execute("SELECT * FROM loss")])
    return rows[0]


def sent_connection(db, port=7711):
    return one(db, "SELECT * FROM v_tcp WHERE peer_port = ? AND process_id IS NOT NULL", port)


def nothing_lost(db):
    assert not db.execute("SELECT count(*) FROM loss").fetchone()[0], [tuple(row) for row in db.execute("SELECT * FROM loss")]


def moved(db, device, counter):
    return one(db, "SELECT max(value) - min(value) AS n FROM counter_sample x JOIN device d ON d.id = x.device_id"
                   " JOIN counter c ON c.id = x.counter_id WHERE d.name = ? AND c.name = ?", device, counter)["n"]


def bytes_agree_from_the_program_to_the_wire(folder):
    db, (sender, receiver), _ = transfer(folder)
    nothing_lost(db)
    tcp = sent_connection(db)
    assert sender["bytes"] == receiver["bytes"] == N_BYTES
    assert tcp["hook_sent_bytes"] == N_BYTES, dict(tcp)
    # the kernel counts SYN and FIN as one byte each
    assert N_BYTES <= tcp["acked_bytes"] <= N_BYTES + 2, dict(tcp)
    assert tcp["device"] == DEVICE[A] and tcp["local_port"] == sender["port"], dict(tcp)
    other = one(db, "SELECT * FROM v_tcp WHERE local_port = 7711 AND process_id IS NOT NULL")
    assert N_BYTES <= other["received_bytes"] <= N_BYTES + 2 and other["device"] == DEVICE[B], dict(other)
    assert other["hook_received_bytes"] == N_BYTES, dict(other)
    ended = one(db, "SELECT count(*) AS n FROM tcp_connection WHERE is_ended AND process_id IS NOT NULL")["n"]
    assert ended == 2, ended
    for end, out, into in ((A, "tx", "rx"), (B, "rx", "tx")):
        wire = moved(db, DEVICE[end], out + "_bytes")
        expected = tcp["sent_bytes"] + FRAME_BYTES * moved(db, DEVICE[end], out + "_packets")
        print(f"{DEVICE[end]}: {wire} bytes on the wire, {expected} = payload and headers: {wire / expected - 1:+.5%}")
        assert abs(wire / expected - 1) < 0.001, (wire, expected)
        back = moved(db, DEVICE[end], into + "_bytes") / moved(db, DEVICE[end], into + "_packets")
        assert 54 <= back < 90, back  # acks
    assert moved(db, DEVICE[A], "tx_bytes") == moved(db, DEVICE[B], "rx_bytes")
    shown = json.loads(run(LAPWING, "info", "--json", os.path.join(folder, "run.lapwing"), env=ENVIRONMENT))["runs"][0]
    assert {d["name"]: d["tx_bytes"] for d in shown["devices"]}[DEVICE[A]] == moved(db, DEVICE[A], "tx_bytes")
    text = run(LAPWING, "info", os.path.join(folder, "run.lapwing"), env=ENVIRONMENT)
    assert f"device     {DEVICE[A]} (veth)" in text and "tcp        " in text, text
    # of each interface the driver's own counters, of the host its CPUs'
    assert one(db, "SELECT count(*) AS n FROM counter WHERE name = 'rx_queue0_dropped'")["n"] == 1
    assert moved(db, "softnet", "softnet_processed") > 0
    period = one(db, "SELECT * FROM sampler WHERE name = 'nic'")
    seconds = (sender["end_ns"] - sender["start_ns"]) * 1e-9
    print(f"{seconds:.2f} s, nic: {period['n_samples']} looks, {period['n_late']} late")


def induced_loss_is_seen(folder):
    run("ip", "netns", "exec", B, "nft", "add table ip t; add chain ip t in { type filter hook input priority 0; }; "
        "add rule ip t in tcp dport 7711 numgen random mod 100 == 0 drop")
    run("tc", "-n", A, "qdisc", "add", "dev", DEVICE[A], "root", "tbf", "rate", "1gbit", "burst", "256kb", "limit", "4mb")  # for some looks
    db, _, _ = transfer(folder)
    tcp = sent_connection(db)
    dropped = run("ip", "netns", "exec", B, "nft", "list", "table", "ip", "t")
    assert "numgen" in dropped, dropped
    print(f"loss: {tcp['n_retransmits']} segments, {tcp['retransmitted_bytes']} bytes sent again")
    assert tcp["n_retransmits"] > 0 and tcp["retransmitted_bytes"] > 0, dict(tcp)
    assert tcp["sent_bytes"] - tcp["retransmitted_bytes"] == N_BYTES, dict(tcp)
    # a step of the counter has its time: it rose during the transfer
    rows = db.execute("SELECT count(DISTINCT n_retransmits) FROM tcp_info_sample WHERE connection_id = ?",
                      (tcp["connection_id"],)).fetchone()[0]
    assert rows > 1, rows


def a_slow_link_keeps_the_connection_busy(folder):
    run("tc", "-n", A, "qdisc", "add", "dev", DEVICE[A], "root", "tbf", "rate", "200mbit", "burst", "64kb", "limit", "1mb")
    db, (sender, _), _ = transfer(folder, n_bytes=40_000_000)
    tcp, took_ns = sent_connection(db), sender["end_ns"] - sender["start_ns"]
    print(f"200 Mbit/s: delivery {tcp['delivery_bytes_per_s'] * 8e-6:.0f} Mbit/s, busy {tcp['busy_ns'] / took_ns:.0%} of {took_ns * 1e-9:.2f} s,"
          f" rtt {tcp['rtt_ns'] * 1e-6:.1f} ms")
    assert 1.4e9 < took_ns < 20e9, took_ns
    assert 0.7 * took_ns < tcp["busy_ns"] <= 1.05 * took_ns, dict(tcp)
    assert tcp["rwnd_limited_ns"] < 0.5 * tcp["busy_ns"], dict(tcp)
    rates = [row[0] for row in db.execute("SELECT delivery_bytes_per_s FROM tcp_info_sample WHERE connection_id = ? AND acked_bytes > 1e6",
                                          (tcp["connection_id"],))]
    assert len(rates) >= 5 and 15e6 < sorted(rates)[len(rates) // 2] < 35e6, rates


def a_slow_receiver_is_told_and_all_is_what_the_program_sees(folder):
    db, (sender, _), _ = transfer(folder, receive="rcvbuf=8192 read_bytes_per_s=4e6", n_bytes=6_000_000)
    tcp = sent_connection(db)
    print(f"slow receiver: window {tcp['rwnd_limited_ns'] / tcp['busy_ns']:.0%} of busy, send buffer {tcp['sndbuf_limited_ns'] / tcp['busy_ns']:.0%}")
    assert tcp["rwnd_limited_ns"] > 0.5 * tcp["busy_ns"] > tcp["sndbuf_limited_ns"], dict(tcp)
    last = one(db, "SELECT *, max(at_ns) FROM tcp_info_sample WHERE connection_id = ?", tcp["connection_id"])
    for name, value in sender["info"].items():  # it looked just before it closed: a FIN and an ACK came after
        after = 2 if name.startswith("n_segments") else 1 if name in ("acked_bytes", "received_bytes") else 0
        assert value <= last[name] <= value + after, (name, value, last[name])


def devices_come_go_and_change_names(folder):
    script = (f"ip netns exec {A} {PYTHON} {END} pairs=1 hold_s=4 & sleep 1;"
              f"ip -n {A} link add vsx type veth peer name vsy; sleep 0.6; ip -n {A} link set vsx name vsz; sleep 0.6;"
              f"ip -n {A} link del vsz; sleep 0.6; wait")
    db, _, _ = record(folder, script)
    nothing_lost(db)
    seen = {row["name"]: row for row in db.execute("SELECT * FROM device WHERE name LIKE 'vs%'")}
    assert set(seen) == {DEVICE[A], "vsx", "vsy", "vsz"}, list(seen)
    assert all(seen[name]["gone_ns"] for name in ("vsx", "vsy", "vsz")), [tuple(row) for row in seen.values()]
    assert seen["vsx"]["gone_ns"] <= seen["vsz"]["first_ns"] and seen["vsx"]["number"] == seen["vsz"]["number"]
    lived_s = (seen["vsy"]["gone_ns"] - seen["vsy"]["first_ns"]) * 1e-9
    assert 0.8 < lived_s < 3, lived_s
    assert seen[DEVICE[A]]["driver"] == "veth" and seen[DEVICE[A]]["addresses"] == ADDRESS[A], dict(seen[DEVICE[A]])
    assert seen[DEVICE[A]]["speed_bytes_per_s"] == 1_250_000_000, dict(seen[DEVICE[A]])  # what veth claims


def a_namespace_is_not_kept_from_going(folder):
    """The ranks in A have ended, the command has not: A's end of the pair takes B's with it as ever."""
    # the kernel takes its time with it on a busy machine
    script = (f"ip netns exec {A} {PYTHON} {END} pairs=1 hold_s=1; sleep 1; ip netns del {A};"
              f"for i in $(seq 20); do ip -n {B} link show {DEVICE[B]} >&2 || break; sleep 0.5; done;"
              f"ip -n {B} link show {DEVICE[B]} >&2 && echo '{{\"kept\": 1}}' || echo '{{\"kept\": 0}}'")
    db, lines, _ = record(folder, script)
    assert lines[-1] == {"kept": 0}, lines
    assert one(db, "SELECT gone_ns FROM device WHERE name = ?", DEVICE[A])["gone_ns"]
    print("namespace gone with the job")


def a_port_used_again_is_another_connection(folder):
    db, (line,), _ = record(folder, f"{PYTHON} {END} again=2 hold_s=2")
    nothing_lost(db)
    rows = [tuple(row) for row in db.execute("SELECT hook_sent_bytes, acked_bytes - 1 FROM v_tcp WHERE local_port = 7712 ORDER BY connection_id")]
    assert rows == [(n, n) for n in line["sizes"]], rows  # acked: and a SYN
    rows = [row[0] for row in db.execute("SELECT hook_received_bytes FROM v_tcp WHERE local_port = 7711 ORDER BY connection_id")]
    assert rows == line["sizes"], rows


def interfaces_beyond_the_limit_cost_and_hide_nothing_else(folder):
    with open(os.path.join(folder, "links"), "w") as links:
        links.writelines(f"link add v{i} type veth peer name w{i}\n" for i in range(150))
    run("ip", "-n", A, "-batch", links.name)
    db, _, _ = record(folder, f"ip netns exec {A} {PYTHON} {END} pairs=1 hold_s=3")
    losses = [tuple(row) for row in db.execute("SELECT n, detail FROM loss")]
    assert len(losses) == 1 and "more than 256 network interfaces" in losses[0][1], losses
    looks = one(db, "SELECT * FROM sampler WHERE name = 'nic'")
    print(f"300 interfaces: {looks['n_samples']} looks, {losses[0][0]} listings, every {looks['actual_period_ns'] * 1e-9:.2f} s")
    assert losses[0][0] <= looks["n_samples"] / 2, (losses, dict(looks))  # listed when something changed, not at every look
    assert one(db, "SELECT count(*) AS n FROM device WHERE kind = 'softnet'")["n"] == 1


def without_permission_it_is_said(folder):
    """An unprivileged user whose rank has a namespace of its own."""
    os.chmod(folder, 0o777)
    script = f"unshare -Urn bash -c 'ip link set lo up; {PYTHON} {END} pairs=1 hold_s=1'; {PYTHON} {END} pairs=1 hold_s=1"
    prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]
    db, lines, _ = record(folder, script, prefix=prefix, TMPDIR="/tmp", HOME="/tmp")
    assert [line["n"] for line in lines] == [2, 2], lines
    losses = [tuple(row) for row in db.execute("SELECT reason, n, detail FROM loss")]
    assert len(losses) == 1 and "cannot be entered: Operation not permitted" in losses[0][2], losses
    print("   ", losses[0][2])
    # in its own namespace all is seen without any right
    n = one(db, "SELECT count(*) AS n FROM tcp_connection WHERE process_id IS NOT NULL")["n"]
    assert n >= 2 and moved(db, "lo", "rx_bytes") > 0, n
    done = subprocess.run([LAPWING, "info", os.path.join(folder, "run.lapwing")], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 3 and "cannot be entered" in done.stdout, done


def many_sockets_are_bounded(folder):
    """Ten times as many as are followed; the job is not held up, the samplers look less often."""
    run("ip", "netns", "exec", A, "sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65000")
    script = "ulimit -n 20000; for i in 1 2 3 4 5 6; do "
    script += f"ip netns exec {A} {PYTHON} {END} pairs=8500 ports=16 hold_s=8 & done; "
    script += ("sleep 12; d=$(pgrep -f \"^[^ ]*lapwingd.*$PPID\" | head -1); grep VmHWM /proc/$d/status >&2; wait")
    begin = time.monotonic()
    db, lines, done = record(folder, script)
    seconds = time.monotonic() - begin
    assert [line["n"] for line in lines] == [17000] * 6, (lines, done.stderr)
    followed = one(db, "SELECT count(*) AS n FROM tcp_connection")["n"]
    told = one(db, "SELECT coalesce(sum(n), 0) AS n FROM loss WHERE detail LIKE '%TCP connections%'")["n"]
    cpu_s = one(db, "SELECT sum(cpu_ns) * 1e-9 AS s FROM sampler")["s"]
    slowed = [tuple(row) for row in db.execute("SELECT name, actual_period_ns * 1e-9, n_samples, longest_ns * 1e-9 FROM sampler WHERE actual_period_ns > period_ns")]
    peak = [line for line in done.stderr.splitlines() if "VmHWM" in line]
    print(f"102000 sockets: {followed} followed, {told} losses told, {cpu_s:.2f} s of CPU in {seconds:.0f} s, {slowed}, {peak}")
    assert 9000 <= followed <= 15000 and told > 0, (followed, told)
    assert any(name == "tcp_list" for name, *_ in slowed), slowed
    assert peak and int(peak[0].split()[1]) < 200_000, peak


def it_can_be_turned_off(folder):
    script = f"{PYTHON} {END} pairs=1 hold_s=0.3"
    for options, environment in ((["--sample-ms", "0"], {}), ([], {"LAPWING_SAMPLE_MS": "0"})):
        db, _, _ = record(folder, script, *options, **environment)
        for table in ("device", "counter_sample", "tcp_connection"):
            assert not one(db, f"SELECT count(*) AS n FROM {table}")["n"], table
        assert [tuple(row) for row in db.execute("SELECT name FROM sampler")] == [("cpu",)]  # predictions need it
        assert one(db, "SELECT count(*) AS n FROM cpu_sample")["n"]
    db, _, _ = record(folder, script, "--sample-ms", "20")
    assert one(db, "SELECT * FROM sampler WHERE name = 'nic'")["period_ns"] == 20_000_000
    for bad in ("-1", "0.1", "fast", "60001", ""):
        done = subprocess.run([LAPWING, "record", "--sample-ms", bad, "--", "true"], capture_output=True, text=True, env=ENVIRONMENT)
        assert done.returncode == 2 and "60000" in done.stderr, (bad, done)
    done = subprocess.run([LAPWING, "record", "--", "true"], capture_output=True, text=True, env={**ENVIRONMENT, "LAPWING_SAMPLE_MS": "soon"})
    assert done.returncode == 2 and "LAPWING_SAMPLE_MS=soon" in done.stderr, done


def a_rank_s_own_collector_samples_too(folder):
    path = os.path.join(folder, "alone.lapwing")
    environment = {**ENVIRONMENT, "LD_PRELOAD": os.path.join(BUILD, "lib", "liblapwing.so"), "LAPWING_OUT": path, "LAPWING_SAMPLE_MS": "50"}
    run(PYTHON, END, "pairs=1", "hold_s=1", env=environment)
    for _ in range(100):  # it waits for late ranks before it ends
        time.sleep(0.1)
        with contextlib.suppress(sqlite3.Error), sqlite3.connect(path) as db:
            if db.execute("SELECT closed FROM run").fetchone()[0]:
                break
    db.row_factory = sqlite3.Row
    row = one(db, "SELECT * FROM sampler WHERE name = 'nic'")
    assert row["period_ns"] == 50_000_000 and row["n_samples"] >= 5, dict(row)


TESTS = [bytes_agree_from_the_program_to_the_wire, induced_loss_is_seen, a_slow_link_keeps_the_connection_busy,
         a_slow_receiver_is_told_and_all_is_what_the_program_sees, devices_come_go_and_change_names, a_namespace_is_not_kept_from_going,
         a_port_used_again_is_another_connection, interfaces_beyond_the_limit_cost_and_hide_nothing_else, without_permission_it_is_said, many_sockets_are_bounded, it_can_be_turned_off, a_rank_s_own_collector_samples_too]


def main():
    wanted = sys.argv[1:]
    for test in TESTS:
        if wanted and test.__name__ not in wanted:
            continue
        folder = tempfile.mkdtemp(prefix="lapwing-samplers-")
        try:
            with namespaces():
                print(test.__name__, flush=True)
                test(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
