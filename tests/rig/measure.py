#!/usr/bin/env python3
"""Runs the jobs of grid.py on the rig and stores what they took; judges nothing. Needs root.

    measure.py [STAGE...] [--store FOLDER] [--cells NAME,...]

Stages, in this order when none is named:
    record    each cell at Horovod's defaults under `lapwing record`: the ONE run that everything is predicted from
    probe     the same with `record --probe`
    grid      every row twice, the second time in reverse order; pairs that differ by more than 2 % once more; a recorded
              run that is more than 2 % off the same setting without lapwing is recorded once more
    advised   the setting that `lapwing advise` names for each recorded and each probed run, measured twice
    variants  groups, backward passes per step and fp16 compression, measured twice
    figures   more recorded runs over Q, for the figures of the OSF paper
    autotune  Horovod's own tuner run to its end, its setting and the advised one measured in turn
What is in the store is not measured again, so it can be stopped at any time. With LAPWING_RIG_LOCK each job holds that
lock file. lapwing is told nothing of the rig: it gets the command of the job, and later the run file.
"""
import argparse
import contextlib
import datetime
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import grid
from store import Store, best, spread_frac

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
LAPWING = os.path.join(os.environ.get("LAPWING_BUILD_DIR", os.path.join(SOURCE, "build")), "bin", "lapwing")
TOLERANCE_FRAC = 0.02
RECORDED_STEPS = 18
LOOPBACK = "loopback"  # no namespaces and no shaped links: all ranks on this host, as horovodrun starts them
PLAIN = {"groups": None, "passes": 1, "compress": "none"}
AUTOTUNE_CELLS = [(4, "tiny", "100mbit", "mpi"), (2, "resnet50", "100mbit", "mpi")]
AUTOTUNE_STEPS_PER_SAMPLE = 1  # Horovod's is 10
AUTOTUNE_STEPS = 5 * AUTOTUNE_STEPS_PER_SAMPLE  # a point that it tries is judged by the median of five samples
AUTOTUNE_WARMUP_POINTS, AUTOTUNE_POINTS = 3, 84  # 20 and the first, for each of the four values of what else it tunes
AUTOTUNE_REST_STEPS = 60  # under the setting that it ended with; a sample now and then takes more than one
FIGURE_CELLS = {model: {n: (n, model, "100mbit", "gloo") for n in (1, *grid.RANKS)} for model in grid.MODELS}
FIGURE_MODELS = ("resnet50", "vgg")
VARIANT_CELLS = [cell for cell in grid.cells() if cell[:2] in ((2, "convnet"), (3, "resnet50"), (4, "tiny"))]
VARIANTS = ({"groups": 1}, {"groups": 4}, {"passes": 2}, {"passes": 4}, {"compress": "fp16"})


