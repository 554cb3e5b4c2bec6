#!/bin/sh
# mmdebstrap essential hook of both trees, before the packages are installed: apt passes over
# a pin that nothing matches, and the image would then claim a version that it does not have.
# HSP_PINS has SOURCE=VERSION and SOURCE/RELEASE.
set -eu

# Versions on offer that match an apt pattern; a line of apt's is "name/release version arch".
# The tree has no apt yet: this machine's is told to look into it, as mmdebstrap does.
versions() {
    APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt list --all-versions "$1" 2>/dev/null | awk 'NF > 2 { print $2 }'
}

for pin in $HSP_PINS; do
    source="?source-package(^${pin%%[=/]*}\$)"
    offered=$(versions "$source")
    case $pin in
    */*) matching=$(versions "?narrow($source,?codename(^${pin#*/}\$))") ;;
    *=*)
        matching=
        for version in $offered; do
            # shellcheck disable=SC2254 # a version may be a pattern, as in apt's own pins
            case $version in
            ${pin#*=}) matching=$version ;;
            esac
        done
        ;;
    esac
    if [ -z "$matching" ]; then
        echo "hsp: pin $pin matches no package; versions on offer: ${offered:-none}" >&2
        exit 1
    fi
done
