#!/usr/bin/env python3
"""The rig's judge names every miss: stores and answers made up here, each with one fault, and the line that must tell of it."""
import contextlib
import io
import json
import os
import tempfile
import types

import ddp_truth
import differences
import elsewhere
import figures
import grid
import judge
from measure import AUTOTUNE_CELLS, AUTOTUNE_REST_STEPS, AUTOTUNE_STEPS, AUTOTUNE_WARMUP_POINTS, PLAIN, VARIANT_CELLS, VARIANTS, timed
from report import Checked
from store import Store

STEP_S = 1.0
CELL, CELL_NAME = (2, "convnet", "50mbit", "gloo"), "n2-convnet-50mbit-gloo"


def job(cell, kind, setting=grid.DEFAULT, turn=1, step_s=STEP_S, options=PLAIN, **more):
    n, model, rate, transport = cell
    return {"cell": grid.cell_name(cell), "kind": kind, "fusion_bytes": setting[0], "cycle_ms": setting[1], **options, "n": n, "model": model, "rate": rate,
            "transport": transport, "turn": turn, "n_steps": 9, "median_s": step_s, "steps_s": [step_s] * 9, "wall_s": 10, "at": "now", **more}


def recorded(cell, kind="recorded", **more):
    return job(cell, kind, file=f"runs/{grid.cell_name(cell)}.{kind}", **more)


def answer(step_s=STEP_S, half_s=0.05, settings_s=0.03, is_extrapolated=False, model="hvd_cycle"):
    return {"model": model, "step_ns": {"value": step_s * 1e9, "low": (step_s - half_s) * 1e9, "high": (step_s + half_s) * 1e9}, "is_extrapolated": is_extrapolated,
            "error_ns": {"steps": 0, "replay": 0, "costs": 1e6, "settings": settings_s * 1e9, "sizes": 0}, "recorded_error_frac": 0}


class Fake:
    """A whole grid that came true, to which a test does harm. said: {(kind, setting) or (cell, kind): predict's answer}."""

    def __init__(self, folder):
        self.folder, self.jobs, self.said, self.gain, self.stages = folder, [], {}, None, []
        for cell in grid.cells():
            self.jobs += [recorded(cell, kind) for kind in ("recorded", "probed")]
        self.jobs += [job(row[:4], "measured", row[4:], turn) for row in grid.rows() for turn in (1, 2)]
        self.jobs += [job(cell, "measured", turn=turn, options={**PLAIN, **v}) for cell in VARIANT_CELLS for v in VARIANTS for turn in (1, 2)]
        self.jobs.append(recorded((3, "convnet", "50mbit", "gloo")))
        self.jobs.append(recorded((2, "convnet", "100mbit", "gloo")))
        for cell in AUTOTUNE_CELLS:
            name = f"autotune-{grid.cell_name(cell)}.csv"
            self.write(name, "h\n0,0,0, 1,5,128,1\n0,0,0, 1,5,128,1\n")
            n_steps = (2 + AUTOTUNE_WARMUP_POINTS) * AUTOTUNE_STEPS + AUTOTUNE_REST_STEPS
            self.jobs.append({**job(cell, "autotune"), "log": name, "steps_s": [STEP_S] * n_steps})

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def ask(self, verb, path, *flags):
        cell, kind = os.path.basename(path).split(".")
        if verb == "advise":
            found = {"id": "horovod.fusion_cycle", "set": {"HOROVOD_FUSION_THRESHOLD": "0"}, "gain_frac": self.gain}
            return {"advice": [found] if self.gain and cell == CELL_NAME and kind == "recorded" else []}
        key = (cell, kind, *flags[-2:]) if "--model" not in flags else (cell, kind, *(float(flags[i + 1]) for i, f in enumerate(flags) if f in ("--fusion-bytes", "--cycle-ms")))
        said = self.said.get(key, answer())
        return [said] if "--model" in flags else said

    def report(self):
        with open(os.path.join(self.folder, "jobs.jsonl"), "w") as file:
            file.writelines(json.dumps(j) + "\n" for j in self.jobs)
        with open(os.path.join(self.folder, "stages.jsonl"), "w") as file:
            file.writelines(json.dumps(s) + "\n" for s in self.stages)
        judge.ask = elsewhere.ask = self.ask
        return judge.judge(Store(self.folder))[0]

    def without(self, **wanted):
        self.jobs = [j for j in self.jobs if any(j[k] != v for k, v in wanted.items())]


@contextlib.contextmanager
def fake():
    with tempfile.TemporaryDirectory() as folder:
        yield Fake(folder)


def has(lines, *words):
    assert any(all(word in line for word in words) for line in lines), (words, lines)


def a_store_that_came_true_has_no_miss():
    with fake() as store:
        out = store.report()
        assert not out.misses, out.misses
        assert not any("overloaded**" in line for line in out.lines)


