// SPDX-License-Identifier: MIT OR GPL-2.0-only
// address_space.hpp - the fabric's addresses in this process.
//
// All memory of a fabric has an address in one arena, the same in each process. So that a pointer is that address, a
// process reserves the arena at its very place when it opens the fabric (PROT_NONE: it costs no memory) and later maps
// memory over the reservation. Where the place is taken (another fabric, a sanitizer's shadow) or RLIMIT_AS forbids it,
// memory is mapped wherever the kernel likes and addresses are translated.
//
// The same address may be wanted several times in one process: two fabrics opened, an owner that imports its own
// memory, imports with less and with more access. There is then one mapping, with the rights of the strongest user.
//
// The table is process-wide because its subject, the address space, is: nvlf_mem_find() must know a pointer whichever
// nvlf_open() it came through, and two opens of one fabric must share one arena. It is the only state of this kind
// besides the list of fork_guard.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "base/result.hpp"

struct nvlf_mem;

namespace nvlf {

using Uuid = std::array<std::uint8_t, 16>;

// A fabric's arena, reserved or (then pointers are translated) not. Lives as long as a fabric with this UUID is open.
class Arena {
public:
    Arena(const Uuid& uuid, std::uint64_t base, std::uint64_t bytes) noexcept;
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    [[nodiscard]] const Uuid& uuid() const noexcept { return uuid_; }
    [[nodiscard]] bool reserved() const noexcept { return reserved_; }
    [[nodiscard]] bool holds(std::uint64_t fla, std::uint64_t bytes) const noexcept {
        return fla >= base_ && bytes <= bytes_ && fla - base_ <= bytes_ - bytes;
    }
    [[nodiscard]] bool same_place(std::uint64_t base, std::uint64_t bytes) const noexcept {
        return base == base_ && bytes == bytes_;
    }

private:
    Uuid uuid_;
    std::uint64_t base_;
    std::uint64_t bytes_;
    bool reserved_;
};

class AddressSpace {
public:
    // The arena of the fabric `uuid`. EPROTO: this fabric was opened before with another arena.
    [[nodiscard]] Result<std::shared_ptr<Arena>> arena(const Uuid& uuid, std::uint64_t base, std::uint64_t bytes);

    // Maps `mem`, or answers where it is. EPROTO: its place is held by different memory.
    [[nodiscard]] Result<void*> map(nvlf_mem& mem);
    // Takes `mem` out of the table: it is no longer found, and its mapping ends with its last user.
    void forget(nvlf_mem& mem) noexcept;

    // The memory that holds all of [ptr, ptr + bytes), with one more reference; nullptr when there is none.
    [[nodiscard]] nvlf_mem* find(std::uintptr_t ptr, std::uint64_t bytes) noexcept;
    // As find, the memory that is this object.
    [[nodiscard]] nvlf_mem* find_object(std::uint64_t device_id, std::uint64_t inode) noexcept;
    // Pointer for an address and the reverse; 0 when it is not mapped.
    [[nodiscard]] std::uintptr_t pointer(const Uuid& uuid, std::uint64_t fla, std::uint64_t bytes) const noexcept;
    [[nodiscard]] std::uint64_t address(const Uuid& uuid, std::uintptr_t ptr) const noexcept;

private:
    struct Place { // One mapping.
        Uuid uuid;
        std::uint64_t fla;
        std::uint64_t bytes;
        std::uint64_t device_id; // st_dev and st_ino of the object mapped: the same memory has the same.
        std::uint64_t inode;
        bool writable;
        bool in_arena;
        std::vector<nvlf_mem*> users;
    };
    using Places = std::map<std::uintptr_t, Place>; // By pointer.

    [[nodiscard]] static nvlf_mem* hold_strongest(const Place& place) noexcept;
    [[nodiscard]] Places::const_iterator at(std::uintptr_t ptr, std::uint64_t bytes) const noexcept;
    [[nodiscard]] Result<void*> map_locked(nvlf_mem& mem);
    [[nodiscard]] Result<void*> share(Places::iterator place, nvlf_mem& mem, std::uint64_t device_id,
                                      std::uint64_t inode);
    [[nodiscard]] bool overlaps(std::uintptr_t ptr, std::uint64_t bytes) const noexcept;
    void release(Places::iterator place) noexcept;

    mutable std::shared_mutex lock_;
    Places places_;
    std::map<std::pair<Uuid, std::uint64_t>, std::uintptr_t> by_fla_;
    std::vector<std::weak_ptr<Arena>> arenas_;
};

[[nodiscard]] AddressSpace& address_space() noexcept;

} // namespace nvlf
