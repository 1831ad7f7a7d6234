#!/usr/bin/env python3
"""NCCL's profiler plugin, versions 1 to 6, driven call by call as NCCL does: what the run file then says, exactly."""
import ctypes
import os
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import traced  # noqa: E402

LAPWING = str(traced.BUILD / "bin" / "lapwing")
VERSIONS = (1, 2, 3, 4, 5, 6)
UNTIMED, UNFINISHED, IN_GRAPH, NO_BYTES = 1, 2, 16, 32
RING, TREE, NVLS_TREE, PAT = 2, 1, 6, 7
LL, LL128, SIMPLE = 1, 2, 3
FLOAT32, FROM_PLUGIN, ACTIVE = 8, 2, 1
OPS = {"AllReduce": 1, "AllGather": 2, "Broadcast": 3, "ReduceScatter": 5, "Reduce": 6, "Send": 9, "Recv": 10}
TABLE_FULL, LAYOUT, UNENDED = 5, 4, 16
HASH = 0x1122334455667788
MS = 1000000


class Run:
    """The rows of a run file, by table."""

    def __init__(self, path):
        self.db = sqlite3.connect(":memory:")
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
            file.backup(self.db)
        self.db.row_factory = sqlite3.Row

    def rows(self, table, order="rowid"):
        return [dict(row) for row in self.db.execute(f"SELECT * FROM {table} ORDER BY {order}")]

    def ops(self):
        return self.rows("nccl_op", "serial")

    def losses(self):
        return {row["reason"]: row["n"] for row in self.db.execute(
            "SELECT reason, sum(n) AS n FROM loss GROUP BY reason")}

    def hooks(self):
        return [dict(row) for row in self.db.execute(
            "SELECT n.text AS name, h.status, h.n_slots, d.text AS detail FROM hook h"
            " JOIN string n ON n.id = h.name_id LEFT JOIN string d ON d.id = h.detail_id")]


