#!/usr/bin/env bash
# setup.sh - what lapwing's build, demo and tests need on Debian 12. Safe to run again: it looks first.
#
#   scripts/setup.sh build     compilers and libraries, to build and use lapwing
#   scripts/setup.sh all       that, and real jobs to trace: Open MPI, MPICH, torch, Horovod (default)
#   scripts/setup.sh list      print the Debian packages of `all` and install nothing
#
# Needs root for apt. Without root it prints the list and stops. Horovod goes into .venv/ of this tree.
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages=(cmake ninja-build gcc g++ pkg-config libsqlite3-dev libyajl-dev libelf-dev uthash-dev libncurses-dev
  libcmocka-dev zlib1g-dev help2man libpcap-dev libibverbs-dev)
job_packages=(python3-torch libtorch-dev pybind11-dev python3-dev python3-pip python3-venv
  python3-cloudpickle python3-psutil python3-yaml python3-packaging python3-cffi python3-jsonschema
  openmpi-bin libopenmpi-dev mpich libmpich-dev gfortran python3-mpi4py libgloo-dev
  clang clang-format libclang-rt-14-dev iproute2 procps strace tmux ncurses-term sqlite3 util-linux binutils uftrace eztrace
  man-db tcpdump nftables ethtool libcap2-bin
  qemu-system-x86 busybox-static ibverbs-providers ibverbs-utils rdma-core perftest kmod cpio)

want=${1:-all}
case $want in
build) packages=("${build_packages[@]}") ;;
all | list) packages=("${build_packages[@]}" "${job_packages[@]}") ;;
*) sed -n '2,9p' "$0" >&2; exit 2 ;;
esac
if [ "$want" = list ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

say() { printf 'setup: %s\n' "$*"; }

# Run a long command quietly, with a sign of life every 10 s; its output is shown only when it fails.
quietly() {
  local what=$1 log start=$SECONDS shown=$SECONDS status=0 job
  shift
  log=$(mktemp)
  say "$what ..."
  "$@" >"$log" 2>&1 &
  job=$!
  while kill -0 "$job" 2>/dev/null; do
    sleep 0.5
    if ((SECONDS - shown >= 10)); then
      shown=$SECONDS
      say "$what: $((SECONDS - start)) s; $(tail -n 1 "$log" | cut -c1-70)"
    fi
  done
  wait "$job" || status=$?
  if [ "$status" -ne 0 ]; then
    tail -n 40 "$log" >&2
    say "$what failed (exit $status); the whole output is in $log" >&2
    return "$status"
  fi
  rm -f "$log"
  say "$what: done in $((SECONDS - start)) s"
}

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    say "these Debian packages are missing; ask an administrator for them, or run as root:" >&2
    printf '  apt-get install --no-install-recommends %s\n' "${missing[*]}" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  quietly "refreshing the package lists" apt-get update -q
  quietly "installing ${#missing[@]} Debian packages" \
    apt-get install -y -q --no-install-recommends "${missing[@]}"
fi
[ "$want" = all ] || exit 0
# The kernel that the soft-RoCE tests boot; a look when it is there.
tests/roce/guest.sh --fetch >/dev/null
if ! .venv/bin/python3 -c 'import horovod.torch' 2>/dev/null; then
  quietly "building Horovod 0.28.1 into .venv (about 3 minutes the first time)" scripts/horovod_venv.sh 0.28.1 .venv
fi
say "ready; Horovod is in .venv (.venv/bin/python3, .venv/bin/horovodrun)"
