#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# usage: demo.sh BUILD
#
# NVLF in four steps: bring a fabric up, look at it, send messages through it with a program that knows nothing of NVLF,
# share one address space. Each step checks what it shows. Nothing is left behind, however it ends: the fabric lives in a
# folder of its own, and its daemon ends with this script.
set -eu
build=$(cd "${1:?usage: demo.sh BUILD}" && pwd)
nvlf=$build/bin/nvlf
shared_pointer=$build/demo/shared_pointer
for program in "$nvlf" "$build/bin/nvlfd" "$shared_pointer"; do
    [ -x "$program" ] || { echo "demo: $program is not there; make demo builds it" >&2; exit 2; }
done
command -v fi_pingpong >/dev/null || { echo "demo: fi_pingpong is missing; on Debian: apt-get install libfabric-bin" >&2; exit 2; }

# Nothing of the user's own fabrics and settings is to be seen or touched.
unset NVLF_TOPOLOGY NVLF_DEVICE NVLF_NVLFD NVLF_ON_DEMAND FI_PROVIDER_PATH FI_PROVIDER || true
tmp=
daemon=
children=

clean_up() {
    status=$?
    trap - EXIT
    trap '' HUP INT TERM # Once is enough.
    exec 3>&- || true
    # KILL: the SIGTERM handler of a provider that comes with libfabric (PSM) can deadlock in exit().
    for child in $children; do kill -KILL "$child" 2>/dev/null || true; done
    # Whether or not we know that it is up: an interrupted `nvlf up` may have been fast enough.
    [ -z "$tmp" ] || "$nvlf" down --force >/dev/null 2>&1 || { [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; }
    wait
    [ -z "$tmp" ] || rm -rf "$tmp"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
tmp=$(mktemp -d)
export NVLF_DIR="$tmp/fabrics" NVLF_FABRIC=demo
mkdir -m 0700 "$NVLF_DIR"
cd "$tmp" # Some libfabric providers write a backtrace into the working directory when their program is interrupted.

step() { printf '\n== %s\n\n' "$1"; }
say() { printf '   %s\n' "$1"; }
fail() {
    echo "demo: FAILED: $1" >&2
    [ -z "${2:-}" ] || sed 's/^/    /' "$2" >&2
    exit 1
}

# Is a TCP port (of this host, either family) in use; in the given state only, if one is given (0A: listening)?
port_in_use() {
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        awk -v port="$(printf ':%04X' "$1")" -v state="${2:-}" '
            substr($2, length($2) - 4) == port && (state == "" || $4 == state) { found = 1 } END { exit !found }'
}

# Below the range from which the kernel gives ports to others.
free_port() {
    port=$((20000 + $$ % 10000))
    tries=0
    while port_in_use "$port" && [ $tries -lt 1000 ]; do
        port=$((port + 1))
        tries=$((tries + 1))
    done
    echo "$port"
}

step "1. A fabric: two nodes, 4 NVIDIA GPUs and 4 Trainium4 chips, on one NVLink Fusion switch plane (nvlf up)"
"$nvlf" up --topology fusion-mixed-8 >"$tmp/up" 2>&1 || fail "the fabric did not come up" "$tmp/up"
daemon=$(sed -n 's/.*nvlfd \([0-9]*\).*/\1/p' "$tmp/up")
sed 's/^/   /' "$tmp/up"

step "2. Who reaches whom, and how (nvlf topo)"
"$nvlf" topo >"$tmp/topo" 2>&1 || fail "nvlf topo failed" "$tmp/topo"
sed 's/^\(.\)/   \1/' "$tmp/topo"

step "3. libfabric messages: the stock fi_pingpong, gpu0 against trn0, every byte checked (nvlf run)"
port=$(free_port)
"$nvlf" run --device gpu0 -- fi_pingpong -e rdm -p nvlf -c -S all -I 20 -B "$port" >"$tmp/server" 2>&1 &
server=$!
children=$server
tries=0
until port_in_use "$port" 0A; do # Until it listens on its control port; 10 s at most.
    kill -0 "$server" 2>/dev/null || fail "fi_pingpong on gpu0 ended early" "$tmp/server"
    tries=$((tries + 1))
    [ $tries -lt 200 ] || fail "fi_pingpong on gpu0 did not listen on port $port" "$tmp/server"
    sleep 0.05
done
timeout -k 1 60 "$nvlf" run --device trn0 -- fi_pingpong -e rdm -p nvlf -c -S all -I 20 -P "$port" 127.0.0.1 >"$tmp/client" 2>&1 ||
    fail "fi_pingpong on trn0 failed" "$tmp/client"
wait "$server" || fail "fi_pingpong on gpu0 failed" "$tmp/server"
children=
awk '$1 ~ /^(bytes|0|64|256|1k|4k|16k|64k|256k|1m|4m)$/ { print "   " $0 }' "$tmp/client" # Some of its 50 sizes.
echo
say "Both ends checked every byte and ended with exit code 0. The times are this host's (the fabric's clock is off), and"
say "above 1k mostly those of the check."

step "4. One address space: a process on gpu0 writes a linked list into trn0's HBM, one on trn0 walks it"
mkfifo "$tmp/hold" "$tmp/told"
"$nvlf" run --device gpu0 -- "$shared_pointer" write trn0 <"$tmp/hold" >"$tmp/told" 2>"$tmp/writer" &
writer=$!
children=$writer
exec 3>"$tmp/hold" 4<"$tmp/told"
read -r token written words <&4 || fail "the process on gpu0 failed" "$tmp/writer"
say "on gpu0: wrote at $written: \"$words\""
say "         token $(echo "$token" | cut -c 1-16)... is all that the other process is given"
timeout -k 1 60 "$nvlf" run --device trn0 -- "$shared_pointer" read "$token" >"$tmp/reader" 2>&1 || fail "the process on trn0 failed" "$tmp/reader"
read -r read_at read_words <"$tmp/reader"
say "on trn0: found at $read_at: \"$read_words\", and wrote it back in capitals"
exec 3>&-
read -r answer <&4 || fail "the process on gpu0 failed" "$tmp/writer"
wait "$writer" || fail "the process on gpu0 failed" "$tmp/writer"
exec 4<&-
children=
say "on gpu0: now finds at $written: \"$answer\""
[ "$written" = "$read_at" ] || fail "the pointers differ: $written on gpu0, $read_at on trn0"
[ "$words" = "$read_words" ] || fail "trn0 read something else than gpu0 wrote"
[ "$answer" = "$(echo "$words" | tr '[:lower:]' '[:upper:]')" ] || fail "gpu0 does not see what trn0 wrote"
say "The pointers are the same, and so is the data."

step "5. Down again (nvlf down)"
"$nvlf" down >"$tmp/down" 2>&1 || fail "the fabric did not go down" "$tmp/down"
sed 's/^/   /' "$tmp/down"
# A zombie has ended, too: in a container whose first process reaps nobody it stays in the table.
case $(sed 's/.*) //; s/ .*//' "/proc/$daemon/stat" 2>/dev/null) in
'' | Z) ;;
*) fail "nvlfd, process $daemon, is still there" ;;
esac
daemon=
[ -z "$(ls -A "$NVLF_DIR")" ] || fail "files are left: $(ls -A "$NVLF_DIR")"
say "No process and no file is left."
