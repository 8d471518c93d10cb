// SPDX-License-Identifier: MIT OR GPL-2.0-only
// receive.cc - receives posted, called back, and matched with messages that come in.
//
// A message finds its receive in one of three ways: the receive waits (match), the message waits (find_unexpected), or
// it waits set aside for one receive (claim). Large messages are only asked for once a receive has them, so that what
// waits in our heap is bounded by unexpected_limit and eager_limit.
#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "endpoint.hpp"
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

} // namespace nvlf::ofi
