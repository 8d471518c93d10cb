// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The commands, one file each. main.cc fills in the options from the command line; a command prints to stdout, returns
// an exit code, and throws Failure for everything that goes wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nvlf::cli {

// Which fabric. Empty: libnvlf's own rules (NVLF_FABRIC, NVLF_DIR, NVLF_TOPOLOGY, and then the defaults).
struct Target {
    std::string fabric{};
    std::string dir{};
    std::string topology{};
};

struct UpOptions {
    Target target{};
    std::string group{};
    std::string quota{};
    bool foreground = false;
    bool json = false;
};
int up(const UpOptions& options);

struct DownOptions {
    Target target{};
    bool force = false;
};
int down(const DownOptions& options);

struct StatusOptions {
    Target target{};
    bool json = false;
};
int status(const StatusOptions& options);

struct LsOptions {
    Target target{};
    std::string what{"devices"};
    bool json = false;
};
int ls(const LsOptions& options);
[[nodiscard]] const std::vector<std::string>& ls_subjects();

struct TopoOptions {
    Target target{};
    std::vector<std::string> devices{}; // "gpu0", "gpu[0-3]"; empty: all.
    bool full = false;                  // The matrix, however wide.
    bool json = false;
};
int topo(const TopoOptions& options);

struct RunOptions {
    Target target{};
    std::string device{};
    std::vector<std::string> command{};
};
int run(const RunOptions& options); // Returns only by Failure.

struct CheckOptions {
    std::string topology{}; // A file or a preset.
    bool json = false;
};
int check(const CheckOptions& options);

} // namespace nvlf::cli
