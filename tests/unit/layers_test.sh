#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# usage: layers_test.sh PATH-OF-LAYERS
#
# A check that never turns red checks nothing. Each line below is a file with one include and the verdict that the layer
# check owes it; every row of the table has at least one violation.
set -eu
layers=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cases=0
failures=0

while read -r verdict file include; do
    case $verdict in '' | '#') continue ;; esac
    cases=$((cases + 1))
    rm -rf "$tree/tree"
    mkdir -p "$tree/tree/${file%/*}"
    printf '#pragma once\n#include %s // comment\n' "$include" >"$tree/tree/$file"
    if "$layers" "$tree/tree" >"$tree/said"; then got=fine; else got=red; fi
    if [ "$got" != "$verdict" ]; then
        echo "$file including $include: expected $verdict, got $got"
        failures=$((failures + 1))
    fi
    # The finding must lead an editor to the line.
    if [ "$got" = red ] && ! grep -q "^$file:2: may not include " "$tree/said"; then
        echo "$file including $include: no 'file:line:' in: $(cat "$tree/said")"
        failures=$((failures + 1))
    fi
done <<'CASES'
# The contract
fine kernel/include/uapi/nvlf/ioctl.h <linux/types.h>
fine kernel/include/uapi/nvlf/ioctl.h <linux/ioctl.h>
fine kernel/include/uapi/nvlf/lane.h "nvlf/device.h"
red  kernel/include/uapi/nvlf/ioctl.h <stdint.h>
red  kernel/include/uapi/nvlf/ioctl.h <linux/mman.h>
red  kernel/include/uapi/nvlf/ioctl.h "nvlf/nvlf.h"
# The module
fine kernel/main.c <linux/module.h>
fine kernel/main.c "nvlf/ioctl.h"
red  kernel/main.c <stdio.h>
red  kernel/main.c "base/result.hpp"
# Base
fine userspace/base/fd.hpp <unistd.h>
fine userspace/base/fd.hpp <chrono>
fine userspace/base/fd.hpp "base/result.hpp"
fine userspace/base/lane.hpp "nvlf/lane.h"
red  userspace/base/fd.hpp "driver/fabric.hpp"
red  userspace/base/fd.hpp "nvlf/nvlf.h"
red  userspace/base/fd.hpp "model/topology.hpp"
red  userspace/base/fd.hpp <rdma/fabric.h>
red  userspace/base/fd.hpp <liburing.h>
red  userspace/base/fd.hpp <boost/asio.hpp>
red  userspace/base/fd.hpp "../driver/fabric.hpp"
# The public header
fine userspace/include/nvlf/nvlf.h <stdint.h>
fine userspace/include/nvlf/nvlf.h "nvlf/device.h"
red  userspace/include/nvlf/nvlf.h "base/result.hpp"
red  userspace/include/nvlf/nvlf.h <vector>
# The driver
fine userspace/driver/mem.cc "nvlf/nvlf.h"
fine userspace/driver/mem.cc "base/fd.hpp"
fine userspace/driver/mem.cc <sys/mman.h>
red  userspace/driver/mem.cc <rdma/fi_errno.h>
red  userspace/driver/mem.cc <hwloc.h>
red  userspace/driver/mem.cc <liburing.h>
red  userspace/driver/mem.cc "daemon/peer.hpp"
red  userspace/driver/mem.cc "model/topology.hpp"
red  userspace/driver/mem.cc "provider/ep.hpp"
# The provider
fine userspace/provider/ep.cc <rdma/fabric.h>
fine userspace/provider/ep.cc "nvlf/nvlf.h"
fine userspace/provider/ep.cc "nvlf/fi_nvlf.h"
fine userspace/provider/ep.cc "base/lane.hpp"
fine userspace/provider/ep.cc "nvlf/lane.h"
fine userspace/provider/match.hpp <boost/intrusive/list.hpp>
red  userspace/provider/match.hpp <boost/asio.hpp>
red  userspace/provider/ep.cc "driver/mem.hpp"
red  userspace/provider/ep.cc "nvlf/ioctl.h"
red  userspace/provider/ep.cc <hwloc.h>
red  userspace/provider/ep.cc "daemon/peer.hpp"
# The model
fine emulator/model/link.cc <vector>
fine emulator/model/link.cc "base/link_cost.hpp"
fine emulator/model/toml.hpp <toml++/toml.h>
red  emulator/model/link.cc <toml++/toml.h>
red  emulator/model/link.cc <chrono>
red  emulator/model/link.cc <thread>
red  emulator/model/link.cc <random>
red  emulator/model/link.cc <fstream>
red  emulator/model/link.cc <unistd.h>
red  emulator/model/link.cc <sys/stat.h>
red  emulator/model/link.cc "base/fd.hpp"
red  emulator/model/link.cc "nvlf/state.h"
red  emulator/model/toml.hpp <unistd.h>
red  emulator/model/toml.hpp "daemon/peer.hpp"
# The daemon
fine emulator/daemon/loop.cc <liburing.h>
fine emulator/daemon/loop.cc <hwloc.h>
fine emulator/daemon/loop.cc "model/topology.hpp"
fine emulator/daemon/loop.cc "nvlf/ioctl.h"
red  emulator/daemon/loop.cc "nvlf/nvlf.h"
red  emulator/daemon/loop.cc "driver/carrier_socket.hpp"
red  emulator/daemon/loop.cc <rdma/fabric.h>
red  emulator/daemon/loop.cc <toml++/toml.h>
# Tools
fine tools/nvlf/main.cc "nvlf/nvlf.h"
fine tools/nvlf/main.cc <CLI/CLI.hpp>
fine tools/nvlf/main.cc <fmt/format.h>
fine tools/nvlf/main.cc "nvlf/state.h"
fine tools/diag/main.cc <rdma/fabric.h>
red  tools/nvlf/main.cc <rdma/fabric.h>
red  tools/nvlf/main.cc "base/result.hpp"
red  tools/nvlf/main.cc "model/topology.hpp"
red  tools/nvlf/main.cc "nvlf/ioctl.h"
red  tools/diag/main.cc "driver/mem.hpp"
red  tools/dev/gen.cc "nvlf/nvlf.h"
fine tools/dev/demo/pointer.cc "nvlf/nvlf.h"
red  tools/dev/demo/pointer.cc "base/result.hpp"
# Tests see everything; nobody sees tests
fine tests/unit/lane_test.cc "daemon/peer.hpp"
fine tests/unit/lane_test.cc "support/temp_dir.hpp"
fine tests/unit/lane_test.cc <boost/test/unit_test.hpp>
red  userspace/base/fd.hpp "support/temp_dir.hpp"
red  emulator/daemon/loop.cc "tests/support/temp_dir.hpp"
red  tools/nvlf/main.cc "support/child_process.hpp"
CASES

# A folder that the table does not know is a decision not taken.
rm -rf "$tree/tree"
mkdir -p "$tree/tree/userspace/novel"
echo >"$tree/tree/userspace/novel/x.cc"
if "$layers" "$tree/tree" >"$tree/said" || ! grep -q 'no row in the layer table' "$tree/said"; then
    echo "an unknown folder passed"
    failures=$((failures + 1))
fi

echo "$cases cases, $failures failures"
[ "$failures" = 0 ]
