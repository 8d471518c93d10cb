// SPDX-License-Identifier: MIT OR GPL-2.0-only
// av.hpp - address vectors: fi_addr_t to nvlf_addr and back.
//
// Every send looks an address up, so lookup takes no lock: entries lie in chunks that never move, and an index is
// published after its entry is written. Insertion, removal and the way back (find, once a peer) lock. FI_AV_MAP and
// FI_AV_TABLE both hand out indices in order of insertion; each insertion has its own, also of an address that is there.
#pragma once

#include <rdma/fi_domain.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "domain.hpp"
#include "lock.hpp"
#include "nvlf/device.h"

namespace nvlf::ofi {

inline constexpr std::size_t av_chunk = 1024;
inline constexpr std::size_t av_limit = 1024 * av_chunk; // Addresses of one vector.
inline constexpr int rx_ctx_bits_limit = 8;              // Of an address, to name a receive context.

struct Eq;

struct Av {
    explicit Av(Domain& d) noexcept : domain{d}, lock_{d.locks()} {}
    ~Av();

    fid_av fid{};
    Domain& domain;
    std::atomic<int> refs{0}; // Endpoints bound to it.
    bool async = false;       // Opened with FI_EVENT: insertions are reported to the event queue.
    Eq* eq = nullptr;
    int rx_ctx_bits = 0;                     // Uppermost bits of an address that name a receive context (fi_rx_addr).
    std::atomic<std::uint32_t> sets_made{0}; // Sets of its addresses that were ever opened (av_set.hpp).

    [[nodiscard]] bool lookup(fi_addr_t index, nvlf_addr& ret_addr) const noexcept {
        if (index >= av_limit) return false;
        const Chunk* chunk = chunks_[index / av_chunk].load(std::memory_order_acquire);
        if (chunk == nullptr) return false;
        const Entry& entry = chunk->entries[index % av_chunk];
        if (!entry.used.load(std::memory_order_acquire)) return false; // acquire: pairs with the release in insert.
        ret_addr = entry.addr;
        return true;
    }

    // The index of an address, FI_ADDR_NOTAVAIL when it is not there. An endpoint with a service name is also found
    // under its service address.
    [[nodiscard]] fi_addr_t find(const nvlf_addr& addr) const noexcept;

    // Changes with each insertion and removal: whoever keeps what lookup or find said asks again when it differs.
    [[nodiscard]] std::uint32_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }

    // One address. FI_ADDR_NOTAVAIL and the reason in the second: EINVAL, EMFILE (av_limit), ENOMEM.
    [[nodiscard]] Result<fi_addr_t> insert(const nvlf_addr& addr) noexcept;
    // False: there is none at this index.
    bool remove(fi_addr_t index) noexcept;

private:
    struct Entry {
        nvlf_addr addr;
        std::atomic<bool> used;
    };
    struct Chunk {
        std::array<Entry, av_chunk> entries{};
    };
    struct Hash {
        std::size_t operator()(const nvlf_addr& addr) const noexcept;
    };
    struct Equal {
        bool operator()(const nvlf_addr& a, const nvlf_addr& b) const noexcept;
    };

    // Service addresses may leave the fabric out; as keys they name ours.
    [[nodiscard]] nvlf_addr key(nvlf_addr addr) const noexcept;
    Entry* entry(fi_addr_t index) noexcept;
    Result<fi_addr_t> free_index();

    mutable SpinLock lock_;
    std::array<std::atomic<Chunk*>, av_limit / av_chunk> chunks_{};
    std::unordered_multimap<nvlf_addr, fi_addr_t, Hash, Equal> by_addr_;
    std::vector<fi_addr_t> removed_; // Indices to use again: a heap, the lowest first.
    fi_addr_t end_ = 0;              // Indices ever used.
    std::atomic<std::uint32_t> changes_{0};
};

inline Av& av_of(fid_av* fid) noexcept { return *reinterpret_cast<Av*>(fid); }

int av_open(fid_domain* domain, fi_av_attr* attr, fid_av** ret_av, void* context) noexcept;

} // namespace nvlf::ofi
