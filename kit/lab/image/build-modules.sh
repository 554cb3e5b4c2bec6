#!/bin/sh
# mmdebstrap customize hook of the *builder* tree: compiles the OpenZFS modules
# for the kernel headers that are installed in it, and packs them for copying out.
# $1 is the root of the tree; which zfs-dkms is taken, its apt preferences say.
set -eu
root=$1

export DEBIAN_FRONTEND=noninteractive
chroot "$root" apt-get install --yes --no-install-recommends zfs-dkms

kernel=$(ls "$root/lib/modules")
for module in spl zfs; do
    if ! ls "$root/lib/modules/$kernel/updates/dkms/$module.ko"* >/dev/null 2>&1; then
        echo "the DKMS build left no $module module for $kernel" >&2
        tail -n 40 "$root"/var/lib/dkms/zfs/*/build/make.log >&2 || true
        exit 1
    fi
done
tar -C "$root" -cf "$root/modules.tar" "lib/modules/$kernel/updates/dkms"
