#!/usr/bin/env bash
# bench.sh OUT.md - run every benchmark, each beside its alternative, and write one report.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { sed -n '2p' "$0" >&2; exit 2; }
export LAPWING_BUILD_DIR=${LAPWING_BUILD_DIR:-$PWD/build}
mkdir -p "$(dirname "$1")"
exec tests/bench/report.py "$1"
