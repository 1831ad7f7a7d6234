#!/usr/bin/env python3
"""`lapwing import` of captures: both formats give the same rows; what is damaged is used up to there, and said."""
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import captures  # noqa: E402

LAPWING = os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing")
FOLDER = tempfile.mkdtemp(prefix="lapwing-pcap-import-")
RUN = os.path.join(FOLDER, "run.lapwing")
ONE, TWO = (10, 0, 0, 1), (10, 0, 0, 2)
START = 1_700_000_000_123_456_789


def put(name, data):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def lapwing(*words, code=0):
    done = subprocess.run([LAPWING, *words], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def rows(sql):
    with sqlite3.connect(RUN) as store:
        store.row_factory = sqlite3.Row
        return [dict(row) for row in store.execute(sql)]


def conversation(n=500):
    """A SYN each way, then @n segments of 1000 bytes, every hundredth twice; a RoCE write; some ARP."""
    mss = b"\2\4" + (1460).to_bytes(2, "big")
    packets = [(START, captures.ethernet(captures.ipv4(captures.tcp(0, 5000, 80, 99, 2, mss), ONE, TWO))),
               (START + 1000, captures.ethernet(captures.ipv4(captures.tcp(0, 80, 5000, 499, 18, mss), TWO, ONE)))]
    at = START + 2000
    for i in range(n):
        for _ in range(2 if i % 100 == 50 else 1):
            packets.append((at, captures.ethernet(captures.ipv4(captures.tcp(1000, 5000, 80, 100 + 1000 * i), ONE, TWO, ident=len(packets)))))
            at += 100_000
    for psn, opcode, extended in ((10, 6, 16), (11, 7, 0), (13, 8, 0)):
        packets.append((at, captures.ethernet(captures.ipv4(captures.roce(opcode, 77, psn, extended, 1024), ONE, TWO, 17))))
    packets.append((at + 1, captures.ethernet(bytes(46), 0x0806)))
    return packets


def both_formats_give_the_same_rows():
    seen = []
    for name, data in (("a.pcap", captures.pcap(conversation())), ("b.pcapng", captures.pcapng(conversation()))):
        done = lapwing("import", put(name, data), "-o", RUN)
        assert "511 packets of 3 flows" in done.stdout, done.stdout
        lapwing("info", RUN)
        lapwing("report", RUN)
        seen.append([rows("SELECT * FROM packet_bin"), rows("SELECT * FROM flow"), rows("SELECT * FROM flow_opcode")])
        (capture,) = rows("SELECT * FROM capture")
        assert capture["source"] == "file" and capture["device"] == name and capture["n_received"] == 511 and capture["n_other"] == 1
        assert capture["start_ns"] == START and capture["clock_error_ns"] == 1, capture
        (host,) = rows("SELECT clock FROM host")
        assert "realtime" in host["clock"]
    assert seen[0] == seen[1]
    one = rows("SELECT * FROM v_flow WHERE source_port = 5000")[0]
    assert (one["stream_bytes"], one["n_retransmitted"], one["retransmitted_bytes"]) == (500000, 5, 5000), one
    (roce,) = rows("SELECT * FROM v_flow WHERE protocol = 'roce'")
    assert (roce["destination_qp"], roce["n_psn_gaps"], roce["payload_bytes"]) == (77, 1, 3072), roce
    assert [(row["opcode"], row["n_packets"]) for row in rows("SELECT * FROM flow_opcode ORDER BY opcode")] == [(6, 1), (7, 1), (8, 1)]
    lapwing("import", put("us.pcap", captures.pcap(conversation(), has_ns=False)), "-o", RUN)
    assert rows("SELECT clock_error_ns FROM capture") == [{"clock_error_ns": 1000}]


def the_report_shows_who_sent_what_to_whom():
    path = put("c.pcap", captures.pcap(conversation()))
    lapwing("import", path, "-o", RUN)
    text = lapwing("report", RUN).stdout
    assert "No rank, only a capture: 510 packets of 3 flows, 491 KiB of payload in 50.5 ms" in " ".join(text.split()), text
    assert "What was recorded is below" not in text and "one rank is in the run" not in text, text
    lines = text[text.index("Flows ("):].splitlines()[2:5]
    assert [line.split() for line in lines] == [
        ["488", "KiB", "506", "5", "50.4", "ms", "10.0.0.1:5000", "to", "10.0.0.2:80,", "tcp"],
        ["3", "KiB", "3", "0", "0", "ns", "10.0.0.1", "to", "10.0.0.2", "qp", "77,", "roce"],
        ["0", "B", "1", "0", "0", "ns", "10.0.0.2:80", "to", "10.0.0.1:5000,", "tcp"]], text
    for words in (("report", "--json", RUN), ("import", "--json", path, "-o", RUN)):
        answer, schema = put("answer.json", lapwing(*words).stdout.encode()), put("schema.json", lapwing(words[0], "--json-schema").stdout.encode())
        # apart: what this process has loaded counts for the memory of its children
        subprocess.run([sys.executable, "-c", "import json, jsonschema, sys; jsonschema.validate(*(json.load(open(path)) for path in sys.argv[1:]))",
                        answer, schema], check=True)
    network = json.loads(lapwing("report", "--json", RUN).stdout)["network"]
    flow = network["flows"][0]
    assert (flow["source_port"], flow["destination_address"], flow["payload_bytes"], flow["n_frames"], flow["n_retransmitted"]) == (
        5000, "10.0.0.2", 500000, 506, 5) and network["other_flows"]["n"] == 0, network
    assert "recorded" in lapwing("info", RUN).stdout and ", 50.5 ms, by" in lapwing("info", RUN).stdout
    assert "`lapwing import`" in lapwing("report", path, code=1).stderr
    first = [line for line in lapwing("tui", RUN, "--dump=network").stdout.splitlines() if "10.0.0.1:5000" in line]
    assert "488 KiB" in first[0] and "10.0.0.2:80" in first[0], first


def many_flows_are_bounded_in_the_report():
    packets = [(START + i, captures.ethernet(captures.ipv4(captures.tcp(100 + i, i + 1, 80, 1), ONE, TWO))) for i in range(200)]
    lapwing("import", put("many.pcap", captures.pcap(packets)), "-o", RUN)
    text = " ".join(lapwing("report", RUN).stdout.split())
    assert "10.0.0.1:200 to" in text and "10.0.0.1:188 to" not in text and "... and 188 more flows: 35.5 KiB in 188 packets" in text, text
    network = json.loads(lapwing("report", "--json", RUN).stdout)["network"]
    assert len(network["flows"]) == 64 and network["other_flows"]["n"] == 136, network["other_flows"]
    assert sum(flow["payload_bytes"] for flow in network["flows"]) + network["other_flows"]["payload_bytes"] == sum(100 + i for i in range(200))


def real_soft_roce_is_decoded():
    """The beginning of `ibv_rc_pingpong -s 65536` between two hosts with rdma_rxe: queue pair 17 on both, path MTU 1024."""
    lapwing("import", os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "data", "pcap", "soft_roce.pcap"), "-o", RUN)
    flows = rows("SELECT * FROM v_flow ORDER BY source_address")
    assert [(one["source_address"], one["protocol"], one["destination_qp"]) for one in flows] == [
        ("10.9.0.1", "roce", 17), ("10.9.0.2", "roce", 17)], flows
    for one in flows:  # from the first packet on, in whole packets; what was sent again is told apart
        assert one["n_psn_gaps"] == 0 and one["stream_bytes"] % 1024 == 0 and one["stream_bytes"] > 0, one
    opcodes = {row["opcode"] for row in rows("SELECT opcode FROM flow_opcode")}
    assert {0, 1, 2, 17} >= opcodes > {1}, opcodes
    assert rows("SELECT sum(n_packets) AS n FROM packet_bin") == [{"n": 200}]


