// SPDX-License-Identifier: MIT OR GPL-2.0-only
// ep_fid.hpp - what an application holds in its hand when it holds a fid_ep.
//
// libfabric has one handle for an endpoint, for an alias of it, for one of its transmit or receive contexts and for a
// receive context that several endpoints share, and the same calls take all of them. So each says whose engine does the
// work, on which context's account, and with which default flags; and no call form needs to know more than that.
#pragma once

#include <rdma/fi_endpoint.h>

#include <atomic>
#include <cstdint>

namespace nvlf::ofi {

struct Endpoint;
struct RxContext;
struct TxContext;
struct Work;

struct EpFid {
    fid_ep fid{};                 // First: libfabric's pointer is ours.
    Endpoint* endpoint = nullptr; // nullptr: a shared receive context is no one endpoint's.
    TxContext* tx = nullptr;      // nullptr: it does not send.
    RxContext* rx = nullptr;      // nullptr: receives are posted elsewhere, or nowhere.
    std::uint64_t tx_flags = 0;   // Default operation flags.
    std::uint64_t rx_flags = 0;
    int hmem_p2p = FI_HMEM_P2P_ENABLED; // FI_OPT_FI_HMEM_P2P: remembered, and makes no difference.
    std::atomic<int> aliases{0};        // It must outlive them.
    Work* work = nullptr; // What is called on it is put together as this, and not done (deferred_work.cc).
};

[[nodiscard]] inline EpFid& ep_fid_of(fid_ep* f) noexcept { return *reinterpret_cast<EpFid*>(f); }
[[nodiscard]] inline EpFid& ep_fid_of(::fid* f) noexcept { return *reinterpret_cast<EpFid*>(f); }
[[nodiscard]] inline Endpoint& endpoint_of(fid_ep* f) noexcept { return *ep_fid_of(f).endpoint; }

// Tells a child that inherited an object by fork: the conversations are the parent's, and one word from here would garble
// them.
struct Generation {
    static std::atomic<unsigned> forks; // How often this process was forked into being since the provider was loaded.
    unsigned born = forks.load(std::memory_order_relaxed);

    [[nodiscard]] bool inherited() const noexcept { return born != forks.load(std::memory_order_relaxed); }
};

// Starts counting forks; once is enough. 0 or -FI_ENOMEM.
[[nodiscard]] int count_forks() noexcept;

} // namespace nvlf::ofi