def advice_is_held_to_its_interval():
    with fake() as store:
        store.gain = {"value": 0.035, "low": 0.005, "high": 0.065}
        store.jobs += [job(CELL, "measured", (0, 5), turn, 0.998) for turn in (1, 2)]
        out = store.report()
        has(out.misses, "advice", CELL_NAME, "brings 0.2 %", "0.5 to 6.5 %")
        has(out.lines, "promises 3.5 %, 0.5 to 6.5", "brings 0.2 % **outside**")
        store.jobs = store.jobs[:-2] + [job(CELL, "measured", (0, 5), turn, 0.97) for turn in (1, 2)]
        assert not [m for m in store.report().misses if "advice" in m]


def what_is_outside_its_interval_is_named():
    with fake() as store:
        row = next(r for r in grid.rows() if r[:4] == CELL and r[4:] != grid.DEFAULT)
        store.said[CELL_NAME, "recorded", float(row[4]), float(row[5])] = answer(0.8, 0.1, is_extrapolated=True)
        has(store.report().misses, CELL_NAME, "extrapolated", "-20.0 %", "outside 700 to 900")
        store.said = {(CELL_NAME, "probed", float(row[4]), float(row[5])): answer(0.99, 0.001)}
        has(store.report().misses, CELL_NAME, "probed run", "-1.0 %", "outside")
    with fake() as store:
        store.said[CELL_NAME, "recorded", "--num-groups", "4"] = answer(0.8, 0.1, is_extrapolated=True)
        out = store.report()
        has(out.misses, CELL_NAME, "groups 4", "extrapolated", "outside")
        has(out.lines, "95 % intervals cover, groups, passes, fp16, recorded run (15)")


def what_is_not_there_is_named():
    with fake() as store:
        lost = next(r for r in grid.rows() if r[:4] == CELL and r[4:] != grid.DEFAULT)
        store.without(cell=CELL_NAME, fusion_bytes=lost[4], cycle_ms=lost[5], turn=2)
        store.without(cell="n3-vgg-100mbit-gloo", kind="probed")
        store.without(cell=CELL_NAME, groups=4)
        store.without(kind="autotune", cell=grid.cell_name(AUTOTUNE_CELLS[1]))
        misses = store.report().misses
        has(misses, CELL_NAME, "not measured twice", f"cycle {lost[5]:g} ms")
        has(misses, "n3-vgg-100mbit-gloo: no probed run")
        has(misses, CELL_NAME, "not measured: groups 4")
        has(misses, "autotune", grid.cell_name(AUTOTUNE_CELLS[1]), "not measured")


def a_recording_that_is_off_is_named():
    with fake() as store:
        store.jobs.append(recorded(CELL, turn=2, step_s=1.05))
        has(store.report().misses, CELL_NAME, "recorded run takes +5.0 %, also when")


def a_tuner_that_did_not_end_leaves_a_report():
    with fake() as store:
        store.write(f"autotune-{grid.cell_name(AUTOTUNE_CELLS[0])}.csv", "h\n0,0,0, 1,5,128,1\n0,0,0, 1,5,64,1\n")
        os.unlink(os.path.join(store.folder, f"autotune-{grid.cell_name(AUTOTUNE_CELLS[1])}.csv"))
        out = store.report()
        for cell, word in zip(AUTOTUNE_CELLS, ("did not end", "No such file")):
            has(out.misses, "autotune", grid.cell_name(cell), word)
        has(out.lines, "## Every setting")


def a_faster_tuner_counts_beyond_what_repeats_differ_by():
    for differs_frac, is_miss in ((0.001, True), (0.019, False)):
        with fake() as store:
            name = grid.cell_name(AUTOTUNE_CELLS[0])
            for j in store.jobs:
                if j["cell"] == name and j["kind"] == "autotune":
                    j["steps_s"] = [0.995 * STEP_S] * len(j["steps_s"])
                if j["cell"] == name and j["kind"] == "measured" and (j["fusion_bytes"], j["cycle_ms"]) == grid.DEFAULT and j["turn"] == 2 and j["groups"] is None:
                    j["steps_s"] = [STEP_S * (1 + differs_frac)] * 9
            misses = [m for m in store.report().misses if "autotune's setting is faster" in m]
            assert bool(misses) == is_miss, (differs_frac, misses)
            if is_miss:
                has(misses, "+0.6 %", "repeats differ by 0.1 %")


def other_ranks_and_bandwidths_are_judged():
    with fake() as store:
        store.said[CELL_NAME, "recorded", "--ranks", "3"] = answer(1.2, 0.1)
        store.said[CELL_NAME, "recorded", "--bandwidth-frac", "2"] = answer(1.3, 0.1, is_extrapolated=True)
        out = store.report()
        has(out.misses, CELL_NAME, "asked for N = 3", "+20.0 %", "outside")
        has(out.misses, CELL_NAME, "asked for 100mbit", "extrapolated", "outside")
        has(out.lines, "95 % intervals cover, other numbers of ranks")


def intervals_are_judged_without_what_was_chosen_here():
    assert Checked(answer(1.029, 0.030), 1.0).covers()
    assert not Checked(answer(1.029, 0.030), 1.0).covers(is_bare=True)
    assert Checked(answer(1.029, 0.030, settings_s=0), 1.0).covers(is_bare=True)


