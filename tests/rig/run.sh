#!/bin/bash
# run.sh gloo|mpi|local N WORKER-ARGUMENTS : real Horovod over gloo or mpi, one rank a namespace of net.sh, each with a host
# name of its own. The environment (HOROVOD_*, LD_PRELOAD) reaches the ranks. Prints rank 0's line of worker.py.
# LAPWING_PYTHON is the python3 that has Horovod.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=${LAPWING_PYTHON:-$here/../../.venv/bin/python3}
transport=$1 n=$2
shift 2
export OMP_NUM_THREADS=1 HOROVOD_CONTROLLER=$transport HOROVOD_CPU_OPERATIONS=$transport

run_gloo() {
	local port pids= status=0
	port=$(mktemp)
	ip netns exec lwhub "$python" "$here/rendezvous.py" "$n" 600 >"$port" 2>/dev/null & server=$!
	trap 'kill $server $pids 2>/dev/null; rm -f "$port"' EXIT
	until [ -s "$port" ]; do kill -0 $server || exit 1; sleep 0.05; done
	for i in $(seq 0 $((n - 1))); do
		"$here/host.sh" lwr$i env \
HOROVOD_RANK=$i HOROVOD_SIZE=$n HOROVOD_LOCAL_RANK=0 HOROVOD_LOCAL_SIZE=1 HOROVOD_CROSS_RANK=$i HOROVOD_CROSS_SIZE=$n \
HOROVOD_HOSTNAME=198.18.77.$((i + 1)) HOROVOD_GLOO_RENDEZVOUS_ADDR=198.18.77.254 HOROVOD_GLOO_RENDEZVOUS_PORT=$(head -1 "$port") \
HOROVOD_GLOO_IFACE=eth0 "$python" "$here/worker.py" "$@" & pids="$pids $!"
	done
	for pid in $pids; do wait "$pid" || status=1; done
	exit $status
}

# Only TCP between ranks: no shared memory, though they share a kernel. A message of more than the eager limit waits for an
# answer of its receiver, which here stands in the shaper's queue behind that host's own data (sfq would let it
# pass; this kernel has none): 0.97 s a step and 30 % between repeats instead of 0.64 s and 0.2 %. So the limit is above
# every segment. More ranks than cores: waiting ranks yield.
run_mpi() {
	local hosts
	hosts=$(seq -s, -f 'lwr%.0f:1' 0 $((n - 1)))
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	exec "$here/host.sh" lwhub mpirun -np "$n" --host "$hosts" --bind-to none --mca plm rsh --mca plm_rsh_agent "$here/host.sh" \
		--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 198.18.77.0/24 --mca oob_tcp_if_include 198.18.77.0/24 \
		--mca btl_tcp_eager_limit 8388608 --mca btl_tcp_rndv_eager_limit 8388608 --mca btl_tcp_max_send_size 8388608 \
		--mca mpi_yield_when_idle 1 "$python" "$here/worker.py" "$@"
}

# All ranks on this host, as a user starts them: their cores are the machine's.
run_local() {
	export HOROVOD_CONTROLLER=gloo HOROVOD_CPU_OPERATIONS=gloo PYTHONUNBUFFERED=1
	set -o pipefail
	PATH=$(dirname "$python"):$PATH horovodrun --gloo -np "$n" "$python" "$here/worker.py" "$@" | sed 's/^\[[0-9]*\]<stdout>://'
}

run_"$transport" "$@"
