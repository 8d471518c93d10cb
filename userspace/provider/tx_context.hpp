// SPDX-License-Identifier: MIT OR GPL-2.0-only
// tx_context.hpp - on whose account an operation goes out: where its completion is reported, and where it is counted.
//
// An endpoint has one; a scalable endpoint has as many as it was opened with, all working the same lanes. The operations
// of two contexts have no order to keep between them, and have one nevertheless.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

namespace nvlf::ofi {

struct Cntr;
struct Cq;
struct Work;

struct TxContext {
    Cq* cq = nullptr;
    bool selective = false;
    Cntr* send_cntr = nullptr;
    Cntr* read_cntr = nullptr;
    Cntr* write_cntr = nullptr;
    Work* work = nullptr; // Whose account this is, if it is no application's: it hears of the end; nothing is bound.
    int joined = 0;       // Of these, in the order of each_queue: how many drive the endpoint (ep_queues.hpp).
    bool open = false;    // The application holds a handle on it (fi_tx_context).
    bool enabled = false;

    template <class F>
    void each_queue(F&& f) const {
        f(cq), f(send_cntr), f(read_cntr), f(write_cntr);
    }
    // It is closed: nothing is bound to it any more.
    void forget_queues() noexcept { *this = {}; }

    // `kind`: FI_MSG, FI_TAGGED, or FI_RMA or FI_ATOMIC with FI_READ or FI_WRITE. `silent`: counted, but no entry in
    // the queue. Failures are told whatever the application wants to hear of successes.
    void complete(std::uint64_t kind, std::uint64_t flags, void* context, bool silent) noexcept;
    void fail(std::uint64_t kind, void* context, int error) noexcept;

    [[nodiscard]] Cntr* counter(std::uint64_t kind) const noexcept {
        return (kind & FI_WRITE) != 0 ? write_cntr : (kind & FI_READ) != 0 ? read_cntr : send_cntr;
    }
};

} // namespace nvlf::ofi
