// SPDX-License-Identifier: MIT OR GPL-2.0-only
// av_table.hpp - the addresses of an address vector, in memory that one process has or several share.
//
// A slot is an address under a state word that names its generation. Whoever inserts takes a free slot by
// compare-and-swap, writes it, and publishes it; a reader copies the address and looks at the state again. So threads and
// processes insert, remove and look up without a lock between them, and one that is killed in the middle costs one slot.
// Zeroed memory is an empty table: there is nothing to initialise, and nobody to wait for who would do it.
//
// The other processes are strangers: what is read here is bounded by the size that the carrier vouched for, and an
// address is worth no more than one that a peer had sent.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/mapping.hpp"
#include "base/result.hpp"
#include "nvlf/nvlf.h"

namespace nvlf::ofi {

inline constexpr std::size_t av_limit = std::size_t{1} << 20; // Addresses of one vector.
// Of a shared one, unless its maker expects more: as many as a fabric has endpoints.
inline constexpr std::size_t av_shared_size = NVLF_MAX_ENDPOINTS;

class AvTable {
public:
    AvTable() noexcept = default;
    AvTable(const AvTable&) = delete;
    AvTable& operator=(const AvTable&) = delete;
    ~AvTable();

    // Of this process alone. ENOMEM.
    [[nodiscard]] Errno open_private() noexcept;
    // That which has this name on the fabric. ENOENT: read_only, and nobody made it; EINVAL: it is of another version, or
    // the name is too long; and what the carrier says.
    [[nodiscard]] Errno open_shared(nvlf_fabric* fabric, std::uint32_t device, const char* name, std::size_t entries,
                                    bool read_only) noexcept;

    [[nodiscard]] bool shared() const noexcept { return memory_ != nullptr; }
    [[nodiscard]] bool read_only() const noexcept { return read_only_; }
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    // What libfabric calls map_addr: the fi_addr_t of each address, by index. nullptr: not shared.
    [[nodiscard]] void* map_addr() const noexcept { return shared() ? indices_ : nullptr; }

    // Puts the address at the lowest free index. EMFILE: there is none.
    [[nodiscard]] Result<fi_addr_t> insert(const nvlf_addr& addr) noexcept;
    // The address that was there; nothing: there was none.
    std::optional<nvlf_addr> remove(fi_addr_t index) noexcept;
    [[nodiscard]] bool lookup(fi_addr_t index, nvlf_addr& ret_addr) const noexcept;

    // Differs after each insertion and removal, of whichever process.
    [[nodiscard]] std::uint32_t changes() const noexcept { return changes_->load(std::memory_order_acquire); }
    // The word itself, for whoever looks at it with every message.
    [[nodiscard]] const std::atomic<std::uint32_t>& changes_word() const noexcept { return *changes_; }
    // To be called after each, and answers what it was before.
    std::uint32_t count_change() noexcept { return changes_->fetch_add(1, std::memory_order_acq_rel); }

    [[nodiscard]] std::size_t end() const noexcept; // No index at or above it was ever used.
    // Differs whenever what lies at the index does; even when nothing does.
    [[nodiscard]] std::uint64_t state(std::size_t index) const noexcept;

private:
    struct Slot {
        std::atomic<std::uint64_t> state; // Generation * 4 + one of what follows.
        std::atomic<std::uint64_t> words[sizeof(nvlf_addr) / 8];
    };
    static constexpr std::uint64_t state_free = 0;
    static constexpr std::uint64_t state_writing = 1;
    static constexpr std::uint64_t state_used = 3;
    static constexpr std::uint64_t state_mask = 3;

    struct Header {
        std::atomic<std::uint64_t> version; // 0: nobody has been here yet.
        std::atomic<std::uint32_t> changes;
        std::uint32_t reserved;
        std::atomic<std::uint64_t> end;
        std::atomic<std::uint64_t> first_free; // None below it is, as a rule: where to begin to look.
        std::uint64_t unused[4];
    };
    static_assert(sizeof(Slot) == 40 && sizeof(Header) == 64);
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free); // Between processes nothing else would do.

    void place(void* base, std::size_t entries) noexcept;
    [[nodiscard]] bool take(Slot& slot, std::uint64_t& ret_state) noexcept;

    nvlf_mem* memory_ = nullptr; // Of a shared one.
    Mapping mapping_;            // Of a shared one.
    void* private_ = nullptr;
    bool read_only_ = false;
    std::size_t capacity_ = 0;
    Header* header_ = nullptr;
    std::atomic<std::uint32_t>* changes_ = nullptr;
    Slot* slots_ = nullptr;
    std::atomic<fi_addr_t>* indices_ = nullptr;
};

} // namespace nvlf::ofi
