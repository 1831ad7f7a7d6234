#!/usr/bin/env bash
# check.sh - every test: the whole suite on the strict build, and memory and thread sanitizers on the parts
# that need no job.
set -euo pipefail
cd "$(dirname "$0")/.."
for preset in release asan tsan; do
  cmake --preset $preset -DLAPWING_WERROR=ON >/dev/null
  cmake --build --preset $preset
done
ctest --preset asan -j2 --no-tests=error
ctest --preset tsan -j2 --no-tests=error
ctest --preset release -j2 --no-tests=error
