// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf up and nvlf down: the life of a fabric. nvlfd does the work; here its answer is waited for, and told.
#include "commands.hpp"
#include "console.hpp"
#include "failure.hpp"
#include "output.hpp"
#include "places.hpp"
#include "process.hpp"
#include "view.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace nvlf::cli {

namespace {

std::vector<std::string> daemon_arguments(const UpOptions& options) {
    std::vector<std::string> argv{daemon_path(), "--fabric", fabric_name(options.target)};
    const auto add = [&](const char* name, const std::string& value) {
        if (!value.empty()) argv.insert(argv.end(), {name, value});
    };
    add("--dir", options.target.dir);
    const char* wanted = std::getenv("NVLF_TOPOLOGY"); // As libnvlf does for a fabric on demand.
    add("--topology", options.target.topology.empty() && wanted != nullptr ? wanted : options.target.topology);
    add("--group", options.group);
    add("--quota", options.quota);
    return argv;
}

// What to type to reach the same fabric again.
std::string same_target(const Target& target) {
    std::string words;
    if (!target.dir.empty()) words += " -d " + target.dir;
    if (!target.fabric.empty() && target.fabric != "default") words += " -f " + target.fabric;
    return words;
}

void tell(const UpOptions& options, const nvlf_ioc_info& info) {
    const std::string dir = socket_dir(options.target.dir);
    if (options.json) {
        Json json;
        json["fabric"] = text_of(info.fabric);
        json["socket"] = fmt::format("{}/{}.sock", dir, text_of(info.fabric));
        json["uuid"] = uuid_text(info.uuid);
        json["server_pid"] = info.server_pid == 0 ? Json(nullptr) : Json(info.server_pid);
        json["topology"] = text_of(info.topology);
        json["devices"] = info.devices;
        json["figures"] = info.figures;
        json["assumed_figures"] = info.assumed;
        return print_json(json);
    }
    const std::string again = same_target(options.target);
    print(fmt::format("fabric {} is up: {}, {} on {}, {}\n", text_of(info.fabric), text_of(info.topology),
                      counted(info.devices, "device"), counted(info.nodes, "node"),
                      counted(info.switches, "switch", "switches")));
    print(fmt::format("socket {}/{}.sock, nvlfd {}\n", dir, text_of(info.fabric), info.server_pid));
    print(fmt::format("{} of {} hardware figures are assumed; clock {}\n", info.assumed, info.figures,
                      clock_word(info.clock)));
    print(fmt::format("look: nvlf topo{0}; use: nvlf run{0} -- COMMAND; end: nvlf down{0}\n", again));
}

// Until the daemon is gone, not merely going: whoever brings the same name up next must not meet it. Bounded: a daemon
// that hangs is the user's to look at.
constexpr int kGoneWithinMs = 5000;

bool wait_for_goodbye(nvlf_fabric& fabric) {
    for (int ms = 0; ms < kGoneWithinMs; ++ms) {
        if (::nvlf_poll_alive(&fabric) == 0) return true;
        const timespec pause{0, 1'000'000};
        ::nanosleep(&pause, nullptr);
    }
    return false;
}

void wait_for_exit(int pidfd) {
    if (pidfd < 0) return;
    pollfd waited{pidfd, POLLIN, 0};
    (void)::poll(&waited, 1, kGoneWithinMs);
    ::close(pidfd);
}

// A handle on the daemon's process; -1 where the number is not that of an nvlfd that we can see.
int open_daemon(std::uint32_t pid) {
    std::ifstream file{fmt::format("/proc/{}/comm", pid)};
    std::string name;
    if (pid == 0 || !std::getline(file, name) || name != "nvlfd") return -1;
    return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
}

} // namespace

int up(const UpOptions& options) {
    std::vector<std::string> argv = daemon_arguments(options);
    if (options.foreground) {
        const int error = replace_by(argv, false);
        throw Failure{kFailed, fmt::format("{}: cannot be executed: {}", argv.front(), cause(error))};
    }
    argv.emplace_back("--daemonize");
    // Interrupted, it is as if it had not been started: nobody would know of the daemon.
    const HeldSignals held;
    const Started started = start_daemon(argv);
    if (!started.ready)
        throw Failure{started.exit_code == kUsage ? kUsage : kFailed,
                      fmt::format("fabric {}: did not come up:{}{}", fabric_name(options.target),
                                  started.words.find('\n') == std::string::npos ? ' ' : '\n', started.words)};
    const Client client = connect(options.target);
    if (held.any()) {
        (void)::nvlf_admin_down(client.get(), NVLF_DOWN_FORCE);
        return kFailed; // The signal ends us before that is seen.
    }
    tell(options, info_of(*client));
    flush(); // From here on the fabric is known of.
    return kFine;
}

int down(const DownOptions& options) {
    const Client client = connect(options.target);
    const nvlf_ioc_info info = info_of(*client);
    const std::string name = fabric_name(options.target);
    const int pidfd = open_daemon(info.server_pid);
    const int error = ::nvlf_admin_down(client.get(), options.force ? NVLF_DOWN_FORCE : 0);
    if (error == -EBUSY)
        throw Failure{kFailed,
                      fmt::format("fabric {}: in use by {}; `nvlf ls clients` tells who, --force takes it from them",
                                  name, counted(info.clients > 1 ? info.clients - 1 : 1, "client"))};
    if (error == -EPERM) throw Failure{kFailed, fmt::format("fabric {}: only its owner may take it down", name)};
    // -ENODEV: gone while it answered, which is what was wanted.
    if (error < 0 && error != -ENODEV)
        throw Failure{kFailed, fmt::format("fabric {}: cannot be taken down: {}", name, cause(error))};
    if (!wait_for_goodbye(*client))
        throw Failure{kFailed, fmt::format("fabric {}: still there after {} s; nvlfd is process {}", name,
                                           kGoneWithinMs / 1000, info.server_pid)};
    wait_for_exit(pidfd);
    print(fmt::format("fabric {} is down\n", name));
    return kFine;
}

} // namespace nvlf::cli
