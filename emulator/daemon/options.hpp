// SPDX-License-Identifier: MIT OR GPL-2.0-only
// options.hpp - the command line of nvlfd, checked as far as it can be without looking at anything else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/log.hpp"

namespace nvlf::daemon {

enum class LoopChoice { automatic, uring, epoll };

struct Options {
    std::string fabric;   // Resolved: --fabric, NVLF_FABRIC, "default".
    std::string dir;      // Empty: as base/socket_dir.hpp says.
    std::string topology; // A preset's name or a path.
    bool daemonize = false;
    std::optional<std::uint32_t> on_demand; // Seconds.
    std::optional<int> ready_fd;
    std::string log_file; // Empty: stderr.
    Level log_level = Level::info;
    std::string group; // Empty: none.
    std::optional<std::uint64_t> quota;
    LoopChoice loop = LoopChoice::automatic;
    std::string dump_state;       // Not empty: write the image of this topology and end.
    bool list_topologies = false; // Write a line a preset, its name, a tab, its description, and end.
};

// nullopt: there is nothing more to do than to exit with `ret_exit` (--help, --version: 0; wrong usage, told: 2).
[[nodiscard]] std::optional<Options> parse_options(int argc, char** argv, int& ret_exit);

} // namespace nvlf::daemon
