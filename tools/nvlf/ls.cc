// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf ls: one kind of thing, a line each.
#include "commands.hpp"
#include "console.hpp"
#include "failure.hpp"
#include "image.hpp"
#include "output.hpp"
#include "places.hpp"
#include "view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include <unistd.h>

namespace nvlf::cli {

namespace {

constexpr auto right = Table::Align::right;

std::string dash_or(std::uint32_t value, std::uint32_t none) { return value == none ? "-" : fmt::format("{}", value); }

// Says once, beside the table, that the table is a promise and not a report.
void note_if_not_running(const View& view, const LsOptions& options) {
    if (!view.running && options.target.topology.empty())
        note(fmt::format("fabric {} does not run; this is what would start ({})", view.fabric, view.topology));
}

Json envelope(const View& view) {
    Json json;
    json["fabric"] = view.fabric;
    json["running"] = view.running;
    json["topology"] = view.topology;
    return json;
}

void devices(const LsOptions& options) {
    const View seen = view(options.target);
    if (options.json) {
        Json json = envelope(seen);
        json["devices"] = Json::array();
        for (const nvlf_device& device : seen.devices) json["devices"].push_back(to_json(device));
        return print_json(json);
    }
    note_if_not_running(seen, options);
    Table table{{{"INDEX", right},
                 {"NAME"},
                 {"STATE"},
                 {"NODE", right},
                 {"NUMA", right},
                 {"HBM", right},
                 {"USED", right},
                 {"PORTS", right},
                 {"RATE", right},
                 {"CLIENTS", right},
                 {"MODEL"}}};
    for (const nvlf_device& d : seen.devices)
        table.add({fmt::format("{}", d.index), text_of(d.name), state_cell(d.state), fmt::format("{}", d.node),
                   dash_or(d.numa_node, UINT32_MAX), bytes_text(d.hbm_bytes), bytes_text(d.hbm_used),
                   fmt::format("{}", d.ports), rate_text(d.rate), fmt::format("{}", d.clients), text_of(d.model)});
    print(table.text());
}

void switches(const LsOptions& options) {
    const View seen = view(options.target);
    if (options.json) {
        Json json = envelope(seen);
        json["switches"] = Json::array();
        for (const nvlf_switch& sw : seen.switches) json["switches"].push_back(to_json(sw));
        return print_json(json);
    }
    note_if_not_running(seen, options);
    Table table{
        {{"INDEX", right}, {"NAME"}, {"STATE"}, {"PLANE", right}, {"PORTS", right}, {"LATENCY", right}, {"MODEL"}}};
    for (const nvlf_switch& s : seen.switches)
        table.add({fmt::format("{}", s.index), text_of(s.name), state_cell(s.state), fmt::format("{}", s.plane),
                   fmt::format("{}", s.ports), time_text(s.latency_ps), text_of(s.model)});
    print(table.text());
}

Json link_json(const View& seen, const nvlf_link& link) {
    Json json;
    json["index"] = link.index;
    json["a"] = end_name(seen, link.end[0]);
    json["a_port"] = link.end[0].port;
    json["b"] = end_name(seen, link.end[1]);
    json["b_port"] = link.end[1].port;
    json["protocol"] = protocol_word(link.protocol);
    json["generation"] = link.generation;
    json["width"] = link.width;
    json["width_up"] = link.width_up;
    json["state"] = state_word(link.state);
    json["rate_bytes_per_s"] = link.rate;
    json["raw_rate_bytes_per_s"] = link.raw_rate;
    json["latency_ps"] = link.latency_ps;
    return json;
}

void links(const LsOptions& options) {
    const View seen = view(options.target);
    if (options.json) {
        Json json = envelope(seen);
        json["links"] = Json::array();
        for (const nvlf_link& link : seen.links) json["links"].push_back(link_json(seen, link));
        return print_json(json);
    }
    note_if_not_running(seen, options);
    Table table{{{"INDEX", right},
                 {"FROM"},
                 {"TO"},
                 {"STATE"},
                 {"PROTOCOL"},
                 {"WIDTH", right},
                 {"RATE", right},
                 {"RAW", right},
                 {"LATENCY", right}}};
    for (const nvlf_link& l : seen.links)
        table.add({fmt::format("{}", l.index), fmt::format("{}:{}", end_name(seen, l.end[0]), l.end[0].port),
                   fmt::format("{}:{}", end_name(seen, l.end[1]), l.end[1].port), state_cell(l.state),
                   fmt::format("{} {}", protocol_word(l.protocol), l.generation),
                   l.width_up == l.width ? fmt::format("{}", l.width) : fmt::format("{} of {}", l.width_up, l.width),
                   rate_text(l.rate), rate_text(l.raw_rate), time_text(l.latency_ps)});
    print(table.text());
}

// Without ourselves: whoever asks who is there does not mean the question.
std::vector<nvlf_ioc_client> clients_of(nvlf_fabric& fabric) {
    std::vector<nvlf_ioc_client> found;
    for (std::uint32_t i = 0; i <= NVLF_MAX_CLIENTS; ++i) {
        nvlf_ioc_client client{};
        const int error = ::nvlf_get_client(&fabric, i, &client);
        if (error == -ENOENT || error == -ENODEV) break; // The end. Clients may come and go while we count.
        if (error == -EPERM)
            throw Failure{kFailed,
                          "clients: only the owner of a fabric may list them, and this one is somebody else's"};
        if (error < 0) throw Failure{kFailed, fmt::format("client {}: cannot be read: {}", i, cause(error))};
        if (client.pid != static_cast<std::uint32_t>(::getpid())) found.push_back(client);
    }
    return found;
}

void clients(const LsOptions& options) {
    const Client client = connect(options.target);
    const View seen = view({options.target.fabric, options.target.dir, {}});
    const auto list = clients_of(*client);
    const auto device_name = [&](std::uint32_t index) {
        return index < seen.devices.size() ? text_of(seen.devices[index].name) : std::string{};
    };
    if (options.json) {
        Json json = envelope(seen);
        json["clients"] = Json::array();
        for (const nvlf_ioc_client& c : list) {
            Json entry;
            entry["pid"] = c.pid == 0 ? Json(nullptr) : Json(c.pid);
            entry["uid"] = c.uid;
            entry["command"] = text_of(c.command);
            entry["device"] = device_name(c.device).empty() ? Json(nullptr) : Json(device_name(c.device));
            entry["endpoints"] = c.endpoints;
            entry["allocations"] = c.allocations;
            entry["imports"] = c.imports;
            entry["allocated_bytes"] = c.bytes;
            json["clients"].push_back(std::move(entry));
        }
        return print_json(json);
    }
    Table table{{{"PID", right},
                 {"UID", right},
                 {"COMMAND"},
                 {"DEVICE"},
                 {"ENDPOINTS", right},
                 {"ALLOCATIONS", right},
                 {"IMPORTS", right},
                 {"MEMORY", right}}};
    for (const nvlf_ioc_client& c : list)
        table.add({dash_or(c.pid, 0), fmt::format("{}", c.uid), text_of(c.command),
                   device_name(c.device).empty() ? "-" : device_name(c.device), fmt::format("{}", c.endpoints),
                   fmt::format("{}", c.allocations), fmt::format("{}", c.imports), bytes_text(c.bytes)});
    print(table.text());
}

// Names of the sockets in the directory, sorted. That one is there does not mean that somebody listens.
std::vector<std::string> fabric_names(const std::string& dir) {
    namespace fs = std::filesystem;
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it{dir, error}, end; !error && it != end; it.increment(error)) {
        std::error_code ignored;
        const fs::path& path = it->path();
        if (path.extension() == ".sock" && it->is_socket(ignored)) names.push_back(path.stem().string());
    }
    if (error && error != std::errc::no_such_file_or_directory)
        throw Failure{kFailed, fmt::format("socket directory {}: cannot be read: {}", dir, error.message())};
    std::sort(names.begin(), names.end());
    return names;
}

void fabrics(const LsOptions& options) {
    const std::string dir = socket_dir(options.target.dir);
    Table table{{{"FABRIC"}, {"TOPOLOGY"}, {"DEVICES", right}, {"CLIENTS", right}, {"PID", right}, {"CLOCK"}}};
    Json list = Json::array();
    for (const std::string& name : fabric_names(dir)) {
        Client client;
        try {
            client = try_connect({name, dir, {}});
        } catch (const Failure& failure) { // In a directory of a group some may be closed to us: the others are not.
            note(failure.what());
            continue;
        }
        if (client == nullptr) continue; // A socket that a killed daemon left.
        const nvlf_ioc_info info = info_of(*client);
        const std::uint32_t others = info.clients > 0 ? info.clients - 1 : 0;
        table.add({name, text_of(info.topology), fmt::format("{}", info.devices), fmt::format("{}", others),
                   dash_or(info.server_pid, 0), clock_word(info.clock)});
        Json entry;
        entry["fabric"] = name;
        entry["topology"] = text_of(info.topology);
        entry["devices"] = info.devices;
        entry["clients"] = others;
        entry["server_pid"] = info.server_pid == 0 ? Json(nullptr) : Json(info.server_pid);
        entry["clock"] = clock_word(info.clock);
        list.push_back(std::move(entry));
    }
    if (options.json) {
        Json json;
        json["dir"] = dir;
        json["fabrics"] = std::move(list);
        return print_json(json);
    }
    if (list.empty()) return note(fmt::format("no fabric runs in {}", dir));
    print(table.text());
}

void topologies(const LsOptions& options) {
    const auto list = presets();
    if (options.json) {
        Json json;
        json["topologies"] = Json::array();
        for (const Preset& preset : list)
            json["topologies"].push_back({{"name", preset.name}, {"description", preset.description}});
        return print_json(json);
    }
    Table table{{{"TOPOLOGY"}, {"DESCRIPTION"}}};
    for (const Preset& preset : list) table.add({preset.name, preset.description});
    print(table.text());
}

const std::map<std::string, void (*)(const LsOptions&)>& subjects() {
    static const std::map<std::string, void (*)(const LsOptions&)> map{
        {"devices", devices}, {"switches", switches}, {"links", links},
        {"clients", clients}, {"fabrics", fabrics},   {"topologies", topologies}};
    return map;
}

} // namespace

const std::vector<std::string>& ls_subjects() {
    static const std::vector<std::string> names{"devices", "switches", "links", "clients", "fabrics", "topologies"};
    return names;
}

int ls(const LsOptions& options) {
    subjects().at(options.what)(options); // main.cc let only known words through.
    return kFine;
}

} // namespace nvlf::cli
