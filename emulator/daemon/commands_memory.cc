// SPDX-License-Identifier: MIT OR GPL-2.0-only
// MEM_*: device memory, tokens, names, imports.
#include <algorithm>
#include <cstring>

#include "daemon/server.hpp"

namespace nvlf::daemon {
namespace {

constexpr std::uint32_t access_writes = NVLF_ACCESS_WRITE | NVLF_ACCESS_ATOMIC;
constexpr std::uint32_t access_known = NVLF_ACCESS_READ | access_writes;

Result<Fd> descriptor_for(const Memory& memory, std::uint32_t access) {
    return (access & access_writes) != 0 ? duplicate(memory.fd.get()) : open_read_only(memory.fd.get());
}

} // namespace

// What an allocation of so many bytes would count, in whole pages, if the client may have it.
Result<std::uint64_t> Server::charge(const Client& client, std::uint64_t wanted) const {
    if (wanted == 0) return Errno{EINVAL};
    if (wanted > memory_.arena().bytes()) return Errno{ENOSPC}; // Before rounding up could wrap.
    const std::uint64_t bytes = (wanted + NVLF_PAGE_SIZE - 1) / NVLF_PAGE_SIZE * NVLF_PAGE_SIZE;
    const std::uint64_t quota = config_.limits.quota_bytes;
    if (client.bytes > quota || bytes > quota - client.bytes) return Errno{EDQUOT};
    if (memory_.count() >= config_.limits.allocations) return Errno{EMFILE};
    return bytes;
}

Errno Server::mem_alloc(Client& client, nvlf_ioc_mem_alloc& a, Descriptors& out) {
    if (const Errno e = check_device(a.device); e.failed()) return e;
    const auto charged = charge(client, a.bytes);
    if (!charged) return charged.error();
    const std::uint64_t bytes = *charged;
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
    if (a.access == 0 || (a.access & ~access_known) != 0) return Errno{EINVAL};
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
    auto fd = descriptor_for(memory, grant->access);
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
    if (!memory.name.empty()) --client.descriptors;
    memory_.drop_importer(memory, client.id, a.handle);
    return Errno{};
}

Result<Memory*> Server::make_named_memory(const Client& client, const nvlf_ioc_mem_open& a) {
    if ((a.flags & NVLF_OPEN_CREATE) == 0) return Errno{ENOENT};
    if (const Errno e = check_device(a.device); e.failed()) return e;
    const auto bytes = charge(client, a.bytes);
    if (!bytes) return bytes.error();
    return memory_.allocate_named(a.name, a.device, *bytes, client.id);
}

// Each who has it open is charged a descriptor, though we have but one: whoever made it may be gone long before.
Errno Server::mem_open(Client& client, nvlf_ioc_mem_open& a, Descriptors& out) {
    if ((a.flags & ~NVLF_OPEN_CREATE) != 0 || a.access == 0 || (a.access & ~access_known) != 0) return Errno{EINVAL};
    if (a.name[0] == '\0' || std::memchr(a.name, '\0', sizeof a.name) == nullptr) return Errno{EINVAL};
    if (client.imports.size() >= config_.limits.imports_per_file) return Errno{EMFILE};
    if (const Errno e = check_descriptors(client, 1); e.failed()) return e;
    Memory* memory = memory_.find_name(a.name);
    const bool created = memory == nullptr;
    if (created) {
        const auto made = make_named_memory(client, a);
        if (!made) return made.error();
        memory = *made;
    }
    auto fd = descriptor_for(*memory, a.access);
    if (!fd) {
        if (created) memory_.abandon(*memory);
        return fd.error();
    }
    const std::uint32_t handle = client.new_handle();
    client.imports.emplace(handle, memory);
    memory_.add_importer(*memory, client.id, handle);
    if (created) client.bytes += memory->bytes;
    ++client.descriptors;
    a.device = memory->device;
    a.access |= NVLF_ACCESS_READ;
    a.bytes = memory->bytes;
    a.fla = memory->fla;
    a.handle = handle;
    a.mem_fd = out.add(*std::move(fd));
    a.created = created ? 1 : 0;
    return Errno{};
}

} // namespace nvlf::daemon
