// SPDX-License-Identifier: MIT OR GPL-2.0-only
// client.hpp - one open file: who it is, what it owns, and what that counts to.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "base/fd.hpp"
#include "daemon/events.hpp"
#include "daemon/memory.hpp"

namespace nvlf::daemon {

// As the kernel told us, never as the client did.
struct Identity {
    std::uint32_t pid = 0; // 0: not visible in our PID namespace.
    std::uint32_t uid = 0;
    std::string command; // Empty: not visible.
    Fd process{};        // A pidfd, for EP_PROCESS. Invalid where the kernel has none.
};

struct Client {
    Client(ClientId client_id, Identity who) : id{client_id}, identity{std::move(who)} {}

    ClientId id;
    Identity identity;
    // Came when the limit of clients was reached. It may look around and, if it owns the fabric, administer it: someone must
    // be able to find out who is there, to raise the limit or to end the fabric. It owns nothing, and stays a guest.
    bool guest = false;
    std::uint32_t device = NVLF_DEVICE_ANY;

    // Handles are the client's own names; allocations and imports share the numbers.
    std::unordered_map<std::uint32_t, Memory*> allocations;
    std::unordered_map<std::uint32_t, Memory*> imports;
    std::set<std::uint32_t> endpoints;
    std::optional<EventStream> events;

    std::uint64_t bytes = 0; // Of its allocations, those that it freed and others still import included.
    std::uint32_t exports = 0;
    std::uint32_t channels = 0;
    std::uint32_t descriptors = 0; // See Limits::descriptors_per_file.

    // Counts up and wraps, so that a stale handle stays an unknown one for long. 0 is never given.
    [[nodiscard]] std::uint32_t new_handle() {
        do ++last_handle;
        while (last_handle == 0 || allocations.count(last_handle) != 0 || imports.count(last_handle) != 0);
        return last_handle;
    }
    // "client 7 (pid 1234 fi_pingpong)"
    [[nodiscard]] std::string name() const {
        std::string text = "client " + std::to_string(id) + " (";
        if (identity.pid != 0) text += "pid " + std::to_string(identity.pid);
        else text += "uid " + std::to_string(identity.uid);
        if (!identity.command.empty()) text += ' ' + identity.command;
        return text + ')';
    }

private:
    std::uint32_t last_handle = 0;
};

} // namespace nvlf::daemon
