"""Figures 3 to 7 of the OSF paper (Liu et al., WWW 2022) on the rig: tables, and SVG where tests/draw is built.

Reads the recorded runs of measure.py's stage "figures" through `lapwing report` and `lapwing predict`.
SF is measured: the step of one rank over that of N. CSF, OSF and OSF_f are lapwing's for the run's own setting.
"""
import json
import os
import subprocess

import differences
import grid
from measure import FIGURE_CELLS, FIGURE_MODELS, LAPWING, ask

DRAW = os.path.join(os.path.dirname(os.path.dirname(LAPWING)), "tests", "draw")
FACTORS = {"csf": "CSF", "osf": "OSF", "osf_f": "OSF_f"}
PHASES = {"negotiate_ns": "NEGOTIATE", "wait_ns": "WAIT", "allreduce_ns": "ALLREDUCE", "misc_ns": "MISC"}
Q_NAMES = ["0", "64 KiB", "1 MiB", "16 MiB", "128 MiB"]


class Point:
    """One recorded run: its step, scaling factors, phases and operations."""

    def __init__(self, store, job, single_s):
        path = store.file(job)
        report, predicted = ask("report", path), ask("predict", path)
        self.sf, self.step_ms = single_s / job["median_s"], job["median_s"] * 1e3
        self.error = {name: predicted["scaling"][key]["value"] and predicted["scaling"][key]["value"] / self.sf - 1
                      for key, name in FACTORS.items()}
        self.unknown = {name: told(predicted["diag"], key) for key, name in FACTORS.items() if self.error[name] is None}
        ranks = report["ranks"]
        self.phases_ms = {name: sum(r["phases"][key]["value"] for r in ranks) / len(ranks) / 1e6 for key, name in PHASES.items()}
        self.n_operations = report["collectives"]["n_per_step"]["value"]


def told(diag, key):
    """Why predict gives no figure for a scaling factor, in its words."""
    begin = f"scaling.{key}: "
    return next((d["text"].removeprefix(begin) for d in diag if d["text"].startswith(begin)), "lapwing does not say why")


