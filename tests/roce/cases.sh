# cases.sh - in the guest: each case untraced and traced, their outputs and run files into /mnt. Needs $BUILD.
# A case fails alone: what is missing afterwards, test_roce.py says.
lapwing=$BUILD/bin/lapwing
gid=1 # of rxe0: 10.9.0.1

wait_for_server() { # until port 18515 listens
  n=0
  until grep -qi ':4853 [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
    n=$((n + 1))
    [ "$n" -lt 300 ] || return 1
    sleep 0.1
  done
}

# both NAME COMMAND: without and with the tracer
both() {
  name=$1
  shift
  "$@" >"/mnt/$name.plain" 2>&1
  echo "exit $?" >>"/mnt/$name.plain"
  "$lapwing" record -q --ring-records 16384 -o "/tmp/$name.lapwing" -- "$@" >"/mnt/$name.traced" 2>&1
  echo "exit $?" >>"/mnt/$name.traced"
  cp "/tmp/$name.lapwing" /mnt/
}

# rank NUMBER SIZE COMMAND: as mpirun starts it
rank() {
  OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_SIZE=$2
  export OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
  shift 2
  exec "$@"
}

# A server (rank 0) and its client (rank 1), in one command: cases.sh pair SERVER... (the client is the same with a
# host); cases.sh half SERVER...: nobody sees what the client does
if [ "${1:-}" = pair ] || [ "${1:-}" = half ]; then
  unseen=
  [ "$1" = pair ] || unseen="env -u LD_PRELOAD"
  shift
  (rank 0 2 "$@" >/tmp/server.out 2>&1) &
  wait_for_server
  (rank 1 2 $unseen "$@" 127.0.0.1 >/tmp/client.out 2>&1)
  code=$?
  wait $!
  cat /tmp/server.out /tmp/client.out
  exit $code
fi

if [ "${1:-}" = ranks ]; then # two ranks in one command: cases.sh ranks ONE OTHER SIZE COMMAND
  one=$2 other=$3 size=$4
  shift 4
  (rank "$one" "$size" "$@") &
  (rank "$other" "$size" "$@")
  code=$?
  wait $! && exit $code
  exit 1
fi

if [ -n "${ONLY_PEER:-}" ]; then # two guests, joined: one serves, the other has the address of the first
  ibv=/usr/bin/ibv_rc_pingpong
  ring="$BUILD/tests/verbs_ring 10.9.0.1 10.9.0.1 10.9.0.2 10.9.0.2"
  record="$lapwing record -q --ring-records 16384 --pcap=eth0"
  if [ "$ONLY_PEER" = one ]; then
    tcpdump -i eth0 -s 128 -B 4096 -U -w /tmp/wire.pcap udp port 4791 2>/tmp/tcpdump.log &
    tcpdump=$!
    (rank 0 2 $record -o /tmp/one.lapwing -- $ibv -d rxe0 -g $gid -s 10000 -n 100) &
    job=$!
    wait_for_server && : >/mnt/one.up
    wait $job
    code=$?
    sleep 1
    kill -INT $tcpdump
    wait $tcpdump
    cat /tmp/tcpdump.log
    # each rank recorded and captured for itself, as mpirun would start them
    (rank 0 4 $record -o /tmp/ring0.lapwing -- $ring) &
    (rank 1 4 $record -o /tmp/ring1.lapwing -- $ring) || code=$?
    wait $! || code=$?
    cp /tmp/ring?.lapwing /mnt/
  else
    until [ -e /mnt/one.up ]; do sleep 0.2; done
    (rank 1 2 $record -o /tmp/two.lapwing -- $ibv -d rxe0 -g $gid -s 10000 -n 100 10.9.0.1)
    code=$?
    $record -o /tmp/ring23.lapwing -- sh "$SOURCE/tests/roce/cases.sh" ranks 2 3 4 $ring || code=$?
    cp /tmp/ring23.lapwing /mnt/
  fi
  cp /tmp/$ONLY_PEER.lapwing /mnt/
  [ ! -e /tmp/wire.pcap ] || cp /tmp/wire.pcap /mnt/
  exit $code
fi

self="sh $SOURCE/tests/roce/cases.sh pair"
both pingpong $self ibv_rc_pingpong -d rxe0 -g $gid -s 4096 -n 200
both pingpong_new $self ibv_rc_pingpong -d rxe0 -g $gid -s 4096 -n 200 -N
both datagrams $self ibv_ud_pingpong -d rxe0 -g $gid -s 1000 -n 100
both read_bw $self ib_read_bw -d rxe0 -x $gid -s 65536 -n 50 -F
"$lapwing" record -q --ring-records 16384 -o /tmp/half.lapwing -- \
  sh $SOURCE/tests/roce/cases.sh half ibv_rc_pingpong -d rxe0 -g $gid -s 4096 -n 200 >/mnt/half.traced 2>&1
cp /tmp/half.lapwing /mnt/
both write_bw $self ib_write_bw -d rxe0 -x $gid -s 65536 -n 200 -Q 20 -F
both own "$BUILD/tests/verbs_cases" rc unsignalled srq wr error signal_all
both more "$BUILD/tests/verbs_cases" cq_ex cq_ex_first cq_ex_unsized cq_ex_unnamed destroyed reset full list threads fork exit
both own_dl "$BUILD/tests/verbs_cases_dl" rc unsignalled srq wr error signal_all reload

# TCP is not to be asked about then, and doctor says so
rmmod tcp_diag inet_diag
"$lapwing" doctor --json >/mnt/doctor.json
