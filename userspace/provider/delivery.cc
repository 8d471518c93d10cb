// SPDX-License-Identifier: MIT OR GPL-2.0-only
// delivery.cc - a message and its receive have found each other: buffers are filled, and the application is told.
#include <algorithm>
#include <mutex>

#include "collectives.hpp"
#include "endpoint.hpp"
#include "work.hpp"

namespace nvlf::ofi {

namespace {

// Deferred work ends; from here on the receive is as any other. Answers whether anybody but the work hears of it.
[[gnu::cold]] bool end_deferred(RxOp& op, int error) noexcept {
    Work& work = *static_cast<Work*>(op.context);
    op.context = work.context;
    op.flags &= ~flag_deferred;
    return work.received(error);
}

} // namespace

// A whole message, or the start of a large one, for this receive. True: it is a multi-receive buffer that takes more.
// False: the receive is over or in flight, and no longer the caller's.
bool RxContext::deliver(RxOp& op, const Envelope& message, std::span<const std::byte> payload) noexcept {
    if (message.rendezvous) return start_large(op, message, payload);
    const bool multi = (op.flags & FI_MULTI_RECV) != 0;
    const std::size_t at = op.used;
    const std::size_t bytes = op.to.scatter(at, payload);
    if (multi) {
        op.used += bytes;
        retire_if_full(op);
    }
    const bool last = multi && op.retired && op.pending == 0;
    if (bytes < payload.size()) fail(op, &message, bytes, payload.size() - bytes, FI_ETRUNC, last);
    else complete(op, message, static_cast<std::byte*>(op.to.iov[0].iov_base) + at, bytes, last);
    if (message.wants_ack) message.binding->endpoint->answer(*message.peer, wire::op_ack, wire::Ack{message.id, 0, 0});
    if (multi && !op.retired) return true;
    if (!multi || last) store.ops.give(&op);
    return false;
}

// Takes as much of a large message as fits; `pieces`: where its sender says that it lies. As deliver().
bool RxContext::start_large(RxOp& op, const Envelope& message, std::span<const std::byte> pieces) noexcept {
    const bool multi = (op.flags & FI_MULTI_RECV) != 0;
    Endpoint& endpoint = *message.binding->endpoint;
    RxOp* piece = multi ? store.ops.take() : &op;
    if (piece == nullptr) { // At the limit of receives: what lands in this buffer could not be kept apart. Refuse it.
        fail(op, &message, 0, message.total, FI_ENOMEM, false);
        endpoint.answer(*message.peer, wire::op_cts, wire::Cts{message.id, 0, 0});
        return true;
    }
    if (multi) {
        piece->context = op.context;
        piece->flags = op.flags;
        piece->tag = op.tag;
        piece->source = op.source;
        piece->parent = &op;
        piece->retired = false;
        piece->pending = 0;
        piece->used = 0;
        piece->to.set(static_cast<std::byte*>(op.to.iov[0].iov_base) + op.used,
                      std::min<std::size_t>(message.total, op.to.total - op.used));
        op.used += piece->to.total;
        ++op.pending;
        retire_if_full(op);
    }
    const bool takes_more = multi && !op.retired;
    piece->message = message;
    piece->got = 0;
    piece->wanted = std::min<std::size_t>(message.total, piece->to.total);
    endpoint.fetch(*piece, pieces);
    return takes_more;
}

// All of a large message is there that will come.
void RxContext::end_large(RxOp& op, int error) noexcept {
    if (op.message.collective) {
        if (op.fetched && error == 0)
            op.message.binding->endpoint->answer(*op.message.peer, wire::op_ack, wire::Ack{op.message.id, 0, 0});
        op.message.binding->endpoint->collectives->received(op, error);
        op.message = {};
        return store.ops.give(&op);
    }
    RxOp* parent = op.parent;
    const Envelope message = op.message;
    bool last = false;
    if (parent != nullptr) {
        --parent->pending;
        last = parent->retired && parent->given_up == 0 && parent->pending == 0;
    }
    if (error != 0) fail(op, &message, op.got, 0, error, last);
    else if (op.wanted < message.total) fail(op, &message, op.wanted, message.total - op.wanted, FI_ETRUNC, last);
    else complete(op, message, static_cast<std::byte*>(op.to.iov[0].iov_base), op.wanted, last);
    if ((message.wants_ack || op.fetched) && error == 0)
        message.binding->endpoint->answer(*message.peer, wire::op_ack, wire::Ack{message.id, 0, 0});
    op.message.rendezvous = false;
    store.ops.give(&op);
    if (last) store.ops.give(parent);
    else if (parent != nullptr && parent->given_up != 0) give_up(*parent, parent->given_up);
}

// Takes a multi-receive buffer off the queue when too little of it is left.
void RxContext::retire_if_full(RxOp& op) noexcept {
    if (op.retired || op.to.total - op.used >= min_multi_recv) return;
    op.retired = true;
    if (op.is_linked()) {
        MatchQueue::Posted& posted = queue(op.message.tagged).posted;
        posted.erase(posted.iterator_to(op));
    }
}

void RxContext::complete(RxOp& op, const Envelope& message, std::byte* at, std::size_t bytes,
                         bool last_of_buffer) noexcept {
    const RxBinding& binding = *message.binding;
    const fi_addr_t source =
        (binding.caps & FI_SOURCE) != 0 ? binding.reported_source(*message.peer) : FI_ADDR_NOTAVAIL;
    if (source == FI_ADDR_NOTAVAIL && (binding.caps & FI_SOURCE_ERR) != 0) [[unlikely]]
        return fail(op, &message, bytes, 0, FI_EADDRNOTAVAIL, last_of_buffer, at);
    if ((op.flags & flag_deferred) != 0 && !end_deferred(op, 0)) [[unlikely]]
        return;
    if (binding.recv_cntr != nullptr) binding.recv_cntr->add(1);
    if (binding.cq == nullptr) return;
    // The application must learn that its buffer is free again, whether it wants to hear of the message or not.
    if (binding.selective && (op.flags & FI_COMPLETION) == 0 && !last_of_buffer) return;
    binding.cq->push({.context = op.context,
                      .flags = FI_RECV | (message.tagged ? FI_TAGGED : FI_MSG) |
                               (message.has_cq_data ? FI_REMOTE_CQ_DATA : 0) | (last_of_buffer ? FI_MULTI_RECV : 0),
                      .len = bytes,
                      .buf = at,
                      .data = message.cq_data,
                      .tag = message.tag,
                      .source = source});
}

// A receive that no list holds any more and that nothing will be delivered to, but for what is in flight into it: the
// application may take the failure for leave to use the buffer, so it hears of that last.
void RxContext::give_up(RxOp& op, int error) noexcept {
    op.retired = true;
    op.given_up = error;
    if (op.pending > 0) return;
    fail(op, nullptr, 0, 0, error, true);
    store.ops.give(&op);
}

void RxContext::fail(const ReceiveRequest& request, int error) noexcept {
    const std::lock_guard guard{store.lock};
    RxOp op;
    op.context = request.context;
    op.flags = request.flags;
    op.tag = request.tag;
    op.to = request.to;
    op.message.tagged = request.tagged;
    fail(op, nullptr, 0, 0, error, true);
}

// `message` is nullptr when none was matched; of several endpoints, then, any may tell of it.
// `at`: where it lies, if that is not the start of the buffers.
void RxContext::fail(RxOp& op, const Envelope* message, std::size_t bytes, std::size_t lost, int error,
                     bool last_of_buffer, std::byte* at) noexcept {
    if ((op.flags & flag_deferred) != 0 && !end_deferred(op, error)) return;
    if (message == nullptr && bindings.empty()) return;
    const RxBinding& binding = message != nullptr ? *message->binding : *bindings.front();
    if (binding.recv_cntr != nullptr) binding.recv_cntr->add_error(1);
    if (binding.cq == nullptr) return;
    const bool tagged = message != nullptr ? message->tagged : op.message.tagged;
    const bool last = (op.flags & FI_MULTI_RECV) != 0 && last_of_buffer;
    Failure failure{.c = {.context = op.context,
                          .flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG) | (last ? FI_MULTI_RECV : 0),
                          .len = bytes,
                          .buf = at != nullptr ? at : op.to.iov[0].iov_base,
                          .tag = op.tag},
                    .err = error,
                    .olen = lost};
    if (message != nullptr) {
        if (message->has_cq_data) failure.c.flags |= FI_REMOTE_CQ_DATA;
        failure.c.tag = message->tag;
        failure.c.data = message->cq_data;
        failure.c.source = binding.reported_source(*message->peer);
        failure.source = message->peer->address;
    }
    binding.cq->push_error(failure);
}

} // namespace nvlf::ofi
