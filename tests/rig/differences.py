"""What the rig's figures show that the OSF paper's do not: each sentence only where the numbers of this store show it.

Why it is so is judged by people, with a date, in docs/results/rig_notes.md.
"""
from report import percent

LARGE_FRAC = 0.1  # an error above the 8.4 % that the paper has of OSF without fusion


def span(fracs, text=lambda f: f"{100 * f:.0f} %"):
    low, high = text(min(fracs)), text(max(fracs))
    return low if low == high else f"{low} to {high}"


def errors_without_fusion(points):
    """points: {model: point at the largest N, Q = 0}"""
    known = {m: p.error["CSF"] for m, p in points.items() if p.error["CSF"] is not None}
    if known:
        model = max(known, key=lambda m: abs(known[m]))
        if known[model] > LARGE_FRAC and points[model].n_operations == max(points[m].n_operations for m in known):
            yield (f"CSF misses most without fusion for {model} ({percent(known[model])}), which of these sends the most operations, {points[model].n_operations:.0f} a step: "
                   "it takes all gradients for one operation, and leaves out what each operation costs.")
    large = [f"{m} ({percent(p.error['OSF'])})" for m, p in points.items() if p.error["OSF"] is not None and abs(p.error["OSF"]) > LARGE_FRAC]
    if large:
        yield f"Not explained: what OSF misses without fusion of {', '.join(large)}."


def errors_over_q(model, points):
    """points: {name of Q: point}, in rising Q, the first without fusion."""
    fused = dict(list(points.items())[1:])
    osf = [p.error["OSF"] for p in fused.values() if p.error["OSF"] is not None]
    if osf and max(osf) < -LARGE_FRAC:
        yield f"OSF knows no fusion and counts what an operation costs for every tensor: {model} with fusion is predicted too slow, by {span([-e for e in osf])} of the factor."
    alike = [q for q, p in fused.items() if p.error["CSF"] is not None and p.error["OSF_f"] is not None and abs(p.error["OSF_f"] - p.error["CSF"]) < 1e-6]
    if alike:
        errors = [fused[q].error["CSF"] for q in alike]
        higher = ", and the measured factor is higher" if max(errors) < 0 else ", and the measured factor is lower" if min(errors) > 0 else ""
        yield (f"OSF_f is CSF for {model} at Q = {', '.join(alike)}: its buffer is sent when full or when nothing came for a while, so all goes at the end{higher}. "
               "Horovod sends what is ready each cycle.")


def phases(model, points):
    """points: all that figures 5 and 7 show of one model."""
    waits = [p.phases_ms["WAIT"] / p.step_ms for p in points]
    if min(waits) > 0.5:
        yield f"WAIT of {model} is {span(waits)} of the step: it counts waiting behind earlier operations, the paper's only for the buffer. Phases overlap each other and do not add up to the step."
    negotiates = [p.phases_ms["NEGOTIATE"] / p.step_ms for p in points]
    if max(negotiates) > 0.05:
        yield f"NEGOTIATE of {model} is {span(negotiates)} of the step, where the paper calls it negligible."


def waits_over_q(model, points):
    first, last = (points[i].phases_ms["WAIT"] for i in (0, -1))
    if last < first * 0.98:
        yield f"WAIT of {model} falls from the smallest Q to the largest by {percent(1 - last / first, '')}, where it rises in the paper."
    elif last > first * 1.02:
        yield f"WAIT of {model} rises from the smallest Q to the largest by {percent(last / first - 1, '')}, as in the paper."
    else:
        yield f"WAIT of {model} is the same at the smallest and at the largest Q, where it rises in the paper."


def operations(model, points):
    counts = [p.n_operations for p in points]
    if counts[-1] > 1.5 and counts[-1] < counts[0]:
        yield f"The operations of {model} fall with Q from {counts[0]:.0f} to {counts[-1]:.1f} a step, not to the one that its size over Q gives."
    elif counts[-1] >= counts[0]:
        yield f"The operations of {model} do not fall with Q ({counts[0]:.1f} to {counts[-1]:.1f} a step), where they do in the paper."
