// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf run: a program with the environment in which libfabric finds the provider and the provider finds the fabric. The
// program replaces this one, so that signals, exit code and job control are its own.
#include "commands.hpp"
#include "failure.hpp"
#include "places.hpp"
#include "process.hpp"
#include "view.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace nvlf::cli {

namespace {

namespace fs = std::filesystem;

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

// The program may change its directory before the first use of the fabric.
std::string absolute(const std::string& path) {
    std::error_code error;
    const fs::path result = fs::absolute(path, error);
    return error ? path : result.string();
}

// A misspelled device is told here, where it can be told; in the program it would be an empty list of interfaces.
void check_device(const RunOptions& options) {
    if (options.device.empty()) return;
    View seen;
    try {
        seen = view({options.target.fabric, options.target.dir, {}});
        if (!seen.running && !options.target.topology.empty()) seen = view(options.target);
    } catch (const Failure& failure) {
        if (failure.exit_code() == kUsage) throw;
        return; // What the devices are will be known when the fabric runs; the program reports then.
    }
    // A selector may name several; a process acts for one.
    if (select_devices(seen, {options.device}).size() != 1)
        throw Failure{kUsage, fmt::format("device {}: a process acts for one device; name one", options.device)};
}

} // namespace

int run(const RunOptions& options) {
    set("FI_PROVIDER_PATH", provider_path(provider_dir()));
    if (!options.target.fabric.empty()) set("NVLF_FABRIC", options.target.fabric);
    if (!options.target.dir.empty()) set("NVLF_DIR", absolute(options.target.dir));
    if (!options.target.topology.empty()) {
        const std::string& topology = options.target.topology;
        std::error_code error;
        set("NVLF_TOPOLOGY", fs::exists(topology, error) ? absolute(topology) : topology);
    }
    check_device(options);
    if (!options.device.empty()) set("NVLF_DEVICE", options.device);
    // On demand the driver starts the daemon that came with this program. Where there is none, the program may still use
    // a fabric that runs: it is the driver which says so when it comes to that.
    try {
        set("NVLF_NVLFD", daemon_path());
    } catch (const Failure&) {
        if (std::getenv("NVLF_NVLFD") != nullptr) throw; // Named, and wrong.
    }
    const int error = replace_by(options.command, true);
    throw Failure{error == ENOENT ? kNotFound : kNotExecutable,
                  fmt::format("{}: cannot be executed: {}", options.command.front(), cause(error))};
}

} // namespace nvlf::cli
