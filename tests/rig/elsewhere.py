"""Predictions for other numbers of ranks and for the other bandwidth, held against what the store has of these.

Each recorded run is asked about every job of the store that differs from it in the number of ranks alone, or in the
bandwidth alone. What was measured is a pair without lapwing where there is one, else a recorded run.
"""
import concurrent.futures
import dataclasses
import os
import statistics

from measure import PLAIN, ask
from report import Checked, coverage, mib, part, percent
from store import middle_s

COVER_FRAC = 0.9
KINDS = ("recorded", "probed")


@dataclasses.dataclass(frozen=True)
class Place:
    """A job's own factors."""

    n: int
    model: str
    rate: str
    transport: str
    fusion_bytes: int
    cycle_ms: float

    @staticmethod
    def of(job):
        return Place(**{field.name: job[field.name] for field in dataclasses.fields(Place)})

    def setting(self):
        return f"Q {mib(self.fusion_bytes)}, cycle {self.cycle_ms:g} ms"


def mbit(rate):
    return float(rate.removesuffix("mbit"))


def asked(source, target):
    """How predict is asked for @target, None when more than one factor differs. With one rank nothing is sent, whatever
    the setting."""
    same = dataclasses.replace(source, n=target.n)
    if target.n != source.n and (target == same or target.n == 1 and (target.model, target.rate, target.transport) == (same.model, same.rate, same.transport)):
        return ["--ranks", str(target.n)]
    if target != source and target == dataclasses.replace(source, rate=target.rate):
        return ["--bandwidth-frac", f"{mbit(target.rate) / mbit(source.rate):g}"]
    return None


def measured(judged):
    """{place: (step in s, how it was measured)}"""
    store, found = judged.store, {}
    for job in store.jobs:
        if job["kind"] in ("single", "recorded") and all(job[k] == PLAIN[k] for k in PLAIN):
            found[Place.of(job)] = (middle_s(job), "recorded" if job["kind"] == "recorded" else "once")
    for row in judged.rows:
        if row.options == PLAIN and not row.is_overloaded:
            found[Place.of(store.find(cell=row.cell, fusion_bytes=row.fusion_bytes, cycle_ms=row.cycle_ms)[0])] = (row.measured_s, f"{row.n} times")
    return found


class Asked:
    """One question, and its answer once ask() has run: checked, or refusal in words."""

    def __init__(self, job, target, flags, found):
        self.job, self.source, self.target, self.flags = job, Place.of(job), target, flags
        self.measured_s, self.how = found
        self.checked = self.refusal = None

    def ask(self, store):
        try:
            self.checked = Checked(ask("predict", store.file(self.job), *self.flags), self.measured_s)
        except RuntimeError as error:
            self.refusal = str(error)

    def name(self):
        return f"{self.job['cell']}, {self.source.setting()}, {self.job['kind']} run"

    def goal(self):
        return f"N = {self.target.n}" if self.flags[0] == "--ranks" else self.target.rate


def questions(judged):
    places, last = measured(judged), {}
    for job in judged.store.jobs:
        if job["kind"] in KINDS:
            last[Place.of(job), job["kind"]] = job
    return [Asked(job, target, asked(source, target), places[target])
            for (source, _), job in last.items() for target in places if asked(source, target)]


def table(out, all_asked, title, words, name):
    out(f"## {title}\n")
    out(words + "\n")
    known = [a for a in all_asked if a.checked]
    lines = []
    for title, chosen in (("identified", [a for a in known if not a.checked.is_extrapolated]), ("extrapolated", [a for a in known if a.checked.is_extrapolated])):
        errors = [abs(a.checked.error) for a in chosen]
        lines.append([f"{title} ({len(chosen)}): median, worst", f"{percent(statistics.median(errors), '')}, {percent(max(errors), '')}" if errors else "none", "no bound", ""])
        lines.append([f"{title}: interval covers", part(sum(a.checked.covers() for a in chosen), len(chosen)), "no bound", ""])
    lines += coverage(out, name, [a.checked for a in known], COVER_FRAC)
    out.table(["", "found", "bound", "holds"], lines)
    out.table(["run", "asked", "measured", "", "predicted (95 %)", "error"],
              [[a.name(), a.goal(), f"{a.measured_s * 1e3:.1f} ms", a.how, *(a.checked.cells() if a.checked else ["refused", ""])] for a in all_asked])
    for one in all_asked:
        why = f"no answer: {one.refusal}" if one.refusal else one.checked.miss()
        if why:
            out.misses.append(f"{one.name()}, asked for {one.goal()}: {why}")


def write(out, judged):
    all_asked = questions(judged)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda one: one.ask(judged.store), all_asked))
    all_asked.sort(key=lambda a: (a.source.model, a.source.transport, a.source.fusion_bytes, a.source.n, a.job["kind"], a.target.n))
    for flag, title, words, name in (
            ("--ranks", "Other numbers of ranks", "From the run of N ranks, what N' take under the same setting (`predict --ranks`). What the intervals contain of this "
             "rig was chosen on other settings of the same ranks and bandwidth, not on these. Of one rank: a run of it without lapwing, under any setting, since it sends nothing.", "other numbers of ranks"),
            ("--bandwidth-frac", "The other bandwidth", "From the run at one rate, what the same job takes at the other (`predict --bandwidth-frac`).", "other bandwidth")):
        chosen = [a for a in all_asked if a.flags[0] == flag]
        if chosen:
            table(out, chosen, title, words, name)
        else:
            out.misses.append(f"{name}: the store has no two jobs that differ in this alone")
