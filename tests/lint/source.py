#!/usr/bin/env python3
"""House rules a formatter cannot see: licence lines, file length, forbidden calls, units of time in names."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_LINES = 600
# In the job: nothing that allocates through the job's allocator, prints, or throws away an errno.
TRACER_FORBIDDEN = re.compile(r"\b(printf|fprintf|puts|perror|malloc|calloc|realloc|free|strdup|abort|exit)\s*\(")
ANYWHERE_FORBIDDEN = re.compile(r"\b(strcpy_s|gets|sprintf|strtok|atoi|atof|alloca)\s*\(")
# A quantity whose name has a unit that the contract does not use.
WRONG_UNIT = re.compile(r"\b(?!tv_)\w+_(msec|usec|nsec|secs|millis|micros|nanos|kb|mb|gb|mbps|gbps|pct)\b")


def main():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    bad = [f"{name}: a symbolic link is not a source" for name in files if (ROOT / name).is_symlink()]
    for name in files:
        if not name.endswith((".c", ".h", ".def")):
            continue
        text = (ROOT / name).read_text()
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
        strings_out = re.sub(r'"(\\.|[^"\\])*"', '""', code)
        if "SPDX-License-Identifier: Apache-2.0" not in text.splitlines()[0]:
            bad.append(f"{name}:1: the first line names the licence")
        n_lines = text.count("\n")
        if n_lines > MAX_LINES:
            bad.append(f"{name}: {n_lines} lines; is it really one thing? (at most {MAX_LINES})")
        rules = [(ANYWHERE_FORBIDDEN, "not used here"), (WRONG_UNIT, "the units are ns, bytes, bytes_per_s, frac")]
        if name.startswith("tracer/"):
            rules.append((TRACER_FORBIDDEN, "not inside somebody's job"))
        for rule, why in rules:
            for match in rule.finditer(strings_out):
                bad.append(f"{name}: {match.group(0).strip()}: {why}")
    print("\n".join(bad))
    print(f"source rules: {len(bad)} faults")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
