#!/bin/sh
# mmdebstrap customize hook of the *guest* tree: adds the compiled modules and the
# guest's own files, makes a small initramfs, records versions, and turns the tree
# into an ext4 image. $1 is the root of the tree. Runs as (mapped) root in every
# mmdebstrap mode, so file owners come out right for an ordinary user too.
#
# Before it runs, /modules.tar and /hsp-guest.tar have been copied into the tree.
set -eu
root=$1

tar -C "$root" -xf "$root/modules.tar"
tar -C "$root" --no-same-owner -xf "$root/hsp-guest.tar"
rm "$root/modules.tar" "$root/hsp-guest.tar"

kernel=$(basename "$root"/boot/vmlinuz-*)
kernel=${kernel#vmlinuz-}
if [ ! -d "$root/lib/modules/$kernel/updates/dkms" ]; then
    echo "modules were built for $(ls "$root/lib/modules") but the guest has kernel $kernel" >&2
    exit 1
fi
# What loading a module costs under emulation is saved here, once: to decompress it, to check its signature
# (objcopy drops it; nothing asks for one), and to look for each of its functions among all its symbols
# (ftrace_module_enable of the kernel). Names of functions stay: they are what can be traced.
for part in updates kernel/fs kernel/net/sunrpc kernel/net/dns_resolver kernel/drivers/block; do
    part=$root/lib/modules/$kernel/$part
    [ -d "$part" ] || continue
    find "$part" -name '*.ko.xz' -exec xz --decompress {} +
    find "$part" -name '*.ko' | while read -r module; do
        nm "$module" | awk '$2 ~ /^[tTwW]$/ { print $3 }' >"$root/functions"
        grep '^__pfx_' "$root/functions" >"$root/prefixes" || continue
        grep -v '^__pfx_' "$root/functions" >"$root/names"
        objcopy --strip-unneeded --keep-symbols="$root/names" --strip-symbols="$root/prefixes" "$module"
    done
done
rm -f "$root/functions" "$root/prefixes" "$root/names"
chroot "$root" depmod "$kernel"

# Only what is needed to find the root disk: a small initramfs unpacks quickly under emulation.
sed -i 's/^MODULES=.*/MODULES=list/; s/^COMPRESS=.*/COMPRESS=lz4/' "$root/etc/initramfs-tools/initramfs.conf"
printf '%s\n' virtio_pci virtio_blk ext4 >"$root/etc/initramfs-tools/modules"
# LVM and md are there to be recognised on disks, not to find the root disk with.
rm -f "$root"/usr/share/initramfs-tools/hooks/lvm2 "$root"/usr/share/initramfs-tools/hooks/mdadm \
    "$root"/usr/share/initramfs-tools/hooks/dmeventd "$root"/usr/share/initramfs-tools/scripts/*/lvm2 \
    "$root"/usr/share/initramfs-tools/scripts/*/mdadm
chroot "$root" update-initramfs -u -k "$kernel"

mkdir -p "$root/hsp-out"
cp "$root/boot/vmlinuz-$kernel" "$root/hsp-out/vmlinuz"
cp "$root/boot/initrd.img-$kernel" "$root/hsp-out/initrd.img"
# shellcheck disable=SC2016  # the ${...} are dpkg-query's, not the shell's
chroot "$root" dpkg-query --show --showformat '${Package}\t${Version}\n' >"$root/hsp-out/packages.tsv"
printf '%s\n' "$kernel" >"$root/hsp-out/kernel"
chroot "$root" modinfo -k "$kernel" -F version zfs >"$root/hsp-out/zfs"

# Keys that every image would share; each boot brings its own.
rm -f "$root"/etc/ssh/ssh_host_*
rm -rf "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale \
    "$root"/var/cache/apt "$root"/var/lib/apt/lists "${root:?}"/boot/*
mkdir -p "$root/var/lib/apt/lists" "$root/var/cache/apt"

# Inside the tree, so that whoever removes the tree removes this too.
out=$root/tmp/hsp-out
mkdir -p "$out/tree"
trap 'umount "$out/tree/tmp" "$out/tree" 2>/dev/null || true' EXIT
mv "$root/hsp-out" "$out/parts"
# A bind mount that is not recursive: mmdebstrap has /proc, /sys and /dev mounted in the tree.
# Over its /tmp comes an empty one: the image does not contain itself.
mount --bind "$root" "$out/tree"
mount -t tmpfs -o mode=1777 tmpfs "$out/tree/tmp"
mke2fs -q -t ext4 -O ^has_journal -d "$out/tree" -L hsp-root "$out/root.img" 1300M
umount "$out/tree/tmp" "$out/tree"
# The image leaves the tree through mmdebstrap's own copy-out, which also works
# where the tree belongs to subordinate user ids.
mkdir "$root/hsp-out"
mv "$out/parts"/* "$root/hsp-out/"
mv "$out/root.img" "$root/hsp-out/root.img"
