#!/bin/bash
# host.sh HOST COMMAND... : runs a shell's COMMAND on a host of net.sh, under its host name. mpirun takes it for its rsh.
exec unshare --uts bash -c 'hostname "$0"; exec ip netns exec "$0" bash -c "$1"' "$1" "${*:2}"
