#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# usage: mpi_test.sh mpi_test [its arguments]
#
# Runs the tests where Open MPI, mpi4py and NetPIPE are; elsewhere says what is missing and skips.
set -eu

skip() {
    echo "skipped: $*: \`tools/dev/deps mpi\` installs it"
    exit 77
}
command -v mpirun >/dev/null || skip "no Open MPI"
mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "this mpirun is not Open MPI's"
command -v NPopenmpi >/dev/null || skip "no NetPIPE"

# The distribution's interpreter has the distribution's modules; another one may come first in PATH.
for python in python3 /usr/bin/python3; do
    if "$python" -c 'import mpi4py' 2>/dev/null; then
        NVLF_TEST_PYTHON=$python exec "$@"
    fi
done
skip "no mpi4py"
