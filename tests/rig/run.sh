#!/bin/bash
# run.sh N MODEL.json STEPS : real Horovod over Gloo, one rank a namespace of net.sh. HOROVOD_* and PRE (a command
# prefix, e.g. PRE="env LD_PRELOAD=...") pass through. Prints rank 0's step-time line.
# LAPWING_PYTHON is the python3 that has Horovod.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=${LAPWING_PYTHON:-$here/../../.venv/bin/python3}
n=$1 port=$(mktemp)
ip netns exec lwhub "$python" "$here/rendezvous.py" "$n" 600 >"$port" 2>/dev/null & server=$!
pids=
trap 'kill $server $pids 2>/dev/null; rm -f "$port"' EXIT
until [ -s "$port" ]; do kill -0 $server || exit 1; sleep 0.05; done
for i in $(seq 0 $((n - 1))); do
	unshare --uts bash -c "hostname lwr$i; exec ip netns exec lwr$i env \
HOROVOD_RANK=$i HOROVOD_SIZE=$n HOROVOD_LOCAL_RANK=0 HOROVOD_LOCAL_SIZE=1 HOROVOD_CROSS_RANK=$i HOROVOD_CROSS_SIZE=$n \
HOROVOD_HOSTNAME=198.18.77.$((i + 1)) HOROVOD_GLOO_RENDEZVOUS_ADDR=198.18.77.254 HOROVOD_GLOO_RENDEZVOUS_PORT=$(head -1 "$port") \
HOROVOD_GLOO_IFACE=eth0 HOROVOD_CONTROLLER=gloo HOROVOD_CPU_OPERATIONS=gloo OMP_NUM_THREADS=1 \
${PRE:-} $python $here/worker.py $2 $3" & pids="$pids $!"
done
status=0
for pid in $pids; do wait "$pid" || status=1; done
exit $status
