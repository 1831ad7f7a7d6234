#!/usr/bin/env python3
"""NCCL's API by preload: arguments and results unchanged, every operation once, communicators by NCCL's own names."""
import ctypes.util
import glob
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import rings  # noqa: E402
import test_nccl_job as jobs  # noqa: E402
import traced  # noqa: E402

ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, REDUCE, GATHER, SCATTER, SEND, RECV, OTHER = range(1, 12)
UNTIMED, UNFINISHED, IN_PLACE, FAILED, IN_GRAPH, NO_BYTES = (1 << i for i in range(6))
FROM_PRELOAD, FROM_PLUGIN = 1, 2
NO_PLUGIN = {"NCCL_PROFILER_PLUGIN": "none"}
API, STUB = [traced.program("nccl_api")], {"LD_LIBRARY_PATH": str(traced.BUILD / "tests" / "nccl_stub"), **NO_PLUGIN}
# what operations() of nccl_api.c asks for: kind, bytes, peer, flags (rank 1 of 4)
OPERATIONS = [(ALLREDUCE, 400, -1, 0), (ALLREDUCE, 200, -1, IN_PLACE), (BROADCAST, 80, 3, 0), (BROADCAST, 11, 1, IN_PLACE), (REDUCE, 24, 2, 0),
              (ALLGATHER, 40, -1, IN_PLACE), (ALLGATHER, 40, -1, 0), (REDUCESCATTER, 32, -1, IN_PLACE), (ALLTOALL, 5, -1, 0), (GATHER, 24, 0, 0),
              (SCATTER, 56, 1, 0), (SEND, 8, 2, 0), (RECV, 9, 3, 0), (OTHER, 52, 2, 0), (OTHER, 0, 3, 0), (OTHER, 0, -1, 0),
              *3 * [(ALLREDUCE, 0, -1, NO_BYTES)]]
DTYPES = [8, 7, 9, 2, 11, 5, 5, 6, 1, 12, 13, 14, 15, 8, 0, 0]  # enum lw_dtype


def ops(process):
    return sorted(rings.of_kind(process, "NCCL_OP"), key=lambda op: op["serial"])


def told(op):
    return op["op"], op["bytes"], op["peer"], op["flags"] & ~UNTIMED


def every_function_is_called_as_without_lapwing():
    for extra in {}, {"STUB_NCCL_RESULT": "7"}, {"STUB_NCCL_RESULT": "5"}, {"STUB_NCCL_LATE": "1"}:
        plain = subprocess.run(API, env={**os.environ, **STUB, **extra}, capture_output=True, text=True)
        job = traced.run(API, **STUB, **extra)
        assert plain.returncode == 0 and plain.stdout.endswith("done\n") and "WARNING" not in plain.stdout, plain
        assert (job.code, job.stdout, job.stderr) == (0, plain.stdout, plain.stderr), (extra, job.stdout)
        lost = rings.of_kind(job.only(), "LOSS")
        assert not lost, (extra, lost)


def operations_are_what_their_arguments_say():
    process = traced.run(API, **STUB).only()
    found = ops(process)
    assert [told(op) for op in found[:19]] == OPERATIONS, [told(op) for op in found[:19]]
    assert [op["dtype"] for op in found[:16]] == DTYPES, [op["dtype"] for op in found[:16]]
    assert all(op["source"] == FROM_PRELOAD and op["flags"] & UNTIMED and op["t0"] <= op["t1"] for op in found)
    first = {comm["comm"]: comm for comm in rings.of_kind(process, "COMM")}[found[0]["comm"]]
    assert (first["size"], first["rank"], first["transport"], first["parent"]) == (4, 1, 3, 0), first
    # of a communicator that nobody made: its part of a buffer cannot be known
    unknown = [(kind, n_bytes, peer, flags if kind in (ALLREDUCE, BROADCAST) else flags & ~IN_PLACE) for kind, n_bytes, peer, flags in OPERATIONS]
    assert [told(op) for op in found[19:38]] == unknown and {op["comm"] for op in found[19:38]} == {0}


