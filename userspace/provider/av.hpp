// SPDX-License-Identifier: MIT OR GPL-2.0-only
// av.hpp - address vectors: fi_addr_t to nvlf_addr and back.
//
// FI_AV_MAP and FI_AV_TABLE both hand out indices of a table (av_table.hpp) in order of insertion; each insertion has its
// own, also of an address that is there. A named vector's table is shared by all processes that open the name, on
// whichever device, and an index means the same to each of them.
//
// The way back, from a peer to the index that the application knows it by, is a map of this process's own. It is brought
// up to date when somebody asks it after the table changed: once a peer, not once a message.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "av_table.hpp"
#include "domain.hpp"
#include "lock.hpp"
#include "nvlf/device.h"

namespace nvlf::ofi {

inline constexpr int rx_ctx_bits_limit = 8; // Receive contexts that an address can tell apart: 256.

struct Eq;

struct Av {
    explicit Av(Domain& d) noexcept : domain{d}, lock_{d.locks()} {}

    fid_av fid{};
    Domain& domain;
    AvTable table;            // Opened before anything else is called.
    std::atomic<int> refs{0}; // Endpoints bound to it.
    bool async = false;       // Opened with FI_EVENT: insertions are reported to the event queue.
    int rx_ctx_bits = 0;      // Uppermost bits of an fi_addr_t that name a receive context (fi_rx_addr).
    Eq* eq = nullptr;
    std::atomic<std::uint32_t> sets_made{0}; // Sets of its addresses that were ever opened (av_set.hpp).

    // Of an fi_addr_t, without the receive context that it may name.
    [[nodiscard]] fi_addr_t index_of(fi_addr_t addr) const noexcept {
        return addr & (~std::uint64_t{0} >> rx_ctx_bits);
    }

    [[nodiscard]] bool lookup(fi_addr_t addr, nvlf_addr& ret_addr) const noexcept {
        return table.lookup(index_of(addr), ret_addr);
    }

    // The lowest index of an address, FI_ADDR_NOTAVAIL when it is not there. An endpoint with a service name is also
    // found under its service address.
    [[nodiscard]] fi_addr_t find(const nvlf_addr& addr) noexcept;
    // Whether an address may be there twice.
    [[nodiscard]] bool may_repeat() const noexcept {
        return table.shared() || repeats_.load(std::memory_order_relaxed);
    }
    // The index under which find() knows what is at this one: another one, when the address was inserted before.
    [[nodiscard]] fi_addr_t first_of(fi_addr_t addr) noexcept;
    // What completions say of the address at an index: itself, or what the application asked for (FI_AV_USER_ID).
    [[nodiscard]] fi_addr_t reported(fi_addr_t index) noexcept;

    // By which of its IPv4 addresses (network order) this host was named at an index: kept for FI_SOCKADDR_IN, to give
    // back what was given. Loopback where that is not known.
    void remember_host(fi_addr_t index, std::uint32_t host) noexcept;
    [[nodiscard]] std::uint32_t host_of(fi_addr_t index) noexcept;

    // Changes with each insertion and removal: whoever keeps what lookup or find said asks again when it differs.
    [[nodiscard]] std::uint32_t changes() const noexcept { return table.changes(); }

    // One address. EINVAL, EXDEV (of another fabric), EMFILE (no index is left), EACCES (opened with FI_READ).
    [[nodiscard]] Result<fi_addr_t> insert(const nvlf_addr& addr) noexcept;
    // False: there is none at this index, or it is not ours to remove.
    bool remove(fi_addr_t index) noexcept;
    // ENOMEM, ENOENT.
    [[nodiscard]] Errno set_user_id(fi_addr_t index, fi_addr_t id) noexcept;

private:
    struct Hash {
        std::size_t operator()(const nvlf_addr& addr) const noexcept;
    };
    struct Equal {
        bool operator()(const nvlf_addr& a, const nvlf_addr& b) const noexcept;
    };

    // Service addresses may leave the fabric out; as keys they name ours.
    [[nodiscard]] nvlf_addr key(nvlf_addr addr) const noexcept;
    void note(std::size_t index);
    [[nodiscard]] bool catch_up() noexcept;
    [[nodiscard]] fi_addr_t lowest(const nvlf_addr& addr) const noexcept;

    SpinLock lock_;
    std::unordered_multimap<nvlf_addr, fi_addr_t, Hash, Equal> by_addr_;
    struct Noted {
        std::uint64_t state = 0; // Of the table at that index, when by_addr_ was told of it.
        nvlf_addr addr{};
    };
    std::vector<Noted> noted_;
    std::uint32_t noted_changes_ = 0; // Of the table, that by_addr_ reflects.
    std::atomic<bool> repeats_{false};
    std::unordered_map<fi_addr_t, fi_addr_t> user_ids_;
    std::unordered_map<fi_addr_t, std::uint32_t> hosts_;
};

inline Av& av_of(fid_av* fid) noexcept { return *reinterpret_cast<Av*>(fid); }

int av_open(fid_domain* domain, fi_av_attr* attr, fid_av** ret_av, void* context) noexcept;

} // namespace nvlf::ofi
