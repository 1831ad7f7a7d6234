#!/usr/bin/env python3
"""NVTX: extended payloads of NCCL, Horovod and users; another tool beside lapwing; the real libnccl where there is one."""
import ctypes.util
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import rings  # noqa: E402
import traced  # noqa: E402

NVTX_RANGE, NVTX_POINT = 4, 5
ALLREDUCE, BROADCAST, REDUCE, SEND, RECV = 1, 3, 6, 9, 10
UNTIMED, NO_BYTES, FROM_NVTX, TRANSPORT_NCCL = 1, 32, 3, 3
ACTIVE, REFUSED = 1, 3
COMM = 0xfeedfacecafe0001
TOOL = str(traced.BUILD / "tests" / "nvtx_tool.so")
INJECTED = {"NVTX_INJECTION64_PATH": traced.LIBRARY}
LIBNCCL = ctypes.util.find_library("nccl")

REAL_NCCL = """
import ctypes
nccl = ctypes.CDLL("libnccl.so.2")
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
version, id, comm = ctypes.c_int(), Id(), ctypes.c_void_p()
print("version", nccl.ncclGetVersion(ctypes.byref(version)), version.value)
print("id", nccl.ncclGetUniqueId(ctypes.byref(id)))
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
print("init", nccl.ncclCommInitRank(ctypes.byref(comm), 1, id, 0), comm.value)
"""


def run(version, **extra):
    job = traced.run([traced.program("nvtx_payloads"), version], **{**INJECTED, **extra})
    assert job.code == 0 and job.stdout == "done\n", (job.code, job.stdout, job.stderr)
    return job


def operations(process):
    return [(op["op"], op["bytes"], op["peer"], op["flags"] & ~UNTIMED, op["comm"], op["source"])
            for op in rings.of_kind(process, "NCCL_OP")]


def marks(process, domain):
    return [(mark["name"], mark["value"]) for mark in rings.of_kind(process, "MARK")
            if (mark["name"] or "").startswith(domain + "/")]


def losses(process):
    found = {}
    for loss in rings.of_kind(process, "LOSS"):
        found[loss["where"]] = found.get(loss["where"], 0) + loss["count"]
    return found


def collectives_of_nccl_are_read_by_the_names_of_their_fields():
    process = run("new").only()
    assert operations(process) == 3 * [(ALLREDUCE, 1 << 20, -1, 0, COMM, FROM_NVTX)] + [
        (SEND, 512, 2, 0, COMM, FROM_NVTX), (RECV, 512, 2, 0, COMM, FROM_NVTX)], operations(process)
    ops = rings.of_kind(process, "NCCL_OP")
    assert all(op["flags"] & UNTIMED and op["t0"] <= op["t1"] for op in ops), "a range ends before the GPU does"
    assert [op["group"] != 0 for op in ops] == [False] * 3 + [True] * 2 and ops[3]["group"] == ops[4]["group"]
    assert [op["serial"] for op in ops] == [1, 2, 3, 4, 5]
    comms = {(comm["comm"], comm["size"], comm["rank"], comm["transport"]) for comm in rings.of_kind(process, "COMM")}
    assert comms == {(COMM, 4, 3, TRANSPORT_NCCL)}, comms
    assert marks(process, "NCCL") == [
        ("NCCL/ncclCommInitRank", 0)] + 3 * [("NCCL/ncclAllReduce(Avg)", 1 << 20)] + [
        ("NCCL/ncclGroupStart", 0), ("NCCL/ncclSend", 512), ("NCCL/ncclRecv", 512), ("NCCL/ncclGroupEnd", 0),
        ("NCCL/ncclCommDestroy", 4)], marks(process, "NCCL")
    assert not losses(process), losses(process)


