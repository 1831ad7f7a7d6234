#!/usr/bin/env bash
# horovod_venv.sh VERSION DIR - a virtual environment on Debian's python3 and torch, with Horovod built in it.
# 0.28.1 is built with MPI and Gloo; older ones with MPI only (their Gloo does not compile with current kernels' headers).
set -euo pipefail
version=$1 dir=$2
gloo=1
case $version in 0.2[0-7].*) gloo= ;; esac
[ -x "$dir/bin/python3" ] || /usr/bin/python3 -m venv --system-site-packages "$dir"
export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_MPI=1 MAKEFLAGS=-j2
if [ -n "$gloo" ]; then export HOROVOD_WITH_GLOO=1; else export HOROVOD_WITHOUT_GLOO=1; fi
"$dir/bin/python3" -m pip install --no-build-isolation --no-deps "horovod==$version"
"$dir/bin/python3" -c 'import horovod, horovod.torch; print("Horovod", horovod.__version__, "is usable")'
