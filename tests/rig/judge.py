#!/usr/bin/env python3
"""Holds what lapwing says of the recorded runs of a store against what was measured; measures nothing.

    judge.py [--store FOLDER] [--results FILE.md]

Asks `lapwing predict` and `lapwing advise` about each cell's recorded run, and its probed one where there is one, and
writes the tables and figures. Exit status 1 when a bound does not hold; every miss is named.
"""
import argparse
import concurrent.futures
import datetime
import os
import platform
import statistics
import sys

import elsewhere
import figures
import grid
from measure import (AUTOTUNE_CELLS, AUTOTUNE_STEPS_PER_SAMPLE, PLAIN, SOURCE, TOLERANCE_FRAC, VARIANT_CELLS, VARIANTS, ask,
                     autotune_end, fusion_cycle)
from report import Checked, Report, coverage, mib, part, percent
from store import Store, best, middle_s, spread_frac

MODELS = ("hvd_cycle", "osf_fifo", "osf_paper", "osf", "csf", "coarse", "fine")
TWIN = "hvd_cycle"
FLAGS = {"groups": "--num-groups", "passes": "--backward-passes", "compress": "--compress"}
# (median, worst) of |error|, and what part of the intervals must cover: the bounds of the rig
BOUNDS = {"identified": (0.01, 0.03), "probed": (0.02, 0.08)}
COVER_FRAC = 0.9
ADVICE_FRAC = 0.97
GOAL_MINUTES = 60
ROWS = set(grid.rows())
GRID_STAGES = ("record", "probe", "grid")


class Row:
    """One measured setting of a cell, and what is predicted of it: said[kind][model] is predict's answer."""

    def __init__(self, cell, key, jobs):
        self.cell, self.key = cell, key
        self.fusion_bytes, self.cycle_ms = jobs[0]["fusion_bytes"], jobs[0]["cycle_ms"]
        self.options = {k: jobs[0][k] for k in PLAIN}
        middles = [middle_s(j) for j in jobs]
        self.measured_s, self.n = best(middles), len(middles)
        self.spread_frac = spread_frac(middles) if self.n > 1 else None
        self.said = {}

    @property
    def is_overloaded(self):
        return self.spread_frac is not None and self.spread_frac > TOLERANCE_FRAC

    @property
    def is_default(self):
        return (self.fusion_bytes, self.cycle_ms) == grid.DEFAULT and self.options == PLAIN

    def checked(self, kind, model=TWIN):
        answer = self.said.get(kind, {}).get(model)
        return answer and Checked(answer, self.measured_s)

    def error(self, kind, model=TWIN):
        checked = self.checked(kind, model)
        return checked and checked.error

    def is_extrapolated(self, kind):
        checked = self.checked(kind)
        return bool(checked) and checked.is_extrapolated


def arguments(row):
    said = ["--fusion-bytes", str(int(row.fusion_bytes)), "--cycle-ms", f"{row.cycle_ms:g}"]
    for name, value in row.options.items():
        if value != PLAIN[name]:
            said += [FLAGS[name], str(value)]
    return said


class Judged:
    """Everything that the tables need, asked once."""

    def __init__(self, store):
        self.store = store
        self.cells = [grid.cell_name(c) for c in grid.cells() if store.find(cell=grid.cell_name(c), kind="recorded")]
        self.runs = {(cell, kind): store.find(cell=cell, kind=kind, fusion_bytes=grid.DEFAULT[0], cycle_ms=grid.DEFAULT[1])
                     for cell in self.cells for kind in ("recorded", "probed")}
        self.rows, self.refused, self.advice = [], [], {}
        jobs = {}
        for job in store.find(kind="measured"):
            jobs.setdefault((job["cell"], job["fusion_bytes"], job["cycle_ms"], *(job[k] for k in PLAIN)), []).append(job)
        self.rows = [Row(key[0], key, found) for key, found in jobs.items() if key[0] in self.cells]
        on_grid = {(grid.cell_name(r[:4]), *r[4:]) for r in ROWS}
        self.grid = [r for r in self.rows if r.options == PLAIN and r.key[:3] in on_grid]
        self.variants = [r for r in self.rows if r.options != PLAIN]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.ask_row, [(row, kind) for row in self.rows for kind in ("recorded", "probed")]))
            list(pool.map(self.ask_advice, list(self.runs)))

    def ask_row(self, wanted):
        row, kind = wanted
        for job in self.runs[row.cell, kind][-1:]:
            try:
                models = ["--model", "all"] if row.options == PLAIN else []
                answers = ask("predict", self.store.file(job), *models, *arguments(row))
                row.said[kind] = {a["model"]: a for a in (answers if isinstance(answers, list) else [answers])}
            except RuntimeError as error:
                self.refused.append(str(error))

    def ask_advice(self, wanted):
        for job in self.runs[wanted][-1:]:
            try:
                self.advice[wanted] = fusion_cycle(ask("advise", self.store.file(job)))
            except RuntimeError as error:
                self.refused.append(str(error))

    def find(self, cell, setting, options=PLAIN):
        found = [r for r in self.rows if r.cell == cell and r.key[1:] == (*setting, *options.values())]
        return found[0] if found else None