def older_nccl_gives_what_it_has():
    old = run("old").only()
    assert operations(old) == [(REDUCE, 2048, 1, 0, 0, FROM_NVTX), (SEND, 64, 1, 0, 0, FROM_NVTX)], operations(old)
    assert marks(old, "NCCL") == [("NCCL/ncclReduce(Max)", 2048), ("NCCL/ncclSend", 64)]
    oldest = run("oldest").only()
    assert operations(oldest) == [(BROADCAST, 0, -1, NO_BYTES, 0, FROM_NVTX), (SEND, 0, -1, NO_BYTES, 0, FROM_NVTX)]
    inner, = [mark for mark in rings.of_kind(oldest, "MARK") if mark["name"] == "NCCL/ncclGroupEnd"]
    assert rings.of_kind(oldest, "NCCL_OP")[1]["t1"] >= inner["t1"], "a send lasts until its own group is launched"


def horovods_tensors_are_ranges_across_threads():
    process = run("new").only()
    assert sorted(marks(process, "HorovodOps")) == [
        ("HorovodOps/HorovodAllreduce", 4 * (i + 1)) for i in range(600)]
    assert len({mark["tid"] for mark in rings.of_kind(process, "MARK")}) == 2


def users_payloads_are_read_too():
    process = run("new").only()
    assert marks(process, "mine") == [("mine/batch", 3000000000), ("mine/number", -7), ("mine/", 3000000000),
                                      ("mine/", -7), ("mine/", -7)], marks(process, "mine")


def names_of_torch_have_no_numbers_in_them():
    process = traced.run([traced.program("nvtx_client")], **INJECTED).only()
    found = [(mark["name"], mark["value"]) for mark in rings.of_kind(process, "MARK")]
    assert ("aten::add", 1234) in found and ("wide range", 0) in found, found
    assert ("autograd::engine::evaluate_function: AddBackward0", 0) in found, found


def bad_payloads_are_counted_and_do_no_harm():
    process = run("bad").only()
    assert len(rings.of_kind(process, "NCCL_OP")) == 5 + 7
    assert all(op["flags"] & NO_BYTES for op in rings.of_kind(process, "NCCL_OP")[5:])
    found = losses(process)
    assert found.pop("nvtx schema") == 2 and found.pop("nvtx enumeration") == 1, found
    assert found.pop("nvtx schema entries") == 200 - 64 and found.pop("nvtx schemas") > 500, found
    assert found.pop("nvtx names") > 3000 and not found, found


def a_process_without_nccl_or_marks_is_not_traced_for_its_ranges():
    job = traced.run([traced.program("nvtx_payloads"), "new"], hooks="-nvtx", **INJECTED)
    assert job.code == 1 and not job.processes, "nothing took NVTX's calls"


def with_tool(program, how=None, hooks=None, **extra):
    """Run @program with lapwing before the other tool. Return: the Traced and the other tool's lines."""
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, "log")
        extra = {"NVTX_TOOL_LOG": log, **({"NVTX_TOOL": how} if how else {}), **extra}
        job = traced.run(program, hooks, **extra)
        return job, pathlib.Path(log).read_text().splitlines() if os.path.exists(log) else []


CHAINED = {**INJECTED, "LAPWING_NVTX_NEXT": TOOL}
ALONE = {"NVTX_INJECTION64_PATH": TOOL}


def another_tool_has_every_call_as_without_lapwing():
    for how in None, "narrow", "refuse":
        for program in [traced.program("nvtx_client")], [traced.program("nvtx_payloads"), "new"]:
            alone, expected = with_tool(program, how, **ALONE)
            both, lines = with_tool(program, how, **CHAINED)
            if how == "refuse":  # without lapwing nothing would be attached
                assert both.code == 0 and set(lines) == {"attached"}, (both.code, lines[:3])
                continue
            assert lines == expected and len(lines) > 5, (how, lines, expected)
            if not how:  # what it does not take is answered by lapwing
                assert (both.code, both.stdout) == (alone.code, alone.stdout), (both.stdout, alone.stdout)
    process = both.only()
    hooks = [(hook["op"], hook["detail"]) for hook in rings.of_kind(process, "HOOK") if hook["name"] == "nvtx"]
    assert hooks == [(ACTIVE, "every call goes on to " + TOOL)], hooks


