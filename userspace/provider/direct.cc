// SPDX-License-Identifier: MIT OR GPL-2.0-only
// direct.cc - one-sided operations on fabric memory: the initiator loads and stores, the target does nothing.
//
// The target lists its registrations (directory.hpp). The initiator keeps what it imported from a peer in `Peer::direct`
// and checks one word of the peer's region before each use, so a registration that was closed, or whose key was used
// again, is never touched through an old mapping. All that is not plain sailing is left to onesided.cc, which gets the
// target's own answer.
#include <atomic>
#include <cstring>
#include <mutex>

#include "directory.hpp"
#include "endpoint.hpp"

namespace nvlf::ofi {
namespace {

Directory& own_directory(const Endpoint& endpoint) noexcept {
    auto* region = reinterpret_cast<std::byte*>(nvlf_ep_region(endpoint.ep));
    return *reinterpret_cast<Directory*>(region + directory_offset);
}
static_assert(directory_offset + sizeof(Directory) <= region_bytes);

bool current(const DirectImport& import) noexcept {
    return std::atomic_ref{*const_cast<std::uint64_t*>(import.sequence_at)}.load(std::memory_order_acquire) ==
           import.sequence;
}

// Imports the memory of a registration that the peer lists. The entry is a stranger's: the bounds of what we map come
// from our own carrier.
bool import_registration(Endpoint& endpoint, Peer& peer, std::uint64_t key) noexcept try {
    std::size_t bytes = 0;
    const nvlf_region* region = nvlf_channel_region(peer.channel, &bytes);
    if (bytes < directory_offset + sizeof(Directory)) return false;
    const auto& directory =
        *reinterpret_cast<const Directory*>(reinterpret_cast<const std::byte*>(region) + directory_offset);
    const auto hit = directory_find(directory, key);
    if (!hit) return false;
    std::uint8_t token[NVLF_TOKEN_LEN];
    std::memcpy(token, hit->entry.token.data(), sizeof token);
    nvlf_mem* memory = nullptr;
    void* start = nullptr;
    if (nvlf_mem_import(endpoint.domain.nvlf, token, &memory) != 0) return false;
    const std::uint64_t size = nvlf_mem_bytes(memory);
    if (hit->entry.offset > size || hit->entry.bytes > size - hit->entry.offset || nvlf_mem_map(memory, &start) != 0) {
        (void)nvlf_mem_put(memory);
        return false;
    }
    std::uint64_t access = hit->entry.access;
    if ((nvlf_mem_access(memory) & (NVLF_ACCESS_WRITE | NVLF_ACCESS_ATOMIC)) == 0) access &= ~FI_REMOTE_WRITE;
    peer.direct.push_back({.key = key,
                           .base = hit->entry.base,
                           .bytes = hit->entry.bytes,
                           .access = access,
                           .start = static_cast<std::byte*>(start) + hit->entry.offset,
                           .memory = memory,
                           .sequence_at = hit->sequence_at,
                           .sequence = hit->sequence});
    return true;
} catch (const std::bad_alloc&) {
    return false; // The import is lost to us until the fabric closes; the operation goes by messages.
}

// Where [address, address + bytes) of the registration lies in our memory, nullptr when it cannot be touched directly.
std::byte* locate(Endpoint& endpoint, Peer& peer, const RmaSegment& segment, std::uint64_t access) noexcept {
    for (int attempt = 0; attempt < 2; ++attempt) {
        for (std::size_t i = 0; i < peer.direct.size(); ++i) {
            DirectImport& import = peer.direct[i];
            if (import.key != segment.key) continue;
            if (!current(import)) { // Closed, or another registration now.
                (void)nvlf_mem_put(import.memory);
                import = peer.direct.back();
                peer.direct.pop_back();
                break;
            }
            const std::uint64_t offset = segment.address - import.base;
            const bool inside =
                segment.address >= import.base && offset <= import.bytes && segment.bytes <= import.bytes - offset;
            return inside && (import.access & access) == access ? import.start + offset : nullptr;
        }
        if (attempt == 0 && !import_registration(endpoint, peer, segment.key)) return nullptr;
    }
    return nullptr;
}

} // namespace

Peer::~Peer() {
    for (DirectImport& import : direct) (void)nvlf_mem_put(import.memory);
    nvlf_channel_put(channel);
}

// True: done, completion included.
bool Endpoint::try_direct(Peer& peer, const RmaRequest& request) noexcept {
    std::array<std::byte*, iov_limit> at{};
    for (std::size_t i = 0; i < request.segments; ++i) {
        at[i] = locate(*this, peer, request.segment[i], request.write ? FI_REMOTE_WRITE : FI_REMOTE_READ);
        if (at[i] == nullptr) return false;
    }
    const bool notify = (request.flags & FI_REMOTE_CQ_DATA) != 0;
    if (notify && peer.tx.room(0, control_reserve).failed()) return false;
    std::size_t done = 0;
    for (std::size_t i = 0; i < request.segments; ++i) {
        const std::uint64_t bytes = request.segment[i].bytes;
        if (request.write) request.local.gather(done, at[i], bytes);
        else request.local.scatter(done, {at[i], bytes});
        done += bytes;
    }
    if (notify)
        answer(peer, wire::op_notify, wire::Notify{done, request.cq_data}); // After the data: slots are released.
    complete_tx(FI_RMA | (request.write ? FI_WRITE : FI_READ), request.flags, request.context, request.silent);
    return true;
}

void endpoint_mr_changed(Endpoint& endpoint, const Mr& mr, bool added) noexcept try {
    if (endpoint.ep == nullptr) return;
    const std::lock_guard guard{endpoint.lock};
    Directory& directory = own_directory(endpoint);
    if (!added) {
        const auto it = endpoint.published.find(mr.key);
        if (it == endpoint.published.end()) return;
        directory_remove(directory, mr.key);
        (void)nvlf_mem_put(it->second);
        endpoint.published.erase(it);
        return;
    }
    if (mr.iov_count != 1 || mr.length == 0 || (mr.access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) == 0) return;
    nvlf_mem* memory = nullptr;
    if (nvlf_mem_find(mr.iov[0].iov_base, mr.length, &memory) != 0) return; // Not fabric memory.
    DirectoryEntry entry{};
    std::uint8_t token[NVLF_TOKEN_LEN];
    void* start = nullptr;
    const std::uint32_t access =
        (mr.access & FI_REMOTE_WRITE) != 0 ? NVLF_ACCESS_READ | NVLF_ACCESS_WRITE : NVLF_ACCESS_READ;
    if (nvlf_mem_map(memory, &start) == 0 && nvlf_mem_export(memory, access, token) == 0) {
        entry.key = mr.key;
        entry.base =
            (endpoint.domain.mr_mode & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<std::uintptr_t>(mr.iov[0].iov_base) : 0;
        entry.bytes = mr.length;
        entry.offset =
            static_cast<std::uint64_t>(static_cast<std::byte*>(mr.iov[0].iov_base) - static_cast<std::byte*>(start));
        entry.access = mr.access & (FI_REMOTE_READ | FI_REMOTE_WRITE);
        std::memcpy(entry.token.data(), token, sizeof token);
        endpoint.published.emplace(mr.key, memory);
        if (directory_add(directory, entry)) return;
        endpoint.published.erase(mr.key);
    }
    (void)nvlf_mem_put(memory);
} catch (const std::bad_alloc&) {
    // Without memory to list it, the registration is served by messages.
}

} // namespace nvlf::ofi