def headers_alone_tell_the_same(n_bytes=66):
    lapwing("import", put("short.pcap", captures.pcap(conversation(), snap=n_bytes)), "-o", RUN)
    one = rows("SELECT * FROM v_flow WHERE source_port = 5000")[0]
    assert one["stream_bytes"] == 500000, one
    done = lapwing("import", put("shorter.pcap", captures.pcap(conversation(), snap=30)), "-o", RUN, code=3)
    assert "not captured whole" in done.stdout, done.stdout
    (capture,) = rows("SELECT * FROM capture")
    assert capture["n_cut"] == 510 and not rows("SELECT * FROM flow"), capture
    assert "510 not decoded" in lapwing("info", RUN, code=3).stdout


def a_file_cut_anywhere_is_used_up_to_there():
    for name, data in (("a.pcap", captures.pcap(conversation(20))), ("b.pcapng", captures.pcapng(conversation(20)))):
        for cut in range(0, len(data), 997):
            path = put(name, data[:cut])
            done = subprocess.run([LAPWING, "import", path, "-o", RUN], capture_output=True, text=True)
            assert done.returncode in (0, 1, 3), (cut, done)
            if done.returncode == 3:
                (capture,) = rows("SELECT * FROM capture")
                assert capture["problem"] and capture["n_received"] > 0, capture
                lapwing("info", RUN, code=3)
            elif done.returncode == 1:
                assert path in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def headers_that_lie_are_counted():
    lies = [captures.ethernet(captures.ipv4(captures.tcp(10, 1, 2, 3), ONE, TWO, length=9000)),
            captures.ethernet(b"\x40" + captures.ipv4(captures.tcp(10, 1, 2, 3), ONE, TWO)[1:]),
            captures.ethernet(captures.ipv4(captures.tcp(10, 1, 2, 3)[:12] + b"\x10" + bytes(17), ONE, TWO))]
    packets = [(START + i, data) for i, data in enumerate(lies)] + conversation(5)
    done = lapwing("import", put("lies.pcap", captures.pcap(packets)), "-o", RUN, code=3)
    assert "contradict" in done.stdout, done.stdout
    assert rows("SELECT n_bad FROM capture") == [{"n_bad": 3}]


