// SPDX-License-Identifier: MIT OR GPL-2.0-only
// unexpected.cc - messages that came before their receive: kept within a limit, looked at, set aside, thrown away.
#include <new>
#include <utility>

#include "endpoint.hpp"

namespace nvlf::ofi {

Unexpected* RxContext::find_unexpected(const ReceiveRequest& request) noexcept {
    const fi_addr_t source = source_to_match(request);
    for (Unexpected& u : queue(request.tagged).unexpected) {
        if (request.tagged && !tags_match(request.tag, request.ignore, u.message.tag)) continue;
        if (source != FI_ADDR_UNSPEC && u.message.binding->source_of(*u.message.peer) != source) continue;
        return &u;
    }
    return nullptr;
}

// FI_PEEK: is there such a message? With FI_CLAIM it is set aside for the receive of the same context that will take it,
// with FI_DISCARD it is thrown away. A miss is an error entry FI_ENOMSG, as fi_tagged(3) has it.
ssize_t RxContext::peek(const ReceiveRequest& request) noexcept {
    if (bindings.empty() || bindings.front()->cq == nullptr) return -FI_EOPBADSTATE;
    const std::uint64_t kind = FI_RECV | (request.tagged ? FI_TAGGED : FI_MSG);
    Unexpected* found = find_unexpected(request);
    if (found == nullptr) {
        // What lies in the lanes has come as well, and what lies with the carrier.
        for (const RxBinding* binding : bindings) binding->endpoint->drain_all();
        found = find_unexpected(request);
    }
    if (found == nullptr) {
        bindings.front()->cq->push_error(
            {.c = {.context = request.context, .flags = kind, .tag = request.tag}, .err = FI_ENOMSG});
        return 0;
    }
    const Envelope& m = found->message;
    bindings.front()->cq->push({.context = request.context,
                                .flags = kind | (m.has_cq_data ? FI_REMOTE_CQ_DATA : 0),
                                .len = m.total,
                                .data = m.cq_data,
                                .tag = m.tag,
                                .source = m.binding->reported_source(*m.peer)});
    if ((request.flags & (FI_CLAIM | FI_DISCARD)) == 0) return 0;
    MatchQueue::Waiting& waiting = queue(request.tagged).unexpected;
    waiting.erase(waiting.iterator_to(*found));
    if ((request.flags & FI_DISCARD) != 0) {
        drop(*found);
        return 0;
    }
    found->claimed_by = request.context;
    claimed.push_back(*found);
    return 0;
}

ssize_t RxContext::claim(const ReceiveRequest& request) noexcept {
    for (Unexpected& u : claimed) {
        if (u.claimed_by != request.context || u.message.tagged != request.tagged) continue;
        RxOp* op = nullptr;
        if ((request.flags & FI_DISCARD) == 0) {
            op = prepare(request);
            if (op == nullptr) return -FI_EAGAIN;
            op->flags &= ~FI_MULTI_RECV;
        }
        claimed.erase(claimed.iterator_to(u));
        const Envelope m = u.message;
        if (op != nullptr && m.rendezvous && !m.peer->up()) { // Its sender died in between.
            drop(u);
            fail(*op, &m, 0, m.total, FI_ECONNABORTED, true);
            store.ops.give(op);
            return 0;
        }
        if (op != nullptr) {
            (void)consume(*op, u);
            store.work.stir();
            return 0;
        }
        drop(u);
        if (m.binding->cq != nullptr)
            m.binding->cq->push(
                {.context = request.context, .flags = FI_RECV | (m.tagged ? FI_TAGGED : FI_MSG), .tag = m.tag});
        return 0;
    }
    return -FI_EINVAL; // Nothing was claimed with this context.
}

void RxContext::forget(Unexpected& u) noexcept {
    store.unexpected_bytes -= sizeof u + u.bytes;
    u.message.peer->unexpected_bytes -= sizeof u + u.bytes;
    u.data.reset();
    u.bytes = 0;
    store.unexpected.give(&u);
}

// Throws a waiting message away; its sender's operation ends.
void RxContext::drop(Unexpected& u) noexcept {
    const Envelope m = u.message;
    forget(u);
    if (m.rendezvous) m.binding->endpoint->answer(*m.peer, wire::op_cts, wire::Cts{m.id, 0, 0});
    if (m.wants_ack) m.binding->endpoint->answer(*m.peer, wire::op_ack, wire::Ack{m.id, 0, 0});
}

// The receive takes a message that waited. As deliver().
bool RxContext::consume(RxOp& op, Unexpected& u) noexcept {
    const Envelope message = u.message;
    const std::unique_ptr<std::byte[]> data = std::move(u.data);
    const std::size_t bytes = u.bytes;
    forget(u);
    return deliver(op, message, {data.get(), bytes});
}

// What the peer announced and will not send any more.
void RxContext::forget_announced(const Peer& peer) noexcept {
    for (MatchQueue* queue : {&msg_queue, &tagged_queue})
        queue->unexpected.remove_and_dispose_if(
            [&](const Unexpected& u) { return u.message.peer == &peer && u.message.rendezvous; },
            [&](Unexpected* u) { forget(*u); });
}

// The record counts as well: messages without payload are not free of charge. A peer may hold no more than it leaves free:
// however many hold all they can, something is left for the next one, and a lane full of what nobody receives stands still
// alone.
bool RxContext::no_room_to_keep(const Peer& peer, std::size_t bytes) const noexcept {
    return peer.unexpected_bytes + sizeof(Unexpected) + bytes > store.unexpected_limit - store.unexpected_bytes ||
           store.unexpected.used() >= rx_limit;
}

// False: no memory for it. Then the conversation must end, in error at both ends: a message in the middle of it is lost.
bool RxContext::keep_unexpected(const Envelope& message, std::span<const std::byte> payload,
                                MatchQueue::Waiting& in) noexcept {
    Unexpected* u = store.unexpected.take();
    if (u == nullptr) return false;
    u->message = message;
    u->bytes = payload.size();
    if (!payload.empty()) {
        u->data.reset(new (std::nothrow) std::byte[payload.size()]);
        if (u->data == nullptr) {
            store.unexpected.give(u);
            return false;
        }
        std::memcpy(u->data.get(), payload.data(), payload.size());
    }
    store.unexpected_bytes += sizeof *u + payload.size();
    message.peer->unexpected_bytes += sizeof *u + payload.size();
    in.push_back(*u);
    return true;
}

} // namespace nvlf::ofi