def lapwing_sees_the_same_beside_another_tool():
    client, _ = with_tool([traced.program("nvtx_client")], **CHAINED)
    alone = traced.run([traced.program("nvtx_client")], **INJECTED)

    def found(job):
        return sorted((mark["name"], mark["value"]) for mark in rings.of_kind(job.only(), "MARK")
                      if "wide" not in mark["name"])
    assert found(client) == found(alone) and len(found(alone)) > 7, (found(client), found(alone))
    payloads, _ = with_tool([traced.program("nvtx_payloads"), "new"], **CHAINED)
    assert operations(payloads.only()) == operations(run("new").only())
    for domain in "HorovodOps", "mine":
        assert marks(payloads.only(), domain) == marks(run("new").only(), domain), marks(payloads.only(), domain)


def a_tool_may_give_each_copy_of_nvtx_its_own_functions():
    """A call does not say of which copy it is: the later copy's go to the tool alone, and that is counted."""
    program = [traced.program("nvtx_client")]
    _, expected = with_tool(program, "per_copy", **ALONE)
    job, lines = with_tool(program, "per_copy", **CHAINED)
    assert lines == expected and "elsewhere mark from another copy" in lines, lines
    names = [mark["name"] for mark in rings.of_kind(job.only(), "MARK")]
    assert "from another copy" not in names and {"point", "range of another copy"} <= set(names), names
    assert losses(job.only()) == {"nvtx functions of several copies": 1}, losses(job.only())


def a_tool_that_was_linked_in_has_every_call_too():
    source = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as directory:
        entry, program = os.path.join(directory, "entry.c"), os.path.join(directory, "linked")
        pathlib.Path(entry).write_text("int InitializeInjectionNvtx2(const void *(*)(unsigned));\n"
                                       "void *InitializeInjectionNvtx2_fnptr = (void *)InitializeInjectionNvtx2;\n")
        subprocess.run(["cc", "-rdynamic", "-D_GNU_SOURCE", "-I", str(traced.SOURCE), entry, str(source / "programs" / "nvtx_client.c"),
                        str(source.parent / "lib" / "nvtx_tool.c"), "-o", program, "-ldl"], check=True)
        _, expected = with_tool([traced.program("nvtx_client")], **ALONE)
        job, lines = with_tool([program], **INJECTED)
    assert job.code == 0 and lines == expected, (job.stdout, lines, expected)
    assert ("batch", -5) in [(mark["name"], mark["value"]) for mark in rings.of_kind(job.only(), "MARK")]


def another_tool_works_where_lapwings_hook_is_off():
    for extra in {"hooks": "-nvtx"}, {"LAPWING_DISABLE": "1"}:
        job, lines = with_tool([traced.program("nvtx_client")], **CHAINED, **extra)
        assert job.code == 0 and len(lines) > 5, (extra, lines)


def a_tool_that_gives_no_handles_hides_domains_and_that_is_said():
    """CUPTI itself, named as a tool, is one: NCCL then holds NULL for its domain, and lapwing cannot know its ranges."""
    payloads = [traced.program("nvtx_payloads"), "new"]
    for how, program in ("null", payloads), ("nothing", payloads), ("narrow", [traced.program("nvtx_client")]):
        job, _ = with_tool(program, how, **CHAINED)
        hooks = [hook["detail"] for hook in rings.of_kind(job.only(), "HOOK") if hook["name"] == "nvtx"]
        assert hooks and f"goes on to {TOOL}, which gives domains no handles" in hooks[-1], (how, hooks)


def a_tool_that_does_not_load_is_said():
    job = run("new", LAPWING_NVTX_NEXT="/nowhere/libtool.so")
    hooks = [(hook["op"], hook["detail"]) for hook in rings.of_kind(job.only(), "HOOK") if hook["name"] == "nvtx"]
    assert hooks == [(ACTIVE, "another tool does not load: /nowhere/libtool.so")], hooks


def who_comes_after_lapwing_has_nvtx_and_that_is_said():
    job, _ = with_tool([traced.program("mark_cases")], **ALONE)
    hooks = [(hook["op"], hook["detail"]) for hook in rings.of_kind(job.only(), "HOOK") if hook["name"] == "nvtx"]
    assert hooks == [(REFUSED, TOOL)], hooks


