#!/usr/bin/env python3
"""fork, vfork, exec, threads that end, signal handlers: every record is there once, in the right process, and nobody
is said to have died."""
import contextlib
import os
import sqlite3
import subprocess
import tempfile

BUILD = os.environ["LAPWING_BUILD_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
PROGRAM = os.path.join(BUILD, "tests", "life_cases")
REENTRY = 3  # enum lw_loss_reason


class Run:
    def __init__(self, folder, case):
        self.path = os.path.join(folder, f"{case}.lapwing")
        done = subprocess.run([LAPWING, "record", "-o", self.path, "--", PROGRAM, case], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (case, done.returncode, done.stdout, done.stderr)
        self.stdout = done.stdout
        assert all(ended == "exit" for ended, in self.rows("SELECT ended FROM process")), (case, done.stderr)
        assert self.rows("SELECT count(*) FROM loss WHERE reason != ?", REENTRY) == [(0,)], self.rows("SELECT * FROM loss")
        # seq counts every push of a ring, lost ones included: no gap, no repetition
        assert self.rows("SELECT thread_id FROM range GROUP BY thread_id HAVING count(*) != count(DISTINCT seq)") == []

    def rows(self, sql, *values):
        with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            return db.execute(sql, values).fetchall()

    def marks(self):
        """{(pid, name): count}"""
        return {(pid, name): n for pid, name, n in self.rows("""SELECT p.pid, s.text, count(*) FROM range r JOIN thread t ON
            t.id = r.thread_id JOIN process p ON p.id = t.process_id JOIN string s ON s.id = r.name_id GROUP BY 1, 2""")}


def by_name(marks):
    return {name: n for (_, name), n in marks.items()}


def main():
    with tempfile.TemporaryDirectory(prefix="lapwing-life-") as folder:
        marks = Run(folder, "exec").marks()
        assert by_name(marks) == {"old image": 40, "new image": 25} and len({pid for pid, _ in marks}) == 1, marks
        print("exec: both images of one process are there, and it did not die")

        assert by_name(Run(folder, "exec_fails").marks()) == {"before": 10, "after": 10}

        marks = Run(folder, "fork").marks()
        assert by_name(marks) == {"parent": 100, "child": 30}, marks
        assert len({pid for pid, _ in marks}) == 2, "the child wrote into its parent's ring"
        print("fork: parent and child each in a ring of its own; a child without a call of interest has none")

        marks = Run(folder, "vfork").marks()
        assert by_name(marks) == {"parent": 100, "new image": 25} and len({pid for pid, _ in marks}) == 2, marks
        print("vfork and exec: the parent goes on in its own ring")

        run = Run(folder, "threads")
        assert by_name(run.marks()) == {"main": 1, "thread": 3000}
        assert int(run.stdout) <= 2, f"{run.stdout} rings still mapped"
        print(f"threads: 300 ended, {run.stdout.strip()} ring mapped in the end, 3000 marks")

        assert by_name(Run(folder, "ringless").marks()) == {"worker": 20}
        run = Run(folder, "ringless")
        assert run.rows("SELECT count(*) FROM clock_sample") >= [(2,)], "the last word of a thread without a ring is missing"

        run = Run(folder, "signal")
        n_main, n_handled, n_errno_changed = map(int, run.stdout.split())
        marks = by_name(run.marks())
        lost = sum(n for n, in run.rows("SELECT n FROM loss WHERE reason = ?", REENTRY))
        assert n_errno_changed == 0, n_errno_changed
        assert marks["main"] == n_main, (marks, n_main)
        # what a handler could not record, since it had interrupted a record, is counted: nothing is torn or missing
        assert marks.get("handler", 0) + lost == n_handled, (marks, lost, n_handled)
        print(f"signal handler: {n_main} records interrupted {n_handled} times, {lost} of the handler's counted as lost")


if __name__ == "__main__":
    main()