# ---- text -------------------------------------------------------------------------------------------

def setting(row):
    changed = ", ".join(f"{k} {v}" for k, v in row.options.items() if v != PLAIN[k])
    return f"Q {mib(row.fusion_bytes)}, cycle {row.cycle_ms:g} ms{', ' + changed if changed else ''}"


def summary(rows, kind, model=TWIN):
    """n, median and worst |error| of those that the model predicts."""
    errors = [abs(row.error(kind, model)) for row in rows if row.error(kind, model) is not None]
    return (len(errors), statistics.median(errors), max(errors)) if errors else (0, None, None)


def regions(judged):
    """Name, rows, kind of run: what is predicted from the one run, and with the probe beside it."""
    others = [r for r in judged.grid if not r.is_default and not r.is_overloaded]
    with_run = [r for r in others if "recorded" in r.said]
    return (("identified", [r for r in with_run if not r.is_extrapolated("recorded")], "recorded"),
            ("extrapolated", [r for r in with_run if r.is_extrapolated("recorded")], "recorded"),
            ("probed", [r for r in others if "probed" in r.said], "probed"))


def bounds(out, judged):
    out("## Bounds\n")
    out("Settings other than the recorded one; pairs that overloaded the rig are left out (listed below). The error is predicted over measured, less 1.\n")
    lines = []
    for name, rows, kind in regions(judged):
        title = {"identified": "identified by the run", "extrapolated": "extrapolated", "probed": "all, from the probed run"}[name]
        n, median, worst = summary(rows, kind)
        if name in BOUNDS:
            lines.append(out.hold(f"{title} ({n}): median", median, BOUNDS[name][0]))
            lines.append(out.hold(f"{title} ({n}): worst", worst, BOUNDS[name][1]))
        else:
            lines.append([f"{title} ({n}): median, worst", f"{percent(median, '')}, {percent(worst, '')}", "no bound", ""])
    for kind, title in (("recorded", "from the one run"), ("probed", "from the probed run")):
        lines += coverage(out, title, [r.checked(kind) for _, rows, k in regions(judged) if k == kind for r in rows], COVER_FRAC)
        for name, rows, k in regions(judged):
            if k == kind == "recorded":
                checked = [r.checked(kind) for r in rows]
                lines.append([f"of these, {name}: cover; without what was chosen here",
                              f"{part(sum(c.covers() for c in checked), len(rows))}; {part(sum(c.covers(is_bare=True) for c in checked), len(rows))}", "no bound", ""])
    out.table(["", "found", "bound", "holds"], lines)
    out("What was chosen on this rig is the part of the error named `settings`: 3 % of the step for settings other than the recorded one. Intervals that "
        "contain it cover errors of 3 % by construction; what lies outside the rows that it was chosen on is under \"Other numbers of ranks\".\n")


def models(out, judged):
    out("## Every model side by side\n")
    out("Median and worst |error| over the same settings as above. Only hvd_cycle is corrected by its replay of the run.\n")
    lines = []
    for model in MODELS:
        cells = [model]
        for _, rows, kind in regions(judged):
            n, median, worst = summary(rows, kind, model)
            cells.append(f"{percent(median, '')}, {percent(worst, '')} ({n})" if n else "none")
        lines.append(cells)
    out.table(["model", "identified", "extrapolated", "all, from the probed run"], lines)