def record_passes_the_other_tool_on():
    with tempfile.TemporaryDirectory() as directory:
        script = "import os; print(os.environ.get('NVTX_INJECTION64_PATH'), os.environ.get('LAPWING_NVTX_NEXT'))"
        for given, expected in {TOOL: (traced.LIBRARY, TOOL), None: (traced.LIBRARY, "None"),
                                traced.LIBRARY: (traced.LIBRARY, "None")}.items():
            env = {key: value for key, value in os.environ.items() if key != "NVTX_INJECTION64_PATH"}
            if given:
                env["NVTX_INJECTION64_PATH"] = given
            done = subprocess.run([str(traced.BUILD / "bin" / "lapwing"), "record", "-q", "-o", "run", "--",
                                   sys.executable, "-c", script], env=env, cwd=directory, capture_output=True, text=True)
            assert done.returncode == 0 and done.stdout.split() == list(expected), (given, done.stdout, done.stderr)


def the_real_libnccl_tells_of_its_communicator():
    # the loader's cache may name a library that has gone since
    loads = LIBNCCL and subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{LIBNCCL}')"], capture_output=True).returncode == 0
    if not loads:
        print("libnccl: none on this machine; the double above stands for it")
        return
    plain = subprocess.run([sys.executable, "-c", REAL_NCCL], capture_output=True, text=True)
    job = traced.run([sys.executable, "-c", REAL_NCCL], **INJECTED)
    assert (job.code, job.stdout, job.stderr) == (plain.returncode, plain.stdout, plain.stderr), job.stdout
    assert "init" in plain.stdout
    found = [mark["name"] for mark in rings.of_kind(job.only(), "MARK")]
    assert "NCCL/ncclCommInitRank" in found, found
    assert not rings.of_kind(job.only(), "NCCL_OP") and not losses(job.only())
    both, lines = with_tool([sys.executable, "-c", REAL_NCCL], **CHAINED)
    assert (both.code, both.stdout) == (plain.returncode, plain.stdout), both.stdout
    assert "NCCL push ncclCommInitRank" in lines and [mark["name"] for mark in rings.of_kind(both.only(), "MARK")] == found, lines
    cupti = "/usr/local/cuda/lib64/libcupti.so"
    if os.path.exists(cupti):  # as its own manual says; it takes no call before somebody subscribes
        job = traced.run([sys.executable, "-c", REAL_NCCL], **{**CHAINED, "LAPWING_NVTX_NEXT": cupti})
        assert (job.code, job.stdout) == (plain.returncode, plain.stdout), job.stdout
        (hook,) = [hook for hook in rings.of_kind(job.only(), "HOOK") if hook["name"] == "nvtx"]
        assert cupti + ", which gives domains no handles" in hook["detail"], hook
    print(f"{LIBNCCL}: {' / '.join(plain.stdout.split(chr(10))[:3])}, {found}")


if __name__ == "__main__":
    collectives_of_nccl_are_read_by_the_names_of_their_fields()
    older_nccl_gives_what_it_has()
    horovods_tensors_are_ranges_across_threads()
    users_payloads_are_read_too()
    names_of_torch_have_no_numbers_in_them()
    bad_payloads_are_counted_and_do_no_harm()
    a_process_without_nccl_or_marks_is_not_traced_for_its_ranges()
    another_tool_has_every_call_as_without_lapwing()
    a_tool_may_give_each_copy_of_nvtx_its_own_functions()
    a_tool_that_was_linked_in_has_every_call_too()
    lapwing_sees_the_same_beside_another_tool()
    another_tool_works_where_lapwings_hook_is_off()
    a_tool_that_gives_no_handles_hides_domains_and_that_is_said()
    a_tool_that_does_not_load_is_said()
    who_comes_after_lapwing_has_nvtx_and_that_is_said()
    record_passes_the_other_tool_on()
    the_real_libnccl_tells_of_its_communicator()
