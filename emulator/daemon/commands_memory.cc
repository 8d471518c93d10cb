// SPDX-License-Identifier: MIT OR GPL-2.0-only
// MEM_*: device memory, tokens, imports.
#include <algorithm>

#include "daemon/server.hpp"

namespace nvlf::daemon {

Errno Server::mem_alloc(Client& client, nvlf_ioc_mem_alloc& a, Descriptors& out) {
    if (const Errno e = check_device(a.device); e.failed()) return e;
    if (a.bytes == 0) return Errno{EINVAL};
    if (a.bytes > memory_.arena().bytes()) return Errno{ENOSPC}; // Before rounding up could wrap.
    const std::uint64_t bytes = (a.bytes + NVLF_PAGE_SIZE - 1) / NVLF_PAGE_SIZE * NVLF_PAGE_SIZE;
    const std::uint64_t quota = config_.limits.quota_bytes;
    if (client.bytes > quota || bytes > quota - client.bytes) return Errno{EDQUOT};
    if (memory_.count() >= config_.limits.allocations) return Errno{EMFILE};
    if (const Errno e = check_descriptors(client, 1); e.failed()) return e;
    auto memory = memory_.allocate(a.device, bytes, client.id);
    if (!memory) return memory.error();
    const std::uint32_t handle = client.new_handle();
    auto fd = duplicate((*memory)->fd.get());
    if (!fd) {
        // Not charged to the client yet, so that giving it back must not relieve the client either.
        (*memory)->owner = 0;
        memory_.free(**memory);
        return fd.error();
    }
    client.allocations.emplace(handle, *memory);
    client.bytes += bytes;
    ++client.descriptors;
    a.bytes = bytes;
    a.handle = handle;
    a.fla = (*memory)->fla;
    a.mem_fd = out.add(std::move(*fd));
    return Errno{};
}

void Server::free_memory(Client& owner, std::uint32_t handle, Memory& memory) {
    for (const auto& [importer, import_handle] : memory.importers) {
        Client* client = find_client(importer);
        if (client == nullptr || !client->events) continue;
        nvlf_event event{};
        event.type = NVLF_EVENT_MEMORY;
        event.index = import_handle;
        client->events->send(event);
    }
    owner.allocations.erase(handle);
    owner.exports -= static_cast<std::uint32_t>(memory.exports.size());
    --owner.descriptors;
    memory_.free(memory); // Perhaps the end of it: not to be touched any more.
}

Errno Server::mem_free(Client& client, nvlf_ioc_mem_free& a, Descriptors&) {
    const auto it = client.allocations.find(a.handle);
    if (it == client.allocations.end()) return Errno{ENOENT};
    if (it->second->regions != 0) return Errno{EBUSY};
    free_memory(client, a.handle, *it->second);
    return Errno{};
}

Errno Server::mem_export(Client& client, nvlf_ioc_mem_export& a, Descriptors&) {
    constexpr std::uint32_t writes = NVLF_ACCESS_WRITE | NVLF_ACCESS_ATOMIC;
    if (a.access == 0 || (a.access & ~(NVLF_ACCESS_READ | writes)) != 0) return Errno{EINVAL};
    switch (a.scope) {
    case NVLF_SCOPE_FABRIC:
        if (a.scope_index != 0) return Errno{EINVAL};
        break;
    case NVLF_SCOPE_NODE:
        if (a.scope_index >= state_.header().nodes) return Errno{EINVAL};
        break;
    case NVLF_SCOPE_DEVICE:
        if (a.scope_index >= state_.devices().size()) return Errno{ENODEV};
        break;
    default: return Errno{EINVAL};
    }
    const auto it = client.allocations.find(a.handle);
    if (it == client.allocations.end()) return Errno{ENOENT};
    if (client.exports >= config_.limits.exports_per_file) return Errno{EDQUOT};
    const auto token =
        memory_.make_token({it->second, a.access | NVLF_ACCESS_READ, a.scope, a.scope_index}, config_.random);
    if (!token) return token.error();
    ++client.exports;
    std::copy(token->begin(), token->end(), a.token);
    return Errno{};
}

Errno Server::mem_import(Client& client, nvlf_ioc_mem_import& a, Descriptors& out) {
    Token token{};
    std::copy(std::begin(a.token), std::end(a.token), token.begin());
    const Export* grant = memory_.find(token);
    if (grant == nullptr) return Errno{EACCES};
    const bool attached = client.device != NVLF_DEVICE_ANY;
    if (grant->scope == NVLF_SCOPE_DEVICE && client.device != grant->scope_index) return Errno{EACCES};
    if (grant->scope == NVLF_SCOPE_NODE && (!attached || state_.devices()[client.device].node != grant->scope_index))
        return Errno{EACCES};
    if (client.imports.size() >= config_.limits.imports_per_file) return Errno{EMFILE};
    Memory& memory = *grant->memory;
    const bool writes = (grant->access & (NVLF_ACCESS_WRITE | NVLF_ACCESS_ATOMIC)) != 0;
    auto fd = writes ? duplicate(memory.fd.get()) : open_read_only(memory.fd.get());
    if (!fd) return fd.error();
    const std::uint32_t handle = client.new_handle();
    client.imports.emplace(handle, &memory);
    memory_.add_importer(memory, client.id, handle);
    a.fla = memory.fla;
    a.bytes = memory.bytes;
    a.handle = handle;
    a.device = memory.device;
    a.access = grant->access;
    a.mem_fd = out.add(std::move(*fd));
    return Errno{};
}

Errno Server::mem_release(Client& client, nvlf_ioc_mem_free& a, Descriptors&) {
    const auto it = client.imports.find(a.handle);
    if (it == client.imports.end()) return Errno{ENOENT};
    Memory& memory = *it->second;
    client.imports.erase(it);
    memory_.drop_importer(memory, client.id, a.handle);
    return Errno{};
}

} // namespace nvlf::daemon
