#!/usr/bin/env python3
"""The MPI hook on real jobs of Open MPI and MPICH: what each program says it did is what was recorded, no more, no less."""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rings  # noqa: E402

LIBRARY = os.path.join(os.environ["LAPWING_BUILD_DIR"], "lib", "liblapwing.so")
PROGRAMS = os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "e2e", "programs")
NAMES = {1: "allreduce", 2: "allgather", 3: "broadcast", 4: "alltoall", 5: "reducescatter", 6: "reduce", 7: "gather",
         8: "scatter", 9: "scan", 10: "barrier", 12: "neighbor_allgather", 13: "neighbor_alltoall"}
NONBLOCKING, PERSISTENT, CONTROL, UNFINISHED, FAILED, FORTRAN = 1, 2, 8, 16, 32, 128
FREE = 6
folder = None


class Job:
    def __init__(self, code, stdout, stderr, directory):
        self.code, self.stdout, self.stderr = code, stdout, stderr
        self.processes = rings.read_processes(directory)
        self.ranks = {process["rank"]: process for process in self.processes.values()}
        for rank, process in self.ranks.items():
            assert process["lost"] == 0, f"rank {rank}: {process['lost']} records lost"

    def said(self, rank, *what):
        """What @rank printed, without its number, when it starts with one of @what."""
        lines = [line.split(" ", 1)[1].strip() for line in self.stdout.splitlines() if line.startswith(f"{rank} ")]
        return [line for line in lines if line.split()[0] in what]

    def seen(self, rank):
        """The same lines, made from the records of @rank."""
        lines = []
        for event in by_recording(self.ranks[rank]):
            if event["kind"] == "COLLECTIVE":
                lines.append("coll %s %d %d %d %d" % (NAMES[event["op"]], event["sent_bytes"], event["received_bytes"],
                                                      event["flags"] & ~FORTRAN, event["root"]))
            elif event["kind"] == "MESSAGE":
                lines.append("%s %d %d %d %d" % ({1: "send", 2: "recv"}[event["op"]], event["bytes"], event["peer"],
                                                 event["tag"], event["flags"] & ~FORTRAN))
        return lines


def by_recording(process):
    return sorted(process["events"], key=lambda event: (event["tid"], event["seq"]))


def build(name, mpi, *flags, output=None):
    compiler = {"c": "mpicc", "cc": "mpicxx", "f90": "mpifort"}[name.rsplit(".", 1)[1]]
    program = os.path.join(folder, output or f"{name}.{mpi}")
    subprocess.run([f"{compiler}.{mpi}", "-O1", "-w", os.path.join(PROGRAMS, name), "-o", program, "-J" if "f90" in name else "-I",
                    folder, *flags, "-lpthread"], check=True)
    return program


def launch(mpi, n, command, is_traced=True, **environment):
    directory = tempfile.mkdtemp(prefix="lapwing-test-", dir="/dev/shm")
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", LAPWING_DIR=directory,
               LAPWING_HOOKS="mpi", **environment)
    launcher = [f"mpirun.{mpi}", "-np", str(n)] + (["--oversubscribe"] if mpi == "openmpi" else [])
    preload = ["env", f"LD_PRELOAD={LIBRARY}"] if is_traced else []
    try:
        done = subprocess.run(launcher + preload + command, env=env, capture_output=True, text=True, timeout=100)
        return Job(done.returncode, done.stdout, done.stderr, directory)
    finally:
        shutil.rmtree(directory)


def difference(said, seen):
    for i, (one, other) in enumerate(zip(said, seen)):
        if one != other:
            return f"line {i}: the program did '{one}', recorded '{other}'"
    return f"the program did {len(said)}, recorded {len(seen)}: {said[len(seen):][:3]} {seen[len(said):][:3]}"


