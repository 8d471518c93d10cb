#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# usage: trixie_test.sh BUILD CACHE
#
# One provider for every libfabric: this build's programs, not built again, in a root file system of the next Debian, which
# has libfabric 2.x and Open MPI 5. The root is made once with debootstrap and kept in CACHE; the build is seen in it at its
# own path, through a mount that ends with this script. The libraries of which that Debian has another version only are
# taken along.
set -eu
build=$(cd "$1" && pwd)
cache=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
root=$cache/trixie
suite=trixie

skip() {
    echo "skipped: $1"
    exit 77
}
fail() {
    echo "trixie_test: FAILED: $1" >&2
    [ ! -s "$cache/trixie.log" ] || tail -n 40 "$cache/trixie.log" | sed 's/^/    /' >&2
    exit 1
}
make_root() {
    mkdir -p "$cache"
    packages="libfabric1 libfabric-bin libhwloc15 liburing2 libatomic1 iproute2 openmpi-bin python3-mpi4py"
    [ "$(cat "$root/packages" 2>/dev/null)" != "$packages" ] || return 0
    # Where this machine gets its packages; a mirror of one release has the others, too.
    mirror=$(sed -n 's/^\(URIs:\|deb\) *\(\[[^]]*\] *\)\{0,1\}\(https\{0,1\}:[^ ]*\).*/\3/p' /etc/apt/sources.list.d/* /etc/apt/sources.list 2>/dev/null |
        grep -v security | head -n 1)
    rm -rf "$root"
    debootstrap --variant=minbase $suite "$root" "${mirror:-http://deb.debian.org/debian}" >"$cache/trixie.log" 2>&1 ||
        skip "debootstrap cannot make one: $(tail -n 1 "$cache/trixie.log")"
    # shellcheck disable=SC2086 # A list.
    DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install --yes -qq --no-install-recommends $packages \
        >"$cache/trixie.log" 2>&1 || skip "its packages cannot be installed: $(tail -n 1 "$cache/trixie.log")"
    chroot "$root" apt-get clean
    echo "$packages" >"$root/packages"
}

if [ "${NVLF_IN_TRIXIE:-}" != yes ]; then
    [ "$(id -u)" = 0 ] || skip "only root makes a root file system here"
    command -v debootstrap >/dev/null || skip "debootstrap is missing (tools/dev/deps build containers)"
    unshare --mount --pid --fork --net true 2>/dev/null || skip "no namespaces of one's own here"
    echo "== a root file system of Debian $suite"
    make_root # While there is still a network.
    # Mounts die with this namespace, however the script ends; so do all processes with the other one.
    export NVLF_IN_TRIXIE=yes
    exec unshare --mount --pid --fork --kill-child --net "$0" "$@"
fi

: >"$cache/trixie.log"

mount --make-rprivate /
mount -t tmpfs tmp "$root/tmp" # First: the build may lie below.
for folder in "$build" "$source"; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
    mount -o remount,bind,ro "$root$folder"
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o size=63m shm "$root/dev/shm"
mkdir "$root/tmp/libs" "$root/tmp/fabrics"
chmod 0700 "$root/tmp/fabrics"
for library in $(ldd "$build"/bin/* "$build"/tests/conformance/provider/* 2>/dev/null |
    awk '$2 == "=>" && $1 ~ /^lib(boost|fmt)/ { print $3 }' | sort -u); do
    cp -L "$library" "$root/tmp/libs/"
done
cat >"$root/tmp/run" <<END
#!/bin/sh
export PATH='$build/bin':/usr/bin:/bin:/usr/sbin:/sbin LD_LIBRARY_PATH=/tmp/libs NVLF_DIR=/tmp/fabrics
export FI_PROVIDER_PATH='$build/lib/libfabric' BOOST_TEST_CATCH_SYSTEM_ERRORS=no
exec "\$@"
END
chmod +x "$root/tmp/run"
inside() { chroot "$root" /tmp/run "$@" >"$cache/trixie.log" 2>&1; }
inside ip link set lo up || fail "no loopback"

inside fi_info --version || fail "fi_info --version"
libfabric=$(sed -n 's/^libfabric: //p' "$cache/trixie.log")
case $libfabric in
2.*) ;;
*) fail "libfabric is '$libfabric' there, not 2.x" ;;
esac
inside fi_info -p nvlf || fail "libfabric $libfabric does not load the provider"
[ "$(grep -c '^provider: nvlf$' "$cache/trixie.log")" = 8 ] || fail "not 8 devices"
echo "   libfabric $libfabric lists 8 devices"

echo "== fi_pingpong, every size, every byte checked"
chroot "$root" /tmp/run fi_pingpong -e rdm -p nvlf -c -S all -I 20 >"$cache/trixie.server.log" 2>&1 &
server=$!
tries=0 # Until the server listens, the client is refused at once.
until inside fi_pingpong -e rdm -p nvlf -c -S all -I 20 127.0.0.1; do
    kill -0 $server 2>/dev/null || fail "the server of fi_pingpong ended"
    tries=$((tries + 1))
    [ $tries -lt 100 ] || fail "the client of fi_pingpong"
done
wait $server || fail "the server of fi_pingpong"

echo "== the conformance suite"
suites=0
for suite in "$build"/tests/conformance/provider/*; do
    if [ ! -f "$suite" ] || [ ! -x "$suite" ]; then continue; fi
    inside "$suite" || fail "${suite##*/}"
    suites=$((suites + 1))
done
[ $suites -gt 10 ] || fail "only $suites suites: was everything built?"
echo "   $suites suites"

echo "== Open MPI 5, beside its own shared memory"
mpi() { # mpi RANKS OPTIONS... PROGRAM...: digests of what it computed
    ranks=$1
    shift
    inside env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PMIX_MCA_gds=hash \
        mpirun --map-by :OVERSUBSCRIBE --bind-to none -np "$ranks" --mca mpi_yield_when_idle 1 "$@" || fail "mpirun $*"
    grep -E '^[a-z_]+ [0-9a-f]{24}$' "$cache/trixie.log" || fail "no digests: mpirun $*"
}
by_nvlf="--mca pml cm --mca mtl ofi --mca btl self --mca opal_common_ofi_provider_include nvlf"
# No windows: version 5 has none over messages, and its btl ofi is not chosen for them here.
for program in "transfers.py ring unexpected all_to_all reductions spreading" threads.py; do
    for ranks in 2 4 16; do
        # shellcheck disable=SC2086 # Options, and a program with its arguments.
        ours=$(mpi $ranks $by_nvlf /usr/bin/python3 "$source/tests/system/mpi/"$program)
        # shellcheck disable=SC2086
        theirs=$(mpi $ranks --mca pml ob1 --mca btl sm,self /usr/bin/python3 "$source/tests/system/mpi/"$program)
        [ "$ours" = "$theirs" ] || fail "$program with $ranks ranks differs from shared memory"
    done
    echo "   ${program%% *}: the same with 2, 4 and 16 ranks"
done
# A fabric on demand outlives its last client by two seconds.
timeout 20 sh -c 'while [ -n "$(ls "$1")" ]; do :; done' sh "$root/tmp/fabrics" || fail "left: $(ls "$root/tmp/fabrics")"
echo "trixie_test: all good"
