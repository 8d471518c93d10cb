// SPDX-License-Identifier: MIT OR GPL-2.0-only
// cntr.hpp - counters: how many operations completed, and how many failed.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <cstdint>

#include "domain.hpp"
#include "wait.hpp"

namespace nvlf::ofi {

struct Cntr {
    explicit Cntr(Domain& d) noexcept : domain{d}, endpoints{d.locks()} {}

    fid_cntr fid{};
    Domain& domain;
    std::atomic<int> refs{0}; // Endpoints and registrations bound to it, from then to fi_close; work that uses it.

    // seq_cst: the sum must be visible before notify() looks for sleepers, and changed() for what waits for it. Work that
    // becomes due here starts in WorkQueue::fire, when the caller has let go of its locks.
    void add(std::uint64_t n) noexcept {
        value.fetch_add(n, std::memory_order_seq_cst);
        changed();
    }
    void add_error(std::uint64_t n) noexcept {
        errors.fetch_add(n, std::memory_order_seq_cst);
        changed();
    }
    void set(std::uint64_t n) noexcept {
        value.store(n, std::memory_order_seq_cst);
        changed();
    }
    void set_error(std::uint64_t n) noexcept {
        errors.store(n, std::memory_order_seq_cst);
        changed();
    }
    void changed() noexcept {
        wait.notify();
        if (next_threshold.load(std::memory_order_seq_cst) <= sum()) [[unlikely]]
            domain.work.reached(*this);
    }
    [[nodiscard]] std::uint64_t sum() const noexcept {
        return value.load(std::memory_order_seq_cst) + errors.load(std::memory_order_seq_cst);
    }

    // As Cq's.
    [[nodiscard]] int add_endpoint(Endpoint& endpoint) noexcept { return endpoints.add(endpoint, wait); }
    void remove_endpoint(Endpoint& endpoint) noexcept { endpoints.remove(endpoint, wait); }

    void progress() noexcept;
    // It has changed since it was last read.
    [[nodiscard]] bool news() const noexcept {
        return value.load(std::memory_order_seq_cst) != seen_value.load(std::memory_order_relaxed) ||
               errors.load(std::memory_order_seq_cst) != seen_errors.load(std::memory_order_relaxed);
    }
    [[nodiscard]] int try_wait() noexcept; // fi_trywait: 0 or -FI_E*.
    [[nodiscard]] Waitable waitable() noexcept { return {wait, &endpoints, domain.nvlf}; }

    std::atomic<std::uint64_t> value{0};
    std::atomic<std::uint64_t> errors{0};
    std::atomic<std::uint64_t> seen_value{0}; // What the application knows: news is what differs.
    std::atomic<std::uint64_t> seen_errors{0};
    static constexpr std::uint64_t no_threshold = UINT64_MAX;
    std::atomic<std::uint64_t> next_threshold{no_threshold}; // The first of what waits.
    WorkList waiting;                                        // By threshold, then as it came. The work queue's.
    WaitObject wait;
    EndpointList endpoints;
    Patience patience;
};

inline Cntr& cntr_of(fid_cntr* fid) noexcept { return *reinterpret_cast<Cntr*>(fid); }

int cntr_open(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** ret_cntr, void* context) noexcept;

} // namespace nvlf::ofi
