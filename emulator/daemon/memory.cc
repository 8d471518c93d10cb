// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/memory.hpp"

#include <cassert>

namespace nvlf::daemon {

Result<Memory*> MemoryTable::allocate(std::uint32_t device, std::uint64_t bytes, ClientId owner) {
    assert(bytes > 0 && bytes % NVLF_PAGE_SIZE == 0);
    nvlf_device& d = state_.devices()[device];
    if (bytes > d.hbm_bytes || d.hbm_used > d.hbm_bytes - bytes) return Errno{ENOSPC};
    auto fd = make_memory("nvlf-hbm", bytes);
    if (!fd) return fd.error();
    if (const Errno e = seal(fd->get(), Seal::size); e.failed()) return resource_errno(e);
    const auto fla = arena_.take(bytes);
    if (!fla) return Errno{ENOSPC};
    placement_.bind(fd->get(), bytes, d.numa_node);

    Memory& memory = table_[*fla];
    memory.fla = *fla;
    memory.bytes = bytes;
    memory.device = device;
    memory.fd = std::move(*fd);
    memory.owner = owner;
    allocated_bytes_ += bytes;
    live_add<decltype(d.hbm_used)>(d.hbm_used, bytes);
    return &memory;
}

Result<Memory*> MemoryTable::allocate_named(const std::string& name, std::uint32_t device, std::uint64_t bytes,
                                            ClientId payer) {
    const auto memory = allocate(device, bytes, payer);
    if (!memory) return memory.error();
    (*memory)->name = name;
    names_.emplace(name, *memory);
    return *memory;
}

Memory* MemoryTable::find_name(const std::string& name) const {
    const auto it = names_.find(name);
    return it != names_.end() ? it->second : nullptr;
}

void MemoryTable::abandon(Memory& memory) {
    memory.owner = 0;
    end_if_unused(memory);
}

void MemoryTable::free(Memory& memory) {
    assert(!memory.freed && memory.regions == 0);
    for (const Token& token : memory.exports) tokens_.erase(token);
    memory.exports = {};
    memory.fd.reset();
    memory.freed = true;
    end_if_unused(memory);
}

void MemoryTable::drop_importer(Memory& memory, ClientId client, std::uint32_t handle) {
    memory.importers.erase({client, handle});
    end_if_unused(memory);
}

void MemoryTable::end_if_unused(Memory& memory) {
    const bool owned = memory.name.empty() && !memory.freed;
    if (owned || !memory.importers.empty()) return;
    if (on_gone) on_gone(memory);
    nvlf_device& d = state_.devices()[memory.device];
    live_store<decltype(d.hbm_used)>(d.hbm_used, d.hbm_used - memory.bytes);
    allocated_bytes_ -= memory.bytes;
    arena_.give_back(memory.fla, memory.bytes);
    if (!memory.name.empty()) names_.erase(memory.name);
    table_.erase(memory.fla);
}

Result<Token> MemoryTable::make_token(const Export& what, const Random& random) {
    Token token{};
    if (const Errno e = random(std::as_writable_bytes(std::span{token})); e.failed()) return Errno{ENOMEM};

    if (!tokens_.emplace(token, what).second) return Errno{ENOMEM}; // Random numbers that repeat are none.
    what.memory->exports.push_back(token);
    return token;
}

const Export* MemoryTable::find(const Token& token) const {
    const auto it = tokens_.find(token);
    return it != tokens_.end() ? &it->second : nullptr;
}

} // namespace nvlf::daemon
