#!/usr/bin/env bash
# The cost of one traced MPI_Allreduce under lapwing, uftrace and EZTrace: same program, same run, taking turns.
# One rank, so the call itself is short and the tracer's share shows. Prints one JSON line of medians in ns.
# Needs: mpich, uftrace, eztrace (Debian). BUILD=build-dev for another build; first argument: rounds (default 9).
set -eu
cd "$(dirname "$0")/.."
build=$PWD/${BUILD:-build}
rounds=${1:-9}
calls=20000
work=$(mktemp -d /tmp/lapwing-peers-XXXXXX)
trap 'rm -rf "$work"' EXIT
program=$work/allreduce
mpicc.mpich -O1 -g tests/bench/peers_allreduce.c -o "$program"
cd "$work"

run() { # NAME COMMAND...: append the program's own figure to NAME.txt
	local name=$1
	shift
	rm -rf traced*
	"$@" "$program" $calls >"$name.log" 2>&1 || { echo "bench_peers: $name failed:" >&2; cat "$name.log" >&2; exit 1; }
	awk '/^ns_per_call/ { print $2 }' "$name.log" >>"$name.txt"
}

for ((i = 0; i < rounds; i++)); do
	run plain env
	run lapwing "$build/bin/lapwing" record -q -o traced.lapwing --
	run uftrace uftrace record --force -d traced -F MPI_Allreduce
	run eztrace eztrace -t mpich -o traced
done
printf '{"bench":"peers","call":"MPI_Allreduce, 1 rank, MPICH","n_rounds":%d,"n_calls":%d' "$rounds" $calls
for name in plain lapwing uftrace eztrace; do
	sort -n $name.txt | awk -v name=$name '{ v[NR] = $1 }
		END { printf ",\"%s_ns\":{\"median\":%.1f,\"low\":%.1f,\"high\":%.1f}", name, v[int((NR + 1) / 2)], v[1], v[NR] }'
done
echo '}'
