// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "driver/address_space.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "driver/memory.hpp"

namespace nvlf {
namespace {

void* as_pointer(std::uint64_t address) noexcept {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}
std::uintptr_t as_number(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

// A hint, which the kernel follows where the place is free. Not MAP_FIXED_NOREPLACE: where ThreadSanitizer refuses the
// place, its mmap drops the address and keeps the flag; root, who may map address 0, is given that, and TSan gives up.
bool reserve(std::uint64_t base, std::uint64_t bytes) noexcept {
    void* wanted = as_pointer(base);
    void* got = ::mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return false;
    if (got == wanted) return true;
    ::munmap(got, bytes);
    return false;
}

int protection(bool writable) noexcept { return writable ? PROT_READ | PROT_WRITE : PROT_READ; }

} // namespace

Arena::Arena(const Uuid& uuid, std::uint64_t base, std::uint64_t bytes) noexcept
    : uuid_{uuid}, base_{base}, bytes_{bytes}, reserved_{reserve(base, bytes)} {}

Arena::~Arena() {
    if (reserved_) ::munmap(as_pointer(base_), bytes_);
}

// Never destroyed: the host's own exit handlers may still use fabric memory.
AddressSpace& address_space() noexcept {
    static AddressSpace& space = *new AddressSpace;
    return space;
}

Result<std::shared_ptr<Arena>> AddressSpace::arena(const Uuid& uuid, std::uint64_t base, std::uint64_t bytes) {
    const std::unique_lock guard{lock_};
    std::erase_if(arenas_, [](const auto& weak) { return weak.expired(); });
    for (const auto& weak : arenas_) {
        std::shared_ptr<Arena> arena = weak.lock();
        if (!arena || arena->uuid() != uuid) continue;
        if (!arena->same_place(base, bytes)) return Errno{EPROTO};
        return arena;
    }
    auto arena = std::make_shared<Arena>(uuid, base, bytes);
    arenas_.push_back(arena);
    return arena;
}

AddressSpace::Places::const_iterator AddressSpace::at(std::uintptr_t ptr, std::uint64_t bytes) const noexcept {
    auto next = places_.upper_bound(ptr);
    if (next == places_.begin()) return places_.end();
    const auto place = std::prev(next);
    const std::uint64_t offset = ptr - place->first;
    const std::uint64_t size = place->second.bytes;
    return bytes <= size && offset <= size - bytes && offset < size ? place : places_.end();
}

bool AddressSpace::overlaps(std::uintptr_t ptr, std::uint64_t bytes) const noexcept {
    const auto next = places_.lower_bound(ptr);
    if (next != places_.end() && next->first - ptr < bytes) return true;
    return next != places_.begin() && ptr - std::prev(next)->first < std::prev(next)->second.bytes;
}

Result<void*> AddressSpace::share(Places::iterator place, nvlf_mem& mem, std::uint64_t device_id, std::uint64_t inode) {
    Place& p = place->second;
    if (p.bytes != mem.bytes || p.device_id != device_id || p.inode != inode) return Errno{EPROTO};
    p.users.reserve(p.users.size() + 1);
    void* ptr = reinterpret_cast<void*>(place->first);
    if (mem.writable() && !p.writable) {
        // MAP_FIXED over our own mapping of the same object: readers in other threads never see a gap.
        if (::mmap(ptr, p.bytes, protection(true), MAP_SHARED | MAP_FIXED, mem.fd.get(), 0) == MAP_FAILED)
            return last_errno();
        p.writable = true;
    }
    p.users.push_back(&mem);
    mem.mapped = place->first;
    return ptr;
}

Result<void*> AddressSpace::map(nvlf_mem& mem) {
    const std::unique_lock guard{lock_};
    return mem.mapped != 0 ? Result<void*>{reinterpret_cast<void*>(mem.mapped)} : map_locked(mem);
}

Result<void*> AddressSpace::map_locked(nvlf_mem& mem) {
    struct stat st {};
    if (::fstat(mem.fd.get(), &st) != 0) return last_errno();
    // What lies past the end of the object would be a SIGBUS.
    if (st.st_size < 0 || static_cast<std::uint64_t>(st.st_size) < mem.bytes) return Errno{EPROTO};
    const Uuid& uuid = mem.arena->uuid();
    if (const auto known = by_fla_.find({uuid, mem.fla}); known != by_fla_.end())
        return share(places_.find(known->second), mem, st.st_dev, st.st_ino);

    const bool in_arena = mem.arena->reserved();
    void* wanted = in_arena ? as_pointer(mem.fla) : nullptr;
    if (in_arena && overlaps(as_number(wanted), mem.bytes)) return Errno{EPROTO};
    Place place{uuid, mem.fla, mem.bytes, st.st_dev, st.st_ino, mem.writable(), in_arena, {&mem}};
    const auto [fla_entry, fresh] = by_fla_.try_emplace({uuid, mem.fla}, 0);
    // Over the reservation, which is ours: MAP_FIXED replaces nothing of anybody else's.
    void* ptr =
        ::mmap(wanted, mem.bytes, protection(mem.writable()), MAP_SHARED | (in_arena ? MAP_FIXED : 0), mem.fd.get(), 0);
    if (ptr == MAP_FAILED) {
        const Errno error = last_errno();
        by_fla_.erase(fla_entry);
        return error;
    }
    try {
        places_.emplace(as_number(ptr), std::move(place));
    } catch (...) {
        by_fla_.erase(fla_entry);
        if (in_arena) ::mmap(ptr, mem.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        else ::munmap(ptr, mem.bytes);
        throw;
    }
    fla_entry->second = as_number(ptr);
    mem.mapped = as_number(ptr);
    return ptr;
}

void AddressSpace::release(Places::iterator place) noexcept {
    const Place& p = place->second;
    void* ptr = reinterpret_cast<void*>(place->first);
    // Back to the reservation in one step, lest something else of the process settle in the hole.
    if (p.in_arena) ::mmap(ptr, p.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else ::munmap(ptr, p.bytes);
    by_fla_.erase({p.uuid, p.fla});
    places_.erase(place);
}

void AddressSpace::forget(nvlf_mem& mem) noexcept {
    const std::unique_lock guard{lock_};
    if (mem.mapped == 0) return;
    const auto place = places_.find(mem.mapped);
    mem.mapped = 0;
    Place& p = place->second;
    std::erase(p.users, &mem);
    if (p.users.empty()) return release(place);
    const auto writer =
        std::any_of(p.users.begin(), p.users.end(), [](const nvlf_mem* user) { return user->writable(); });
    if (writer || !p.writable) return;
    // The last user with the right to write has gone. On failure the mapping stays writable, as it was until now.
    void* ptr = reinterpret_cast<void*>(place->first);
    if (::mmap(ptr, p.bytes, protection(false), MAP_SHARED | MAP_FIXED, p.users.front()->fd.get(), 0) != MAP_FAILED)
        p.writable = false;
}

// The strongest user first: whoever asks by pointer may do what the mapping lets it do. One whose last reference is being
// put just now cannot be had any more.
nvlf_mem* AddressSpace::hold_strongest(const Place& place) noexcept {
    for (const bool writable : {true, false})
        for (nvlf_mem* user : place.users)
            if (user->writable() == writable && user->try_get()) return user;
    return nullptr;
}

nvlf_mem* AddressSpace::find(std::uintptr_t ptr, std::uint64_t bytes) noexcept {
    const std::shared_lock guard{lock_};
    const auto place = at(ptr, bytes);
    return place != places_.end() ? hold_strongest(place->second) : nullptr;
}

nvlf_mem* AddressSpace::find_object(std::uint64_t device_id, std::uint64_t inode) noexcept {
    const std::shared_lock guard{lock_};
    const auto found = std::find_if(places_.begin(), places_.end(), [&](const auto& entry) {
        return entry.second.device_id == device_id && entry.second.inode == inode;
    });
    return found != places_.end() ? hold_strongest(found->second) : nullptr;
}

std::uintptr_t AddressSpace::pointer(const Uuid& uuid, std::uint64_t fla, std::uint64_t bytes) const noexcept {
    const std::shared_lock guard{lock_};
    auto next = by_fla_.upper_bound({uuid, fla});
    if (next == by_fla_.begin()) return 0;
    const auto& [key, ptr] = *std::prev(next);
    if (key.first != uuid) return 0;
    const std::uint64_t offset = fla - key.second;
    const std::uint64_t size = places_.find(ptr)->second.bytes;
    return offset < size && bytes <= size - offset ? ptr + offset : 0;
}

std::uint64_t AddressSpace::address(const Uuid& uuid, std::uintptr_t ptr) const noexcept {
    const std::shared_lock guard{lock_};
    const auto place = at(ptr, 0);
    if (place == places_.end() || place->second.uuid != uuid) return 0;
    return place->second.fla + (ptr - place->first);
}

} // namespace nvlf