def every_call_is_counted_with_its_bytes(mpi):
    program = build("mpi_calls.c", mpi)
    for n in (2, 4):
        job = launch(mpi, n, [program])
        assert job.code == 0, job.stderr
        n_calls = 0
        for rank in range(n):
            said = job.said(rank, "coll", "send", "recv")
            many = int(job.said(rank, "many")[0].split()[1])
            seen = job.seen(rank)
            # the mass of requests of one byte pattern at the end: 4-byte messages, both ways
            mass = [line for line in seen if re.match(r"(send|recv) 4 \d+ \d+ 1$", line)]
            assert collections.Counter(line.split()[0] for line in mass) == {"send": many, "recv": many}, len(mass)
            assert len({line for line in mass}) == 2 * many, "each tag once a way"
            seen = [line for line in seen if line not in set(mass)]
            assert said == seen, f"{mpi}, {n} ranks, rank {rank}: {difference(said, seen)}"
            assert not rings.of_kind(job.ranks[rank], "LOSS")
            n_calls += len(said) + len(mass)
            hooks = {event["name"]: event["op"] for event in rings.of_kind(job.ranks[rank], "HOOK")}
            assert hooks == {"mpi": 1}, hooks
            first = rings.of_kind(job.ranks[rank], "PROCESS")[-1]
            assert (first["rank"], first["size"], first["transport"]) == (rank, n, 1)
        print(f"{mpi}, {n} ranks: {n_calls} calls, each recorded once with its bytes")


def fortran_is_counted_once(mpi):
    for source in ("mpi_f90.f90", "mpi_f08.f90"):
        job = launch(mpi, 2, [build(source, mpi)])
        assert job.code == 0, job.stderr
        for rank in range(2):
            said, seen = job.said(rank, "coll", "send", "recv"), job.seen(rank)
            assert said == seen, f"{mpi}, {source}, rank {rank}: {difference(said, seen)}"
            if mpi == "openmpi":  # MPICH's ends in the C functions
                assert all(event["flags"] & FORTRAN for event in rings.of_kind(job.ranks[rank], "COLLECTIVE"))
        print(f"{mpi}, {source}: {len(said)} calls a rank, each once")


def communicators_have_one_key_each(mpi):
    job = launch(mpi, 4, [build("mpi_comms.c", mpi)])
    assert job.code == 0, job.stderr
    key_of, names_of = {}, collections.defaultdict(set)
    n_threaded, thread_keys = [], []
    for rank in range(4):
        events = by_recording(job.ranks[rank])
        barriers = [event for event in events if event["kind"] == "COLLECTIVE" and event["op"] == 10]
        main_tid = barriers[0]["tid"]
        names = [line.split()[1] for line in job.said(rank, "comm")]
        own = [event["comm"] for event in barriers if event["tid"] == main_tid]
        assert len(own) == len(names), (len(own), names)
        for name, key in zip(names, own):
            assert key != 0, name
            assert key_of.setdefault(name, key) == key, f"{mpi}: {name} has another key on rank {rank}"
            names_of[key].add(name)
        made = collections.Counter(event["comm"] for event in events if event["kind"] == "COMM" and event["op"] != FREE)
        assert set(made.values()) == {1}, "one COMM record each"
        assert set(own) <= set(made), "every key has its COMM record"
        freed = [event["comm"] for event in events if event["kind"] == "COMM" and event["op"] == FREE]
        assert len(freed) == len(set(freed)) and set(freed) <= set(made)
        threads = collections.defaultdict(list)
        for event in barriers:
            if event["tid"] != main_tid:
                threads[event["tid"]].append(event["comm"])
        n_threaded.append(len(threads))
        thread_keys.append(sorted(threads.values()))
        sizes = {event["comm"]: event["size"] for event in events if event["kind"] == "COMM" and event["op"] != FREE}
        assert sizes[key_of["world.0"]] == 4 and sizes[key_of[f"self.{rank}"]] == 1 and sizes[key_of[f"split.{rank % 2}"]] == 2
        assert sizes[key_of["intercomm.0"]] == 4
    assert all(len(names) == 1 for names in names_of.values()), "two communicators share a key"
    if "threads 1" in job.said(0, "threads"):
        assert n_threaded == [2] * 4 and all(len(keys) == 13 for keys in thread_keys[0])
        assert all(keys == thread_keys[0] for keys in thread_keys), "made by two threads at once: keys differ"
    print(f"{mpi}: {len(key_of)} communicators made in every way, {sum(map(len, thread_keys[0])) if thread_keys[0] else 0} by two "
          "threads at once: each has one key on all its ranks, and its own")


