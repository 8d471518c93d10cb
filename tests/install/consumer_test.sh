#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# usage: consumer_test.sh BUILD-DIR ROOT
#
# Installs BUILD-DIR to ROOT, moves ROOT (an installed tree must not remember where it was put), and there builds and runs
# one consumer by find_package and by pkg-config, the command line, and libfabric's own fi_info on the provider.
set -eu
build=$1
root=$2.moved
sources=$(cd "$(dirname "$0")/consumer" && pwd)
work=$(mktemp -d)
# The daemon that the first consumer starts would end by itself, two seconds after its last client; nothing is to be left
# when the test is over.
trap '[ ! -x "$root/bin/nvlf" ] || "$root/bin/nvlf" down >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

# A fabric of our own.
unset NVLF_FABRIC NVLF_DEVICE NVLF_TOPOLOGY NVLF_NVLFD NVLF_ON_DEMAND
export NVLF_DIR="$work/run"

say() { echo "== $*"; }

say "install"
rm -rf "$2" "$root"
"$CMAKE" --install "$build" --prefix "$2" >/dev/null
mv "$2" "$root"

one() { # The only file of that name in the installed tree.
    found=$(find "$root" -name "$1")
    [ "$(printf '%s\n' "$found" | wc -l)" = 1 ] && [ -n "$found" ] || {
        echo "wanted one $1 under $root, found: ${found:-none}" >&2
        exit 1
    }
    printf '%s' "$found"
}
for part in nvlfd nvlf.pc nvlfConfig.cmake libnvlf-fi.so libnvlf.so libnvlf.so.0 nvlf.h ioctl.h device.h lane.h state.h; do
    one "$part" >/dev/null
done

say "no path of the build or the sources in what is installed"
for binary in "$(one nvlfd)" "$(one libnvlf.so.0)" "$(one libnvlf-fi.so)" "$root/bin/nvlf"; do
    if readelf -d "$binary" | grep -e RPATH -e RUNPATH | grep -F -e "$build" -e "${sources%/tests/*}"; then
        echo "$binary looks for libraries in the build"
        exit 1
    fi
    if ldd -r "$binary" 2>&1 | grep -e 'not found' -e 'undefined symbol'; then
        echo "$binary does not load"
        exit 1
    fi
done


say "consumer by find_package"
"$CMAKE" -S "$sources" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$root" >/dev/null
"$CMAKE" --build "$work/cmake" >/dev/null
"$work/cmake/consumer"

say "consumer by pkg-config"
PKG_CONFIG_PATH=$(dirname "$(one nvlf.pc)")
export PKG_CONFIG_PATH
case $("$root/bin/nvlf" --version) in
"nvlf $(pkg-config --modversion nvlf)"*) ;;
*)
    echo "nvlf.pc says $(pkg-config --modversion nvlf), but: $("$root/bin/nvlf" --version)"
    exit 1
    ;;
esac
# shellcheck disable=SC2046 # Flags are words.
"$CC" -std=c11 -Wall -Wextra -Werror -o "$work/consumer" "$sources/consumer.c" $(pkg-config --cflags --libs nvlf) \
    "-Wl,-rpath,$(dirname "$(one libnvlf.so.0)")"
"$work/consumer"

say "provider by fi_info"
FI_PROVIDER_PATH=$(pkg-config --variable=providerdir nvlf)
export FI_PROVIDER_PATH
fi_info -p nvlf >"$work/fi_info"
grep -q 'provider: nvlf' "$work/fi_info"

say "all good"