def note(text):
    print(f"{datetime.datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def machine():
    """The machine for one job alone, as far as others ask for the same lock."""
    path = os.environ.get("LAPWING_RIG_LOCK")
    if not path:
        yield
        return
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def network(n, rate):
    if rate == LOOPBACK:
        yield
        return
    net = ["bash", os.path.join(HERE, "net.sh")]
    subprocess.run([*net, "down", str(max(grid.RANKS))], stderr=subprocess.DEVNULL)  # of a measurement that was stopped
    subprocess.run([*net, "up", str(n), rate], check=True)
    try:
        yield
    finally:
        subprocess.run([*net, "down", str(n)], check=True)


def cpu_times():
    with open("/proc/stat") as file:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    busy = user + system + irq + softirq + steal
    return busy, nice, busy + nice + idle + iowait


class Rig:
    def __init__(self, store):
        self.store = store
        self.waited_s = 0
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped in the middle of a job"))  # so that run() ends its job

    def job(self, cell, kind, fusion_bytes, cycle_ms, turn=1, n_steps=None, options=PLAIN):
        """Runs one job and stores it, unless the store has it. Returns it."""
        key = self.key(cell, kind, fusion_bytes, cycle_ms, options)
        known = self.store.find(**key, turn=turn)
        if known:
            return known[-1]
        n, model, rate, transport = cell
        n_steps = n_steps or self.n_steps(cell, options["passes"])
        command = ["bash", os.path.join(HERE, "run.sh"), transport, str(n), self.model_file(model), str(n_steps)]
        for name, value in options.items():
            if value != PLAIN[name]:
                command += [f"--{name}", str(value)]
        entry = {**key, "n": n, "model": model, "rate": rate, "transport": transport, "turn": turn}
        if kind in ("recorded", "probed"):
            suffix = "" if (fusion_bytes, cycle_ms) == grid.DEFAULT else f"-{fusion_bytes}-{cycle_ms:g}ms"
            suffix += (".probed" if kind == "probed" else "") + (f".{turn}" if turn > 1 else "")
            entry["file"] = f"runs/{grid.cell_name(cell)}{suffix}.lapwing"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.store.file(entry))
            command = [LAPWING, "record", "--quiet", *(["--probe"] if kind == "probed" else []), "-o", self.store.file(entry),
                       "--", *command]
        if kind == "autotune":  # a variable that is given is not tuned
            entry["log"] = f"autotune-{grid.cell_name(cell)}.csv"
            environment = {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": os.path.join(self.store.folder, entry["log"]),
                           "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": str(AUTOTUNE_STEPS_PER_SAMPLE)}
        else:
            environment = {"HOROVOD_FUSION_THRESHOLD": str(int(fusion_bytes)), "HOROVOD_CYCLE_TIME": f"{cycle_ms:g}"}
        asked_s = time.monotonic()
        with machine(), self.waited(asked_s), network(n, rate):
            before, start_s, load = cpu_times(), time.monotonic(), os.getloadavg()[0]
            output = run(command, {**os.environ, **environment})
            after = cpu_times()
        told = json.loads([line for line in output.splitlines() if line.startswith("{")][-1])
        entry.update(n_steps=n_steps, median_s=told["median"], steps_s=[round(s, 6) for s in told["steps_s"]],
                     wall_s=round(time.monotonic() - start_s, 1), at=f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S}", load=load,
                     busy_frac=round((after[0] - before[0]) / (after[2] - before[2]), 3),
                     nice_frac=round((after[1] - before[1]) / (after[2] - before[2]), 3))
        self.store.add(entry)
        changed = " ".join(f"{k}={v}" for k, v in options.items() if v != PLAIN[k])
        note(f"{entry['cell']} {kind} Q={fusion_bytes} cycle={cycle_ms:g} {changed} turn {turn}: {told['median'] * 1e3:.1f} ms "
             f"({told['min'] * 1e3:.0f} to {told['max'] * 1e3:.0f}), {n_steps} steps, {entry['wall_s']:.0f} s in all")
        return entry

    @contextlib.contextmanager
    def waited(self, since_s):
        """Counts how long others had the machine."""
        self.waited_s += time.monotonic() - since_s
        yield

    @staticmethod
    def key(cell, kind, fusion_bytes, cycle_ms, options=PLAIN):
        return {"cell": grid.cell_name(cell), "kind": kind, "fusion_bytes": fusion_bytes, "cycle_ms": cycle_ms, **options}

    def model_file(self, model):
        path = os.path.join(self.store.folder, f"{model}.json")
        text = subprocess.run([sys.executable, os.path.join(HERE, "models.py"), model], check=True, capture_output=True).stdout
        with open(path, "wb") as file:
            file.write(text)
        return path

    def n_steps(self, cell, passes):
        """About 7 s of steps of a measured run, judged by the recorded one."""
        recorded = self.store.find(cell=grid.cell_name(cell), kind="recorded")
        step_s = recorded[0]["median_s"] if recorded else 0.7
        return max(9, min(15, round(7 / step_s / passes)))

    def pairs(self, wanted, kind="measured"):
        """Each (cell, fusion bytes, cycle, options) twice, the second time in reverse order, and a third time in doubt."""
        wanted = list(dict.fromkeys(tuple((*w[:3], tuple(w[3].items()))) for w in wanted))
        for turn, order in ((1, wanted), (2, wanted[::-1])):
            for cell, q, c, options in order:
                self.job(cell, kind, q, c, turn, options=dict(options))
        for cell, q, c, options in wanted:
            medians = [self.job(cell, kind, q, c, turn, options=dict(options))["median_s"] for turn in (1, 2)]
            if spread_frac(medians) > TOLERANCE_FRAC:
                self.job(cell, kind, q, c, 3, options=dict(options))


def run(command, environment):
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        output, errors = process.communicate(timeout=900)
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit {process.returncode}\n{output[-1000:]}{errors[-3000:]}")
    return output


