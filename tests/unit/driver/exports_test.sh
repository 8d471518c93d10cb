#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# usage: exports_test.sh LIBNVLF.SO NVLF.H
#
# libnvlf.so exports what nvlf.h declares, all of it and nothing else, under a version.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Comments out, one declaration a line, the name before the first parenthesis.
sed -e 's://.*$::' "$2" | tr '\n' ' ' | sed -e 's:/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/: :g' -e 's/;/;\n/g' |
    sed -n 's/.*NVLF_API [^(]*[ *]\(nvlf_[a-z_]*\)(.*/\1/p' | LC_ALL=C sort >"$dir/declared"
nm -D --defined-only "$1" | sed -n 's/.* [TBDRVWi] \(.*\)/\1/p' | grep -v '^NVLF_' | LC_ALL=C sort >"$dir/versioned"
sed 's/@@NVLF_0\.[0-9]*$//' "$dir/versioned" >"$dir/exported"

test -s "$dir/declared" || { echo "no declarations were found in $2"; exit 1; }
diff -u "$dir/declared" "$dir/exported" || { echo "declared in nvlf.h (-) and exported by libnvlf.so (+) differ"; exit 1; }
if grep -v '@@NVLF_0\.[0-9]*$' "$dir/versioned"; then echo "exported without a version"; exit 1; fi
