"""What a program under tests/e2e/programs/verbs_rig.h says that it did, against what the tracer recorded."""
import collections

import rings

OPS = {"send": 1, "write": 4, "write_imm": 5, "read": 6, "fetch_add": 8, "recv": 14, "recv_write_imm": 15}
SEEN, CONNECTED, ENDED = 1, 2, 3
UNSIGNALLED, INLINE, SRQ, EX, UNFINISHED, UNTIMED, UNSIZED = (1 << i for i in range(7))
QP_SRQ, QP_EX, QP_SIGNAL_ALL = (1 << i for i in range(3))
NO_STATUS = 65535


def told(stdout):
    """{"parent" | "child": {(qp number, op, status): (n, bytes)}} of its "sum" lines."""
    sums, who = {"parent": {}, "child": {}}, "parent"
    for line in stdout.splitlines():
        words = line.split()
        if words and words[0] in sums:
            who = words[0]
        if words and words[0] == "sum":
            qp, op, status, n, n_bytes = map(int, words[1:])
            sums[who][qp, op, NO_STATUS if status < 0 else status] = (n, n_bytes)
    return sums


def numbers(process):
    """{serial: number on the wire} of its queue pairs."""
    return {event["qp"]: event["number"] for event in rings.of_kind(process, "RDMA_QP")}


def recorded(process):
    """The same sums from its records."""
    wire, sums = numbers(process), collections.defaultdict(lambda: [0, 0])
    for event in rings.of_kind(process, "RDMA_WORK"):
        assert event["t1"] >= event["t0"], event
        one = sums[wire.get(event["qp"], 0), event["op"], event["status"]]
        one[0] += 1
        one[1] += event["bytes"]
    return {key: tuple(value) for key, value in sums.items()}


def difference(expected, got):
    keys = sorted(expected.keys() | got.keys())
    return "\n".join(f"(qp, op, status) {key}: told {expected.get(key)}, recorded {got.get(key)}"
                     for key in keys if expected.get(key) != got.get(key))