def times_errors_and_threads(mpi):
    program = build("mpi_times.c", mpi)
    job, untraced = launch(mpi, 2, [program]), launch(mpi, 2, [program], is_traced=False)
    assert job.code == untraced.code == 7, (job.code, untraced.code, job.stderr)
    assert not untraced.processes

    def shape(text):  # all but the times
        return sorted(re.sub(r"nonblocking \d+ \d+", "nonblocking", line) for line in text.splitlines())
    assert shape(job.stdout) == shape(untraced.stdout), "the job's output changed"
    for rank in range(2):
        events = by_recording(job.ranks[rank])
        colls = [event for event in events if event["kind"] == "COLLECTIVE"]
        start_ns, end_ns = map(int, job.said(rank, "nonblocking")[0].split()[1:])
        first = min(colls, key=lambda event: event["t0"])
        assert first["flags"] == NONBLOCKING and start_ns <= first["t0"] and first["t1"] <= end_ns
        assert first["t1"] - first["t0"] >= 30_000_000, "the time between start and wait is inside"
        assert first["t0"] - start_ns < 5_000_000, "the start is the start call's"
        errno = job.said(rank, "errno") == untraced.said(rank, "errno")
        assert errno, (job.said(rank, "errno"), untraced.said(rank, "errno"))
        if job.said(rank, "threads") == ["threads 1"]:
            by_comm = collections.Counter((event["comm"], event["tid"]) for event in colls if event["op"] == 1)
            assert sorted(n for (comm, tid), n in by_comm.items() if n >= 100) == [100] * 4, by_comm
        failed = [event for event in events if event["kind"] in ("COLLECTIVE", "MESSAGE") and event["flags"] & FAILED]
        assert job.said(rank, "failed") == ["failed 1"] * 3
        assert [(event["kind"], event["op"]) for event in failed] == [("COLLECTIVE", 3), ("MESSAGE", 1), ("COLLECTIVE", 1)]
        assert failed[0]["comm"] and not failed[2]["comm"]
        freed = [event for event in events if event["kind"] == "MESSAGE" and event["flags"] & UNFINISHED]
        assert [(event["op"], event["bytes"], event["tag"]) for event in freed] == [(2, 4, 77)], freed
    print(f"{mpi}: 30 ms between start and wait are in the record; errors, errno, output and exit code as untraced")


def exceptions_pass(mpi):
    program = build("mpi_throws.cc", mpi)
    job, untraced = launch(mpi, 2, [program]), launch(mpi, 2, [program], is_traced=False)
    assert job.code == untraced.code == 0, (job.code, untraced.code, job.stderr)
    assert sorted(job.stdout.splitlines()) == sorted(untraced.stdout.splitlines()) == ["0 caught 4", "1 caught 4"]
    for rank in range(2):
        events = by_recording(job.ranks[rank])
        failed = [(event["kind"], event["op"]) for event in events
                  if event["kind"] in ("COLLECTIVE", "MESSAGE") and event["flags"] & FAILED]
        assert failed == [("COLLECTIVE", 3)] * 3 + [("MESSAGE", 1)], failed
        barriers = [event for event in events if event["kind"] == "COLLECTIVE" and event["op"] == 10]
        assert [event["flags"] for event in barriers] == [0, 0]
    print(f"{mpi}: 4 exceptions through MPI and the wrappers, caught, recorded as failed")


