// SPDX-License-Identifier: MIT OR GPL-2.0-only
// direct.cc - one-sided operations on fabric memory: the initiator loads and stores, the target does nothing.
//
// The target lists its registrations (directory.hpp). The initiator keeps what it imported from a peer in `Peer::direct`
// and checks one word of the peer's region before each use, so no operation that begins after a registration was closed, or
// its key used again, goes through an old mapping. One that has begun may still copy: its target must not close a
// registration while it expects access to it. All that is not plain sailing is left to onesided.cc, which gets the
// target's own answer.
#include <atomic>
#include <cstring>
#include <mutex>

#include "directory.hpp"
#include "endpoint.hpp"
#include "params.hpp"

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

// Gives back what the peer has closed since. It unmaps: no operation may hold an address in it, for the peer decides at
// which moment its word changes.
void forget_closed(Peer& peer) noexcept {
    peer.direct.erase_if([](const DirectImport& import) {
        if (current(import)) return false;
        (void)nvlf_mem_put(import.memory);
        return true;
    });
}

const DirectImport* find_import(const Peer& peer, std::uint64_t key) noexcept {
    const DirectImport* import = peer.direct.find(key);
    return import != nullptr && current(*import) ? import : nullptr;
}

// Notes a registration of the peer's own memory. Nothing is mapped; reach_across() finds it, locate() does not.
bool import_across(Peer& peer, const DirectoryHit& hit) noexcept {
    if (!peer.cma.usable(peer.channel)) return false;
    peer.direct.insert({.key = hit.entry.key,
                        .base = hit.entry.base,
                        .bytes = hit.entry.bytes,
                        .events = hit.entry.events,
                        .across = hit.entry.access,
                        .there = hit.entry.offset,
                        .sequence_at = hit.sequence_at,
                        .sequence = hit.sequence});
    return true;
}

// Imports the memory of a registration that the peer lists. The entry is a stranger's: the bounds of what we map come
// from our own carrier.
bool import_registration(Endpoint& endpoint, Peer& peer, std::uint64_t key) noexcept try {
    std::size_t bytes = 0;
    const nvlf_region* region = nvlf_channel_region(peer.channel, &bytes);
    if (bytes < directory_offset + sizeof(Directory)) return false;
    const auto& directory =
        *reinterpret_cast<const Directory*>(reinterpret_cast<const std::byte*>(region) + directory_offset);
    if (directory.magic != directory_magic) return false; // Another version of us, or no provider at all.
    const auto hit = directory_find(directory, key);
    if (!hit) return false;
    forget_closed(peer);
    peer.direct.reserve_one(); // Once it is imported, nothing may fail.
    if (hit->entry.token == no_token) return import_across(peer, *hit);
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
    peer.direct.insert({.key = key,
                        .base = hit->entry.base,
                        .bytes = hit->entry.bytes,
                        .access = access,
                        .start = static_cast<std::byte*>(start) + hit->entry.offset,
                        .memory = memory,
                        .events = hit->entry.events,
                        .sequence_at = hit->sequence_at,
                        .sequence = hit->sequence});
    return true;
} catch (const std::bad_alloc&) {
    return false; // The operation goes by messages.
}

// Where the segments lie in our memory, and of which access the peer wants to hear. False: one of them is not imported
// yet, or cannot be touched directly.
bool locate(const Peer& peer, std::span<const RmaSegment> segments, std::uint64_t access, Endpoint::Places& ret_at,
            std::uint64_t& ret_events) noexcept {
    ret_events = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const RmaSegment& segment = segments[i];
        const DirectImport* import = find_import(peer, segment.key);
        if (import == nullptr || (import->access & access) != access || segment.address < import->base) return false;
        const std::uint64_t offset = segment.address - import->base;
        if (offset > import->bytes || segment.bytes > import->bytes - offset) return false;
        ret_at[i] = import->start + offset;
        ret_events |= import->events;
    }
    return true;
}

// True: something was, and it is worth while to look again.
[[gnu::cold]] bool import_missing(Endpoint& endpoint, Peer& peer, std::span<const RmaSegment> segments) noexcept {
    bool any = false;
    for (const RmaSegment& segment : segments) {
        if (find_import(peer, segment.key) != nullptr) continue;
        if (!import_registration(endpoint, peer, segment.key)) return false;
        any = true;
    }
    return any;
}

// Without memory to keep it, the registration is served by messages.
bool remember(Endpoint& endpoint, std::uint64_t key, nvlf_mem* memory) noexcept try {
    return endpoint.published.emplace(key, memory).second;
} catch (const std::bad_alloc&) {
    return false;
}

} // namespace

void Peer::put_imports() noexcept {
    direct.erase_if([](const DirectImport& import) {
        (void)nvlf_mem_put(import.memory);
        return true;
    });
}

Peer::~Peer() {
    put_imports();
    nvlf_channel_put(channel);
}

// True: all segments lie in memory that we may touch ourselves, at `ret_at`.
bool Endpoint::reach(Peer& peer, std::span<const RmaSegment> segments, std::uint64_t access, Places& ret_at,
                     std::uint64_t& ret_events) noexcept {
    return locate(peer, segments, access, ret_at, ret_events) ||
           (import_missing(*this, peer, segments) && locate(peer, segments, access, ret_at, ret_events));
}

