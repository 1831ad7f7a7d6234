"""The folder in which measure.py keeps what it measured and judge.py finds it; one line of JSON a job."""
import json
import os

README = """Measured by tests/rig/measure.py: real Horovod jobs over shaped links, computing dilated by 5 (see tests/rig/README.md).

jobs.jsonl  one line a finished job, in the order of measuring; judge.py reads the last line of each (cell, what, turn)
    cell, n, model, rate, transport     the cell: ranks, models.py NAME, egress of each host, Horovod's transport
    kind        measured (without lapwing) | recorded | probed (recorded with --probe) | autotune | single (one rank)
    fusion_bytes, cycle_ms              HOROVOD_FUSION_THRESHOLD, HOROVOD_CYCLE_TIME
    groups, passes, compress            of hvd.DistributedOptimizer: groups (null: none), backward_passes_per_step, fp16
    turn        1 and 2: the pair, with the rest of the grid in between; 3: repeated since these differ by more than 2 %; a recorded
                run with turn 2 was repeated since it is more than 2 % off that pair
    steps_s     every step of rank 0 as the job itself timed it; the first third is warm-up
    median_s    median of the other two thirds, by which measure.py decides what to repeat
    wall_s, at, load                    of the whole job, its end, load average before
    busy_frac, nice_frac                how busy the machine was meanwhile; with processes that only use what is left
    log         of kind autotune: Horovod's log of its tuner, relative to this folder
    file        of kind recorded and probed: the run file, relative to this folder
stages.jsonl  one line a stage of measure.py, each time that it measured something
    stage, n_jobs, at                   its name, how many jobs it ran, its end
    wall_s, waited_s                    what it took, with all between its jobs; how much of this it waited for the machine
runs/       the run files
"""


class Store:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        os.makedirs(os.path.join(self.folder, "runs"), exist_ok=True)
        with open(os.path.join(self.folder, "README"), "w") as file:
            file.write(README)
        self.path, self.stages_path = (os.path.join(self.folder, name) for name in ("jobs.jsonl", "stages.jsonl"))
        self.jobs, self.stages = read_lines(self.path), read_lines(self.stages_path)

    def find(self, **wanted):
        """Every job that has these values."""
        return [j for j in self.jobs if all(j.get(k) == v for k, v in wanted.items())]

    def add(self, job):
        append_line(self.path, job)
        self.jobs.append(job)

    def add_stage(self, stage):
        append_line(self.stages_path, stage)
        self.stages.append(stage)

    def file(self, job):
        return os.path.join(self.folder, job["file"])


def read_lines(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:  # the last line may have been cut off
        return [json.loads(line) for line in file if line.endswith("\n")]


def append_line(path, entry):
    with open(path, "a+") as file:
        file.seek(0)
        text = file.read()
        if text and not text.endswith("\n"):
            file.truncate(text.rfind("\n") + 1)
        file.write(json.dumps(entry) + "\n")
        file.flush()
        os.fsync(file.fileno())


def middle_s(job):
    """Mean of the middle half of the steps after warm-up: their median where they are alike, and not one of two lengths
    by chance where they alternate. It is the statistic that lapwing predicts."""
    steps = sorted(job["steps_s"][len(job["steps_s"]) // 3:])
    out = len(steps) // 4
    return sum(steps[out:len(steps) - out]) / (len(steps) - 2 * out)


def spread_frac(medians):
    """How far the two that agree best are apart: a third measurement tells which of the first two was disturbed."""
    ordered = sorted(medians)
    return min((b - a) / a for a, b in zip(ordered, ordered[1:]))


def best(medians):
    """Mean of the two that agree best; of one the one."""
    ordered = sorted(medians)
    if len(ordered) < 2:
        return ordered[0]
    a, b = min(zip(ordered, ordered[1:]), key=lambda pair: pair[1] - pair[0])
    return (a + b) / 2
