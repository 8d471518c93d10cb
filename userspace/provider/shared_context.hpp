// SPDX-License-Identifier: MIT OR GPL-2.0-only
// shared_context.hpp - contexts that several endpoints share (fi_stx_context, fi_srx_context).
//
// Of transmit contexts there is nothing to share: endpoints write to lanes, each to its own. So a shared one is a name.
// A shared receive context is a matching space of its own, with its store of receives and the lock of that, which becomes
// the lock of every endpoint bound to it. Completions go to the queue of the endpoint that brought the message in.
#pragma once

#include <rdma/fi_endpoint.h>

#include <atomic>

#include "domain.hpp"
#include "rx_context.hpp"

namespace nvlf::ofi {

struct SharedTx {
    explicit SharedTx(Domain& d) noexcept : domain{d} {}

    fid_stx fid{};
    Domain& domain;
    std::atomic<int> endpoints{0}; // Bound to it.
};

struct SharedRx : EpFid {
    SharedRx(Domain& d, std::uint64_t caps) noexcept;

    Domain& domain;
    std::atomic<int> endpoints{0}; // Bound to it.
    RxStore store;
    RxContext context;
};

inline SharedTx& shared_tx_of(::fid* object) noexcept { return *reinterpret_cast<SharedTx*>(object); }
inline SharedRx& shared_rx_of(::fid* object) noexcept { return static_cast<SharedRx&>(ep_fid_of(object)); }

int shared_tx_open(fid_domain* domain, fi_tx_attr* attr, fid_stx** ret_stx, void* context) noexcept;
int shared_rx_open(fid_domain* domain, fi_rx_attr* attr, fid_ep** ret_srx, void* context) noexcept;

} // namespace nvlf::ofi
