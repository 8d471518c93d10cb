// SPDX-License-Identifier: MIT OR GPL-2.0-only
// ep_queues.hpp - the completion queues and counters of one side of an endpoint: of a transmit context, or of a binding
// to a receive context.
//
// They are bound before what they belong to is enabled; from then on, reading them drives the endpoint. An object that
// serves several places is bound, and joined, once for each of them.
#pragma once

#include "cntr.hpp"
#include "cq.hpp"
#include "rx_context.hpp"
#include "tx_context.hpp"

namespace nvlf::ofi {

// fi_ep_bind of a queue or a counter (`object` is one). A side that is nullptr is not there to be bound to.
[[nodiscard]] int bind_queue(Domain& domain, TxContext* tx, RxBinding* rx, ::fid& object, std::uint64_t flags) noexcept;

// One side: TxContext or RxBinding.
template <class Side>
[[nodiscard]] bool has_queue(const Side& side) noexcept {
    bool any = false;
    side.each_queue([&](const auto* bound) { any = any || bound != nullptr; });
    return any;
}

// From now on they drive the endpoint. 0 or -FI_E*, and then some may have joined: leave_queues() puts that right.
template <class Side>
[[nodiscard]] int join_queues(Endpoint& endpoint, Side& side) noexcept {
    int e = 0;
    side.each_queue([&](auto* bound) {
        if (e == 0 && bound != nullptr && (e = bound->add_endpoint(endpoint)) == 0) ++side.joined;
    });
    return e;
}

// The caller does not hold the endpoint's lock.
template <class Side>
void leave_queues(Endpoint& endpoint, Side& side) noexcept {
    side.each_queue([&](auto* bound) {
        if (bound != nullptr && side.joined > 0) bound->remove_endpoint(endpoint), --side.joined;
    });
}

// Once nothing reports to them any more.
template <class Side>
void release_queues(const Side& side) noexcept {
    side.each_queue([](auto* bound) {
        if (bound != nullptr) bound->refs.fetch_sub(1, std::memory_order_relaxed);
    });
}

} // namespace nvlf::ofi