class Figures:
    def __init__(self, out, store, folder):
        self.out, self.store, self.folder = out, store, folder
        self.points, self.phase_points, self.differs = {}, {}, []

    def point(self, model, n, fusion_bytes):
        key = (model, n, fusion_bytes)
        if key not in self.points:
            cell = {k: grid.cell_name(FIGURE_CELLS[model][k]) for k in (1, n)}
            single = self.store.find(cell=cell[1], kind="single")
            jobs = self.store.find(cell=cell[n], kind="recorded", fusion_bytes=fusion_bytes, cycle_ms=grid.DEFAULT[1])
            self.points[key] = Point(self.store, jobs[-1], single[-1]["median_s"]) if single and jobs else None
        return self.points[key]

    def show(self, name, title, x_title, labels, y_title, series, kind, is_percent=False, text="{:.1f}"):
        """A table, and the same as a chart. series: {name: [y or None]}."""
        self.out("| | " + " | ".join(labels) + " |")
        self.out("|" + "---|" * (len(labels) + 1))
        for row, values in series.items():
            shown = ("not known" if v is None else f"{100 * v:+.1f} %" if is_percent else text.format(v) for v in values)
            self.out(f"| {row} | " + " | ".join(shown) + " |")
        self.out()
        if not os.path.exists(DRAW):
            return
        os.makedirs(self.folder, exist_ok=True)
        chart = {"title": title, "x": {"title": x_title, "labels": labels}, "y": {"title": y_title, "percent": is_percent},
                 "series": [{"name": n, "kind": kind, "y": values} for n, values in series.items()]}
        drawn = subprocess.run([DRAW], input=json.dumps(chart), capture_output=True, text=True, check=True).stdout
        with open(os.path.join(self.folder, f"{name}.svg"), "w") as file:
            file.write(drawn)
        self.out(f"![{title}](rig/{name}.svg)\n")

    def has_all(self, figure, points):
        """Whether every run of a figure was recorded; a figure that lacks one is a miss."""
        if not all(points):
            self.out.misses.append(f"figure {figure}: {sum(p is None for p in points)} of {len(points)} runs not recorded")
        return all(points)

    def show_errors(self, labels, points, names=FACTORS.values(), **how):
        """The errors of the factors; below the figure why one is not known."""
        self.show(labels=labels, series={name: [p.error[name] for p in points] for name in names}, y_title="error of the scaling factor", is_percent=True, **how)
        unknown = {}
        for label, point in zip(labels, points):
            for name in (n for n in names if n in point.unknown):
                unknown.setdefault((name, point.unknown[name]), []).append(label)
        for (name, why), where in unknown.items():
            self.out(f"{name} of {', '.join(where)} is not known: {why}.\n")

    def fig3(self):
        points = [self.point(model, 4, 0) for model in grid.MODELS]
        if not self.has_all("3", points):
            return
        self.out("### Figure 3: errors without fusion, by model\n")
        self.out("N = 4, Q = 0. Paper (N = 32): CSF 8 to 52 %, OSF 0.5 to 8.4 %.\n")
        self.out(f"Measured SF: {', '.join(f'{m} {p.sf:.3f}' for m, p in zip(grid.MODELS, points))}.\n")
        self.show_errors(list(grid.MODELS), points, ("CSF", "OSF"), name="fig3", title="Error of CSF and OSF without fusion, N = 4", x_title="", kind="bar")
        self.differs += differences.errors_without_fusion(dict(zip(grid.MODELS, points)))

    def fig4(self):
        for model in FIGURE_MODELS:
            points = [self.point(model, 4, q) for q in grid.FUSION_BYTES]
            if not self.has_all(f"4, {model}", points):
                continue
            self.out(f"### Figure 4: errors over Q and N, {model}\n")
            self.out("Paper (ResNet101, N = 32): OSF_f at most 3.2 %, CSF at most 16.1 %; (VGG16) all at most 9.6 %.\n")
            self.out(f"N = 4; measured SF: {', '.join(f'{q} {p.sf:.3f}' for q, p in zip(Q_NAMES, points))}.\n")
            self.show_errors(Q_NAMES, points, name=f"fig4-{model}-q", title=f"Error over Q, {model}, N = 4", x_title="Q", kind="line")
            self.differs += differences.errors_over_q(model, dict(zip(Q_NAMES, points)))
            for fusion_bytes in (0, grid.DEFAULT[0]):
                points = [self.point(model, n, fusion_bytes) for n in grid.RANKS]
                name = Q_NAMES[grid.FUSION_BYTES.index(fusion_bytes)]
                if self.has_all(f"4, {model}, over N, Q = {name}", points):
                    self.out(f"Q = {name}; measured SF: {', '.join(f'N = {n} {p.sf:.3f}' for n, p in zip(grid.RANKS, points))}.\n")
                    self.show_errors([str(n) for n in grid.RANKS], points, name=f"fig4-{model}-n-{name.replace(' ', '').lower()}",
                                     title=f"Error over N, {model}, Q = {name}", x_title="ranks", kind="line")

    def phases(self, figure, x_title, labels, points, model, where):
        self.show(f"{figure}-{model}", f"Phases a step over {x_title}, {model}, {where}", x_title, labels, "ms a step",
                  {name: [p.phases_ms[name] for p in points] for name in PHASES.values()}, "stack")
        self.phase_points.setdefault(model, []).extend(points)

    def fig5(self):
        for model in FIGURE_MODELS:
            points = [self.point(model, n, grid.DEFAULT[0]) for n in grid.RANKS]
            if self.has_all(f"5, {model}", points):
                self.out(f"### Figure 5: phases over N, {model}\n")
                self.out("ms a step, mean of ranks, Q = 128 MiB. Paper (ResNet101, N = 32): ALLREDUCE 88 % of the communication time, NEGOTIATE negligible.\n")
                shares = [p.phases_ms["ALLREDUCE"] / p.step_ms for p in points]
                self.phases("fig5", "N", [str(n) for n in grid.RANKS], points, model, "Q = 128 MiB")
                self.out(f"ALLREDUCE is {', '.join(f'{100 * s:.0f} %' for s in shares)} of the step.\n")

    def fig6(self):
        series, factors = {}, {}
        for model in FIGURE_MODELS:
            points = [self.point(model, 4, q) for q in grid.FUSION_BYTES]
            if self.has_all(f"6, {model}", points):
                series[model] = [p.n_operations for p in points]
                factors[model] = [p.sf for p in points]
                self.differs += differences.operations(model, points)
        if series:
            self.out("### Figure 6: operations a step over Q\n")
            self.out("N = 4. Paper: falls steeply with Q from the number of tensors; ResNet101 at 1 GB is slower than at 100 MB, VGG16 loses 9 % of SF there.\n")
            self.show("fig6", "Operations a step over Q, N = 4", "Q", Q_NAMES, "operations a step", series, "line")
            self.show("fig6-sf", "Measured scaling factor over Q, N = 4", "Q", Q_NAMES, "SF", factors, "line", text="{:.3f}")

    def fig7(self):
        for model in FIGURE_MODELS:
            points = [self.point(model, 4, q) for q in grid.FUSION_BYTES]
            if self.has_all(f"7, {model}", points):
                self.out(f"### Figure 7: phases over Q, {model}\n")
                self.out("ms a step, mean of ranks, N = 4. Paper: with Q, WAIT rises and ALLREDUCE falls.\n")
                self.phases("fig7", "Q", Q_NAMES, points, model, "N = 4")
                self.differs += differences.waits_over_q(model, points)


def write(out, store, folder):
    """Appends what the store has runs for."""
    if not store.find(kind="single"):
        out.misses.append("figures 3 to 7 of the OSF paper: not recorded")
        return
    figures = Figures(out, store, folder)
    out("## Figures 3 to 7 of the OSF paper\n")
    out("Links of 100 Mbit/s, Gloo, cycle 5 ms (dilated). The error is a model's factor over the measured one, less 1. SF is the step of one rank "
        "without lapwing over that of N ranks recorded under lapwing, so what recording costs is in it.\n")
    for figure in (figures.fig3, figures.fig4, figures.fig5, figures.fig6, figures.fig7):
        figure()
    for model, points in figures.phase_points.items():
        figures.differs += differences.phases(model, points)
    if figures.differs:
        out("### What differs from the paper\n")
        out("Said of this store where its figures show it; why is in [rig_notes.md](rig_notes.md).\n")
        out("\n".join(f"- {sentence}" for sentence in figures.differs) + "\n")
