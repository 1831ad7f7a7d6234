#!/usr/bin/env python3
"""Who may include whom (ARCHITECTURE.md has the same table). A stage never includes a later stage."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# analyzer stages in order: each may include the ones before it
STAGES = ["load", "import", "reconstruct", "model", "fit", "network", "simulate", "advise", "emit"]

ALLOWED = {
    "base": {"base"},
    "schema": {"schema", "base"},  # the headers that the tracer uses are checked below
    "tracer": {"tracer", "schema"},
    "packet": {"packet", "schema", "base"},
    "collector": {"collector", "packet", "schema", "base"},
    "cli": {"cli", "tui", "analyzer", "collector", "packet", "schema", "base"},
    "tui": {"tui", "analyzer", "schema", "base"},
    "tests": None,
    "examples": None,
}
# What may be included inside the job: headers that need nothing of ours but each other.
TRACER_SCHEMA = {"schema/event.h", "schema/event_gpu.h", "schema/ring.h", "schema/rundir.h", "schema/launcher.h", "schema/cupti_place.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def may_include(source, target):
    folder = source.parts[0]
    wanted = pathlib.PurePath(target).parts
    if folder == "analyzer":
        if wanted[0] in ("schema", "base") or (wanted[0] == "packet" and source.parts[1] == "import"):
            return True
        if wanted[0] != "analyzer":
            return False
        if len(wanted) == 2 or len(source.parts) == 2:  # analyzer/run.h, analyzer/analyzer.c
            return True
        own, other = source.parts[1], wanted[1]
        return STAGES.index(other) <= STAGES.index(own)
    if folder == "tracer" and wanted[0] == "schema":
        return target in TRACER_SCHEMA
    if str(source) in TRACER_SCHEMA:
        return target in TRACER_SCHEMA
    allowed = ALLOWED[folder]
    return allowed is None or wanted[0] in allowed


def main():
    listing = subprocess.run(["git", "ls-files", "*.c", "*.h"], cwd=ROOT, check=True, capture_output=True, text=True)
    files = listing.stdout.split()
    bad = []
    for name in files:
        source = pathlib.PurePath(name)
        for target in INCLUDE.findall((ROOT / name).read_text()):
            if "/" not in target:
                bad.append(f'{name}: "{target}": write the path from the root')
            elif target != "schema/migrations.h" and not target.startswith("generated/schema_") and not may_include(source, target):
                bad.append(f'{name}: may not include "{target}"')
        if name.endswith(".h"):
            guard = "LAPWING_" + re.sub(r"[/.]", "_", name).upper()
            if f"#ifndef {guard}\n" not in (ROOT / name).read_text():
                bad.append(f"{name}: the guard is {guard}")
    print("\n".join(bad))
    print(f"include rules: {len(files)} files, {len(bad)} faults")
    return bool(bad) or len(files) < 10


if __name__ == "__main__":
    sys.exit(main())
