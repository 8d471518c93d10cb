// SPDX-License-Identifier: MIT OR GPL-2.0-only
// rx_context.hpp - where receives wait for messages, and messages for receives.
//
// A receive context is matched against by the engines of endpoints. Mostly there is one of each. A scalable endpoint has
// several contexts, and the sender of a message names the one it is for; a shared context (fi_srx_context) has several
// endpoints, and takes whatever comes in by any of them. Between an endpoint and a context stands a binding: the
// completion queue and the counter that hear of a message are the endpoint's that brought it in.
//
// Contexts and endpoints that have to do with each other live under one lock, which is that of the store of receives
// (RxStore) out of which all of them are served: matching needs no order of locks, and a handle that names a receive to a
// peer means the same to all of them. A plain or scalable endpoint has a store of its own, a shared context brings one.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "buffers.hpp"
#include "ep_fid.hpp"
#include "lock.hpp"
#include "match.hpp"
#include "nvlf/lane.h"
#include "pool.hpp"
#include "work_queue.hpp"

namespace nvlf::ofi {

struct Cntr;
struct Cq;
struct Peer;

// Receives of one store that have not ended, and messages that wait for one.
inline constexpr std::size_t rx_limit = 1u << 20;

struct RxStore {
    RxStore(WorkQueue& w, bool locked, std::size_t limit) noexcept : lock{locked}, work{w}, unexpected_limit{limit} {}

    SpinLock lock;
    WorkQueue& work; // Of the domain.
    Pool<RxOp> ops{rx_limit};
    Pool<Unexpected> unexpected{rx_limit};
    std::size_t unexpected_bytes = 0; // Payload and records.
    const std::size_t unexpected_limit;
};

// Holds the lock through a call in which counters may change, and has started what waits for them when it is given back.
class CallGuard {
public:
    explicit CallGuard(RxStore& store) noexcept : store_{store} { store_.lock.lock(); }
    ~CallGuard() {
        store_.lock.unlock();
        store_.work.fire();
    }
    CallGuard(const CallGuard&) = delete;
    CallGuard& operator=(const CallGuard&) = delete;

private:
    RxStore& store_;
};

// An endpoint's use of a receive context.
struct RxBinding {
    Endpoint* endpoint = nullptr;
    RxContext* context = nullptr;
    Cq* cq = nullptr;
    Cntr* recv_cntr = nullptr;
    Cntr* remote_read_cntr = nullptr;  // These two count what peers do to the endpoint's memory. It is no context's:
    Cntr* remote_write_cntr = nullptr; // whichever has them, counts all of it.
    bool selective = false;
    std::uint64_t caps = 0; // FI_SOURCE, FI_SOURCE_ERR, FI_REMOTE_WRITE
    int joined = 0;         // As TxContext's, as what follows.
    bool open = false;
    bool enabled = false;

    template <class F>
    void each_queue(F&& f) const {
        f(cq), f(recv_cntr), f(remote_read_cntr), f(remote_write_cntr);
    }
    void forget_queues() noexcept { *this = {.endpoint = endpoint, .context = context, .caps = caps}; }

    [[nodiscard]] fi_addr_t source_of(Peer& peer) const noexcept;       // To match by.
    [[nodiscard]] fi_addr_t reported_source(Peer& peer) const noexcept; // To tell the application.
};

// A receive to post.
struct ReceiveRequest {
    Buffers to{};
    fi_addr_t source = FI_ADDR_UNSPEC;
    std::uint64_t tag = 0;
    std::uint64_t ignore = 0;
    std::uint64_t flags = 0; // FI_COMPLETION, FI_MULTI_RECV, FI_PEEK, FI_CLAIM, FI_DISCARD
    void* context = nullptr;
    bool tagged = false;
};

struct RxContext {
    RxContext(RxStore& s, std::uint64_t caps) noexcept : store{s}, directed{(caps & FI_DIRECTED_RECV) != 0} {}
    RxContext(const RxContext&) = delete;
    RxContext& operator=(const RxContext&) = delete;
    ~RxContext();

