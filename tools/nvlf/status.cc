// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf status: is there a fabric, since when, who uses it, how much of its limits is used.
#include "commands.hpp"
#include "console.hpp"
#include "failure.hpp"
#include "output.hpp"
#include "places.hpp"
#include "view.hpp"

#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>

#include <unistd.h>

namespace nvlf::cli {

namespace {

// How long the daemon has been running; nothing where its process is not ours to see (another PID namespace: the number
// then means somebody else, or nobody) or is the kernel.
std::optional<std::uint64_t> uptime_seconds(std::uint32_t pid) {
    if (pid == 0) return std::nullopt;
    std::ifstream file{fmt::format("/proc/{}/stat", pid)};
    std::string text;
    if (!std::getline(file, text)) return std::nullopt;
    const auto open = text.find('(');
    const auto close = text.rfind(')'); // The name between may hold anything, parentheses included.
    if (open == std::string::npos || close == std::string::npos || text.substr(open + 1, close - open - 1) != "nvlfd")
        return std::nullopt;
    std::istringstream rest{text.substr(close + 1)};
    std::string word;
    for (int field = 3; field < 22; ++field) rest >> word; // proc(5): field 22 is the start time.
    std::uint64_t started = 0;
    timespec now{};
    const long hertz = ::sysconf(_SC_CLK_TCK);
    if (!(rest >> started) || hertz <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return std::nullopt;
    const auto since = started / static_cast<std::uint64_t>(hertz);
    const auto seconds = static_cast<std::uint64_t>(now.tv_sec);
    return seconds > since ? seconds - since : 0;
}

std::string dilation_text(std::uint64_t ppm) {
    return ppm == 1000000 ? "" : fmt::format(", dilated {:.3g} times", static_cast<double>(ppm) / 1e6);
}

std::string clock_text(const nvlf_ioc_info& info) {
    const std::string word = clock_word(info.clock);
    return info.clock == NVLF_CLOCK_OFF ? word + " (host speed; link rates and latencies are not modelled)"
                                        : word + dilation_text(info.dilation_ppm);
}

std::size_t not_up(const View& view) {
    std::size_t count = 0;
    for (const auto& device : view.devices) count += device.state != NVLF_STATE_UP ? 1 : 0;
    for (const auto& sw : view.switches) count += sw.state != NVLF_STATE_UP ? 1 : 0;
    for (const auto& link : view.links) count += link.state != NVLF_STATE_UP ? 1 : 0;
    return count;
}

Json json_of(const nvlf_ioc_info& info, const View& seen, const std::string& dir, std::uint32_t clients) {
    const auto uptime = uptime_seconds(info.server_pid);
    Json json;
    json["fabric"] = text_of(info.fabric);
    json["running"] = true;
    json["socket"] = fmt::format("{}/{}.sock", dir, text_of(info.fabric));
    json["uuid"] = uuid_text(info.uuid);
    json["server_pid"] = info.server_pid == 0 ? Json(nullptr) : Json(info.server_pid);
    json["uptime_s"] = uptime ? Json(*uptime) : Json(nullptr);
    json["on_demand"] = (info.caps & NVLF_CAP_ON_DEMAND) != 0;
    json["topology"] = text_of(info.topology);
    json["figures"] = info.figures;
    json["assumed_figures"] = info.assumed;
    json["clock"] = clock_word(info.clock);
    json["dilation_ppm"] = info.dilation_ppm;
    json["nodes"] = info.nodes;
    json["devices"] = info.devices;
    json["switches"] = info.switches;
    json["links"] = info.links;
    json["not_up"] = not_up(seen);
    json["clients"] = clients;
    json["endpoints"] = info.endpoints;
    json["allocations"] = info.allocations;
    json["allocated_bytes"] = info.allocated_bytes;
    json["arena_bytes"] = info.arena_bytes;
    json["max_clients"] = info.max_clients;
    json["max_endpoints"] = info.max_endpoints;
    json["max_endpoints_per_client"] = info.max_endpoints_per_file;
    json["max_allocations"] = info.max_allocations;
    json["max_imports_per_client"] = info.max_imports_per_file;
    json["quota_bytes"] = info.quota_bytes;
    return json;
}

void print_text(const nvlf_ioc_info& info, const View& seen, const std::string& dir, std::uint32_t clients) {
    const auto row = [](const char* name, const std::string& value) {
        print(fmt::format("{}  {}\n", styled(padded(name, 9), Style::heading), value));
    };
    const auto uptime = uptime_seconds(info.server_pid);
    const std::string since = uptime ? fmt::format(", up {}", duration_text(*uptime)) : "";
    const std::string pid = info.server_pid != 0 ? fmt::format(" (nvlfd {}{})", info.server_pid, since) : "";
    const bool on_demand = (info.caps & NVLF_CAP_ON_DEMAND) != 0;
    row("fabric",
        fmt::format("{}{}{}", text_of(info.fabric), pid, on_demand ? ", on demand: ends after its last client" : ""));
    row("socket", fmt::format("{}/{}.sock", dir, text_of(info.fabric)));
    row("topology", fmt::format("{}: {} on {}, {}, {}; {} of {} figures assumed", text_of(info.topology),
                                counted(info.devices, "device"), counted(info.nodes, "node"),
                                counted(info.switches, "switch", "switches"), counted(info.links, "link"), info.assumed,
                                info.figures));
    row("clock", clock_text(info));
    const std::size_t bad = not_up(seen);
    row("health", bad == 0
                      ? styled("all up", Style::good)
                      : styled(fmt::format("{} not up; see nvlf ls devices, switches, links", bad), Style::warning));
    row("clients", fmt::format("{} of {}", clients, info.max_clients));
    row("endpoints",
        fmt::format("{} of {}, {} a client", info.endpoints, info.max_endpoints, info.max_endpoints_per_file));
    row("memory",
        fmt::format("{} in {} (of {}), {} a client", bytes_text(info.allocated_bytes),
                    counted(info.allocations, "allocation"), info.max_allocations, bytes_text(info.quota_bytes)));
}

} // namespace

int status(const StatusOptions& options) {
    const Client client = try_connect(options.target);
    if (client == nullptr) {
        const std::string name = fabric_name(options.target);
        const std::string dir = socket_dir(options.target.dir);
        if (options.json)
            print_json(Json{{"fabric", name}, {"running", false}, {"socket", fmt::format("{}/{}.sock", dir, name)}});
        else note(fmt::format("fabric {}: none of this name runs in {}; `nvlf up` starts one", name, dir));
        return kFailed;
    }
    const nvlf_ioc_info info = info_of(*client);
    const View seen = view({options.target.fabric, options.target.dir, {}});
    // We are a client ourselves while we ask, and of no interest.
    const std::uint32_t clients = info.clients > 0 ? info.clients - 1 : 0;
    const std::string dir = socket_dir(options.target.dir);
    options.json ? print_json(json_of(info, seen, dir, clients)) : print_text(info, seen, dir, clients);
    return kFine;
}

} // namespace nvlf::cli
