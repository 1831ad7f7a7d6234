#!/usr/bin/env bash
# guest.sh - runs a command in a small QEMU guest that has a soft-RoCE device rxe0: real libibverbs without hardware.
#
#   tests/roce/guest.sh OUTDIR COMMAND   prints the command's output, exits with its status
#   tests/roce/guest.sh --fetch          only fetches the kernel, once, into the cache
#
# The guest sees this machine's file system read-only, so programs and libraries built here run there as they
# are; it has its own /tmp and /dev/shm, and OUTDIR as /mnt. Alone, rxe0 sits on a veth with 10.9.0.1; two
# guests see each other when both have the same GUEST_WIRE (path of a Unix socket: nothing leaves this
# machine) and GUEST_ADDRESS 10.9.0.1/24 (first) and 10.9.0.2/24: then rxe0 sits on eth0.
#
# Environment: GUEST_NAME (of its output files in OUTDIR), GUEST_MB (memory), GUEST_S (time limit),
# GUEST_KERNEL_DIR (cache). Emulated (KVM is not asked for): times in it mean nothing.
set -euo pipefail

cache=${GUEST_KERNEL_DIR:-$HOME/.cache/lapwing-guest}
modules=(virtio_pci virtio_net 9pnet_virtio 9p crc32_generic crc32c_generic veth tcp_diag rdma_ucm ib_uverbs rdma_rxe)

kernel_package() {
  apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ && !n++ {print $2}' || true
}

fetch_kernel() {
  local image
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9
  if ! ls "$cache"/boot/vmlinuz-* >/dev/null 2>&1; then
    image=$(kernel_package)
    if [ -z "$image" ]; then # a machine whose package lists were thrown away
      apt-get update -q >&2
      image=$(kernel_package)
    fi
    (cd "$cache" && apt-get download -q "$image" >&2 && dpkg -x "$image"_*.deb . && rm -f "$image"_*.deb)
  fi
  kernel=$(find "$cache/boot" -name 'vmlinuz-*' | sort | head -n 1)
  version=${kernel##*/vmlinuz-}
  [ -e "$cache/lib/modules/$version/modules.dep" ] || depmod -b "$cache" "$version"
  exec 9>&-
}

fetch_kernel
[ "$1" != --fetch ] || exit 0
out=$(realpath "$1")
shift
name=${GUEST_NAME:-guest}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/root/{bin,proc,sys,dev,mnt,host,mod}
cp "$(command -v busybox)" "$work/root/bin/busybox"

for module in "${modules[@]}"; do
  modprobe -d "$cache" -S "$version" --show-depends "$module" | awk '$1 == "insmod" {print $2}'
done | awk '!seen[$0]++' | while read -r file; do
  cp "$file" "$work/root/mod/"
  basename "$file" >>"$work/root/mod/order"
done

printf '%s\n' "$*" >"$work/root/command"
network=()
if [ -n "${GUEST_WIRE:-}" ]; then
  is_first=off
  case $GUEST_ADDRESS in
  *.1/*) is_first=on ;;
  *) until [ -S "$GUEST_WIRE" ]; do sleep 0.1; done ;;
  esac
  network=(-netdev "stream,id=n,server=$is_first,addr.type=unix,addr.path=$GUEST_WIRE"
    -device "virtio-net-pci,netdev=n,mac=52:54:00:00:00:0${GUEST_ADDRESS:7:1}")
  cat >"$work/root/link" <<LINK
ip addr add $GUEST_ADDRESS dev eth0
ip link set eth0 up
rdma link add rxe0 type rxe netdev eth0
LINK
else
  cat >"$work/root/link" <<'LINK'
ip link add v0 type veth peer name v1
ip addr add 10.9.0.1/24 dev v0
ip link set v0 up
ip link set v1 up
rdma link add rxe0 type rxe netdev v0
LINK
fi

cat >"$work/root/init" <<'INIT'
#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
$B mount -t devtmpfs dev /dev
while read -r module; do
  $B insmod "/mod/$module" || $B echo "guest: insmod $module failed"
done </mod/order
$B mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=524288,cache=loose host /host || $B echo "guest: no host share"
$B mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 out /mnt
$B mount -t proc proc /host/proc
$B mount -t sysfs sys /host/sys
$B mount --bind /dev /host/dev
$B mkdir -p /dev/shm
for place in dev/shm tmp run; do $B mount -t tmpfs -o mode=1777 guest "/host/$place"; done
$B mount --bind /mnt /host/mnt
$B cp /command /link /host/tmp/
read -r name </name
$B hostname "$name"
$B chroot /host /bin/sh -c "
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
ip link set lo up
. /tmp/link
sh /tmp/command >/mnt/$name.output 2>&1
echo \$? >/mnt/$name.status"
$B sync
$B poweroff -f
INIT
chmod +x "$work/root/init"
printf '%s\n' "$name" >"$work/root/name"
(cd "$work/root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"

rm -f "$out/$name.status" "$out/$name.output"
timeout "${GUEST_S:-240}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m "${GUEST_MB:-768}" \
  -nographic -no-reboot -nodefaults -serial file:"$work/console" -kernel "$kernel" -initrd "$work/initrd" \
  -append "console=ttyS0 quiet panic=-1 rdinit=/init" "${network[@]}" \
  -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
  -device virtio-9p-pci,fsdev=host,mount_tag=host \
  -fsdev local,id=out,path="$out",security_model=none -device virtio-9p-pci,fsdev=out,mount_tag=out || true
if ! cat "$out/$name.output" 2>/dev/null; then
  echo "guest.sh: the guest gave no output; its console:"
  tail -n 20 "$work/console"
fi
exit "$(cat "$out/$name.status" 2>/dev/null || echo 125)"