def communicators_have_their_places_and_parents():
    for late in {}, {"STUB_NCCL_LATE": "1"}:
        process = traced.run(API, **STUB, **late).only()
        comms = rings.of_kind(process, "COMM")
        world, = [comm["comm"] for comm in comms if (comm["size"], comm["rank"]) == (4, 1)]
        assert {(3, 2), (5, 4)} <= {(comm["size"], comm["rank"]) for comm in comms}, comms
        child, = [comm for comm in comms if comm["parent"] == world and comm["serial"] == 2]
        assert (child["size"], child["rank"]) == (2, 1), child  # asked for: arguments do not tell
        after = {op["bytes"]: op["comm"] for op in ops(process)[38:]}
        assert after[4] == child["comm"], (after, child)
        pair, = [comm["comm"] for comm in comms if (comm["size"], comm["rank"]) == (2, 0)]
        assert after[12] == pair and pair != world, (late, after)  # made in a group
        assert after[16] not in (0, pair, world, child["comm"]), after  # the third split
        third, = [comm for comm in comms if comm["comm"] == after[16]]
        assert (third["parent"], third["serial"]) == (world, 3), third
        if late:  # its handle comes when the group ends, and it can be asked then
            assert (third["size"], third["rank"]) == (2, 1), third
        assert after[24] == 0, after  # destroyed


def groups_share_a_number():
    found = ops(traced.run(API, **STUB).only())
    by_bytes = {op["bytes"]: op for op in found[38:] if op["op"] in (SEND, RECV)}
    assert by_bytes[1]["group"] and by_bytes[1]["group"] == by_bytes[2]["group"], by_bytes
    assert by_bytes[1]["t1"] <= by_bytes[2]["t1"] and not by_bytes[1]["flags"] & FAILED
    assert by_bytes[5]["group"] not in (0, by_bytes[1]["group"]) and by_bytes[5]["flags"] & FAILED, by_bytes[5]  # simulated
    assert not [op for op in found[:38] if op["group"]]


def failed_calls_say_so_and_make_nothing():
    process = traced.run(API, STUB_NCCL_RESULT="5", **STUB).only()
    assert not rings.of_kind(process, "COMM")
    assert all(op["flags"] & FAILED for op in ops(process)) and len(ops(process)) > 30
    in_progress = traced.run(API, STUB_NCCL_RESULT="7", **STUB).only()
    assert not [op for op in ops(in_progress) if op["flags"] & FAILED and op["bytes"] != 5]
    assert rings.of_kind(in_progress, "COMM")


def nvtx_within_a_call_names_it_and_counts_nothing():
    """With NVTX too each call is one operation; a communicator that nothing else names has NVTX's name."""
    nvtx = {"STUB_NCCL_NVTX": "1", "NVTX_INJECTION64_PATH": traced.LIBRARY}
    plain, both = ops(traced.run(API, **STUB).only()), traced.run(API, **STUB, **nvtx).only()
    assert [told(op)[:3] for op in ops(both)] == [told(op)[:3] for op in plain]
    assert {op["source"] for op in ops(both)} == {FROM_PRELOAD} and [op["group"] for op in plain] == [op["group"] for op in ops(both)]
    # 0xdead, which nobody made: from its second call on
    names = [op["comm"] for op in ops(both)[19:38]]
    assert names[0] == 0 and set(names[1:]) == {0x5eed000}, names
    split, = [op["comm"] for op in ops(both)[38:] if op["bytes"] == 4]
    assert split == 0x5eed002, hex(split)  # initialised all: 1, split: 2
    keys = {(comm["size"], comm["rank"]): comm["comm"] for comm in rings.of_kind(both, "COMM")}
    assert len({keys[4, 1], keys[3, 2], keys[5, 4], 0x5eed000}) == 4, keys  # what was said of one is not said of the next
    marks = [mark["name"] for mark in rings.of_kind(both, "MARK")]
    assert marks.count("NCCL/ncclAllReduce") == sum(op["op"] == ALLREDUCE for op in plain) > 5, marks
    assert not traced.run(API, hooks="-nccl", **STUB, **nvtx).processes
    only = traced.run(API, **STUB, **nvtx, LD_PRELOAD="").only()  # then NVTX tells, of what the stub says
    assert {op["source"] for op in ops(only)} == {3} and len(ops(only)) == len([mark for mark in marks if "All" in mark or "Bro" in mark or "Send" in mark]) - 1


