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

import figures
import grid
from measure import AUTOTUNE_STEPS_PER_SAMPLE, PLAIN, SOURCE, TOLERANCE_FRAC, ask, autotune_end, fusion_cycle
from store import Store, best, middle_s, spread_frac

MODELS = ("hvd_cycle", "osf_fifo", "osf_paper", "osf", "csf", "coarse", "fine")
TWIN = "hvd_cycle"
FLAGS = {"groups": "--num-groups", "passes": "--backward-passes", "compress": "--compress"}
# (median, worst) of |error|, and what part of the intervals must cover: the bounds of the rig
BOUNDS = {"identified": (0.01, 0.03), "probed": (0.02, 0.08)}
COVER_FRAC = 0.9
ADVICE_FRAC = 0.97


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

    def value(self, kind, model=TWIN):
        answer = self.said.get(kind, {}).get(model)
        return answer and answer["step_ns"]["value"] and answer["step_ns"]["value"] / 1e9

    def error(self, kind, model=TWIN):
        value = self.value(kind, model)
        return None if value is None else value / self.measured_s - 1

    def is_extrapolated(self, kind):
        answer = self.said.get(kind, {}).get(TWIN)
        return bool(answer) and answer["is_extrapolated"]

    def covers(self, kind):
        step = self.said[kind][TWIN]["step_ns"]
        return step["low"] is not None and step["low"] / 1e9 <= self.measured_s <= step["high"] / 1e9


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
        on_grid = {(grid.cell_name(r[:4]), *r[4:]) for r in grid.rows()}
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

def mib(n_bytes):
    if n_bytes >= grid.MIB or not n_bytes:
        return f"{n_bytes / grid.MIB:g} MiB" if n_bytes else "0"
    return f"{n_bytes / 1024:.4g} KiB"


def percent(value, sign="+"):
    return "" if value is None else f"{100 * value:{sign}.1f} %"


def setting(row):
    changed = ", ".join(f"{k} {v}" for k, v in row.options.items() if v != PLAIN[k])
    return f"Q {mib(row.fusion_bytes)}, cycle {row.cycle_ms:g} ms{', ' + changed if changed else ''}"


def summary(rows, kind, model=TWIN):
    """n, median and worst |error| of those that the model predicts."""
    errors = [abs(row.error(kind, model)) for row in rows if row.error(kind, model) is not None]
    return (len(errors), statistics.median(errors), max(errors)) if errors else (0, None, None)


class Report:
    def __init__(self):
        self.lines, self.misses = [], []

    def __call__(self, text=""):
        self.lines.append(text)

    def table(self, head, body):
        self("| " + " | ".join(head) + " |")
        self("|" + "---|" * len(head))
        for line in body:
            self("| " + " | ".join(line) + " |")
        self()

    def hold(self, what, value, bound, is_low=False, text=percent):
        """A bound's line: the figure, the bound, whether it holds."""
        if value is None:
            self.misses.append(f"{what}: not measured")
            return [what, "not measured", "", ""]
        is_good = value >= bound if is_low else value <= bound
        if not is_good:
            self.misses.append(f"{what}: {text(value, '')}, bound {text(bound, '')}")
        return [what, text(value, ""), f"{'>=' if is_low else '<='} {text(bound, '')}", "yes" if is_good else "**NO**"]


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
        covered = sum(r.covers(kind) for r in rows)
        if name == "extrapolated" and rows:
            lines.append([f"{title}: interval covers", f"{covered} of {n}", "", ""])
    for kind, title in (("recorded", "from the one run"), ("probed", "from the probed run")):
        rows = [r for name, rs, k in regions(judged) if k == kind for r in rs]
        frac = sum(r.covers(kind) for r in rows) / len(rows) if rows else None
        lines.append(out.hold(f"95 % intervals cover, {title} ({len(rows)})", frac, COVER_FRAC, is_low=True))
    out.table(["", "found", "bound", "holds"], lines)


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
            advised, gain_frac = judged.advice[cell, kind]
            row = judged.find(cell, advised)
            said = f"{mib(advised[0])}, {advised[1]:g} ms" if advised != grid.DEFAULT else "stay"
            if not row:
                line += [f"{said} (promises {percent(gain_frac, '')})", "not measured"]
                out.misses.append(f"advice, {cell}, {kind} run: {said}: not measured")
                continue
            frac = top.measured_s / row.measured_s
            if frac < ADVICE_FRAC:
                out.misses.append(f"advice, {cell}, {kind} run: {percent(frac, '')} of the best speed measured, bound {percent(ADVICE_FRAC, '')}")
            promise = f" (promises {percent(gain_frac, '')}, brings {percent(1 - row.measured_s / default.measured_s, '')})" if gain_frac else ""
            line += [said + promise, f"{percent(frac, '')}{'' if frac >= ADVICE_FRAC else ' **NO**'}"]
        lines.append(line)
    out.table(["cell", "default", "best measured", "advised by the one run", "of the best", "advised by the probed run", "of the best"], lines)


