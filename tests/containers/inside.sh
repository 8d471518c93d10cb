#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# What podman_test.sh runs inside one container: a daemon and its clients, alone with 63 MB of /dev/shm and the default
# seccomp profile. Only what an image without coreutils has: the shell, and what was copied for the test.
set -eu
fail() {
    echo "inside: FAILED: $1" >&2
    [ -z "${2:-}" ] || while IFS= read -r line; do echo "    $line"; done <"$2" >&2
    exit 1
}
nvlf up >/tmp/up 2>&1 || fail "no fabric" /tmp/up
nvlf status >/tmp/status 2>&1 || fail "no status" /tmp/status

echo "== 256 MiB through one pointer in two processes"
mkfifo /tmp/hold /tmp/told
container_memory write 256 </tmp/hold >/tmp/told 2>/tmp/writer &
writer=$!
exec 3>/tmp/hold 4</tmp/told
read -r token pointer words <&4 || fail "the writer failed" /tmp/writer
container_memory read "$token" "$pointer" "$words" >/tmp/reader 2>&1 || fail "the reader failed" /tmp/reader
exec 3>&-
read -r verdict <&4 || fail "the writer failed" /tmp/writer
wait "$writer" || fail "the writer failed" /tmp/writer
exec 4<&-
echo "$verdict"

echo "== fi_pingpong, every size, every byte checked"
nvlf run --device gpu0 -- fi_pingpong -e rdm -p nvlf -c -S all -I 5 >/tmp/server 2>&1 &
server=$!
tries=0 # The container has its own network: until something listens, the client is refused at once.
until nvlf run --device trn0 -- fi_pingpong -e rdm -p nvlf -c -S all -I 5 127.0.0.1 >/tmp/client 2>&1; do
    kill -0 "$server" 2>/dev/null || fail "the server of fi_pingpong ended" /tmp/server
    tries=$((tries + 1))
    [ $tries -lt 100 ] || fail "the client of fi_pingpong failed" /tmp/client
done
wait "$server" || fail "the server of fi_pingpong failed" /tmp/server

nvlf down >/tmp/down 2>&1 || fail "the fabric did not go down" /tmp/down
for left in "$NVLF_DIR"/* /dev/shm/*; do
    [ ! -e "$left" ] || fail "$left is left"
done
echo "inside: all good"