def kernels_are_of_the_operation_that_launched_them():
    """CUPTI (its double) ties a kernel to the call, and of a group to its first operation, in which NCCL launches."""
    cuda = str(traced.BUILD / "tests" / "cuda")
    extra = {**STUB, "LD_LIBRARY_PATH": f"{STUB['LD_LIBRARY_PATH']}:{cuda}", "FAKE_CUDA": f"{cuda}/libcudart.so.13"}
    plain = subprocess.run(API, env={**os.environ, **extra}, capture_output=True, text=True)
    job = traced.run(API, **extra)
    assert (job.code, job.stdout) == (0, plain.stdout), job.stderr
    process = job.only()
    launches = {launch["correlation"]: launch for launch in rings.of_kind(process, "LAUNCH")}
    made_for = {}
    for kernel in rings.of_kind(process, "KERNEL"):
        launch = launches[kernel["correlation"]]
        assert launch["made_for"] == 1, launch
        made_for.setdefault(kernel["name"], []).append(launch["for_serial"])
    found = ops(process)
    assert sorted(made_for["ncclDevKernel_AllReduce_Sum_f32_RING_LL"]) == [op["serial"] for op in found if op["op"] == ALLREDUCE]
    group = next(op["group"] for op in found if op["group"])
    assert made_for["ncclDevKernel_SendRecv"] == [min(op["serial"] for op in found if op["group"] == group)], made_for


def the_hook_can_be_off():
    job = traced.run(API, hooks="-nccl", **STUB)
    assert job.code == 0 and not job.processes, job.processes


def without_the_plugin_a_job_has_the_same_operations():
    for version in 1, 4, 6:
        alone, both = jobs.run("all", version, **NO_PLUGIN), jobs.run("all", version)
        for rank in range(jobs.RANKS):
            mine, theirs = alone.rows("nccl_op", rank, "serial"), both.rows("nccl_op", rank, "serial")
            same = "op", "bytes", "peer", "dtype"
            assert [[op[key] for key in same] for op in mine] == [[op[key] for key in same] for op in theirs], (version, rank, mine, theirs)
            assert {(op["source"], op["flags"]) for op in mine} == {(FROM_PRELOAD, UNTIMED)}, mine
            assert {(op["source"], op["flags"]) for op in theirs} == {(FROM_PLUGIN, 0)}, theirs
            assert [op["dtype"] for op in mine[:2]] == [8, 8] and len(mine) == 2 * len(jobs.ROUND)
            for job in alone, both:
                comm, = job.comms(rank)
                assert (comm["size"], comm["rank"]) == (jobs.RANKS, rank), comm
                assert {op["comm_key"] for op in job.rows("nccl_op", 0)} == {comm["key"]}
        assert not alone.losses() and not both.losses()


def halves_are_named_as_nccl_names_them():
    """By the arguments alone all ranks of a half agree; where the plugin tells its name too, there is no other."""
    for version in 2, 4, 6:
        for job in jobs.run("split", version, **NO_PLUGIN), jobs.run("split", version):
            ranks_of = {}
            for rank in range(jobs.RANKS):
                comms = {comm["key"]: comm for comm in job.comms(rank)}
                (half,) = {op["comm_key"] for op in job.rows("nccl_op", rank)}
                ranks_of.setdefault(half, []).append(rank)
                assert (comms[half]["size"], comms[half]["rank"]) == (2, {0: 1, 1: 1, 2: 0, 3: 0}[rank]), comms
                assert comms[half]["parent_key"] in comms, comms
            assert sorted(ranks_of.values()) == [[0, 2], [1, 3]], ranks_of


