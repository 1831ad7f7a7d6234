#!/usr/bin/env bash
# screens.sh RUN FOLDER - one screen of each view of RUN as text, for docs/screens.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2p' "$0" >&2; exit 2; }
lapwing=${LAPWING_BUILD_DIR:-$(dirname "$0")/../build}/bin/lapwing
mkdir -p "$2"
show() { # VIEW KEYS RUN FOLDER [NAME]
  "$lapwing" tui --utf8 --dump "$1" --size 100x30 --keys "${2-}" "$3" >"$4/${5-$1}.txt" || [ $? -eq 3 ]
}
show overview "" "$1" "$2"
show timeline "." "$1" "$2"
show phases "t" "$1" "$2"
show tensors "" "$1" "$2"
show ranks "" "$1" "$2"
show network "" "$1" "$2"
show model "t" "$1" "$2"
show advice "" "$1" "$2"
show advice "<Enter>" "$1" "$2" advice-story
show grid "<Right> <Down>" "$1" "$2"
show what-if "<Down> <Right> <Right> <Right>" "$1" "$2"
show log "" "$1" "$2"
