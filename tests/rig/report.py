"""What the tables of judge.py are made of: lines, misses, and what an answer of `lapwing predict` is worth once it is measured."""
import math

MIB = 1 << 20


def mib(n_bytes):
    if n_bytes >= MIB or not n_bytes:
        return f"{n_bytes / MIB:g} MiB" if n_bytes else "0"
    return f"{n_bytes / 1024:.4g} KiB"


def percent(value, sign="+"):
    return "" if value is None else f"{100 * value:{sign}.1f} %"


def part(n, n_of):
    """A count of how many, and what part that is."""
    return f"{n} of {n_of}" + (f" ({percent(n / n_of, '')})" if n_of else "")


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


class Checked:
    """An answer of `lapwing predict --json`, and what was measured of it."""

    def __init__(self, answer, measured_s):
        self.answer, self.measured_s = answer, measured_s
        self.step, self.is_extrapolated = answer["step_ns"], answer["is_extrapolated"]

    @property
    def error(self):
        return self.step["value"] and self.step["value"] / 1e9 / self.measured_s - 1

    def covers(self, is_bare=False):
        """Whether the interval holds what was measured. Bare: an interval without `settings`, the part of it that was
        chosen on this rig, so that it covers here proves little."""
        if self.step["low"] is None:
            return False
        narrower_ns = 0
        if is_bare:
            error = self.answer["error_ns"]
            own = sum(error[name] ** 2 for name in ("steps", "replay", "costs"))
            narrower_ns = math.sqrt(own + error["settings"] ** 2) - math.sqrt(own)
        return self.step["low"] + narrower_ns <= self.measured_s * 1e9 <= self.step["high"] - narrower_ns

    def span(self):
        return f"{self.step['low'] / 1e6:.0f} to {self.step['high'] / 1e6:.0f}" if self.step["low"] is not None else "no interval"

    def cells(self):
        """Two cells of a table: what is predicted, and its error."""
        if self.error is None:
            return ["", ""]
        return [f"{self.step['value'] / 1e6:.1f} ms ({self.span()}){' extrapolated' if self.is_extrapolated else ''}",
                percent(self.error) + ("" if self.covers() else " outside")]

    def miss(self, bound_frac=None):
        """In words why this is a miss: beyond its bound (None: it has none) or outside its interval. Empty when it is none."""
        if self.error is None:
            return "no figure"
        why = [f"bound {percent(bound_frac, '')}"] if bound_frac is not None and abs(self.error) > bound_frac else []
        if not self.covers():
            why.append(f"measured {self.measured_s * 1e3:.0f} ms, outside {self.span()}")
        return f"{'extrapolated, ' if self.is_extrapolated else ''}{percent(self.error)}; {', '.join(why)}" if why else ""


def coverage(out, what, checked, bound_frac):
    """Lines of a bounds table: how many intervals cover, and how many would without the part that was chosen here."""
    frac = sum(c.covers() for c in checked) / len(checked) if checked else None
    bare = sum(c.covers(is_bare=True) for c in checked)
    return [out.hold(f"95 % intervals cover, {what} ({len(checked)})", frac, bound_frac, is_low=True),
            ["the same without what was chosen on this rig", part(bare, len(checked)), "no bound", ""]]
