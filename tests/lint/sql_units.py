#!/usr/bin/env python3
"""Every column that holds a quantity says its unit; every table is STRICT; migrations only append."""
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "schema" / "sql"
UNIT = re.compile(r"_(ns|khz|bytes|bytes_per_s|frac|segments|bits|words)$|^(n|n_\w+|bytes)$")
# Numbers without a dimension: keys, places in an order, and members of the contract's enums.
PLAIN = re.compile(
    r"^(id|\w+_id|pid|ppid|tid|rank|size|local_rank|local_size|last_rank|serial|seq|batch|position|number|burst|step|key|\w+_key|object|"
    r"op|flags|role|how|why|reason|status|setting|source|framework|transport|dtype|process_set|opcode|qp|\w+_qp|slot|socket|\w*port|"
    r"peer|tag|root|reducer|type|lid|peer_lid|gid_index|peer_number|is_\w+|closed|exit_code|value|low|high|"
    r"device|peer_device|major|minor|context|stream|event|correlation|graph|made_for|\w+_serial|result|algorithm|protocol|channel)$")


def main():
    bad, n_columns = [], 0
    files = sorted(FOLDER.glob("*.sql"))
    for i, path in enumerate(files, 1):
        text = path.read_text()
        if not path.name.startswith(f"{i:04d}_"):
            bad.append(f"{path.name}: migrations are numbered without gaps")
        text = re.sub(r"--.*", "", text)
        for name, body, tail in re.findall(r"CREATE TABLE (\w+)\s*\((.*?)\)\s*(\w*);", text, re.S):
            if tail != "STRICT":
                bad.append(f"{path.name}: table {name} is not STRICT")
            for column, kind in re.findall(r"(?:^|,)\s*(\w+)\s+(INTEGER|REAL)\b", body):
                n_columns += 1
                if not UNIT.search(column) and not PLAIN.match(column):
                    bad.append(f"{path.name}: {name}.{column} ({kind}) does not say its unit")
        for column in re.findall(r"ADD COLUMN (\w+)\s+(?:INTEGER|REAL)", text):
            if not UNIT.search(column) and not PLAIN.match(column):
                bad.append(f"{path.name}: {column} does not say its unit")
    print("\n".join(bad))
    print(f"sql units: {len(files)} files, {n_columns} columns, {len(bad)} faults")
    return bool(bad) or n_columns < 50


if __name__ == "__main__":
    sys.exit(main())