def autotune(out, judged):
    lines = []
    for job in judged.store.find(kind="autotune"):
        end = autotune_end(os.path.join(judged.store.folder, job["log"]))
        rest_s = statistics.median(job["steps_s"][end["n_steps"] + 2:])
        tuned = judged.find(job["cell"], end["setting"])
        for kind in ("recorded", "probed"):
            advised = judged.advice.get((job["cell"], kind))
            row = advised and judged.find(job["cell"], advised[0])
            if not row:
                out.misses.append(f"autotune against the advice of the {kind} run, {job['cell']}: the advice was not measured")
                continue
            best_s = min([rest_s] + ([tuned.measured_s] if tuned else []))
            if best_s < row.measured_s * (1 - TOLERANCE_FRAC):
                out.misses.append(f"autotune's setting is faster than the advice of the {kind} run, {job['cell']}: {percent(1 - best_s / row.measured_s, '')}")
            lines.append([job["cell"], f"{mib(end['setting'][0])}, {end['setting'][1]:g} ms{'' if end['is_cached'] else ', no cache'}",
                          f"{end['n_points']} points, {end['n_steps']} steps", f"{rest_s * 1e3:.1f} ms", f"{tuned.measured_s * 1e3:.1f} ms" if tuned else "",
                          kind, f"{mib(advised[0][0])}, {advised[0][1]:g} ms", f"{judged.runs[job['cell'], kind][-1]['n_steps']} steps",
                          f"{row.measured_s * 1e3:.1f} ms", percent(best_s / row.measured_s - 1)])
    if not lines:
        out.misses.append("autotune: not measured")
    if lines:
        out("## Against Horovod's own tuner\n")
        out(f"HOROVOD_AUTOTUNE=1 run to its end with {AUTOTUNE_STEPS_PER_SAMPLE} step a sample instead of 10, to end within minutes: by default it needs ten times the steps. "
            "Its step: at the end of that run, and measured like all others (Q and cycle alone). Positive: the advice is faster.\n")
        out.table(["cell", "autotune chose", "after", "step, at its end", "step, as others", "lapwing's run", "advised", "after", "step", "autotune's best against it"], lines)


def variants(out, judged):
    if not judged.variants:
        out.misses.append("groups, backward passes, 16-bit gradients: not measured")
        return
    out("## Groups, backward passes, 16-bit gradients\n")
    out("Of hvd.DistributedOptimizer, predicted from the run without them. A step with K passes is K of them.\n")
    lines = []
    for row in sorted(judged.variants, key=lambda r: r.cell):
        line = [row.cell, setting(row).split("ms, ")[1], f"{row.measured_s * 1e3:.1f} ms", percent(row.spread_frac, "") + (" overloaded" if row.is_overloaded else "")]
        for kind, bound in (("recorded", BOUNDS["identified"]), ("probed", BOUNDS["probed"])):
            error = row.error(kind)
            line += predicted(row, kind)
            if error is not None and not row.is_overloaded and abs(error) > bound[1] and not (kind == "recorded" and row.is_extrapolated(kind)):
                out.misses.append(f"{row.cell}, {setting(row)}, {kind} run: {percent(error)}, bound {percent(bound[1], '')}")
        lines.append(line)
    out.table(["cell", "changed", "measured", "pair differs by", "predicted (95 %)", "error", "from the probed run", "error"], lines)


def predicted(row, kind):
    if row.value(kind) is None:
        return ["", ""]
    step = row.said[kind][TWIN]["step_ns"]
    span = f" ({step['low'] / 1e6:.0f} to {step['high'] / 1e6:.0f})" if step["low"] is not None else ""
    return [f"{step['value'] / 1e6:.1f} ms{span}{' extrapolated' if row.is_extrapolated(kind) else ''}",
            percent(row.error(kind)) + ("" if row.covers(kind) else " outside")]


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
            if name in BOUNDS and row.error(kind) is not None and abs(row.error(kind)) > BOUNDS[name][1]:
                out.misses.append(f"{row.cell}, {setting(row)}, {kind} run: {percent(row.error(kind))}, bound {percent(BOUNDS[name][1], '')}")


def recorded(out, judged):
    out("## The recorded setting\n")
    out("A run that is more than 2 % off the pair measured without lapwing is recorded once more, and the second one stands.\n")
    lines = []
    for cell in judged.cells:
        default = judged.find(cell, grid.DEFAULT)
        line = [cell, f"{default.measured_s * 1e3:.1f} ms" if default else ""]
        for kind in ("recorded", "probed"):
            jobs = judged.runs[cell, kind]
            again = f", first {middle_s(jobs[0]) * 1e3:.1f} ms" if len(jobs) > 1 else ""
            line.append(f"{middle_s(jobs[-1]) * 1e3:.1f} ms ({percent(middle_s(jobs[-1]) / default.measured_s - 1)}{again})" if jobs and default else "")
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


def judge(store, draw_to=None):
    """The report, and what of lapwing's answers misses a bound."""
    judged = Judged(store)
    out = Report()
    for part in (bounds, models, advice, autotune, variants, recorded, overloaded, every_row):
        part(out, judged)
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