// True: done, completion included.
bool Endpoint::try_direct(Peer& peer, const RmaRequest& request) noexcept {
    Places at{};
    const std::uint64_t access = request.write ? FI_REMOTE_WRITE : FI_REMOTE_READ;
    std::uint64_t events = 0;
    if (!reach(peer, {request.segment.data(), request.segments}, access, at, events)) return false;
    if (!may_notify(peer, request, events)) return false;
    std::size_t done = 0;
    for (std::size_t i = 0; i < request.segments; ++i) {
        const std::uint64_t bytes = request.segment[i].bytes;
        if (request.write) request.local.gather(done, at[i], bytes);
        else request.local.scatter(done, {at[i], bytes});
        done += bytes;
    }
    finish_direct(peer, request, events);
    return true;
}

// An operation is complete: tells the target, if that is wanted, and the application. `events`: the access of which the
// target wants to hear.
void Endpoint::finish_direct(Peer& peer, const RmaRequest& request, std::uint64_t events) noexcept {
    if (notifies(request, events)) // After the data: slots are released.
        notify(peer, request.write ? FI_REMOTE_WRITE : FI_REMOTE_READ, {request.segment.data(), request.segments},
               request.local.total, (request.flags & FI_REMOTE_CQ_DATA) != 0 ? &request.cq_data : nullptr,
               target_of(request.to));
    request.tx->complete(request.completes_as(), request.flags, request.context, request.silent);
}

// True: all segments lie in the peer's own memory, where `ret_there` says, and the kernel lets us at it.
bool Endpoint::reach_across(const Peer& peer, std::span<const RmaSegment> segments, std::uint64_t access,
                            Buffers& ret_there, std::uint64_t& ret_events) const noexcept {
    if (!peer.cma.works()) return false;
    ret_events = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const RmaSegment& segment = segments[i];
        const DirectImport* import = find_import(peer, segment.key);
        if (import == nullptr || (import->across & access) != access || segment.address < import->base) return false;
        const std::uint64_t offset = segment.address - import->base;
        if (offset > import->bytes || segment.bytes > import->bytes - offset) return false;
        ret_there.iov[i] = {reinterpret_cast<void*>(import->there + offset), segment.bytes};
        ret_events |= import->events;
    }
    ret_there.count = segments.size();
    return true;
}

void open_directory(Endpoint& endpoint) noexcept {
    nvlf_ep_region(endpoint.ep)->user_off = directory_offset;
    Directory& directory = own_directory(endpoint);
    if (!make_proof(endpoint.proof, directory.proof)) directory.proof = {};
    // release: who reads it finds the proof.
    std::atomic_ref{directory.magic}.store(directory_magic, std::memory_order_release);
}

void endpoint_mr_changed(Endpoint& endpoint, const Mr& mr, bool added) noexcept {
    if (endpoint.ep == nullptr || endpoint.inherited()) return; // The directory is the parent's, too.
    const std::lock_guard guard{endpoint.lock()};
    Directory& directory = own_directory(endpoint);
    if (!added) {
        const auto it = endpoint.published.find(mr.key);
        if (it == endpoint.published.end()) return;
        directory_remove(directory, mr.key);
        (void)nvlf_mem_put(it->second);
        endpoint.published.erase(it);
        return;
    }
    if (!mr_reachable(mr, &endpoint)) return;
    if (mr.iov_count != 1 || mr.length == 0 || (mr.access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) == 0) return;
    DirectoryEntry entry{};
    entry.key = mr.key;
    entry.base = (endpoint.domain.mr_mode & FI_MR_VIRT_ADDR) != 0 ? mr.address[0] : 0;
    entry.bytes = mr.length;
    entry.access = mr.access & (FI_REMOTE_READ | FI_REMOTE_WRITE);
    entry.events = endpoint.events_of(mr);
    nvlf_mem* memory = nullptr;
    if (nvlf_mem_find(mr.iov[0].iov_base, mr.length, &memory) != 0) { // Not fabric memory.
        entry.offset = reinterpret_cast<std::uintptr_t>(mr.iov[0].iov_base);
        if (params().cma && remember(endpoint, mr.key, nullptr)) (void)directory_add(directory, entry);
        return;
    }
    std::uint8_t token[NVLF_TOKEN_LEN];
    void* start = nullptr;
    const std::uint32_t access =
        (mr.access & FI_REMOTE_WRITE) != 0 ? NVLF_ACCESS_READ | NVLF_ACCESS_WRITE : NVLF_ACCESS_READ;
    if (nvlf_mem_map(memory, &start) == 0 && nvlf_mem_export(memory, access, token) == 0) {
        entry.offset =
            static_cast<std::uint64_t>(static_cast<std::byte*>(mr.iov[0].iov_base) - static_cast<std::byte*>(start));
        std::memcpy(entry.token.data(), token, sizeof token);
        if (directory_add(directory, entry) && remember(endpoint, mr.key, memory)) return;
        directory_remove(directory, mr.key);
    }
    (void)nvlf_mem_put(memory);
}

} // namespace nvlf::ofi