    // The application's calls, which take the lock. 0 or -FI_E*
    [[nodiscard]] ssize_t receive(const ReceiveRequest& request) noexcept;
    [[nodiscard]] ssize_t cancel(void* context) noexcept;
    // What was put aside (work.hpp) cannot be posted, and ends in error.
    void fail(const ReceiveRequest& request, int error) noexcept;

    // Everything from here on is the engines', under the lock.

    // Whether receives are taken. Closed, those that are posted or in flight are given up.
    void open() noexcept {
        if (closed == FI_EOPBADSTATE) closed = 0;
    }
    void close() noexcept;

    // Endpoints that are enabled. join() fails for want of memory alone.
    [[nodiscard]] bool join(RxBinding& binding) noexcept;
    void leave(RxBinding& binding) noexcept;

    [[nodiscard]] MatchQueue& queue(bool tagged) noexcept { return tagged ? tagged_queue : msg_queue; }
    [[nodiscard]] inline bool take_express(Peer& peer, const RxBinding& binding,
                                           const nvlf_slot& slot) noexcept; // express.hpp
    [[nodiscard]] RxOp* match(const Envelope& message) noexcept;
    bool deliver(RxOp& op, const Envelope& message, std::span<const std::byte> payload) noexcept;
    void end_large(RxOp& op, int error) noexcept;
    [[nodiscard]] bool no_room_to_keep(const Peer& peer, std::size_t bytes) const noexcept;
    [[nodiscard]] bool keep_unexpected(const Envelope& message, std::span<const std::byte> payload,
                                       MatchQueue::Waiting& in) noexcept;
    void forget(Unexpected& message) noexcept; // That no list holds any more.

    // What a peer leaves behind when it goes (peers.cc).
    void forget_announced(const Peer& peer) noexcept;
    void peer_died(const Peer& peer, int error) noexcept;
    void peer_left(const Peer& peer, int error) noexcept { (void)fail_receives_that_only(&peer, error); }
    void fail_all(int error) noexcept;
    template <class F>
    void for_each_waiting(F&& f) {
        for (MatchQueue::Waiting* waiting : {&msg_queue.unexpected, &tagged_queue.unexpected, &claimed})
            for (Unexpected& u : *waiting) f(u);
    }

    RxStore& store;
    std::vector<RxBinding*> bindings;
    // FI_E*, or 0: why no receive is taken. Not open; or the fabric is gone.
    int closed = FI_EOPBADSTATE;
    // FI_E*: all peers are gone, one of them without goodbye, and no operation told of it.
    int unreported_death = 0;
    std::size_t min_multi_recv = 64;
    const bool directed; // The application asked for FI_DIRECTED_RECV: sources of receives count.
    const Generation generation;

private:
    [[nodiscard]] fi_addr_t source_to_match(const ReceiveRequest& request) const noexcept;
    [[nodiscard]] Unexpected* find_unexpected(const ReceiveRequest& request) noexcept;
    [[nodiscard]] ssize_t peek(const ReceiveRequest& request) noexcept;
    [[nodiscard]] ssize_t claim(const ReceiveRequest& request) noexcept;
    [[nodiscard]] RxOp* prepare(const ReceiveRequest& request) noexcept;
    void give_up_in_flight(const RxBinding& binding) noexcept;
    [[nodiscard]] int hopeless(fi_addr_t source) noexcept;
    [[nodiscard]] bool alone() const noexcept;
    bool fail_receives_that_only(const Peer* peer, int error) noexcept;
    void drop(Unexpected& message) noexcept;
    bool consume(RxOp& op, Unexpected& message) noexcept;
    bool start_large(RxOp& op, const Envelope& message, std::span<const std::byte> pieces) noexcept;
    void retire_if_full(RxOp& op) noexcept;
    void complete(RxOp& op, const Envelope& message, std::byte* at, std::size_t bytes, bool last_of_buffer) noexcept;
    void fail(RxOp& op, const Envelope* message, std::size_t bytes, std::size_t lost, int error, bool last_of_buffer,
              std::byte* at = nullptr) noexcept;
    void give_up(RxOp& op, int error) noexcept;

    MatchQueue msg_queue;
    MatchQueue tagged_queue;
    MatchQueue::Waiting claimed;
};

} // namespace nvlf::ofi