def what_two_interfaces_saw_is_counted_once():
    """As `dumpcap -i br0 -i eth0` writes it, in both byte orders."""
    once = conversation()
    for order in "<>":
        twice = []
        for at, data in once:
            twice += [(at, data, len(data), 1), (at + 500, data, len(data), 0)]
        for packets, n in ((once, 1), (twice, 2)):
            done = lapwing("import", put("two.pcapng", captures.pcapng(packets, order=order, n_interfaces=2)), "-o", RUN)
            words = f"{511 + n - 1} packets of 3 flows"  # of ARP nobody can tell
            assert words in done.stdout and "491 KiB of payload" in done.stdout, done.stdout
            assert ("510 packet(s) of these were seen at another interface too" in done.stdout) == (n == 2), done.stdout
            one = rows("SELECT * FROM v_flow WHERE source_port = 5000")[0]
            assert (one["stream_bytes"], one["n_retransmitted"], one["n_packets"]) == (500000, 5, 506), (order, n, one)
            assert rows("SELECT n_elsewhere FROM capture") == [{"n_elsewhere": 510 * (n - 1)}]


def a_time_that_cannot_be_is_no_start():
    """The seconds of the first packet are fine in a pcap, its ns are not."""
    data = bytearray(captures.pcap(conversation(5)))
    data[24 + 4:24 + 8] = b"\xff\xff\xff\x7f"
    done = lapwing("import", put("time.pcap", bytes(data)), "-o", RUN, code=3)
    (capture,) = rows("SELECT start_ns, end_ns, n_bad FROM capture")
    assert capture["n_bad"] == 1 and START < capture["start_ns"] < START + 10**6 < START + 10**9 > capture["end_ns"], capture
    assert rows("SELECT created_realtime_ns AS ns FROM run") == [{"ns": capture["start_ns"]}]
    assert "packets of 3 flows in 501 us," in done.stdout, done.stdout
    # where no packet has a time there is no run to make
    data = bytearray(captures.pcap(conversation(0)[:1]))
    data[24 + 4:24 + 8] = b"\xff\xff\xff\x7f"
    done = lapwing("import", put("time.pcap", bytes(data)), "-o", os.path.join(FOLDER, "none.lapwing"), code=1)
    assert "holds no packet" in done.stderr, done.stderr


def a_hundred_thousand_flows_are_summed_in_bounded_memory():
    def packets():
        for i in range(100000):
            yield START + 1000 * i, captures.ethernet(captures.ipv4(captures.tcp(100, i % 50000 + 1, 80, 1), (10, 1, i // 50000, 1), TWO))

    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    lapwing("import", put("many.pcap", captures.pcap(packets())), "-o", RUN)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    (sums,) = rows("SELECT sum(payload_bytes) AS bytes, sum(n_packets) AS n FROM packet_bin")
    (other,) = rows("SELECT sum(b.n_packets) AS n FROM packet_bin b JOIN flow f ON f.id = b.flow_id WHERE is_other")
    (flows,) = rows("SELECT count(*) AS n FROM flow")
    assert sums == {"bytes": 10000000, "n": 100000} and other["n"] == 100000 - 6144 and flows["n"] == 6145, (sums, other, flows)
    assert peak < 80 << 10, f"{peak} KiB"
    print(f"100 000 flows: {flows['n'] - 1} of their own, {other['n']} packets in the rest; peak {peak} KiB (before {before})")


def what_is_no_capture_or_of_another_link_is_refused_in_words():
    for name, data, words in (("empty.pcap", captures.pcap([]), "holds no packet"), ("head.pcap", captures.pcap([])[:10], "truncated"),
                              ("wifi.pcap", captures.pcap(conversation(1), link=105), "IEEE802_11"),
                              ("version.pcap", b"\xd4\xc3\xb2\xa1" + b"\xff" * 40, "")):
        done = lapwing("import", put(name, data), "-o", os.path.join(FOLDER, "none.lapwing"), code=1)
        assert words in done.stderr and name in done.stderr, (name, done.stderr)
        assert not os.path.exists(os.path.join(FOLDER, "none.lapwing"))


if __name__ == "__main__":
    try:
        both_formats_give_the_same_rows()
        the_report_shows_who_sent_what_to_whom()
        many_flows_are_bounded_in_the_report()
        real_soft_roce_is_decoded()
        headers_alone_tell_the_same()
        a_file_cut_anywhere_is_used_up_to_there()
        headers_that_lie_are_counted()
        what_two_interfaces_saw_is_counted_once()
        a_time_that_cannot_be_is_no_start()
        a_hundred_thousand_flows_are_summed_in_bounded_memory()
        what_is_no_capture_or_of_another_link_is_refused_in_words()
    finally:
        shutil.rmtree(FOLDER)