def plugin_loaded_for_itself_is_seen(mpi):
    plugin = build("mpi_plugin.c", mpi, "-shared", "-fPIC", output=f"plugin.{mpi}.so")
    loader = os.path.join(folder, "loader")
    subprocess.run(["cc", "-DMAIN", os.path.join(PROGRAMS, "mpi_plugin.c"), "-o", loader, "-ldl"], check=True)
    job = launch(mpi, 2, [loader, plugin])
    assert job.code == 0 and job.stdout.splitlines() == ["sum 2"] * 2, (job.stdout, job.stderr)
    for rank in range(2):
        assert job.seen(rank) == ["coll allreduce 4 4 0 -1"] * 5, job.seen(rank)
    print(f"{mpi}: a plugin that brought its own MPI (RTLD_LOCAL): 5 of 5 calls on both ranks")


def full_table_is_counted(mpi):
    job = launch(mpi, 2, [build("mpi_flood.c", mpi)])
    assert job.code == 0, job.stderr
    for rank in range(2):
        n = int(job.said(rank, "flood")[0].split()[1])
        received = [event for event in rings.of_kind(job.ranks[rank], "MESSAGE") if event["op"] == 2]
        assert sorted(event["tag"] for event in received) == list(range(n + 10)), "each message once"
        unfinished = [event["tag"] for event in received if event["flags"] & UNFINISHED]
        losses = [event for event in rings.of_kind(job.ranks[rank], "LOSS")]
        assert {(event["op"], event["where"]) for event in losses} == {(5, "mpi.request")}
        assert sum(event["count"] for event in losses) == len(unfinished) and 0 < len(unfinished) < n / 4
        assert max(unfinished) < n, "the table did not come free"
    print(f"{mpi}: {n} requests at a time: {len(unfinished)} ends not seen, each counted, none mistaken")


MPI4PY = """
from mpi4py import MPI
import array
comm = MPI.COMM_WORLD
a, b = array.array('d', [1] * 500), array.array('d', [0] * 500)
for i in range(3):
    comm.Allreduce(a, b)
half = comm.Split(comm.rank, 0)
half.Barrier()
"""


def mpi4py_is_seen():
    job = launch("openmpi", 2, ["/usr/bin/python3", "-c", MPI4PY])
    assert job.code == 0, job.stderr
    for rank in range(2):
        assert job.seen(rank) == ["coll allreduce 4000 4000 0 -1"] * 3 + ["coll barrier 0 0 0 -1"], job.seen(rank)
    print("mpi4py: 4 of 4 calls on both ranks")


def not_traced_is_not_touched(mpi):
    program = os.path.join(folder, f"mpi_calls.c.{mpi}")
    for extra in ({"LAPWING_DISABLE": "1"}, {"LAPWING_HOOKS": "-mpi"}):
        directory = tempfile.mkdtemp(prefix="lapwing-test-", dir="/dev/shm")
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", LAPWING_DIR=directory, **extra)
        launcher = [f"mpirun.{mpi}", "-np", "2"] + (["--oversubscribe"] if mpi == "openmpi" else [])
        done = subprocess.run(launcher + ["env", f"LD_PRELOAD={LIBRARY}", program], env=env, capture_output=True, text=True,
                              timeout=100)
        processes = rings.read_processes(directory)
        shutil.rmtree(directory)
        assert done.returncode == 0, done.stderr
        kinds = {event["kind"] for process in processes.values() for event in process["events"]}
        assert not kinds & {"COLLECTIVE", "MESSAGE", "COMM"}, kinds
    print(f"{mpi}: disabled, or without this hook: nothing recorded")


def main():
    global folder
    folder = tempfile.mkdtemp(prefix="lapwing-mpi-")
    try:
        for mpi in ("openmpi", "mpich"):
            every_call_is_counted_with_its_bytes(mpi)
            fortran_is_counted_once(mpi)
            communicators_have_one_key_each(mpi)
            times_errors_and_threads(mpi)
            exceptions_pass(mpi)
            full_table_is_counted(mpi)
            plugin_loaded_for_itself_is_seen(mpi)
            not_traced_is_not_touched(mpi)
        mpi4py_is_seen()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