def a_stage_that_is_stopped_keeps_its_time():
    def stopped(rig, _cells):
        rig.waited_s += 7
        rig.store.add(job(CELL, "measured"))
        raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        rig = types.SimpleNamespace(store=Store(folder), waited_s=3)
        for stage in (stopped, lambda *_: None):  # the second measures nothing, as when all is in the store
            with contextlib.suppress(KeyboardInterrupt), contextlib.redirect_stderr(io.StringIO()):
                timed(rig, "grid", stage, [])
        stages = Store(folder).stages
        assert [(s["stage"], s["n_jobs"], s["waited_s"]) for s in stages] == [("grid", 1, 7)] and 0 <= stages[0]["wall_s"] < 60, stages


def time_is_told_beside_its_goal():
    with fake() as store:
        has(store.report().lines, "does not say of all its jobs")
        store.stages = [{"stage": name, "wall_s": 1500, "waited_s": 60, "n_jobs": len(store.jobs) / 4, "at": ""} for name in ("record", "probe", "grid", "figures")]
        out = store.report()
        has(out.lines, "the grid in pairs", "72 min", "<= 60 min")
        has(out.lines, "everything", "96 min")
        has(out.misses, "the grid in pairs", "72 min, bound 60 min")


def sentences_follow_the_figures():
    def point(csf=0.0, osf=0.0, osf_f=0.01, n=10, wait=10, negotiate=1):
        return types.SimpleNamespace(error={"CSF": csf, "OSF": osf, "OSF_f": osf_f}, n_operations=n, step_ms=100, phases_ms={"WAIT": wait, "NEGOTIATE": negotiate})

    quiet = {"a": point(), "b": point()}
    assert not list(differences.errors_without_fusion(quiet)) and not list(differences.errors_over_q("m", quiet)) and not list(differences.phases("m", [point()]))
    has(differences.errors_without_fusion({"a": point(csf=0.9, n=99), "b": point(osf=-0.3)}), "CSF misses most", "a (+90.0 %)")
    has(differences.errors_without_fusion({"a": point(), "b": point(osf=-0.3)}), "Not explained", "b (-30.0 %)")
    has(differences.errors_over_q("m", {"0": point(), "1": point(osf=-0.4), "2": point(osf=-0.2)}), "OSF knows no fusion", "20 % to 40 %")
    has(differences.errors_over_q("m", {"0": point(), "1": point(csf=0.01)}), "OSF_f is CSF", "Q = 1", "lower")
    has(differences.waits_over_q("m", [point(wait=10), point(wait=5)]), "falls", "50.0 %")
    has(differences.waits_over_q("m", [point(wait=5), point(wait=10)]), "rises", "100.0 %", "as in the paper")
    has(differences.operations("m", [point(n=10), point(n=3)]), "fall with Q from 10 to 3.0")
    has(differences.phases("m", [point(wait=80, negotiate=9)]), "NEGOTIATE of m is 9 %")
    assert figures.told([{"text": "scaling.csf: no sizes"}], "csf") == "no sizes"


def ddp_is_held_to_bounds():
    def rows(**changed):
        made = {cap: {"measured_s": 1.0, "differs_frac": 0.001, "error_frac": 0.001, "is_covered": True, "is_extrapolated": False, "cap_mb": cap} for cap in (1.0, 2.0, 4.0, 8.0, 25.0)}
        for cap, values in changed.items():
            made[float(cap[1:])].update(values)
        return list(made.values())

    held = lambda made, advised=None, gain=None: ddp_truth.misses(made, 25.0, advised, gain)
    assert not held(rows())
    has(held(rows(c4={"error_frac": 0.04})), "worst")
    has(held(rows(c1={"error_frac": 0.02}, c2={"error_frac": 0.02}, c4={"error_frac": 0.02})), "median")
    assert not held(rows(c4={"error_frac": 0.04, "is_extrapolated": True}))
    has(held(rows(c4={"is_covered": False, "is_extrapolated": True})), "4 MiB", "interval")
    has(held(rows(c1={"is_covered": False}, c2={"is_covered": False})), "3 of 5")
    has(held(rows(c1={"differs_frac": 0.03}, c2={"differs_frac": 0.03})), "overloaded")
    has(held(rows(c2={"measured_s": 0.9})), "best")
    has(held(rows(c2={"measured_s": 0.9}), 2.0, {"low": 0.12, "high": 0.2}), "promised")
    assert not held(rows(c2={"measured_s": 0.9}), 2.0, {"low": 0.05, "high": 0.2})


def main():
    tests = [a_store_that_came_true_has_no_miss, advice_is_held_to_its_interval, what_is_outside_its_interval_is_named, what_is_not_there_is_named,
             a_recording_that_is_off_is_named, a_tuner_that_did_not_end_leaves_a_report, a_faster_tuner_counts_beyond_what_repeats_differ_by, other_ranks_and_bandwidths_are_judged,
             intervals_are_judged_without_what_was_chosen_here, a_stage_that_is_stopped_keeps_its_time, time_is_told_beside_its_goal, sentences_follow_the_figures, ddp_is_held_to_bounds]
    for test in tests:
        test()
        print(test.__name__.replace("_", " "))


if __name__ == "__main__":
    main()
