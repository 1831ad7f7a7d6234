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

# A server and its client, in one command: cases.sh pair SERVER... (the client is the same with a host)
if [ "${1:-}" = pair ]; then
  shift
  "$@" >/tmp/server.out 2>&1 &
  wait_for_server
  "$@" 127.0.0.1 >/tmp/client.out 2>&1
  code=$?
  wait $!
  cat /tmp/server.out /tmp/client.out
  exit $code
fi

if [ -n "${ONLY_PEER:-}" ]; then # two guests, joined: one serves, the other has the address of the first
  ibv=/usr/bin/ibv_rc_pingpong
  if [ "$ONLY_PEER" = one ]; then
    tcpdump -i eth0 -s 128 -B 4096 -U -w /tmp/wire.pcap udp port 4791 2>/tmp/tcpdump.log &
    tcpdump=$!
    "$lapwing" record -q --ring-records 16384 -o /tmp/one.lapwing -- $ibv -d rxe0 -g $gid -s 10000 -n 100 &
    job=$!
    wait_for_server && : >/mnt/one.up
    wait $job
    code=$?
    sleep 1
    kill -INT $tcpdump
    wait $tcpdump
    cat /tmp/tcpdump.log
  else
    until [ -e /mnt/one.up ]; do sleep 0.2; done
    "$lapwing" record -q --ring-records 16384 -o /tmp/two.lapwing -- $ibv -d rxe0 -g $gid -s 10000 -n 100 10.9.0.1
    code=$?
  fi
  cp /tmp/$ONLY_PEER.lapwing /mnt/
  [ ! -e /tmp/wire.pcap ] || cp /tmp/wire.pcap /mnt/
  exit $code
fi

self="sh $SOURCE/tests/roce/cases.sh pair"
both pingpong $self ibv_rc_pingpong -d rxe0 -g $gid -s 4096 -n 200
both pingpong_new $self ibv_rc_pingpong -d rxe0 -g $gid -s 4096 -n 200 -N
both datagrams $self ibv_ud_pingpong -d rxe0 -g $gid -s 1000 -n 100
both write_bw $self ib_write_bw -d rxe0 -x $gid -s 65536 -n 200 -Q 20 -F
both own "$BUILD/tests/verbs_cases" rc unsignalled srq wr error signal_all
both more "$BUILD/tests/verbs_cases" cq_ex cq_ex_first cq_ex_unsized cq_ex_unnamed destroyed reset full list threads fork exit
both own_dl "$BUILD/tests/verbs_cases_dl" rc unsignalled srq wr error signal_all reload