def advice(out, judged):
    out("## Advice\n")
    out("The advised setting, measured, as a fraction of the best speed measured in its cell (grid and advised settings).\n")
    lines = []
    for cell in judged.cells:
        measured = [r for r in judged.rows if r.cell == cell and r.options == PLAIN]
        default = judged.find(cell, grid.DEFAULT)
        if not default:
            continue
        top = min(measured, key=lambda r: r.measured_s)
        line = [cell, f"{default.measured_s * 1e3:.1f} ms", f"{top.measured_s * 1e3:.1f} ms: {setting(top)}"]
        for kind in ("recorded", "probed"):
            if (cell, kind) not in judged.advice:
                line += ["", ""]
                continue
            advised, gain = judged.advice[cell, kind]
            row = judged.find(cell, advised)
            said = f"{mib(advised[0])}, {advised[1]:g} ms" if advised != grid.DEFAULT else "stay"
            promise = f"promises {percent(gain['value'], '')}, {100 * gain['low']:.1f} to {100 * gain['high']:.1f}" if gain else ""
            if not row:
                line += [f"{said} ({promise})", "not measured"]
                out.misses.append(f"advice, {cell}, {kind} run: {said}: not measured")
                continue
            frac = top.measured_s / row.measured_s
            if frac < ADVICE_FRAC:
                out.misses.append(f"advice, {cell}, {kind} run: {percent(frac, '')} of the best speed measured, bound {percent(ADVICE_FRAC, '')}")
            if gain:
                brings_frac = 1 - row.measured_s / default.measured_s
                is_held = gain["low"] <= brings_frac <= gain["high"]
                promise = f" ({promise}; brings {percent(brings_frac, '')}{'' if is_held else ' **outside**'})"
                if not is_held:
                    out.misses.append(f"advice, {cell}, {kind} run: {said}: brings {percent(brings_frac, '')}, outside the promised "
                                      f"{100 * gain['low']:.1f} to {100 * gain['high']:.1f} %{' (overloaded)' if row.is_overloaded or default.is_overloaded else ''}")
            line += [said + promise, f"{percent(frac, '')}{'' if frac >= ADVICE_FRAC else ' **NO**'}"]
        lines.append(line)
    out.table(["cell", "default", "best measured", "advised by the one run", "of the best", "advised by the probed run", "of the best"], lines)


