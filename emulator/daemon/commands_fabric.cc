// SPDX-License-Identifier: MIT OR GPL-2.0-only
// GET_*, ATTACH, EVENTS: looking at the fabric, and taking a place in it.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "daemon/server.hpp"

namespace nvlf::daemon {
namespace {

template <std::size_t N>
void copy_text(char (&out)[N], std::string_view text) {
    std::memset(out, 0, N);
    std::memcpy(out, text.data(), std::min(text.size(), N - 1));
}

constexpr std::uint32_t all_events = NVLF_EVENT_ENDPOINT | NVLF_EVENT_LINK | NVLF_EVENT_DEVICE | NVLF_EVENT_SWITCH |
                                     NVLF_EVENT_MEMORY | NVLF_EVENT_FABRIC;

} // namespace

Errno Server::get_info(Client& client, nvlf_ioc_info& a, Descriptors&) {
    a.abi = NVLF_ABI_VERSION;
    if (a.abi_wanted >> 16 != NVLF_ABI_MAJOR) return Errno{EPROTONOSUPPORT};
    const nvlf_state& state = state_.header();
    const Limits& limits = config_.limits;
    a.clock = NVLF_CLOCK_OFF;
    copy_text(a.fabric, config_.fabric);
    copy_text(a.topology, config_.topology.name);
    std::copy(uuid_.begin(), uuid_.end(), a.uuid);
    a.epoch = config_.epoch;
    a.caps = NVLF_CAP_MEMFD | NVLF_CAP_DOWN | (config_.on_demand ? NVLF_CAP_ON_DEMAND : 0) |
             (client.guest ? NVLF_CAP_GUEST : 0);
    a.arena_base = memory_.arena().base();
    a.arena_bytes = memory_.arena().bytes();
    a.page_bytes = NVLF_PAGE_SIZE;
    a.dilation_ppm = 1000000;
    a.nodes = state.nodes;
    a.devices = state.device_count;
    a.switches = state.switch_count;
    a.links = state.link_count;
    a.clients = client_count_;
    a.endpoints = endpoints_.count();
    a.allocations = memory_.count();
    a.max_clients = limits.clients;
    a.max_endpoints = limits.endpoints;
    a.max_endpoints_per_file = limits.endpoints_per_file;
    a.max_allocations = limits.allocations;
    a.max_imports_per_file = limits.imports_per_file;
    a.max_pending_accepts = limits.pending_accepts;
    a.assumed = state.assumed;
    a.figures = state.figures;
    a.server_pid = config_.pid;
    a.quota_bytes = limits.quota_bytes;
    a.allocated_bytes = memory_.allocated_bytes();
    return Errno{};
}

Errno Server::get_device(Client&, nvlf_ioc_device& a, Descriptors&) {
    if (a.index >= state_.devices().size()) return Errno{ENODEV};
    a.device = state_.devices()[a.index];
    return Errno{};
}

Errno Server::get_switch(Client&, nvlf_ioc_switch& a, Descriptors&) {
    if (a.index >= state_.switches().size()) return Errno{ENODEV};
    a.sw = state_.switches()[a.index];
    return Errno{};
}

Errno Server::get_link(Client&, nvlf_ioc_link& a, Descriptors&) {
    if (a.index >= state_.links().size()) return Errno{ENODEV};
    a.link = state_.links()[a.index];
    return Errno{};
}

Errno Server::get_path(Client&, nvlf_ioc_path& a, Descriptors&) {
    if (a.src >= state_.devices().size() || a.dst >= state_.devices().size()) return Errno{ENODEV};
    return routes_.find(a);
}

Errno Server::get_state(Client&, nvlf_ioc_state& a, Descriptors& out) {
    auto state = duplicate(state_.state_fd());
    if (!state) return state.error();
    auto shared = duplicate(state_.shared_fd());
    if (!shared) return shared.error();
    a.state_fd = out.add(std::move(*state));
    a.shared_fd = out.add(std::move(*shared));
    a.state_bytes = state_.state_bytes();
    a.shared_bytes = state_.shared_bytes();
    return Errno{};
}

Errno Server::get_client(Client&, nvlf_ioc_client& a, Descriptors&) {
    std::uint32_t index = a.index;
    for (const auto& [id, client] : clients_) {
        if (client->guest || index-- > 0) continue;
        a.pid = client->identity.pid;
        a.uid = client->identity.uid;
        a.device = client->device;
        a.endpoints = static_cast<std::uint32_t>(client->endpoints.size());
        a.allocations = static_cast<std::uint32_t>(client->allocations.size());
        a.imports = static_cast<std::uint32_t>(client->imports.size());
        a.bytes = client->bytes;
        copy_text(a.command, client->identity.command);
        return Errno{};
    }
    return Errno{ENOENT};
}

void Server::attach_to(Client& client, std::uint32_t device) {
    const auto devices = state_.devices();
    if (client.device != NVLF_DEVICE_ANY)
        live_store<__u32>(devices[client.device].clients, devices[client.device].clients - 1);
    client.device = device;
    if (device != NVLF_DEVICE_ANY) live_add<__u32>(devices[device].clients, 1);
}

Errno Server::attach(Client& client, nvlf_ioc_attach& a, Descriptors&) {
    const auto devices = state_.devices();
    std::uint32_t device = a.device;
    if (device == NVLF_DEVICE_ANY) {
        // The one with the fewest clients of those that are up, the first among equals; our own place is free for us.
        const auto clients = [&client](const nvlf_device& d) { return d.clients - (d.index == client.device ? 1 : 0); };
        for (const nvlf_device& d : devices) {
            if (d.state == NVLF_STATE_DOWN) continue;
            if (device == NVLF_DEVICE_ANY || clients(d) < clients(devices[device])) device = d.index;
        }
        if (device == NVLF_DEVICE_ANY) return Errno{EHOSTDOWN};
    }
    if (const Errno e = check_device(device); e.failed()) return e;
    if (device != client.device) {
        attach_to(client, device);
        log_.info(client.name() + " attached to " + devices[device].name);
    }
    a.device = device;
    return Errno{};
}

Errno Server::events(Client& client, nvlf_ioc_events& a, Descriptors& out) {
    if ((a.mask & ~all_events) != 0) return Errno{EINVAL};
    if (!client.events)
        if (const Errno e = check_descriptors(client, 1); e.failed()) return e;
    Fd theirs;
    auto stream = EventStream::open(a.mask, theirs);
    if (!stream) return stream.error();
    if (!client.events) ++client.descriptors;
    client.events = std::move(*stream);
    a.event_fd = out.add(std::move(theirs));
    return Errno{};
}

} // namespace nvlf::daemon