def drive(version, script, library=None, record=(), **extra):
    """Run @script (lines) by plugin_host under `lapwing record`. Return: its output, a Run."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.lapwing"
        command = [LAPWING, "record", "-q", "--no-analyze", "--sample-ms=0", *record, "-o", path, "--",
                   traced.program("plugin_host"), str(version), *([library] if library else [])]
        done = subprocess.run(command, input="\n".join(script) + "\n", env={**os.environ, **extra}, text=True,
                              capture_output=True, timeout=100)
        assert done.returncode == (137 if "crash" in script else 0), f"v{version}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout, Run(path)


class Script(list):
    """What NCCL of one version calls for operations, line by line."""

    def __init__(self, version, ranks=4, rank=1):
        super().__init__([f"init c {HASH} {ranks} {rank}"])
        self.version, self.n = version, 0

    def begin(self, func="AllReduce", count=1024, dtype="ncclFloat32", root=0, channels=2, algo="RING", proto="SIMPLE",
              group=None, depth=1, captured=0):
        """An operation, to the start of its task. @group: name of the plan it shares. Return: its name."""
        self.n += 1
        n, plan = self.n, group or f"g{self.n}"
        is_p2p = func in ("Send", "Recv")
        if not group:
            self.open_group(plan, depth)
        api = "null"
        if self.version >= 5:
            api = f"a{n}"
            self.append(f"{'p2papi' if is_p2p else 'collapi'} {api} c ga{plan} {func} {count} {dtype} {root} {captured}")
            self.append(f"stop {api}")
        if is_p2p:
            self.append(f"p2p o{n} c {api} {plan} {func} {count} {dtype} {root} 1 {HASH}")
        else:
            self.append(f"coll o{n} c {api} {plan} {func} {count} {dtype} {root} {channels} {algo} {proto} {HASH}")
        return f"o{n}"

    def open_group(self, plan, depth=1):
        if self.version >= 5:
            self.append(f"groupapi ga{plan} c {depth} 0")
        self.append(f"group {plan} c null")

    def close_group(self, plan):
        self.append(f"stop {plan}")
        if self.version >= 5:
            self.append(f"stop ga{plan}")

    def enqueued(self, op, group=None):
        self.append(f"stop {op}")
        if not group:
            self.close_group(f"g{op[1:]}")

    def proxy(self, op, way, peer, channel=0, steps=2, step_bytes=65536, ms=1, is_stopped=True):
        """A proxy operation from start to stop, each of its states @ms long. Return: its name."""
        name, is_send, done = f"{way}{op}x{channel}", way == "s", 0
        self.append(f"proxy {name} c {op} 0 {peer} {channel} {steps} {int(is_send)}")
        if self.version >= 4:
            self.append(f"state {name} 19 -1")
        for step in range(steps):
            at = f"{name}p{step}"
            self.append(f"step {at} c {name} {step}")
            states = ((8, 0), (20, 0), (9, step_bytes)) if is_send else ((10, 0), (11, step_bytes), (12, 7))
            for state, n_bytes in states:
                if state == 20 and self.version < 4:
                    self.append(f"state {name} 1 {done}")
                    self.append(f"state {name} 1 {done}")
                elif self.version < 4:
                    self.append(f"state {at} {state} -1")
                else:
                    self.append(f"state {at} {state} {n_bytes}")
                    self.append(f"state {at} {state} {n_bytes}")
                self.append(f"sleep {ms}")
            done += step_bytes
            if self.version < 4:
                self.append(f"state {name} {3 if is_send else 7} {done}")
            self.append(f"stop {at}")
        if is_stopped:
            self.append(f"stop {name}")
        return name


def end(script):
    script.append("final c")
    return script


def check(got, **expected):
    wrong = {key: (got[key], value) for key, value in expected.items() if got[key] != value}
    assert not wrong, f"{wrong} (got, expected) in {got}"


# ---- one operation and its proxies ---------------------------------------------------------------------------------

def an_operation_and_its_proxies_are_told_as_driven():
    for version in VERSIONS:
        script = Script(version)
        for _ in range(2):
            op = script.begin()
            script.enqueued(op)
            script.proxy(op, "s", peer=2, channel=0, ms=2)
            script.proxy(op, "r", peer=0, channel=1, ms=2)
        run = drive(version, end(script))[1]
        ops, proxies = run.ops(), run.rows("nccl_proxy", "start_ns")
        assert len(ops) == 2 and len(proxies) == 4, f"v{version}: {ops} {proxies}"
        for i, op in enumerate(ops):
            check(op, op=OPS["AllReduce"], bytes=4096, peer=-1, group_serial=None, algorithm=RING, protocol=SIMPLE,
                  n_channels=2, dtype=FLOAT32, flags=0, source=FROM_PLUGIN, serial=i + 1, comm_key=HASH)
            send, receive = proxies[2 * i], proxies[2 * i + 1]
            check(send, op=1, serial=i + 1, bytes=131072, peer=2, channel=0, n_steps=2)
            check(receive, op=2, serial=i + 1, bytes=131072, peer=0, channel=1, n_steps=2)
            # completion is the last proxy's end, not the return of the call
            assert op["end_ns"] == receive["end_ns"] and op["start_ns"] < send["start_ns"], f"v{version}: {op} {proxies}"
            for waited in (send["gpu_wait_ns"], send["peer_wait_ns"], send["wire_ns"], receive["peer_wait_ns"]):
                assert waited >= 4 * MS, f"v{version}: {send} {receive}"
            assert receive["gpu_wait_ns"] >= 8 * MS and receive["wire_ns"] == 0, receive
            for proxy in (send, receive):  # its steps followed each other
                waited = proxy["gpu_wait_ns"] + proxy["peer_wait_ns"] + proxy["wire_ns"]
                assert waited <= proxy["end_ns"] - proxy["start_ns"], proxy
        comm = run.rows("comm")
        assert len(comm) == 1, comm
        check(comm[0], rank=1, size=4 if version >= 4 else 0, transport=3)
        assert not run.losses(), run.losses()
        assert [hook for hook in run.hooks() if hook["name"] == "nccl_plugin"] == [
            {"name": "nccl_plugin", "status": ACTIVE, "n_slots": 5, "detail": f"v{version}"}], run.hooks()


def every_kind_of_operation_and_element_is_known():
    dtypes = {"ncclInt8": (2, 1), "ncclUint8": (1, 1), "ncclInt32": (5, 4), "ncclUint32": (12, 4), "ncclInt64": (6, 8),
              "ncclUint64": (13, 8), "ncclFloat16": (7, 2), "ncclFloat32": (8, 4), "ncclFloat64": (9, 8),
              "ncclBfloat16": (11, 2)}
    algorithms = {"TREE": 1, "RING": 2, "COLLNET_DIRECT": 3, "COLLNET_CHAIN": 4, "NVLS": 5, "NVLS_TREE": 6, "PAT": 7}
    for version in VERSIONS:
        script, expected = Script(version), []
        for i, (func, number) in enumerate(OPS.items()):
            is_p2p = func in ("Send", "Recv")
            for j, (dtype, (code, n_bytes)) in enumerate(dtypes.items()):
                algo = list(algorithms)[(i + j) % len(algorithms)]
                proto = ("LL", "LL128", "SIMPLE")[(i + j) % 3]
                script.enqueued(script.begin(func, 10 + j, dtype, root=3, channels=i + 1, algo=algo, proto=proto))
                expected.append({
                    "op": number, "bytes": (10 + j) * n_bytes, "dtype": code, "flags": UNTIMED,
                    "peer": 3 if is_p2p or func in ("Broadcast", "Reduce") else -1,
                    "algorithm": 0 if is_p2p else algorithms[algo], "protocol": 0 if is_p2p else (i + j) % 3 + 1,
                    "n_channels": i + 1 if not is_p2p else 1 if version >= 4 else 0})
        ops = drive(version, end(script))[1].ops()
        assert len(ops) == len(expected), f"v{version}: {len(ops)}"
        for got, want in zip(ops, expected):
            check(got, **want)


def what_it_does_not_know_is_told_as_that():
    script = Script(6)
    script.enqueued(script.begin("Invent", 10, "ncclTernary", algo="MAGIC", proto="WISH"))
    script.enqueued(script.begin("AlltoAll", 10, "ncclFloat8e5m2"))
    ops = drive(6, end(script))[1].ops()
    check(ops[0], op=11, bytes=0, dtype=0, algorithm=0, protocol=0, flags=UNTIMED | NO_BYTES, peer=-1)
    check(ops[1], op=4, bytes=10, dtype=15, peer=-1)


def operations_of_one_group_share_its_number():
    for version in VERSIONS:
        script = Script(version)
        script.enqueued(script.begin())
        script.open_group("plan", depth=2)
        two = [script.begin("Send", root=2, group="plan"), script.begin("Recv", root=2, group="plan")]
        for op in two:
            script.enqueued(op, group="plan")
        script.close_group("plan")
        script.enqueued(script.begin())
        alone, send, receive, last = drive(version, end(script))[1].ops()
        assert alone["group_serial"] is None and last["group_serial"] is None, f"v{version}: {alone} {last}"
        assert send["group_serial"] and send["group_serial"] == receive["group_serial"], f"v{version}: {send} {receive}"


# ---- when an operation is complete ----------------------------------------------------------------------------------

def without_a_network_completion_is_not_known_and_said_so():
    for version in VERSIONS:
        script = Script(version)
        op = script.begin()
        script += ["sleep 3"]
        script.enqueued(op)
        script += ["sleep 20"]
        script.enqueued(script.begin())
        op, later = drive(version, end(script))[1].ops()
        check(op, flags=UNTIMED)
        assert op["end_ns"] - op["start_ns"] >= 3 * MS and later["start_ns"] - op["end_ns"] >= 20 * MS, (op, later)


def what_can_never_be_known_is_not_waited_for():
    script = Script(6)
    for _ in range(8):
        script.enqueued(script.begin())
    script.append("sleep 2100")
    for _ in range(2):
        script.enqueued(script.begin())
    ops = drive(6, script + ["crash"])[1].ops()  # what was not written by then never is
    assert [op["serial"] for op in ops] == list(range(1, 9)), ops


def a_kernel_on_a_channel_ends_it_where_it_was_asked_for():
    for version in (3, 4, 5, 6):
        script = Script(version)
        op = script.begin()
        script.enqueued(op)
        script += [f"kernel k1 c {op} 0", f"kernel k2 c {op} 1", "sleep 5", "state k1 22 99", "stop k1", "stop k2"]
        run = drive(version, end(script))[1]
        check(run.ops()[0], flags=0)
        assert run.ops()[0]["end_ns"] - run.ops()[0]["start_ns"] >= 5 * MS
        assert not run.rows("nccl_proxy") and not run.losses()


def a_communicator_that_ends_under_its_operations_leaves_them_unfinished():
    for version in VERSIONS:
        script = Script(version)
        op = script.begin()
        script.enqueued(op)
        left = script.proxy(op, "s", peer=2, is_stopped=False)
        script.proxy(op, "r", peer=0)
        script.append("final c")
        script += [f"stop {left}", f"state {left} 19 -1", f"stop {op}", f"step late c {left} 1", "stop late", "final c"]
        run = drive(version, script)[1]
        check(run.ops()[0], flags=UNFINISHED)
        assert len(run.rows("nccl_proxy")) == 2
        assert run.losses() == {UNENDED: 1}, run.losses()


def a_process_that_just_leaves_has_told_of_all():
    for version in VERSIONS:
        script = Script(version)
        first = script.begin()
        script.enqueued(first)
        script.proxy(first, "s", peer=2)
        script.enqueued(script.begin())
        open_task = script.begin()
        script.append("flush")
        ops = drive(version, script)[1].ops()
        assert [op["flags"] for op in ops] == [0, UNTIMED, UNTIMED | UNFINISHED], (open_task, ops)


def proxies_of_an_older_operation_may_end_later():
    for version in VERSIONS:
        script = Script(version)
        first, second = script.begin(), None
        script.enqueued(first)
        slow = script.proxy(first, "s", peer=2, is_stopped=False)
        second = script.begin()
        script.enqueued(second)
        script.proxy(second, "s", peer=2)
        script += ["sleep 5", f"stop {slow}"]
        run = drive(version, end(script))[1]
        ops = run.ops()
        assert [op["flags"] for op in ops] == [0, 0] and ops[0]["end_ns"] > ops[1]["end_ns"], ops
        assert not run.losses()


# ---- the graph, copy engines, the network ------------------------------------------------------------------------------

def each_launch_of_a_captured_operation_is_one_of_its_own():
    for version in (5, 6):
        script = Script(version)
        script += ["groupapi ga c 1 1", "collapi a c ga AllReduce 256 ncclFloat32 0 1", "stop a", "stop ga"]
        for i in range(3):
            script += [f"group p{i} c null", f"coll t{i} c a p{i} AllReduce 256 ncclFloat32 0 2 RING LL {HASH}",
                       f"stop t{i}", f"stop p{i}"]
        ops = drive(version, end(script))[1].ops()
        assert len(ops) == 4, ops
        check(ops[0], flags=UNTIMED | IN_GRAPH, bytes=1024, algorithm=0)
        for op in ops[1:]:
            check(op, flags=UNTIMED, bytes=1024, algorithm=RING, protocol=LL)


def collectives_of_the_copy_engine_are_operations():
    script = Script(6)
    script += ["groupapi ga c 1 0", "collapi a c ga AllGather 64 ncclInt8 0 0", "cecoll e c a AllGather 64 ncclInt8 0",
               "type sync c 8192", "stop sync", "type batch c 16384", "stop batch", "stop e", "stop a", "stop ga"]
    ops = drive(6, end(script))[1].ops()
    assert len(ops) == 1, ops
    check(ops[0], op=OPS["AllGather"], bytes=64, flags=UNTIMED, source=FROM_PLUGIN)


def requests_of_the_network_are_summed_by_what_carried_them():
    for version in (3, 4, 5, 6):
        script = Script(version)
        op = script.begin()
        script.enqueued(op)
        script += [f"proxy x c {op} 0 2 0 2 1", "step p c x 0"]
        for i, (kind, number, n_bytes) in enumerate((("ib", 77, 100), ("ib", 78, 50), ("ib", 77, 11), ("socket", 0, 9),
                                                     ("other", 1, 1))):
            script += [f"net n{i} c p {kind} {number} {n_bytes}", f"stop n{i}"]
        script += ["net open c p ib 79 5", "stop p", "stop x", "stop open", "net late c p ib 80 6", "stop late"]
        run = drive(version, end(script))[1]
        got = sorted((row["op"], row["number"], row["bytes"], row["n"], row["serial"]) for row in
                     ({**row, "number": row["number"] or 0, "serial": row["serial"] or 0} for row in run.rows("nccl_net")))
        assert got == [(1, 77, 111, 2, 1), (1, 78, 50, 1, 1), (1, 79, 5, 1, 1), (1, 80, 6, 1, 0), (2, 0, 9, 1, 1)], got
        assert run.losses() == {LAYOUT: 1}, run.losses()


def more_queue_pairs_than_are_kept_are_told_of_at_once():
    script = Script(5)
    op = script.begin()
    script.enqueued(op)
    script += [f"proxy x c {op} 0 2 0 2 1", "step p c x 0"]
    script += [f"net n{i} c p ib {i + 1} 10" for i in range(20)]
    script += ["stop p", "stop x"]
    rows = drive(5, end(script))[1].rows("nccl_net")
    assert sorted(row["number"] for row in rows) == list(range(1, 21)), rows
    assert {(row["bytes"], row["n"], row["serial"]) for row in rows} == {(10, 1, 1)}, rows


def a_proxy_that_works_for_another_process_belongs_to_no_operation_of_ours():
    for version in VERSIONS:
        script = Script(version)
        op = script.begin()
        script.enqueued(op)
        script += [f"proxy own c {op} 1 2 0 1 1", "step p c own 0", "stop p", "stop own",
                   "proxy wild junk junk 1 2 0 1 0", "stop wild"]
        run = drive(version, end(script))[1]
        assert [row["serial"] for row in run.rows("nccl_proxy")] == [None, None], run.rows("nccl_proxy")
        check(run.ops()[0], flags=UNTIMED)


# ---- what NCCL gets wrong, and worse -------------------------------------------------------------------------------------

def calls_out_of_order_are_counted_and_change_nothing():
    for version in VERSIONS:
        script = Script(version)
        op = script.begin()
        script.enqueued(op)
        name = script.proxy(op, "s", peer=2)
        odd = [f"state {name} 9 4", f"state {name}p1 9 4", f"stop {name}", f"stop {name}p0", "stop null", "stop junk",
               "state null 8 1", "state junk 8 1", f"stop {op}"]
        script += odd
        script += ["final null", "final junk", "type t c 3", "type u c 0", "type w c 0x40000000", "stop t"]
        run = drive(version, end(script))[1]
        check(run.ops()[0], flags=0)
        check(run.rows("nccl_proxy")[0], bytes=131072)
        odd_hooks = [hook["detail"].split()[0] for hook in run.hooks() if hook["name"] == "nccl_plugin" and "ended" in hook["detail"]]
        assert odd_hooks == [str(len(odd))], (version, run.hooks())
        assert not run.losses() and len(run.ops()) == 1


def steps_that_are_never_stopped_count_all_the_same():
    for version in VERSIONS:
        script = Script(version)
        op = script.begin()
        script.enqueued(op)
        script.append(f"proxy x c {op} 0 2 0 20 1")
        for i in range(20):  # more than are kept: each ends with the one of eight steps later, or the proxy
            script += [f"step p{i} c x {i}", f"state p{i} 8 0", f"state p{i} 9 10"]
            if version < 4:
                script.append(f"state x 3 {10 * i + 10}")
        script.append("stop x")
        run = drive(version, end(script))[1]
        check(run.rows("nccl_proxy")[0], bytes=200, n_steps=20)
        check(run.ops()[0], flags=0)


def a_storm_of_what_never_ends_is_bounded_and_counted():
    for version in (1, 6):
        script = Script(version)
        op = script.begin()
        script.enqueued(op)
        script += [f"proxy x c {op} 0 2 0 1 1"] * 4000
        run = drive(version, end(script), record=("--ring-records=1048576",))[1]
        assert len(run.rows("nccl_proxy")) == 4000 and run.losses() == {UNENDED: 4000}, run.losses()
        check(run.ops()[0], flags=UNFINISHED)
        script = Script(version)
        script += ["group g c null"] + [f"coll o c null g AllReduce 4 ncclInt8 0 1 RING LL {HASH}"] * 10000
        run = drive(version, end(script), record=("--ring-records=1048576",))[1]
        assert [op["serial"] for op in run.ops()] == list(range(1, 10001))
        assert {op["flags"] for op in run.ops()} == {UNTIMED | UNFINISHED}


def more_proxies_at_once_than_have_room_are_counted():
    script = Script(6)
    op = script.begin()
    script.enqueued(op)
    script += [f"proxy x c {op} 0 2 0 1 1"] * 9000
    run = drive(6, end(script), record=("--ring-records=1048576",))[1]
    assert len(run.rows("nccl_proxy")) == 8192, len(run.rows("nccl_proxy"))
    assert run.losses() == {UNENDED: 8192, TABLE_FULL: 9000 - 8192}, run.losses()


def parents_that_are_null_or_gone_give_handles_all_the_same():
    for version in VERSIONS:
        script = Script(version)
        script += ["proxy a c null 0 1 0 1 1", "step b c null 0", "step d c a 0", "stop d", "stop b", "stop a",
                   f"coll e null null null AllReduce 4 ncclInt8 0 1 RING LL {HASH}", "stop e", "ctrl f c", "stop f",
                   f"coll g junk null null AllReduce 4 ncclInt8 0 1 RING LL {HASH}", "stop g"]
        run = drive(version, end(script))[1]
        assert not run.ops() and not run.losses() and len(run.rows("nccl_proxy")) == 1


# ---- what is asked for ---------------------------------------------------------------------------------------------------

def mask_of(version, **extra):
    stdout, _ = drive(version, ["init c 1 2 0", "mask", "final c"], **extra)
    return int(stdout.split()[1])


def the_mask_is_what_the_version_knows_of_what_was_asked_for():
    default = 8191 & ~(32 | 64)
    known = {1: 0x3f, 2: 0x3f, 3: 0xff, 4: 0xff, 5: 0xfff, 6: 0x7fff}
    for version in VERSIONS:
        assert mask_of(version) == default & known[version], (version, mask_of(version))
        assert mask_of(version, LAPWING_NCCL_MASK="0x7fff") == known[version]
        assert mask_of(version, LAPWING_NCCL_MASK="2") == 2
        assert mask_of(version, LAPWING_NCCL_MASK="many") == default & known[version]
        assert mask_of(version, LAPWING_NCCL_MASK="0") == 0
        assert mask_of(version, record=("--hooks=-nccl",), library=traced.LIBRARY) == 0


def by_path_it_is_the_same_library():
    script = Script(5)
    script.enqueued(script.begin())
    run = drive(5, end(script), library=traced.LIBRARY)[1]
    assert len(run.ops()) == 1
    # and where nothing is recorded it asks for nothing
    env = {key: value for key, value in os.environ.items() if not key.startswith("LAPWING_")}
    done = subprocess.run([traced.program("plugin_host"), "5", traced.LIBRARY], input="init c 1 2 0\nmask\nfinal c\n",
                          env=env, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "mask 0\n"), done


REAL = """
import ctypes
nccl = ctypes.CDLL("libnccl.so.2")
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
version, name, comm = ctypes.c_int(), Id(), ctypes.c_void_p()
nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, Id, ctypes.c_int]
print(nccl.ncclGetVersion(ctypes.byref(version)), version.value, nccl.ncclGetUniqueId(ctypes.byref(name)))
print(nccl.ncclCommInitRank(ctypes.byref(comm), 1, name, 0), bool(comm.value))
"""


def the_real_library_does_what_it_would_without_us():
    """Without a GPU it fails before it asks for a plugin; with one this is a communicator of one rank."""
    try:
        ctypes.CDLL("libnccl.so.2")
    except OSError:
        print("(no real libnccl.so.2 here)")
        return
    plain = subprocess.run([sys.executable, "-c", REAL], text=True, capture_output=True, timeout=60)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([LAPWING, "record", "-q", "--no-analyze", "-o", f"{folder}/run.lapwing", "--", sys.executable, "-c",
                               REAL], text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), (plain, done)


def main():
    tests = [value for name, value in globals().items() if callable(value) and getattr(value, "__module__", "") == "__main__"
             and name.count("_") >= 3]
    for test in tests:
        test()
        print(test.__name__)


if __name__ == "__main__":
    main()
