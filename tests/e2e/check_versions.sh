#!/usr/bin/env bash
# check_versions.sh - the Horovod hook against older Horovods, with the same expected figures, over MPI.
# Builds each once into .venv-VERSION of this tree (about 2 minutes); LAPWING_VENVS names another folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LAPWING_BUILD_DIR=${LAPWING_BUILD_DIR:-$PWD/build} LAPWING_SOURCE_DIR=$PWD
for version in 0.24.3 0.27.0; do
  venv=${LAPWING_VENVS:-$PWD}/.venv-$version
  if ! "$venv/bin/python3" -c 'import horovod.torch' 2>/dev/null; then
    echo "check-versions: building Horovod $version into $venv (about 2 minutes) ..."
    scripts/horovod_venv.sh "$version" "$venv" >"$LAPWING_BUILD_DIR/horovod-$version.log" 2>&1 ||
      { tail -n 20 "$LAPWING_BUILD_DIR/horovod-$version.log" >&2; exit 1; }
  fi
  found=$("$venv/bin/python3" -c 'import horovod; print(horovod.__version__)')
  [ "$found" = "$version" ] || { echo "check-versions: $venv holds Horovod $found, not $version" >&2; exit 1; }
  echo "check-versions: Horovod $version"
  for test in test_horovod_hook.py test_probe.py test_wait.py test_timeline_agreement.py; do
    LAPWING_PYTHON=$venv/bin/python3 /usr/bin/python3 "tests/e2e/$test" mpi
  done
done
