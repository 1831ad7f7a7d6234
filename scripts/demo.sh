#!/usr/bin/env bash
# demo.sh - record a real 2-rank Horovod training job, unchanged, and say where its step time goes.
set -euo pipefail
cd "$(dirname "$0")/.."
run=build/demo.lapwing
python=${LAPWING_PYTHON:-$PWD/.venv/bin/python3}
PATH=$(dirname "$python"):$PATH

say() { printf '\n$ %s\n' "$*"; }
say build/bin/lapwing record -o $run -- horovodrun --gloo -np 2 python3 examples/train_horovod.py
build/bin/lapwing record -o $run -- horovodrun --gloo -np 2 python3 examples/train_horovod.py
say build/bin/lapwing report $run
build/bin/lapwing report $run
say build/bin/lapwing advise $run
build/bin/lapwing advise $run
printf '\nTo look around in it: build/bin/lapwing tui %s' $run
printf '\nThe run is one SQLite file: %s (try: sqlite3 %s "SELECT * FROM v_rank")\n' $run $run
