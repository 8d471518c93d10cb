// SPDX-License-Identifier: MIT OR GPL-2.0-only
// waiting.cc - the order of operations, and those that may not start yet.
//
// Two ways lead to a peer: the lane, whose slots the peer takes in order, and the mapping of its fabric memory, which is
// immediate. What makes the order of both:
//
//   - An operation goes direct only while none that is one-sided is on its way in the lane. The later ones then follow it
//     there.
//   - A one-sided operation enters the lane only when the one before it is there, all of it; so does a message.
//   - Reads are answered when there is room for the answer, later than the target takes in what follows. Whether a write,
//     or a message, waits until the read has ended is for the application to say: it costs a round trip.
//   - Likewise whether nothing goes direct before the peer has dealt with the messages that are in the lane.
//
// A fence is the same, for one operation and all that follow: what was posted before has ended, and what is in the lane
// has been dealt with or stays ahead.
//
// What may not start waits here with all that is posted after it, in order, and progress starts it. It is a bounded number
// of requests; past that the application is told to try again.
#include <rdma/fi_errno.h>

#include <list>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#include "endpoint.hpp"

namespace nvlf::ofi {
namespace {

constexpr std::size_t waiting_limit = queue_size; // Of an endpoint.

template <class Request>
constexpr bool is_message = std::is_same_v<Request, SendRequest>;

bool is_one_sided(TxOp::Kind kind) noexcept {
    return kind == TxOp::Kind::write || kind == TxOp::Kind::read || kind == TxOp::Kind::atomic ||
           kind == TxOp::Kind::fetch;
}

} // namespace

// ---- Whether an operation may start ----------------------------------------------------------------------------------

// Apart from those that wait already.
template <class Request>
bool Endpoint::must_wait(const Peer& peer, const Request& request) const noexcept {
    if (peer.unpublished > 0) return true;
    if ((request.flags & FI_FENCE) != 0 && peer.pending > 0) return true;
    if (peer.reads == 0) return false;
    return is_message<Request> ? order.send_after_read : request.writes() && order.write_after_read;
}

bool Endpoint::caught_up(Peer& peer) const noexcept {
    if (peer.one_sided > 0) return false;
    const std::uint64_t past = order.one_sided_after_send ? peer.tx.published() : peer.fence;
    if (!peer.tx.consumed(past)) return false;
    peer.fence = 0;
    return true;
}

template <class Request>
ssize_t Endpoint::start_or_wait(Peer& peer, const Request& request) noexcept {
    if (peer.waiting.empty() && !must_wait(peer, request)) {
        if ((request.flags & FI_FENCE) != 0) peer.fence = peer.tx.published();
        return start(peer, request);
    }
    if (waiting_ops >= waiting_limit) return -FI_EAGAIN;
    try {
        Request late = request;
        std::unique_ptr<std::byte[]> copy;
        if ((request.flags & FI_INJECT) != 0) {
            copy = own_buffers(late);
        }
        peer.waiting.push_back({late, std::move(copy)});
    } catch (const std::bad_alloc&) {
        return -FI_ENOMEM;
    }
    ++waiting_ops;
    ++peer.held_back;
    return 0;
}
template ssize_t Endpoint::start_or_wait(Peer& peer, const SendRequest& request) noexcept;

template <class Request>
ssize_t Endpoint::post_one_sided(const Request& request) noexcept {
    if (inherited()) return -FI_EOPBADSTATE;
    const CallGuard guard{*store};
    ssize_t error = 0;
    Peer* peer = peer_for(request.to, error);
    if (peer == nullptr) return error;
    if ((request.flags & FI_FENCE) == 0 && (peer->held_back | peer->reads) == 0) [[likely]]
        return start(*peer, request);
    return start_or_wait(*peer, request);
}

ssize_t Endpoint::one_sided(const RmaRequest& request) noexcept { return post_one_sided(request); }
ssize_t Endpoint::atomic(const AtomicRequest& request) noexcept { return post_one_sided(request); }

// ---- Those that wait -------------------------------------------------------------------------------------------------

bool Endpoint::can_run_waiting(Peer& peer) const noexcept {
    return !peer.waiting.empty() &&
           !std::visit([&](const auto& request) { return must_wait(peer, request); }, peer.waiting.front().request) &&
           !peer.tx.room(piece_bytes, control_reserve).failed();
}

// Starts them in order, as far as they may.
void Endpoint::run_waiting(Peer& peer) noexcept {
    while (peer.up() && !peer.waiting.empty()) {
        std::list<Waiting> first; // Out of the list: should the peer fail meanwhile, what waits is gone.
        first.splice(first.begin(), peer.waiting, peer.waiting.begin());
        const bool started = std::visit(
            [&](const auto& request) {
                if (must_wait(peer, request)) return false;
                if ((request.flags & FI_FENCE) != 0) peer.fence = peer.tx.published();
                const ssize_t result = start(peer, request);
                if (result == -FI_EAGAIN) return false;
                if (result != 0) request.tx->fail(request.completes_as(), request.context, static_cast<int>(-result));
                return true;
            },
            first.front().request);
        if (!started) return peer.waiting.splice(peer.waiting.begin(), first);
        --waiting_ops;
        --peer.held_back;
    }
}

void Endpoint::fail_waiting(Peer& peer, int error) noexcept {
    for (const Waiting& waiting : peer.waiting)
        std::visit([&](const auto& request) { request.tx->fail(request.completes_as(), request.context, error); },
                   waiting.request);
    waiting_ops -= peer.waiting.size();
    peer.held_back -= static_cast<std::uint32_t>(peer.waiting.size());
    peer.waiting.clear();
}

// ---- What is on its way ----------------------------------------------------------------------------------------------

// An operation of ours will outlast the call that started it.
void Endpoint::began(TxOp& op) noexcept {
    Peer& peer = *op.peer;
    ++peer.pending;
    if (!is_one_sided(op.kind)) return;
    ++peer.one_sided;
    if (op.kind == TxOp::Kind::fetch) peer.wanted_bytes += op.local.total;
    if (op.kind == TxOp::Kind::read) {
        ++peer.reads;
        if (order.send_after_read) ++peer.held_back;
    }
    op.unpublished = op.kind == TxOp::Kind::read || op.kind == TxOp::Kind::write;
    if (!op.unpublished) return;
    ++peer.unpublished;
    ++peer.held_back;
}

void Endpoint::all_published(TxOp& op) noexcept {
    if (!std::exchange(op.unpublished, false)) return;
    --op.peer->unpublished;
    --op.peer->held_back;
}

void Endpoint::ended(TxOp& op) noexcept {
    Peer& peer = *op.peer;
    all_published(op);
    --peer.pending;
    if (!is_one_sided(op.kind)) return;
    --peer.one_sided;
    if (op.kind == TxOp::Kind::fetch) peer.wanted_bytes -= op.local.total;
    if (op.kind != TxOp::Kind::read) return;
    --peer.reads;
    if (order.send_after_read) --peer.held_back;
}

} // namespace nvlf::ofi
