#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# usage: podman_test.sh BUILD TESTS
#
# NVLF in containers as users have them: nothing unlocked, no set-up inside. The image holds this build's programs and what
# `ldd` names for them, nothing else, so no network and no registry is needed.
#   1. one container: daemon and clients in it, more memory than its /dev/shm has (inside.sh);
#   2. a container for each: daemon, two clients, with a volume for the socket directory and private PID and IPC
#      namespaces; kill -9 of one client is seen by the other.
# Everything is named after this process, and removed however the test ends.
set -eu
build=$(cd "$1" && pwd)
tests=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "skipped: $1"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "only root runs containers here"
for program in podman runc fi_pingpong; do
    command -v $program >/dev/null || skip "$program is missing (tools/dev/deps build containers)"
done

tmp=$(mktemp -d)
root=$tmp/root
name=nvlf-test-$$
clean_up() {
    status=$?
    trap - EXIT HUP INT TERM
    for part in one daemon server client good; do podman rm --force --time 0 "$name-$part" >/dev/null 2>&1 || true; done
    podman rmi --force "$name" >/dev/null 2>&1 || true
    rm -rf "$tmp"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
fail() {
    echo "podman_test: FAILED: $1" >&2
    for log in "$tmp"/*.log; do
        [ ! -s "$log" ] || sed "s|^|    ${log##*/}: |" "$log" >&2
    done
    exit 1
}
# until_true TRIES COMMAND... : again and again, each try costs a podman command.
until_true() {
    tries=$1
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
    done
}

echo "== an image of this build"
mkdir -p "$root/bin" "$root/usr/bin" "$root/usr/lib/libfabric" "$root/tmp" "$root/proc" "$root/dev" "$root/sys" "$root/etc" "$root/fabrics"
chmod 1777 "$root/tmp"
chmod 0700 "$root/fabrics"
copy() { # copy FOLDER FILE... : with the libraries that they need, where the loader looks for them
    folder=$1
    shift
    for file in "$@"; do
        cp -L "$file" "$root$folder/"
        ldd "$file" | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
            case $library in
            "$build"/*) cp -L "$library" "$root/usr/lib/" ;;
            *)
                mkdir -p "$root${library%/*}"
                cp -L "$library" "$root$library"
                ;;
            esac
        done
    done
}
copy /bin "$(command -v sh)"
copy /usr/bin "$build/bin/nvlfd" "$build/bin/nvlf" "$tests/container_memory" "$(command -v fi_pingpong)" \
    "$(command -v mkfifo)" "$build/tests/system/provider/pingpong_peer"
copy /usr/lib/libfabric "$build/lib/libfabric/libnvlf-fi.so"
cp "$here/inside.sh" "$root/usr/bin/inside"
chmod +x "$root/usr/bin/inside"
tar -C "$root" -cf "$tmp/image.tar" .
podman import --quiet --change ENV=PATH=/usr/bin:/bin --change ENV=LD_LIBRARY_PATH=/usr/lib --change ENV=NVLF_DIR=/fabrics \
    "$tmp/image.tar" "$name" >"$tmp/import.log" 2>&1 || fail "podman import"
rm -rf "$root" "$tmp/image.tar"

# Limits may not be raised where podman itself runs in a container.
run="podman run --runtime runc --ulimit nofile=1024:1024 --ulimit nproc=1024:1024"
code=0
$run --rm --network none --name "$name-one" "$name" sh -c 'echo works' >"$tmp/probe.log" 2>&1 || code=$?
case $code in
0) ;;
125) skip "podman cannot run a container here: $(cat "$tmp/probe.log")" ;; # Its own failure, not the program's.
*) fail "a shell in a container" ;;
esac

echo "== one container, its default seccomp profile and /dev/shm"
$run --network none --name "$name-one" "$name" inside >"$tmp/one.log" 2>&1 || fail "in one container"
sed 's/^/   /' "$tmp/one.log"

echo "== a container each, with private PID and IPC namespaces"
mkdir -m 0700 "$tmp/fabrics"
volume="$tmp/fabrics:/fabrics"
private="--ipc private --pid private --volume $volume"
$run -d $private --network none --name "$name-daemon" "$name" nvlfd --fabric shared --log-level debug >"$tmp/daemon.log" 2>&1 ||
    fail "nvlfd in a container"
daemon_says() { podman logs "$name-daemon" 2>&1 | grep -q "$1"; }
until_true 100 daemon_says 'serves' || { podman logs "$name-daemon" >"$tmp/daemon.log" 2>&1; fail "nvlfd does not serve"; }
podman logs "$name-daemon" 2>&1 | sed 's/^/   /'
daemon_says 'by epoll' || fail "nvlfd does not say that it uses epoll where io_uring is refused"

$run -d $private --network none --env NVLF_FABRIC=shared --name "$name-server" "$name" \
    nvlf run --device gpu0 -- fi_pingpong -e rdm -p nvlf -c -S all -I 5 >"$tmp/server.log" 2>&1 || fail "fi_pingpong server"
tries=100
until $run --rm $private --network "container:$name-server" --env NVLF_FABRIC=shared --name "$name-client" "$name" \
    nvlf run --device trn0 -- fi_pingpong -e rdm -p nvlf -c -S all -I 5 127.0.0.1 >"$tmp/client.log" 2>&1; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { podman logs "$name-server" >"$tmp/server.log" 2>&1; fail "fi_pingpong between containers"; }
done
code=$(timeout 30 podman wait "$name-server") || fail "the fi_pingpong server does not end"
[ "$code" = 0 ] || { podman logs "$name-server" >"$tmp/server.log" 2>&1; fail "the fi_pingpong server ended with $code"; }
podman rm "$name-server" >/dev/null
echo "   fi_pingpong between containers: every size, every byte"

peer="$run -d $private --network none --env NVLF_FABRIC=shared --env FI_PROVIDER_PATH=/usr/lib/libfabric"
$peer --name "$name-server" "$name" pingpong_peer serve s >"$tmp/server.log" 2>&1 || fail "a server in a container"
$peer --name "$name-client" "$name" pingpong_peer call s 4096 0 >"$tmp/client.log" 2>&1 || fail "a client in a container"
talks() { podman logs "$name-client" 2>&1 | grep -q running; }
until_true 100 talks || { podman logs "$name-client" >"$tmp/client.log" 2>&1; fail "the client does not get through"; }
podman kill --signal KILL "$name-client" >/dev/null || fail "podman kill"
code=$(timeout 30 podman wait "$name-server") || fail "the server does not notice that the client was killed"
podman logs "$name-server" >"$tmp/server.log" 2>&1
[ "$code" = 3 ] || fail "the server of a killed client ended with $code, not 3"
sed -n 's/^gone/   gone/p' "$tmp/server.log"
grep -q '^gone' "$tmp/server.log" || fail "the server got no error"
podman rm --force "$name-server" "$name-client" >/dev/null
echo "podman_test: all good"
