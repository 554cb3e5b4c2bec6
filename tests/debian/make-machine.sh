#!/bin/sh
# mmdebstrap customize hook: makes the disk image of a machine as Debian's installer leaves it, with
# systemd. $1 is the root of the tree. Before it runs, /modules.tar has been copied into the tree.
set -eu
root=$1

tar -C "$root" -xf "$root/modules.tar"
rm "$root/modules.tar" "$root/hsp-guest.tar"
kernel=$(basename "$root"/boot/vmlinuz-*)
kernel=${kernel#vmlinuz-}
if [ ! -d "$root/lib/modules/$kernel/updates/dkms" ]; then
    echo "modules were built for $(ls "$root/lib/modules") but the guest has kernel $kernel" >&2
    exit 1
fi
chroot "$root" depmod "$kernel"

# A small initramfs unpacks quickly under emulation; it only has to find the root disk.
sed -i 's/^MODULES=.*/MODULES=list/' "$root/etc/initramfs-tools/initramfs.conf"
printf '%s\n' virtio_pci virtio_blk ext4 >"$root/etc/initramfs-tools/modules"
chroot "$root" update-initramfs -u -k "$kernel"

# The address says which machine it is; its name and its machine id come with the kernel's arguments.
printf '127.0.0.1 localhost\n10.9.0.1 nas\n10.9.0.11 client1\n' >"$root/etc/hosts"
for number in 1 11; do
    printf '[Match]\nMACAddress=52:54:00:09:00:%02d\n[Network]\nAddress=10.9.0.%d/24\n' $number $number \
        >"$root/etc/systemd/network/$number.network"
done
echo 'LABEL=hsp-root / ext4 errors=remount-ro 0 1' >"$root/etc/fstab"
rm -f "$root/etc/hostname" "$root/usr/sbin/policy-rc.d"
: >"$root/etc/machine-id" # empty: not a first boot, which would enable all units
chroot "$root" systemctl enable systemd-networkd
# A test starts them where it wants them. Nothing is downloaded.
for unit in nfs-ganesha.service multipathd.service multipathd.socket apt-daily.timer apt-daily-upgrade.timer; do
    chroot "$root" systemctl disable "$unit"
done
# A test makes its own cluster of PostgreSQL.
rm -rf "${root:?}"/etc/postgresql/* "${root:?}"/var/lib/postgresql/*
chroot "$root" ssh-keygen -A

mkdir "$root/hsp-out"
cp "$root/boot/vmlinuz-$kernel" "$root/hsp-out/vmlinuz"
cp "$root/boot/initrd.img-$kernel" "$root/hsp-out/initrd.img"
# shellcheck disable=SC2016  # the ${...} are dpkg-query's, not the shell's
chroot "$root" dpkg-query --show --showformat '${Package}\t${Version}\n' >"$root/hsp-out/packages.tsv"
printf '%s\n' "$kernel" >"$root/hsp-out/kernel"
chroot "$root" modinfo -k "$kernel" -F version zfs >"$root/hsp-out/zfs"
rm -rf "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale "${root:?}"/var/cache/apt/* \
    "${root:?}"/var/lib/apt/lists/* "${root:?}"/boot/*

# As kit/lab/image/make-root.sh does it: not with what mmdebstrap has mounted, nor with the image itself.
out=$root/tmp/hsp-out
mkdir -p "$out/tree"
trap 'umount "$out/tree/tmp" "$out/tree" 2>/dev/null || true' EXIT
mv "$root/hsp-out" "$out/parts"
mount --bind "$root" "$out/tree"
mount -t tmpfs -o mode=1777 tmpfs "$out/tree/tmp"
mke2fs -q -t ext4 -d "$out/tree" -L hsp-root "$out/root.img" 4G
umount "$out/tree/tmp" "$out/tree"
mkdir "$root/hsp-out"
mv "$out/parts"/* "$out/root.img" "$root/hsp-out/"