def ask(verb, *arguments):
    done = subprocess.run([LAPWING, verb, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"lapwing {verb} {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def fusion_cycle(advice):
    """((fusion bytes, cycle in ms), promised gain with its interval) that an answer of advise names; the defaults where it names none."""
    for found in advice["advice"]:
        if found["id"] == "horovod.fusion_cycle":
            return ((int(found["set"].get("HOROVOD_FUSION_THRESHOLD", grid.DEFAULT[0])),
                     float(found["set"].get("HOROVOD_CYCLE_TIME", grid.DEFAULT[1]))), found["gain_frac"])
    return grid.DEFAULT, None


def autotune_end(path):
    """What Horovod's tuner log says: its last line repeats the best one when the tuner has ended."""
    with open(path) as file:
        lines = [line.replace(" ", "").strip().split(",") for line in file][1:]
    if len(lines) < 2 or lines[-1] not in lines[:-1]:
        raise RuntimeError(f"{path}: the tuner did not end")
    return {"setting": (int(float(lines[-1][-2]) * grid.MIB), float(lines[-1][-3])), "is_cached": lines[-1][-4] == "1",
            "n_points": len(lines) - 1, "n_steps": (len(lines) - 1 + AUTOTUNE_WARMUP_POINTS) * AUTOTUNE_STEPS}


def stage_record(rig, cells):
    for cell in cells:
        rig.job(cell, "recorded", *grid.DEFAULT, n_steps=RECORDED_STEPS)


def stage_probe(rig, cells):
    for cell in cells:
        rig.job(cell, "probed", *grid.DEFAULT, n_steps=RECORDED_STEPS)


def stage_grid(rig, cells):
    rig.pairs([(row[:4], row[4], row[5], PLAIN) for row in grid.rows() if row[:4] in cells])
    for cell in cells:  # a recording is held to the same tolerance
        default_s = best([j["median_s"] for j in rig.store.find(**rig.key(cell, "measured", *grid.DEFAULT))])
        for kind in ("recorded", "probed"):
            known = rig.store.find(**rig.key(cell, kind, *grid.DEFAULT))
            if known and abs(known[0]["median_s"] / default_s - 1) > TOLERANCE_FRAC:
                rig.job(cell, kind, *grid.DEFAULT, 2, n_steps=RECORDED_STEPS)


def stage_advised(rig, cells):
    wanted = []
    for cell in cells:
        for kind in ("recorded", "probed"):
            for job in rig.store.find(cell=grid.cell_name(cell), kind=kind, fusion_bytes=grid.DEFAULT[0], cycle_ms=grid.DEFAULT[1]):
                wanted.append((cell, *fusion_cycle(ask("advise", rig.store.file(job)))[0], PLAIN))
    rig.pairs(wanted)


def stage_variants(rig, cells):
    rig.pairs([(cell, *grid.DEFAULT, {**PLAIN, **changed}) for cell in VARIANT_CELLS if cell in cells for changed in VARIANTS])


def stage_figures(rig, cells):
    for model in grid.MODELS:
        rig.job(FIGURE_CELLS[model][1], "single", *grid.DEFAULT, n_steps=9)
        rig.job(FIGURE_CELLS[model][4], "recorded", 0, grid.DEFAULT[1], n_steps=RECORDED_STEPS)
    for model in FIGURE_MODELS:
        for n in grid.RANKS:
            for fusion_bytes in (0, grid.DEFAULT[0]) if n < 4 else grid.FUSION_BYTES:
                rig.job(FIGURE_CELLS[model][n], "recorded", fusion_bytes, grid.DEFAULT[1], n_steps=RECORDED_STEPS)


def stage_autotune(rig, cells):
    """Fewer steps a sample than Horovod's 10, so that the tuner ends within minutes; the points it tries are its own."""
    wanted = []
    for cell in AUTOTUNE_CELLS:
        job = rig.job(cell, "autotune", *grid.DEFAULT,
                      n_steps=(AUTOTUNE_POINTS + AUTOTUNE_WARMUP_POINTS) * AUTOTUNE_STEPS + AUTOTUNE_REST_STEPS)
        try:
            wanted.append((cell, *autotune_end(os.path.join(rig.store.folder, job["log"]))["setting"], PLAIN))
        except RuntimeError as error:  # judge.py names it
            note(str(error))
        wanted.append((cell, *grid.DEFAULT, PLAIN))
    rig.pairs(wanted)


STAGES = {name[6:]: stage for name, stage in globals().items() if name.startswith("stage_")}


def timed(rig, name, stage, cells):
    """Runs a stage and stores what it took, also when it is stopped: it goes on later, and judge.py adds up."""
    start_s, n_jobs, rig.waited_s = time.monotonic(), len(rig.store.jobs), 0
    try:
        stage(rig, cells)
    finally:
        wall_s = time.monotonic() - start_s
        if len(rig.store.jobs) > n_jobs:
            rig.store.add_stage({"stage": name, "wall_s": round(wall_s, 1), "waited_s": round(rig.waited_s, 1),
                                 "n_jobs": len(rig.store.jobs) - n_jobs, "at": f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S}"})
        note(f"stage {name}: {wall_s:.0f} s, {rig.waited_s:.0f} of them waiting for the machine")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("--store", default=os.path.join(SOURCE, "build", "rig-store"))
    parser.add_argument("--cells", help="only these, by name")
    args = parser.parse_args()
    if os.geteuid():
        sys.exit("measure.py: network namespaces need root")
    cells = grid.cells()
    if args.cells:
        cells = [c for c in cells if grid.cell_name(c) in args.cells.split(",")]
    rig = Rig(Store(args.store))
    for name in args.stages or STAGES:
        timed(rig, name, STAGES[name], cells)


if __name__ == "__main__":
    main()
