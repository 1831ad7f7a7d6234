#!/usr/bin/env python3
"""big_run.py RUN OUT EVENTS - a run file of at least EVENTS events: RUN, again and again, one after the other.

What is repeated is real; that it repeats is not. For measuring how readers cope with size.
"""
import os
import shutil
import sqlite3
import sys

# events, and what grows from one repetition to the next: times by the run's length, serials by what one has used
TABLES = ("collective", "message", "ready", "cycle", "batch", "batch_tensor", "wait", "range", "gradient", "gloo_message",
          "socket_sample", "tcp_sample")
SERIALS = ("seq", "batch")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, out, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
    shutil.copy(source, out)
    db = sqlite3.connect(out)
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    for (index,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall():
        db.execute(f"DROP INDEX {index}")
    first, last = db.execute("SELECT min(start_ns), max(end_ns) FROM collective").fetchone()
    waits = db.execute("SELECT max(end_ns) FROM wait").fetchone()[0]
    length_ns = max(last, waits or 0) - first
    n_events = sum(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES)
    step = {name: 0 for name in SERIALS}
    columns = {table: [row[1] for row in db.execute(f"PRAGMA table_info({table})")] for table in TABLES}
    for table in TABLES:
        for name in SERIALS:
            if name in columns[table]:
                step[name] = max(step[name], (db.execute(f"SELECT max({name}) FROM {table}").fetchone()[0] or 0) + 1)
    # only what lies in the steps: what comes before and after them would be there again and again
    batches = db.execute("SELECT min(start_ns), max(end_ns) FROM batch").fetchone()
    n_repeats = wanted // n_events
    for table in TABLES:
        time = next(name for name in columns[table] if name in ("at_ns", "start_ns"))
        moved = [f"{name} + k * {step[name]}" if name in SERIALS else
                 f"{name} + k * {length_ns}" if name in ("at_ns", "start_ns", "end_ns") else name for name in columns[table]]
        db.execute(f"WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < {n_repeats}) "
                   f"INSERT INTO {table} SELECT {', '.join(moved)} FROM n, (SELECT * FROM {table}) "
                   f"WHERE {time} BETWEEN {batches[0] or first} AND {batches[1] or last} OR '{table}' = 'wait'")
    db.execute(f"UPDATE process SET end_ns = end_ns + {n_repeats * length_ns}")
    for table in ("step", "phase", "overlap", "fit", "advice", "prediction", "diag"):
        db.execute(f"DELETE FROM {table}")
    total = sum(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES)
    db.commit()
    db.close()
    print(f"{out}: {total} events, {n_repeats + 1} times {source}, {os.path.getsize(out) / 1e6:.0f} MB")


main()
