// SPDX-License-Identifier: MIT OR GPL-2.0-only
// ADMIN_*: for the owner of the fabric; the table in server.cc has checked that.
#include "daemon/server.hpp"

namespace nvlf::daemon {
namespace {

const char* word(std::uint32_t state) {
    switch (state) {
    case NVLF_STATE_UP: return "up";
    case NVLF_STATE_DEGRADED: return "degraded";
    default: return "down";
    }
}

// The lanes that a link has in a state; nullopt when the two contradict each other.
std::optional<std::uint32_t> lanes(const nvlf_link& link, const nvlf_ioc_admin_state& a) {
    switch (a.state) {
    case NVLF_STATE_UP:
        if (a.width_up != 0 && a.width_up != link.width) return std::nullopt;
        return link.width;
    case NVLF_STATE_DEGRADED: // With more errors only, when no width is given.
        if (a.width_up > link.width) return std::nullopt;
        return a.width_up != 0 ? a.width_up : link.width;
    default:
        if (a.width_up != 0) return std::nullopt;
        return 0;
    }
}

} // namespace

Errno Server::admin_state(Client& client, nvlf_ioc_admin_state& a, Descriptors&) {
    if (a.state < NVLF_STATE_UP || a.state > NVLF_STATE_DOWN) return Errno{EINVAL};
    if (a.object != NVLF_OBJECT_LINK && a.width_up != 0) return Errno{EINVAL};
    nvlf_event event{};
    event.index = a.index;
    event.state = a.state;
    std::string name;
    switch (a.object) {
    case NVLF_OBJECT_DEVICE: {
        if (a.index >= state_.devices().size()) return Errno{ENODEV};
        nvlf_device& device = state_.devices()[a.index];
        name = device.name;
        event.type = NVLF_EVENT_DEVICE;
        live_store<__u32>(device.state, a.state);
        break;
    }
    case NVLF_OBJECT_SWITCH: {
        if (a.index >= state_.switches().size()) return Errno{ENODEV};
        nvlf_switch& sw = state_.switches()[a.index];
        name = sw.name;
        event.type = NVLF_EVENT_SWITCH;
        live_store<__u32>(sw.state, a.state);
        break;
    }
    case NVLF_OBJECT_LINK: {
        if (a.index >= state_.links().size()) return Errno{ENODEV};
        nvlf_link& link = state_.links()[a.index];
        const auto width_up = lanes(link, a);
        if (!width_up) return Errno{EINVAL};
        name = "link " + std::to_string(a.index);
        event.type = NVLF_EVENT_LINK;
        live_store<__u32>(link.width_up, *width_up);
        live_store<__u32>(link.state, a.state);
        break;
    }
    default: return Errno{EINVAL};
    }
    routes_.changed();
    live_add<__u64>(state_.header().changes, 1); // After the change, before anybody is woken to look at it.
    log_.info(name + " is " + word(a.state) + ", by " + client.name());
    announce(event);
    return Errno{};
}

Errno Server::admin_clock(Client&, nvlf_ioc_admin_clock& a, Descriptors&) {
    if (a.clock > NVLF_CLOCK_VIRTUAL) return Errno{EINVAL};
    if (a.clock != NVLF_CLOCK_OFF) return Errno{EOPNOTSUPP};
    // Host speed is host speed: a dilation has nothing to act on. 0 stands for "as it is".
    return a.dilation_ppm == 0 || a.dilation_ppm == 1000000 ? Errno{} : Errno{EINVAL};
}

Errno Server::admin_limit(Client& client, nvlf_ioc_admin_limit& a, Descriptors&) {
    Limits& limits = config_.limits;
    if (a.limit == NVLF_LIMIT_QUOTA_BYTES) {
        limits.quota_bytes = a.value;
        log_.info("quota is " + std::to_string(a.value) + " bytes, by " + client.name());
        return Errno{};
    }
    struct Choice {
        std::uint32_t Limits::*member;
        std::uint32_t least; // No clients at all would shut out the owner, who then could not raise it again.
        std::uint32_t most;
        const char* name;
    };
    constexpr Choice choices[] = {
        {nullptr, 0, 0, nullptr},
        {&Limits::clients, 1, NVLF_MAX_CLIENTS, "clients"},
        {&Limits::endpoints, 0, NVLF_MAX_ENDPOINTS, "endpoints"},
        {&Limits::endpoints_per_file, 0, NVLF_MAX_ENDPOINTS_PER_FILE, "endpoints of a client"},
        {&Limits::allocations, 0, NVLF_MAX_ALLOCATIONS, "allocations"},
        {&Limits::imports_per_file, 0, NVLF_MAX_IMPORTS_PER_FILE, "imports of a client"},
        {&Limits::pending_accepts, 0, NVLF_MAX_PENDING_ACCEPTS, "offers to an endpoint"},
    };
    static_assert(std::size(choices) == NVLF_LIMIT_QUOTA_BYTES);
    if (a.limit == 0 || a.limit >= std::size(choices)) return Errno{EINVAL};
    const Choice& choice = choices[a.limit];
    if (a.value < choice.least || a.value > choice.most) return Errno{EINVAL};
    limits.*choice.member = static_cast<std::uint32_t>(a.value);
    log_.info(std::string{"limit of "} + choice.name + " is " + std::to_string(a.value) + ", by " + client.name());
    return Errno{};
}

Errno Server::admin_topology(Client&, nvlf_ioc_admin_topology&, Descriptors&) { return Errno{EOPNOTSUPP}; }

Errno Server::admin_down(Client& client, nvlf_ioc_admin_down& a, Descriptors&) {
    if ((a.flags & ~NVLF_DOWN_FORCE) != 0) return Errno{EINVAL};
    const std::uint32_t others = client_count_ - (client.guest ? 0 : 1);
    if ((a.flags & NVLF_DOWN_FORCE) == 0 && others > 0) return Errno{EBUSY};
    log_.info("going down, by " + client.name());
    going_down_ = true;
    return Errno{};
}

} // namespace nvlf::daemon
