#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# usage: layout_test.sh PROGRAM GOLDEN
set -eu
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$1" >"$out"
diff -u "$2" "$out" || { echo "the layout of the contract changed: a released field must not move"; exit 1; }