class Tuned:
    """What Horovod's own tuner ended with in one cell. RuntimeError when it did not end."""

    def __init__(self, judged, job):
        self.end = autotune_end(os.path.join(judged.store.folder, job["log"]))
        rest_s = job["steps_s"][self.end["n_steps"] + 2:]
        if len(rest_s) < 4:
            raise RuntimeError(f"{job['log']}: {len(rest_s)} steps after the tuner ended")
        self.row = judged.find(job["cell"], self.end["setting"])
        self.rest_s = statistics.median(rest_s)
        halves = [statistics.median(half) for half in (rest_s[:len(rest_s) // 2], rest_s[len(rest_s) // 2:])]
        self.best_s, self.spread_frac = self.rest_s, max(halves) / min(halves) - 1
        if self.row and self.row.measured_s < self.rest_s:
            self.best_s, self.spread_frac = self.row.measured_s, self.row.spread_frac or 0


def against(out, judged, cell, kind, tuned):
    """The line of one advice beside the tuner's setting, None when it was not measured."""
    advised = judged.advice.get((cell, kind))
    row = advised and judged.find(cell, advised[0])
    if not row:
        out.misses.append(f"autotune against the advice of the {kind} run, {cell}: the advice was not measured")
        return None
    slower_frac, repeats_frac = row.measured_s / tuned.best_s - 1, max(row.spread_frac or 0, tuned.spread_frac)
    if slower_frac > repeats_frac:
        out.misses.append(f"autotune's setting is faster than the advice of the {kind} run, {cell}: the advice takes {percent(slower_frac)}, "
                          f"repeats differ by {percent(repeats_frac, '')}")
    verdict = "slower" if slower_frac > repeats_frac else "faster" if -slower_frac > repeats_frac else "the same"
    end = tuned.end
    return [cell, f"{mib(end['setting'][0])}, {end['setting'][1]:g} ms{'' if end['is_cached'] else ', no cache'}",
            f"{end['n_points']} points, {end['n_steps']} steps", f"{tuned.rest_s * 1e3:.1f} ms", f"{tuned.row.measured_s * 1e3:.1f} ms" if tuned.row else "not measured",
            kind, f"{mib(advised[0][0])}, {advised[0][1]:g} ms", f"{judged.runs[cell, kind][-1]['n_steps']} steps",
            f"{row.measured_s * 1e3:.1f} ms", percent(slower_frac), percent(repeats_frac, ""), verdict]


def autotune(out, judged):
    lines = []
    for cell in map(grid.cell_name, AUTOTUNE_CELLS):
        jobs = judged.store.find(kind="autotune", cell=cell)
        if not jobs:
            out.misses.append(f"autotune, {cell}: not measured")
            continue
        try:
            tuned = Tuned(judged, jobs[-1])
        except (RuntimeError, OSError) as error:
            out.misses.append(f"autotune, {cell}: {str(error).replace(judged.store.folder + '/', '')}")
            continue
        if not tuned.row:
            out.misses.append(f"autotune, {cell}: its setting was not measured in turn with the advice, only at the end of its run")
        lines += filter(None, (against(out, judged, cell, kind, tuned) for kind in ("recorded", "probed")))
    if lines:
        out("## Against Horovod's own tuner\n")
        out(f"HOROVOD_AUTOTUNE=1 run to its end with {AUTOTUNE_STEPS_PER_SAMPLE} step a sample instead of 10, to end within minutes: by default it needs ten times the steps. "
            "Its step: at the end of that run, and measured like all others (Q and cycle alone); the faster of both counts. The two are the same when they differ by no more "
            "than repeats of either do (the pair, or the halves of the steps at the end of the tuner's run). Positive: the advice is slower.\n")
        out.table(["cell", "autotune chose", "after", "step, at its end", "step, as others", "lapwing's run", "advised", "after", "step",
                   "against autotune's best", "repeats differ by", "the advice is"], lines)


def variants(out, judged):
    for cell in map(grid.cell_name, VARIANT_CELLS):
        missing = [v for v in VARIANTS if not judged.find(cell, grid.DEFAULT, {**PLAIN, **v})]
        if missing:
            out.misses.append(f"{cell}: not measured: {', '.join(f'{k} {v}' for m in missing for k, v in m.items())}")
    if not judged.variants:
        return
    out("## Groups, backward passes, 16-bit gradients\n")
    out("Of hvd.DistributedOptimizer, predicted from the run without them. A step with K passes is K of them. Pairs that overloaded the rig do not count.\n")
    bounded, lines = [], []
    calm = [r for r in judged.variants if not r.is_overloaded]
    for name, kind, title in (("identified", "recorded", "identified by the run"), ("probed", "probed", "all, from the probed run")):
        rows = [r for r in calm if r.checked(kind) and not (kind == "recorded" and r.is_extrapolated(kind))]
        n, median, worst = summary(rows, kind)
        bounded.append(out.hold(f"groups, passes, fp16, {title} ({n}): median", median, BOUNDS[name][0]))
        bounded.append(out.hold(f"groups, passes, fp16, {title} ({n}): worst", worst, BOUNDS[name][1]))
        bounded += coverage(out, f"groups, passes, fp16, {kind} run", [r.checked(kind) for r in calm if r.checked(kind)], COVER_FRAC)
    out.table(["", "found", "bound", "holds"], bounded)
    for row in sorted(judged.variants, key=lambda r: r.cell):
        line = [row.cell, setting(row).split("ms, ")[1], f"{row.measured_s * 1e3:.1f} ms", percent(row.spread_frac, "") + (" overloaded" if row.is_overloaded else "")]
        for kind, name in (("recorded", "identified"), ("probed", "probed")):
            line += predicted(row, kind)
            if not row.is_overloaded:
                name_miss(out, row, kind, None if kind == "recorded" and row.is_extrapolated(kind) else BOUNDS[name][1])
        lines.append(line)
    out.table(["cell", "changed", "measured", "pair differs by", "predicted (95 %)", "error", "from the probed run", "error"], lines)


def predicted(row, kind):
    checked = row.checked(kind)
    return checked.cells() if checked else ["", ""]


def name_miss(out, row, kind, bound_frac):
    why = row.checked(kind) and row.checked(kind).miss(bound_frac)
    if why:
        out.misses.append(f"{row.cell}, {setting(row)}, {kind} run: {why}")


def every_row(out, judged):
    out("## Every setting\n")
    lines = []
    for cell in judged.cells:
        for row in [r for r in judged.grid if r.cell == cell]:
            pair = "once" if row.spread_frac is None else percent(row.spread_frac, "") + (f" of {row.n}" if row.n > 2 else "")
            lines.append([cell, mib(row.fusion_bytes), f"{row.cycle_ms:g} ms" + (" (recorded)" if row.is_default else ""), f"{row.measured_s * 1e3:.1f} ms",
                          pair + (" **overloaded**" if row.is_overloaded else ""), *predicted(row, "recorded"), *predicted(row, "probed")])
    out.table(["cell", "Q", "cycle", "measured", "pair differs by", "predicted (95 %)", "error", "from the probed run", "error"], lines)
    for name, rows, kind in regions(judged):
        for row in rows:
            name_miss(out, row, kind, BOUNDS[name][1] if name in BOUNDS else None)


def recorded(out, judged):
    out("## The recorded setting\n")
    out("A run that is more than 2 % off the pair measured without lapwing is recorded once more, and the second one stands.\n")
    lines = []
    for cell in judged.cells:
        default = judged.find(cell, grid.DEFAULT)
        line = [cell, f"{default.measured_s * 1e3:.1f} ms" if default else ""]
        for kind in ("recorded", "probed"):
            jobs = judged.runs[cell, kind]
            off_frac = jobs and default and middle_s(jobs[-1]) / default.measured_s - 1
            if off_frac and abs(off_frac) > TOLERANCE_FRAC:
                out.misses.append(f"{cell}: the {kind} run takes {percent(off_frac)}, also when recorded once more" if len(jobs) > 1 else
                                  f"{cell}: the {kind} run takes {percent(off_frac)} and was not recorded once more")
            again = f", first {middle_s(jobs[0]) * 1e3:.1f} ms" if len(jobs) > 1 else ""
            line.append(f"{middle_s(jobs[-1]) * 1e3:.1f} ms ({percent(off_frac)}{again})" if jobs and default else "")
            answer = default and default.said.get(kind, {}).get(TWIN)
            line.append(percent(answer["recorded_error_frac"]) if answer else "")
        lines.append(line)
    out.table(["cell", "without lapwing", "recorded", "its replay is off by", "recorded with the probe", "its replay is off by"], lines)


def overloaded(out, judged):
    rows = [r for r in judged.rows if r.is_overloaded]
    out("## Overloaded\n")
    out(f"{len(rows)} of {len([r for r in judged.rows if r.n > 1])} settings differ by more than {percent(TOLERANCE_FRAC, '')} between the two best of three runs.\n")
    if rows:
        out.table(["cell", "setting", "differs by"], [[r.cell, setting(r), percent(r.spread_frac, "")] for r in rows])


def missing(out, judged):
    """What of the grid the store does not hold."""
    for cell in grid.cells():
        name = grid.cell_name(cell)
        out.misses += [f"{name}: no {kind} run" for kind in ("recorded", "probed") if not judged.runs.get((name, kind))]
        rows = [judged.find(name, row[4:]) for row in grid.rows() if row[:4] == cell]
        lacking = [f"Q {mib(row[4])}, cycle {row[5]:g} ms" for row, found in zip((r for r in grid.rows() if r[:4] == cell), rows) if not found or found.n < 2]
        if lacking:
            out.misses.append(f"{name}: not measured twice: {'; '.join(lacking)}")


def spent(out, judged):
    """Minutes that the grid and all else took, beside what they may take."""
    stages, jobs = judged.store.stages, judged.store.jobs
    out("## Time\n")
    if sum(stage["n_jobs"] for stage in stages) == len(jobs):
        minutes = {}
        for stage in stages:
            minutes[stage["stage"]] = minutes.get(stage["stage"], 0) + (stage["wall_s"] - stage["waited_s"]) / 60
        grid_minutes = sum(minutes.get(name, 0) for name in GRID_STAGES)
        how = "Minutes of each stage, with all that lies between its jobs, without waiting for the machine: " + ", ".join(f"{k} {v:.1f}" for k, v in minutes.items()) + "."
        everything = sum(minutes.values())
    else:
        on_grid = [j for j in jobs if is_of_grid(j)]
        grid_minutes, everything = sum(j["wall_s"] for j in on_grid) / 60, sum(j["wall_s"] for j in jobs) / 60
        how = "The store does not say of all its jobs what their stages took; these are the jobs alone, without setting up their networks."
    out(f"{how}\n")
    out.table(["", "minutes", "goal", "holds"], [
        out.hold("the grid in pairs, with its recorded and probed runs", grid_minutes, GOAL_MINUTES, text=minutes_text),
        ["everything", minutes_text(everything), "no bound", ""]])


def minutes_text(value, _sign=""):
    return f"{value:.0f} min"


def is_of_grid(job):
    """Whether a job is one of the stages record, probe and grid, as far as the job itself tells."""
    setting = (job["fusion_bytes"], job["cycle_ms"])
    row = (job["n"], job["model"], job["rate"], job["transport"], *setting)
    return (row in ROWS and all(job[k] == PLAIN[k] for k in PLAIN) and
            (job["kind"] == "measured" or job["kind"] in ("recorded", "probed") and setting == grid.DEFAULT))


def judge(store, draw_to=None):
    """The report, and what of lapwing's answers misses a bound."""
    judged = Judged(store)
    out = Report()
    for section in (missing, bounds, models, advice, autotune, variants, elsewhere.write, recorded, overloaded, every_row, spent):
        section(out, judged)
    if draw_to:
        figures.write(out, store, draw_to)
    for refusal in judged.refused:
        out.misses.append(f"no answer: {refusal}")
    return out, judged


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default=os.path.join(SOURCE, "build", "rig-store"))
    parser.add_argument("--results", default=os.path.join(SOURCE, "docs", "results", "rig.md"))
    args = parser.parse_args()
    store = Store(args.store)
    if not store.find(kind="recorded"):
        sys.exit(f"judge.py: {args.store} holds no recorded run; tests/rig/measure.py makes them")
    out, judged = judge(store, os.path.join(os.path.dirname(os.path.abspath(args.results)), "rig"))
    jobs = store.jobs
    head = ["# Predictions against measurements on the rig", "",
            f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}; measured {jobs[0]['at']} to {jobs[-1]['at']}, "
            f"{len(jobs)} jobs, {sum(j['wall_s'] for j in jobs) / 60:.0f} minutes of jobs. Horovod 0.28.1 over Gloo and Open MPI, one rank a network namespace, "
            "computing by timers, time dilated by 5 (tests/rig/README.md). A measured figure is the mean of the middle half of rank 0's steps after warm-up, and of "
            f"the two runs that agree best; {sum(r.n > 2 for r in judged.rows)} of {len(judged.rows)} settings were measured a third time, since the first two differed by more than 2 %. "
            f"Everything is predicted from ONE run a cell, recorded at Horovod's defaults ({mib(grid.DEFAULT[0])}, cycle {grid.DEFAULT[1]} ms dilated); "
            f"{sum(len(jobs) > 1 for jobs in judged.runs.values())} of {sum(bool(jobs) for jobs in judged.runs.values())} of these runs were more than 2 % off the job without lapwing and were recorded once more. "
            "The part of the intervals that a run cannot show itself, 3 % for other settings, was chosen on this rig. "
            "`make rig` measures and writes this; what the misses come from is in [rig_notes.md](rig_notes.md).", "", "## Misses", "", *([f"- {miss}" for miss in out.misses] or ["None."]), ""]
    with open(args.results, "w") as file:
        file.write("\n".join(head + out.lines) + "\n")
    print("\n".join(head + out.lines))
    return 1 if out.misses else 0


if __name__ == "__main__":
    sys.exit(main())
