// SPDX-License-Identifier: MIT OR GPL-2.0-only
// cq.hpp - completion queues.
//
// Completions are never lost in silence. The ring grows when it is full, to params().cq_limit entries; errors lie in it
// in the order in which they happened; and should it be unable to grow, the queue says so by an error entry FI_EOVERRUN
// that follows the last completion which it could keep.
//
// Readers take what is there, and only when there is nothing do they drive the endpoints: the cost of progress is then
// paid once for many completions.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "domain.hpp"
#include "lock.hpp"
#include "nvlf/device.h"
#include "wait.hpp"

namespace nvlf::ofi {

struct Completion {
    void* context = nullptr;
    std::uint64_t flags = 0;
    std::size_t len = 0;
    void* buf = nullptr;
    std::uint64_t data = 0;
    std::uint64_t tag = 0;
    fi_addr_t source = FI_ADDR_NOTAVAIL;
};

struct Failure {
    Completion c;
    int err = 0; // FI_E*, positive.
    std::size_t olen = 0;
    int prov_errno = 0;
    nvlf_addr source{}; // Of the peer, as far as it is known; magic 0 when it is not.
};

struct Cq {
    Cq(Domain& d, std::size_t entries);
    ~Cq();

    fid_cq fid{};
    Domain& domain;
    std::atomic<int> refs{0}; // Endpoints bound to it, from fi_ep_bind to fi_close.

    void push(const Completion& completion) noexcept;
    void push_error(const Failure& failure) noexcept;

    // Whom reads drive, from FI_ENABLE (the endpoint's descriptor exists by then) to fi_close. Counted. 0 or -FI_E*.
    [[nodiscard]] int add_endpoint(Endpoint& endpoint) noexcept;
    void remove_endpoint(Endpoint& endpoint) noexcept;

    // Makes sleepers look again.
    void wake() noexcept { wait.notify(); }

    // For the ops in cq.cc.
    template <class CqEntry>
    ssize_t pop(void* buf, std::size_t count, fi_addr_t* ret_source) noexcept;
    template <class CqEntry>
    ssize_t read(void* buf, std::size_t count, fi_addr_t* ret_source) noexcept;
    ssize_t read_error(fi_cq_err_entry* entry) noexcept;
    [[nodiscard]] bool empty() noexcept;

    WaitObject wait;
    EndpointList endpoints;

private:
    // One cache line.
    struct Entry {
        Completion completion;
        Failure* failure; // Owned. Not NULL: an error.
    };
    static_assert(sizeof(Entry) == 64);

    void append(const Entry& entry) noexcept;
    [[nodiscard]] bool grow() noexcept;

    SpinLock lock_;
    std::unique_ptr<Entry[]> ring_;
    std::size_t mask_;
    std::size_t head_ = 0; // Free-running.
    std::size_t tail_ = 0;
    std::uint64_t lost_ = 0; // Completions that found no room since the last FI_EOVERRUN was read.
    std::uint32_t vain_ = 0; // Reads in a row that found nothing.
    Failure last_failure_;   // Whose source the reader of an error entry may look at.
};

inline Cq& cq_of(fid_cq* fid) noexcept { return *reinterpret_cast<Cq*>(fid); }

int cq_open(fid_domain* domain, fi_cq_attr* attr, fid_cq** ret_cq, void* context) noexcept;

} // namespace nvlf::ofi
