// SPDX-License-Identifier: MIT OR GPL-2.0-only
// on_demand.hpp - starting nvlfd from within somebody else's process.
//
// The host is an MPI rank, a Python interpreter, a test: it has threads, signal handlers, children of its own and perhaps
// no standard streams. It must not notice. The daemon is started by a double clone() whose middle process ends at once and
// is reaped by its number, with exit signal 0: no SIGCHLD, nothing for the host's wait() to trip over, no zombie. The
// daemon inherits one descriptor, a pipe on which it says that it serves, or why it does not.
//
// The pipe (nvlfd --ready-fd N): "ready\n" and closed once clients may connect; otherwise a sentence for people and
// closed; closed without a word when nvlfd crashed.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nvlf {

// Where nvlfd may be, in order, for a library in `library_dir` ("" when unknown) and a PATH.
[[nodiscard]] std::vector<std::string> nvlfd_places(std::string_view library_dir, std::string_view path);

// The folder that this library was loaded from, links resolved; "" when it cannot be told.
[[nodiscard]] std::string library_dir();

// The daemon's binary: NVLF_NVLFD and nothing else where that is set, else the first of nvlfd_places(). ENOENT with all
// the places looked at in `ret_why`.
[[nodiscard]] Result<std::string> find_nvlfd(std::string& ret_why);

struct DaemonStart {
    std::string program;
    std::string dir;
    std::string fabric;
    std::string topology; // "": the daemon's default.
};

// Starts nvlfd and waits until it serves. EAGAIN: it did not come up, `ret_why` tells what it said; another process may
// have been faster. ETIMEDOUT: it said nothing in time.
[[nodiscard]] Errno start_daemon(const DaemonStart& start, std::chrono::milliseconds bound, std::string& ret_why);

} // namespace nvlf
