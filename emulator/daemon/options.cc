// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/options.hpp"

#include <fcntl.h>

#include <CLI/CLI.hpp>

#include "base/socket_dir.hpp"
#include "model/presets.hpp"
#include "model/quantity.hpp"
#include "nvlf/device.h"

namespace nvlf::daemon {
namespace {

std::string version() {
    return "nvlfd " NVLFD_VERSION " (contract " + std::to_string(NVLF_ABI_MAJOR) + '.' +
           std::to_string(NVLF_ABI_MINOR) + ')';
}

std::uint64_t read_size(const std::string& text) {
    const model::Quantity size = model::parse_quantity(text, model::Dimension::size);
    if (!size.problem.empty()) throw CLI::ValidationError("--quota", size.problem + ", " + size.fix);
    return size.value;
}

} // namespace

std::optional<Options> parse_options(int argc, char** argv, int& ret_exit) {
    Options o;
    o.topology = model::default_preset;
    std::uint32_t on_demand = 0;
    int ready_fd = -1;
    std::string quota;

    CLI::App app{"nvlfd emulates the devices of an NVLink Fusion fabric and serves their clients.", "nvlfd"};
    app.set_version_flag("--version", version());
    app.add_option("--fabric", o.fabric, "Name of the fabric (NVLF_FABRIC, \"default\")");
    app.add_option("--dir", o.dir, "Socket directory (NVLF_DIR, $XDG_RUNTIME_DIR/nvlf, /tmp/nvlf-<uid>)");
    app.add_option("--topology", o.topology, "A preset's name, or the path of a file")->capture_default_str();
    app.add_flag("--daemonize", o.daemonize, "Go to the background once the fabric serves");
    auto* demand = app.add_option("--on-demand", on_demand, "End this many seconds after the last client")
                       ->check(CLI::Range(0U, 86400U));
    auto* ready = app.add_option("--ready-fd", ready_fd, "Write \"ready\", or what failed, to this descriptor");
    app.add_option("--log-file", o.log_file, "Append the log to this file instead of stderr");
    app.add_option("--log-level", o.log_level, "error, warning, info or debug")
        ->transform(CLI::CheckedTransformer(std::map<std::string, Level>{
            {"error", Level::error}, {"warning", Level::warning}, {"info", Level::info}, {"debug", Level::debug}}));
    app.add_option("--group", o.group, "Let the members of this group use the fabric, too");
    app.add_option("--quota", quota,
                   "Device memory that one client may allocate, as 64 GiB (default: the host's memory)");
    app.add_option("--event-loop", o.loop, "auto, uring or epoll")
        ->transform(CLI::CheckedTransformer(std::map<std::string, LoopChoice>{
            {"auto", LoopChoice::automatic}, {"uring", LoopChoice::uring}, {"epoll", LoopChoice::epoll}}));
    app.add_option("--dump-state", o.dump_state, "Write the state image of a topology to stdout and end");
    app.add_flag("--list-topologies", o.list_topologies, "Write the names of the presets and what they are, and end");
    try {
        app.parse(argc, argv);
        if (demand->count() > 0) o.on_demand = on_demand;
        if (!quota.empty()) o.quota = read_size(quota);
        if (ready->count() > 0) {
            if (ready_fd < 0 || ::fcntl(ready_fd, F_SETFD, FD_CLOEXEC) != 0)
                throw CLI::ValidationError("--ready-fd", std::to_string(ready_fd) + " is not an open descriptor");
            o.ready_fd = ready_fd;
        }
        o.fabric = fabric_name(o.fabric);
        if (!valid_fabric_name(o.fabric))
            throw CLI::ValidationError("--fabric", "'" + o.fabric +
                                                       "' is no name for a fabric: 1 to 31 of A-Z a-z 0-9 . _ -, not "
                                                       "beginning with a dash");
    } catch (const CLI::ParseError& error) {
        ret_exit = app.exit(error) == 0 ? 0 : 2; // CLI11 has a code for every mistake; ours are 0, 1, 2.
        return std::nullopt;
    }
    return o;
}

} // namespace nvlf::daemon
