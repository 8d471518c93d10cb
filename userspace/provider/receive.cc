// SPDX-License-Identifier: MIT OR GPL-2.0-only
// receive.cc - receives posted, messages matched with them, buffers filled.
//
// A message finds its receive in one of three ways: the receive waits (match), the message waits (find_unexpected), or
// it waits set aside for one receive (claim). Large messages are only asked for once a receive has them, so that what
// waits in our heap is bounded by unexpected_limit and eager_limit.
#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "base/cancel.hpp"
#include "collectives.hpp"
#include "endpoint.hpp"
#include "provider.hpp"
#include "work.hpp"

namespace nvlf::ofi {

fi_addr_t RxBinding::source_of(Peer& peer) const noexcept { return endpoint->source_of(peer); }
fi_addr_t RxBinding::reported_source(Peer& peer) const noexcept { return endpoint->reported_source(peer); }

RxContext::~RxContext() {
    for (MatchQueue* queue : {&msg_queue, &tagged_queue}) {
        queue->posted.clear();
        queue->unexpected.clear();
    }
    claimed.clear();
}

bool RxContext::join(RxBinding& binding) noexcept try {
    bindings.push_back(&binding);
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

// Closing a context of several, or an endpoint of several at one context: the others live on. What comes in for these
// receives finds nothing any more.
void RxContext::give_up_in_flight(const RxBinding& binding) noexcept {
    store.ops.for_each_used([&](RxOp& op) {
        const Envelope& m = op.message;
        if (m.binding != &binding || !m.rendezvous || m.collective || op.got >= op.wanted) return;
        if (op.is_linked()) { // Being fetched: its sender waits for a word of ours.
            m.peer->fetches.erase(m.peer->fetches.iterator_to(op));
            binding.endpoint->answer(*m.peer, wire::op_cts, wire::Cts{m.id, 0, 0});
        }
        op.fetched = false;
        end_large(op, FI_ECANCELED);
    });
}

void RxContext::close() noexcept {
    fail_all(FI_ECANCELED);
    for (const RxBinding* binding : bindings) give_up_in_flight(*binding);
    closed = FI_EOPBADSTATE;
}

// Takes back what came in by this endpoint. Its peers are still there.
void RxContext::leave(RxBinding& binding) noexcept {
    if (&store != &binding.endpoint->own_store) give_up_in_flight(binding);
    const auto its = [&](const Unexpected& u) { return u.message.binding == &binding; };
    for (MatchQueue::Waiting* waiting : {&msg_queue.unexpected, &tagged_queue.unexpected, &claimed})
        waiting->remove_and_dispose_if(its, [this](Unexpected* u) { forget(*u); });
    std::erase(bindings, &binding);
}

ssize_t RxContext::receive(const ReceiveRequest& request) noexcept {
    if (generation.inherited()) [[unlikely]]
        return -FI_EOPBADSTATE;
    const CallGuard guard{store};
    if (closed != 0) [[unlikely]]
        return -closed;
    if ((request.flags & FI_CLAIM) != 0 && (request.flags & FI_PEEK) == 0) return claim(request);
    if ((request.flags & FI_PEEK) != 0) return peek(request);
    RxOp* op = prepare(request);
    if (op == nullptr) return -FI_EAGAIN;
    op->source = source_to_match(request);
    MatchQueue& queue = this->queue(request.tagged);
    if (!queue.unexpected.empty()) [[unlikely]] {
        while (Unexpected* message = find_unexpected(request)) {
            queue.unexpected.erase(queue.unexpected.iterator_to(*message));
            const bool takes_more = consume(*op, *message);
            store.work.stir(); // A large one is to be fetched.
            if (!takes_more) return 0;
        }
    }
    int error = 0;
    if (op->source == FI_ADDR_UNSPEC) error = std::exchange(unreported_death, 0);
    else error = hopeless(op->source);
    if (error != 0) [[unlikely]] {
        give_up(*op, error);
        return 0;
    }
    queue.posted.push_back(*op);
    return 0;
}

RxOp* RxContext::prepare(const ReceiveRequest& request) noexcept {
    RxOp* op = store.ops.take();
    if (op == nullptr) return nullptr;
    op->context = request.context;
    op->flags = request.flags;
    op->tag = request.tag;
    op->ignore = request.ignore;
    op->source = FI_ADDR_UNSPEC;
    op->to = request.to;
    op->parent = nullptr;
    // What is asked of a receive that has no message yet; the rest comes with the message.
    op->message.tagged = request.tagged;
    op->message.collective = op->message.rendezvous = false;
    op->wanted = op->got = op->used = 0;
    op->pending = 0;
    op->retired = false;
    op->given_up = 0;
    return op;
}

// FI_E* when the endpoint at this address is gone for good, whichever of ours it might have talked to; else 0.
int RxContext::hopeless(fi_addr_t source) noexcept {
    int error = 0;
    for (const RxBinding* binding : bindings) {
        error = binding->endpoint->is_live(source) ? 0 : binding->endpoint->gone(source);
        if (error == 0) return 0;
    }
    return error;
}

namespace {

// By which the application knows it.
const void* context_of(const RxOp& op) noexcept {
    return (op.flags & flag_deferred) == 0 ? op.context : static_cast<const Work*>(op.context)->context;
}

// Deferred work ends; from here on the receive is as any other. Answers whether anybody but the work hears of it.
[[gnu::cold]] bool end_deferred(RxOp& op, int error) noexcept {
    Work& work = *static_cast<Work*>(op.context);
    op.context = work.context;
    op.flags &= ~flag_deferred;
    return work.received(error);
}

} // namespace

// The oldest receive that was posted with this context. What is in flight cannot be called back.
ssize_t RxContext::cancel(void* context) noexcept {
    if (generation.inherited()) return -FI_EOPBADSTATE;
    const std::lock_guard guard{store.lock};
    for (MatchQueue* queue : {&tagged_queue, &msg_queue}) {
        const auto it = std::find_if(queue->posted.begin(), queue->posted.end(),
                                     [&](const RxOp& op) { return context_of(op) == context; });
        if (it == queue->posted.end()) continue;
        RxOp& op = *it;
        queue->posted.erase(it);
        give_up(op, FI_ECANCELED);
        return 0;
    }
    return 0; // As fi_endpoint(3) has it: what cannot be found has completed.
}

// Messages are known by the lowest index of their source, whichever of them the application prefers.
fi_addr_t RxContext::source_to_match(const ReceiveRequest& request) const noexcept {
    if (!directed || request.source == FI_ADDR_UNSPEC) return FI_ADDR_UNSPEC;
    Av* const av = bindings.empty() ? nullptr : bindings.front()->endpoint->av;
    return av != nullptr && av->may_repeat() ? av->first_of(request.source) : request.source;
}

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

// The posted receive for a message, removed from the queue unless it is a multi-receive buffer with room left.
RxOp* RxContext::match(const Envelope& message) noexcept {
    MatchQueue& queue = this->queue(message.tagged);
    for (RxOp& op : queue.posted) {
        if (message.tagged && !tags_match(op.tag, op.ignore, message.tag)) continue;
        if (op.source != FI_ADDR_UNSPEC && message.binding->source_of(*message.peer) != op.source) continue;
        if ((op.flags & FI_MULTI_RECV) == 0) queue.posted.erase(queue.posted.iterator_to(op));
        return &op;
    }
    return nullptr;
}

// What the peer announced and will not send any more.
void RxContext::forget_announced(const Peer& peer) noexcept {
    for (MatchQueue* queue : {&msg_queue, &tagged_queue})
        queue->unexpected.remove_and_dispose_if(
            [&](const Unexpected& u) { return u.message.peer == &peer && u.message.rendezvous; },
            [&](Unexpected* u) { forget(*u); });
}

// A peer died in the middle of things: so do the receives that it alone, or that nobody can satisfy any more.
void RxContext::peer_died(const Peer& peer, int error) noexcept {
    bool told = fail_receives_that_only(&peer, error);
    if (!alone()) return;
    told |= fail_receives_that_only(nullptr, error);
    // With no receive posted to carry the news, the next one does.
    if (!told) unreported_death = error;
}

bool RxContext::alone() const noexcept {
    return std::all_of(bindings.begin(), bindings.end(), [](const RxBinding* b) { return b->endpoint->alone(); });
}

// Receives that only this peer can satisfy; nullptr: those that nobody can any more, since all peers are gone and one
// of them died in the middle of things.
bool RxContext::fail_receives_that_only(const Peer* peer, int error) noexcept {
    bool any = false;
    for (MatchQueue* queue : {&msg_queue, &tagged_queue})
        for (auto it = queue->posted.begin(); it != queue->posted.end();) {
            RxOp& op = *it++;
            const bool named = directed && op.source != FI_ADDR_UNSPEC;
            if (peer != nullptr ? !named || op.source != peer->fi_addr : named) continue;
            queue->posted.erase(queue->posted.iterator_to(op));
            give_up(op, error);
            any = true;
        }
    return any;
}

void RxContext::fail_all(int error) noexcept {
    closed = error;
    for (MatchQueue* queue : {&msg_queue, &tagged_queue})
        while (!queue->posted.empty()) {
            RxOp& op = queue->posted.front();
            queue->posted.pop_front();
            give_up(op, error);
        }
}

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

// ---- Slots in. Each answers false when the slot cannot be taken in yet. --------------------------------------------

// What a message brings besides its payload. Answers where the payload begins, if it lies in the slot.
const std::byte* Endpoint::read_header(const nvlf_slot& slot, Envelope& ret_message) noexcept {
    const auto* at = reinterpret_cast<const std::byte*>(slot.data);
    const auto next = [&at](std::uint64_t& ret_word) {
        std::memcpy(&ret_word, at, sizeof ret_word);
        at += sizeof ret_word;
    };
    if (ret_message.has_cq_data) next(ret_message.cq_data);
    if (ret_message.wants_ack) next(ret_message.id);
    if ((slot.flags & wire::flag_context) != 0) {
        std::uint64_t context = 0;
        next(context);
        ret_message.binding = binding_for(context);
    }
    return at;
}

// A message for a receive context that there is not: the peer's application made up an address. Thrown away, and refused
// where its sender still waits for an answer.
bool Endpoint::refuse(const Envelope& message, const nvlf_slot& slot) noexcept {
    if ((slot.flags & wire::flag_ring) != 0 && !message.peer->rx.payload(slot.len)) return broken(*message.peer);
    const Uncancellable whole;
    FI_WARN_ONCE(&provider, FI_LOG_EP_DATA, "a message for a receive context that the endpoint does not have\n");
    if (message.rendezvous || message.wants_ack)
        answer(*message.peer, wire::op_ack, wire::Ack{message.id, FI_EADDRNOTAVAIL, 0});
    return true;
}

bool Endpoint::on_msg(Peer& peer, const nvlf_slot& slot) noexcept {
    Envelope message{.peer = &peer,
                     .binding = rx_bindings.data(),
                     .tag = slot.tag,
                     .tagged = (slot.flags & wire::flag_tagged) != 0,
                     .has_cq_data = (slot.flags & wire::flag_cq_data) != 0,
                     .wants_ack = (slot.flags & wire::flag_ack) != 0};
    const auto* at = reinterpret_cast<const std::byte*>(slot.data);
    if ((slot.flags & (wire::flag_cq_data | wire::flag_ack | wire::flag_context)) != 0) [[unlikely]]
        at = read_header(slot, message);
    const auto header = static_cast<std::size_t>(at - reinterpret_cast<const std::byte*>(slot.data));
    const bool in_ring = (slot.flags & wire::flag_ring) != 0;
    if (!in_ring && (slot.len < header || slot.len > NVLF_SLOT_DATA)) [[unlikely]]
        return broken(peer);
    message.total = in_ring ? slot.len : slot.len - header;
    if (message.binding == nullptr) [[unlikely]]
        return refuse(message, slot);

    RxContext& context = *message.binding->context;
    RxOp* op = context.match(message);
    if (op == nullptr && context.no_room_to_keep(peer, message.total)) return false;
    std::span<const std::byte> payload{at, message.total};
    if (in_ring) {
        auto ring = peer.rx.payload(slot.len);
        if (!ring) return broken(peer);
        payload = *ring;
    }
    if (op == nullptr)
        return context.keep_unexpected(message, payload, context.queue(message.tagged).unexpected) ||
               drop_peer(peer, FI_ENOMEM);
    (void)context.deliver(*op, message, payload);
    return true;
}

bool Endpoint::on_rts(Peer& peer, const nvlf_slot& slot) noexcept {
    const auto rts = wire::get<wire::Rts>(slot);
    const Envelope message{.peer = &peer,
                           .binding = binding_for(rts.context),
                           .tag = slot.tag,
                           .cq_data = rts.cq_data,
                           .id = rts.id,
                           .total = rts.total,
                           .tagged = (slot.flags & wire::flag_tagged) != 0,
                           .collective = (slot.flags & wire::flag_coll) != 0,
                           .has_cq_data = (slot.flags & wire::flag_cq_data) != 0,
                           .wants_ack = (slot.flags & wire::flag_ack) != 0,
                           .rendezvous = true};
    if (message.binding == nullptr) return refuse(message, slot);
    const bool several = (slot.flags & wire::flag_ring) != 0;
    if (several && slot.len != sizeof(wire::Pieces)) return broken(peer);
    wire::Pieces pieces{.count = 1, .piece = {{rts.address, rts.total}}};
    std::span<const std::byte> where; // Nothing: it is not told.
    if (!several && rts.address != 0) where = std::as_bytes(std::span{&pieces, 1});
    if (message.collective)
        return collectives != nullptr && !several ? collectives->on_announced(message, where) : broken(peer);
    RxContext& context = *message.binding->context;
    RxOp* op = context.match(message);
    if (op == nullptr && context.no_room_to_keep(peer, sizeof(wire::Pieces))) return false;
    if (several) {
        const auto ring = peer.rx.payload(slot.len);
        if (!ring) return broken(peer);
        std::memcpy(&pieces, ring->data(), sizeof pieces);
        where = std::as_bytes(std::span{&pieces, 1});
    }
    if (op == nullptr)
        return context.keep_unexpected(message, where, context.queue(message.tagged).unexpected) ||
               drop_peer(peer, FI_ENOMEM);
    (void)context.deliver(*op, message, where);
    return true;
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

bool Endpoint::on_data(Peer& peer, const nvlf_slot& slot) noexcept {
    auto payload = peer.rx.payload(slot.len);
    if (!payload) return broken(peer);
    RxOp* op = store->ops.find(wire::get<wire::Data>(slot).receiver);
    if (op == nullptr || op->message.peer != &peer || !op->message.rendezvous || op->got >= op->wanted) return true;
    if (op->fetched) return true; // Nobody asked for that, and the receive is in a list.
    const std::size_t room = op->wanted - op->got;
    op->got += op->to.scatter(op->got, payload->first(std::min(room, payload->size())));
    if (op->got == op->wanted) op->message.binding->context->end_large(*op, 0);
    return true;
}

} // namespace nvlf::ofi
