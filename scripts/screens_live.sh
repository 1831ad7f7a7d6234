#!/usr/bin/env bash
# screens_live.sh FOLDER - screens of a live job and of the list of jobs as text, for docs/screens: of two real jobs.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
lapwing=${LAPWING_BUILD_DIR:-build}/bin/lapwing
python=${LAPWING_PYTHON:-$PWD/.venv/bin/python3}
PATH=$(dirname "$python"):$PATH
runs=$(mktemp -d)
pids=()
end() {
  for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; done
  wait || true
  rm -rf "$runs"
}
trap end EXIT
begin() { # NAME COMMAND..
  "$lapwing" record -q -o "$runs/$1.lapwing" -- "${@:2}" >"$runs/$1.out" 2>&1 &
  pids+=($!)
}
ring_dir() { # NAME
  until out=$(grep -lsx "$runs/$1.lapwing" /dev/shm/lapwing-*/out | head -1) && [ "$out" ]; do sleep 0.1; done
  dirname "$out"
}
show() { # FILE OPTION..
  "$lapwing" live --utf8 --dump --size 100x30 "${@:2}" 2>/dev/null | sed "s|$runs|/home/ada|g" >"$1"
}
begin vision horovodrun --gloo -np 2 python3 examples/train_horovod.py --steps 1000
dir=$(ring_dir vision)
until [ "$(sqlite3 "$runs/vision.lapwing" 'SELECT count(*) > 500 FROM batch' 2>/dev/null)" = 1 ]; do sleep 0.2; done
show "$1/live.txt" --after 12 --attach "$dir"
begin small horovodrun --gloo -np 1 python3 examples/train_horovod.py --steps 1000
ring_dir small >/dev/null
until [ "$(sqlite3 "$runs/small.lapwing" 'SELECT count(*) > 0 FROM process' 2>/dev/null)" = 1 ]; do sleep 0.2; done
show "$1/chooser.txt"
