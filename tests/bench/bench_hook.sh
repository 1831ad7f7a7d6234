#!/usr/bin/env bash
# What one hooked MPI call costs (bench_hook.c), with a ring directory of its own.
set -eu
directory=$(mktemp -d -p /dev/shm lapwing-bench-XXXXXX)
trap 'rm -rf "$directory"' EXIT
LAPWING_DIR=$directory LAPWING_HOOKS=mpi LD_PRELOAD=$LAPWING_BUILD_DIR/lib/liblapwing.so \
	"$LAPWING_BUILD_DIR/tests/bench_hook" "$@"
