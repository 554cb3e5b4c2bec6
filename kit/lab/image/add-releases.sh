#!/bin/sh
# mmdebstrap setup hook of both trees: repeats the suite's apt lines for each release in
# HSP_RELEASES that a pin takes packages from, whichever mirror those lines name.
# $1 is the root of the tree.
set -eu
root=$1

for release in $HSP_RELEASES; do
    list=$root/etc/apt/sources.list.d/hsp-$release.list
    cat "$root/etc/apt/sources.list" "$root"/etc/apt/sources.list.d/*.list 2>/dev/null |
        sed -n "s|^\(deb .*\) $HSP_SUITE \(.*\)|\1 $release \2|p" >"$list.new"
    mv "$list.new" "$list"
    if ! [ -s "$list" ]; then
        echo "hsp: pin of $release: found no apt line of $HSP_SUITE to repeat for it" >&2
        exit 1
    fi
done
