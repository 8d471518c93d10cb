// SPDX-License-Identifier: MIT OR GPL-2.0-only
// directory.hpp - registrations of memory, published where peers can read them.
//
// A registration that lies in fabric memory needs no target: whoever has its token maps the memory and loads and stores.
// So each endpoint lists such registrations in its region (nvlf/lane.h), which peers map read-only. An initiator finds
// the key there, imports the memory once, and from then on an RMA operation is a memcpy of its own.
//
// Ordinary memory is listed likewise, by its address, for initiators that may copy between address spaces (cma.hpp).
//
// An entry is guarded by a sequence word, odd while it changes: a reader copies the entry and looks at the word again.
// The directory is a hint: what is not in it, or does not fit, goes by messages, and so do all refusals.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "cma.hpp"
#include "nvlf/nvlf.h"

namespace nvlf::ofi {

struct DirectoryEntry {
    std::uint64_t key;
    std::uint64_t base; // Remote address of its first byte: virtual, or 0.
    std::uint64_t bytes;
    std::uint64_t offset; // Of its first byte in the memory behind the token; without a token, its address there.
    std::uint64_t access; // FI_REMOTE_READ, FI_REMOTE_WRITE
    std::uint64_t events; // The same bits: of such access the owner wants to hear (op_notify).
    std::array<std::uint64_t, NVLF_TOKEN_LEN / 8> token; // no_token: it is not fabric memory.
};
inline constexpr decltype(DirectoryEntry::token) no_token{};

// In shared memory: written by the owner of the region only.
struct DirectorySlot {
    std::uint64_t sequence; // 0: never used.
    std::array<std::uint64_t, sizeof(DirectoryEntry) / 8> words;
    std::uint64_t reserved[3];
};
static_assert(sizeof(DirectorySlot) == 112);

inline constexpr std::uint32_t directory_offset = 256; // In the region, after its header.
inline constexpr std::uint32_t directory_slots = 512;
inline constexpr std::uint32_t directory_probes = 8; // A key lies in one of so many neighbours, or not here.

// Changes with the layout above and with the rules of wire.hpp.
inline constexpr std::uint64_t directory_magic = 0x33'30'52'49'44'46'4c'56; // "VLFDIR03"

struct Directory {
    std::uint64_t magic;
    MemoryProof proof;
    std::uint64_t reserved[4];
    DirectorySlot slot[directory_slots];
};

// For the owner. False: no place; the registration is served by messages.
bool directory_add(Directory& directory, const DirectoryEntry& entry) noexcept;
void directory_remove(Directory& directory, std::uint64_t key) noexcept;

// What a reader found: the entry, and how to see that it is still the same.
struct DirectoryHit {
    DirectoryEntry entry;
    const std::uint64_t* sequence_at;
    std::uint64_t sequence;
};
[[nodiscard]] std::optional<DirectoryHit> directory_find(const Directory& directory, std::uint64_t key) noexcept;

} // namespace nvlf::ofi