def a_library_that_python_loads_is_seen_too():
    """Not in the scope of RTLD_NEXT: a module that is linked to libnccl, loaded with RTLD_LOCAL."""
    source = "#include \"tests/lib/stub_nccl.h\"\nint reduce(void) { ncclComm_t c; ncclUniqueId id; ncclGetUniqueId(&id);\n" \
             "return ncclCommInitRank(&c, 2, id, 0) + ncclAllReduce(&c, &id, 3, 7, 0, c, 0); }\n"
    with tempfile.TemporaryDirectory() as directory:
        module, file = os.path.join(directory, "module.so"), os.path.join(directory, "module.c")
        with open(file, "w") as out:
            out.write(source)
        subprocess.run(["cc", "-shared", "-fPIC", "-I", str(traced.SOURCE), file, "-o", module,
                        os.path.join(STUB["LD_LIBRARY_PATH"], "libnccl.so.2")], check=True)
        job = traced.run(["/usr/bin/python3", "-c", f"import ctypes; print(ctypes.CDLL('{module}').reduce())"], **STUB)
    assert job.code == 0 and job.stdout.endswith("0\n"), (job.stdout, job.stderr)
    assert [told(op) for op in ops(job.only())] == [(ALLREDUCE, 12, -1, 0)] and ops(job.only())[0]["comm"], ops(job.only())


REAL = """
#include "tests/lib/stub_nccl.h"
#include <stdio.h>
int main(void)
{
	ncclUniqueId id;
	ncclComm_t comm = 0;
	int version = 0, result = ncclGetVersion(&version);
	printf("version %d %d\\n", result, version);
	printf("id %d\\n", ncclGetUniqueId(&id));
	result = ncclCommInitRank(&comm, 1, id, 0);
	printf("init %d %d\\n", result, comm != 0);
	result = ncclGroupStart();
	printf("group %d %d\\n", result, ncclGroupEnd());
	printf("allreduce %d\\n", ncclAllReduce(&id, &id, 1, 7, 0, 0, 0));
	return 0;
}
"""


def the_real_libnccl_is_unchanged():
    real = next(iter(glob.glob("/usr/local/cuda*/lib*/libnccl.so.2") + glob.glob("/usr/lib/*/libnccl.so.2")), None)
    if not real or not ctypes.util.find_library("nccl"):
        print("libnccl: none on this machine; the stub and the double above stand for it")
        return
    with tempfile.TemporaryDirectory() as directory:
        program, file = os.path.join(directory, "real"), os.path.join(directory, "real.c")
        with open(file, "w") as out:
            out.write(REAL)
        subprocess.run(["cc", "-I", str(traced.SOURCE), file, "-o", program, real], check=True)
        plain = subprocess.run([program], capture_output=True, text=True)
        for extra in {}, {"NVTX_INJECTION64_PATH": traced.LIBRARY, "NCCL_PROFILER_PLUGIN": "STATIC_PLUGIN"}:
            job = traced.run([program], **extra)
            assert (job.code, job.stdout, job.stderr) == (plain.returncode, plain.stdout, plain.stderr), (job.stdout, job.stderr)
            (op,) = ops(job.only())
            assert told(op) == (ALLREDUCE, 4, -1, FAILED | IN_PLACE) and op["comm"] == 0, op
            if "allreduce 0" not in plain.stdout and "init 1" in plain.stdout:  # no GPU here
                assert not rings.of_kind(job.only(), "COMM")
    assert "version 0 " in plain.stdout and "id 0" in plain.stdout, plain
    print(f"{real}: {', '.join(plain.stdout.split(chr(10)))}")


def main():
    every_function_is_called_as_without_lapwing()
    operations_are_what_their_arguments_say()
    communicators_have_their_places_and_parents()
    groups_share_a_number()
    failed_calls_say_so_and_make_nothing()
    nvtx_within_a_call_names_it_and_counts_nothing()
    kernels_are_of_the_operation_that_launched_them()
    the_hook_can_be_off()
    without_the_plugin_a_job_has_the_same_operations()
    halves_are_named_as_nccl_names_them()
    a_library_that_python_loads_is_seen_too()
    the_real_libnccl_is_unchanged()


if __name__ == "__main__":
    main()
