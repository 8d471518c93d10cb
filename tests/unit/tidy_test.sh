#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# usage: tidy_test.sh TOOLS-DEV
#
# The other checks of tools/dev turn red, and only when they should: for each a sample that is fine and samples that are not.
# (layers has a test of its own, because it has a table of its own.)
set -eu
tools=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/t"
cd "$tree/t"
cases=0
failures=0

# expect fine|red WORDS-IT-SAYS command...
expect() {
    verdict=$1 words=$2
    shift 2
    cases=$((cases + 1))
    if "$@" >"$tree/said" 2>&1; then got=fine; else got=red; fi
    if [ "$got" != "$verdict" ] || { [ -n "$words" ] && ! grep -q -e "$words" "$tree/said"; }; then
        echo "$*: expected $verdict and '$words', got $got and: $(cat "$tree/said")"
        failures=$((failures + 1))
    fi
}

licence="SPDX-License-Identifier:" # Put together below, so that no check mistakes a sample for this file's own.
echo "// $licence MIT OR GPL-2.0-only" >a.cc
printf '#!/bin/sh\n# %s MIT OR GPL-2.0-only\n' "$licence" >a.sh
mkdir -p kernel/include/uapi/nvlf
echo "/* $licence (GPL-2.0-only WITH Linux-syscall-note) OR MIT */" >kernel/include/uapi/nvlf/a.h
expect fine "" "$tools/spdx" .
echo "int x;" >b.cc
expect red 'b.cc:1: .*missing' "$tools/spdx" .
echo "// $licence MIT" >b.cc
expect red 'b.cc:1: .*is "MIT"' "$tools/spdx" .
rm b.cc
echo "/* $licence MIT OR GPL-2.0-only */" >kernel/include/uapi/nvlf/b.h
expect red 'b.h:1: .*Linux-syscall-note' "$tools/spdx" .
rm kernel/include/uapi/nvlf/b.h

own=tmp/nvlf-1000 home=HOME/work inside=build/home # Put together below, as the licence is.
echo "in /$own or \$$home/x or $inside/y" >text
expect fine "" "$tools/paths" .
for place in home/me root Users/me work/main tmp/mine/x; do
    echo "see /$place/file" >text
    expect red 'text:1:' "$tools/paths" .
done
rm text

mkdir -p docs tests
echo '| 1 | it hangs | it does not | `a_test: it_ends`, `b.sh` |' >docs/COMPLAINTS.md
echo 'BOOST_DATA_TEST_CASE_F(Fixture, it_ends, ranks) {}' >tests/a_test.cc
touch tests/b.sh
expect fine "" "$tools/complaints" .
echo '| 2 | it crashes | it does not | `a_test: it_stands` |' >>docs/COMPLAINTS.md
expect red 'a_test: it_stands' "$tools/complaints" .
echo '| 1 | it hangs | it does not | c.sh |' >docs/COMPLAINTS.md
expect red 'names no test' "$tools/complaints" .
echo '| 1 | it hangs | it does not | `c.sh` |' >docs/COMPLAINTS.md
expect red 'names c.sh' "$tools/complaints" .
rm -r docs tests

${CC:-cc} -shared -fPIC -o one.so -x c - <<'SOURCE'
int promised(void) { return 0; }
__attribute__((visibility("hidden"))) int internal(void) { return 0; }
SOURCE
echo 'V_1 { global: promised; local: *; };' >one.map
expect fine '1 symbols' "$tools/exports" one.so one.map
echo 'V_1 { global: promised; /* a comment; with: words */ also; local: *; };' >more.map
expect red 'promised by more.map, not exported: also' "$tools/exports" one.so more.map
printf 'V_1 {\n  global:\n    promised;\n  local: *;\n};\nV_2 {\n  global:\n    also; # comment\n} V_1;\n' >more.map
expect red 'not exported: also' "$tools/exports" one.so more.map
${CC:-cc} -shared -fPIC -o two.so -x c - <<'SOURCE'
int promised(void) { return 0; }
int leaked(void) { return 0; }
SOURCE
expect red 'exported, but not in one.map: leaked' "$tools/exports" two.so one.map
echo 'V_1 { global: prom*; local: *; };' >pattern.map
expect red 'by its name' "$tools/exports" one.so pattern.map
echo 'V_1 { local: *; };' >empty.map
expect red 'no symbol' "$tools/exports" one.so empty.map

expect fine "" "$tools/undefined" ./one.so
echo 'int nowhere(void); int f(void) { return nowhere(); }' | ${CC:-cc} -shared -fPIC -o bad.so -x c -
expect red 'nowhere' "$tools/undefined" ./bad.so

mkdir -p userspace/include/nvlf
header=userspace/include/nvlf/h.h
printf '#pragma once\n#include <stdint.h>\nstruct s { uint32_t x; };\n' >$header
rm kernel/include/uapi/nvlf/a.h
expect fine '1 headers' "$tools/headers" .
printf '#pragma once\nstruct s { uint32_t x; };\n' >$header
expect red 'uint32_t' "$tools/headers" .
printf '#include <stdint.h>\nstruct s { uint32_t x; };\n' >$header
expect red 'redefinition' "$tools/headers" .
printf '#pragma once\nextern int class;\n' >$header
expect red 'class' "$tools/headers" .
printf '#pragma once\nextern bool f(void);\n' >$header
expect red 'bool' "$tools/headers" .

echo "$cases cases, $failures failures"
[ "$failures" = 0 ]
