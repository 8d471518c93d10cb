// SPDX-License-Identifier: MIT OR GPL-2.0-only
// coll_message.cc - a collective's messages: out, in, and those that come before anybody waits for them.
//
// What comes too early is kept, as other messages are and within the same budget: a member may be a collective ahead, or
// have joined already. What can never be waited for (its group is closed, or its join over) is refused, and its sender told.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "collectives.hpp"

namespace nvlf::ofi {
namespace {

bool same(const nvlf_addr& a, const nvlf_addr& b) noexcept { return coll::identity(a) == coll::identity(b); }

} // namespace

// ---- Out -------------------------------------------------------------------------------------------------------------

void Collectives::begin_send(CollOp& op, Step& step) noexcept {
    Member& member = op.group->members[step.rank];
    ssize_t error = 0;
    Peer* const peer = reach(member, error);
    if (peer != nullptr) {
        const std::uint64_t key = op.key | step.number;
        if (step.bytes <= eager_limit) {
            error = push(*peer, op.tag, key, step.from, step.bytes);
            if (error == 0) return done(step);
        } else {
            SendRequest request{.tag = op.tag, .cq_data = key, .context = &step, .tx = op.account, .collective = true};
            request.from.set(step.from, step.bytes);
            error = ep.send_large(*peer, request);
            if (error == 0) step.state = Step::State::in_flight;
        }
    }
    if (error == -FI_EAGAIN) op.stalled = true;
    else if (error != 0) op.fail(static_cast<int>(-error), member.address);
}

// A message that fits the lane: done when it is published.
ssize_t Collectives::push(Peer& peer, std::uint64_t tag, std::uint64_t key, const std::byte* from,
                          std::size_t bytes) noexcept {
    const bool in_ring = bytes + sizeof(wire::Coll) > NVLF_SLOT_DATA;
    if (const Errno e = peer.tx.room(in_ring ? static_cast<std::uint32_t>(bytes) : 0, control_reserve); e.failed())
        return ep.no_room(peer, e);
    nvlf_slot& slot = peer.tx.slot();
    slot.op = wire::op_coll;
    slot.flags = in_ring ? wire::flag_ring : 0;
    slot.len = static_cast<std::uint16_t>(in_ring ? bytes : bytes + sizeof(wire::Coll));
    slot.tag = tag;
    wire::put(slot, wire::Coll{key});
    std::byte* const to = in_ring ? peer.tx.payload(static_cast<std::uint32_t>(bytes))
                                  : reinterpret_cast<std::byte*>(slot.data) + sizeof(wire::Coll);
    if (bytes > 0) std::memcpy(to, from, bytes);
    peer.tx.publish();
    nvlf_channel_notify(peer.channel);
    return 0;
}

void Collectives::sent(const TxOp& tx, int error) noexcept {
    Step& step = *static_cast<Step*>(tx.context);
    const nvlf_addr& to = tx.peer->address;
    if (step.op->failing) --step.op->announced;
    else if (error != 0) step.op->fail(error, to);
    else done(step);
}

void Collectives::abort(Peer& peer, std::uint64_t tag, std::uint64_t key, int error) noexcept {
    nvlf_slot slot{};
    slot.op = wire::op_coll;
    slot.tag = tag;
    wire::put(slot, wire::Coll{(key & ~coll::key_number_mask) | coll::number_abort});
    const auto code = static_cast<std::uint32_t>(error);
    std::memcpy(slot.data + sizeof(wire::Coll), &code, sizeof code);
    slot.len = sizeof(wire::Coll) + sizeof code;
    ep.answer(peer, slot);
}

// ---- In --------------------------------------------------------------------------------------------------------------

void Collectives::begin_receive(CollOp& op, Step& step) noexcept {
    Member& member = op.group->members[step.rank];
    const std::uint64_t key = op.key | step.number;
    Unexpected* const kept = find_kept(member.address, op.tag, key);
    ssize_t error = 0;
    // Also where nothing is sent to it: who waits for somebody must hear of its death.
    Peer* const peer = kept != nullptr ? kept->message.peer : reach(member, error);
    RxOp* const rx = peer != nullptr ? ep.store->ops.take() : nullptr;
    if (rx == nullptr) {
        if (peer != nullptr || error == -FI_EAGAIN) op.stalled = true;
        else op.fail(static_cast<int>(-error), member.address);
        return;
    }
    rx->context = &step;
    rx->flags = 0;
    rx->parent = nullptr;
    rx->to.set(step.to, step.bytes);
    rx->message =
        Envelope{.peer = peer, .binding = &ep.rx_bindings.front(), .tag = op.tag, .cq_data = key, .collective = true};
    rx->wanted = rx->got = rx->used = 0;
    rx->pending = 0;
    rx->retired = false;
    step.state = Step::State::in_flight;
    if (kept == nullptr) return queue.posted.push_back(*rx);
    const Envelope message = kept->message;
    const std::unique_ptr<std::byte[]> data = std::move(kept->data);
    const std::size_t bytes = kept->bytes;
    queue.unexpected.erase(queue.unexpected.iterator_to(*kept));
    context().forget(*kept);
    take(*rx, message, {data.get(), bytes});
}

Unexpected* Collectives::find_kept(const nvlf_addr& from, std::uint64_t tag, std::uint64_t key) noexcept {
    for (Unexpected& u : queue.unexpected)
        if (u.message.cq_data == key && u.message.tag == tag && same(u.message.peer->address, from)) return &u;
    return nullptr;
}

RxOp* Collectives::match(const Envelope& message) noexcept {
    for (RxOp& rx : queue.posted) {
        const Envelope& wanted = rx.message;
        if (wanted.cq_data != message.cq_data || wanted.tag != message.tag || wanted.peer != message.peer) continue;
        queue.posted.erase(queue.posted.iterator_to(rx));
        return &rx;
    }
    return nullptr;
}

// A message, or its announcement, for a receive that no list holds. Members that disagree about the size called the
// collective with different arguments.
void Collectives::take(RxOp& rx, const Envelope& message, std::span<const std::byte> payload) noexcept {
    Step& step = *static_cast<Step*>(rx.context);
    if (message.total != step.bytes) {
        if (message.rendezvous) ep.answer(*message.peer, wire::op_cts, wire::Cts{message.id, 0, 0});
        step.op->fail(FI_ETRUNC, message.peer->address);
        ep.store->ops.give(&rx);
        return;
    }
    if (message.rendezvous) {
        (void)context().deliver(rx, message, payload);
        return;
    }
    if (!payload.empty()) std::memcpy(step.to, payload.data(), payload.size());
    ep.store->ops.give(&rx);
    done(step);
}

void Collectives::received(const RxOp& rx, int error) noexcept {
    Step& step = *static_cast<Step*>(rx.context);
    if (error != 0) step.op->fail(error, rx.message.peer->address);
    else done(step);
}

bool Collectives::on_message(Peer& peer, const nvlf_slot& slot) noexcept {
    const bool in_ring = (slot.flags & wire::flag_ring) != 0;
    if (!in_ring && (slot.len < sizeof(wire::Coll) || slot.len > NVLF_SLOT_DATA)) return ep.broken(peer);
    const Envelope message{.peer = &peer,
                           .binding = &ep.rx_bindings.front(),
                           .tag = slot.tag,
                           .cq_data = wire::get<wire::Coll>(slot).key,
                           .total = in_ring ? slot.len : slot.len - sizeof(wire::Coll),
                           .collective = true};
    if (coll::number_of(message.cq_data) == coll::number_abort && !in_ring) {
        std::uint32_t code = 0;
        std::memcpy(&code, slot.data + sizeof(wire::Coll), std::min<std::size_t>(sizeof code, message.total));
        if (on_abort(message, code)) {
            sort_out();
            return true;
        }
    }
    RxOp* const rx = match(message);
    const bool wanted = rx != nullptr || expected(message);
    if (rx == nullptr && wanted && context().no_room_to_keep(peer, message.total)) return false;
    std::span<const std::byte> payload{reinterpret_cast<const std::byte*>(slot.data) + sizeof(wire::Coll),
                                       message.total};
    if (in_ring) {
        auto ring = peer.rx.payload(slot.len);
        if (!ring) return ep.broken(peer);
        payload = *ring;
    }
    if (rx != nullptr) take(*rx, message, payload);
    else if (wanted)
        return context().keep_unexpected(message, payload, queue.unexpected) || ep.drop_peer(peer, FI_ENOMEM);
    else refuse(message);
    return true;
}

// `pieces`: where its sender says that it lies.
bool Collectives::on_announced(const Envelope& message, std::span<const std::byte> pieces) noexcept {
    if (RxOp* const rx = match(message); rx != nullptr) {
        take(*rx, message, pieces);
        return true;
    }
    if (!expected(message)) {
        refuse(message);
        return true;
    }
    if (context().no_room_to_keep(*message.peer, pieces.size())) return false;
    return context().keep_unexpected(message, pieces, queue.unexpected) || ep.drop_peer(*message.peer, FI_ENOMEM);
}

// Whether somebody may still wait for it. A member sends to a group only when its own join has ended, so we have called
// ours by then: with none under way, what is for no group of ours is for one that we have left. Of a group that is broken
// only what was called before that is of interest. And a join whose count we are past is over.
bool Collectives::expected(const Envelope& message) noexcept {
    const std::uint64_t key = message.cq_data;
    if (!coll::is_join(key)) {
        const Group* const group = group_of(message.tag, key);
        if (group == nullptr) return joining > 0;
        return group->error == 0 || !coll::not_before(coll::sequence_of(key), group->broken_from);
    }
    const auto there = joins.find(message.tag);
    if (there == joins.end() || coll::counted(key) >= (there->second & coll::key_count_mask)) return true;
    for (const CollOp& op : active)
        if (op.join && op.tag == message.tag && coll::counted(op.key) == coll::counted(key)) return true;
    return false;
}

// Nobody will wait for it: its sender must not wait for us.
void Collectives::refuse(const Envelope& message) noexcept {
    if (!message.peer->up()) return;
    if (message.rendezvous) ep.answer(*message.peer, wire::op_cts, wire::Cts{message.id, 0, 0});
    if (coll::number_of(message.cq_data) == coll::number_abort) return; // Needs no answer.
    const Group* const group = coll::is_join(message.cq_data) ? nullptr : group_of(message.tag, message.cq_data);
    abort(*message.peer, message.tag, message.cq_data, group != nullptr ? group->error : FI_ECONNRESET);
}

// A member's collective has failed. False: it is one that we do not know yet.
bool Collectives::on_abort(const Envelope& message, std::uint32_t code) noexcept {
    const int error = code != 0 && code < FI_ERRNO_MAX ? static_cast<int>(code) : FI_EIO; // A stranger's number.
    const nvlf_addr& from = message.peer->address;
    if (coll::is_join(message.cq_data)) {
        for (CollOp& op : active) {
            if (!op.join || op.tag != message.tag || coll::counted(op.key) != coll::counted(message.cq_data)) continue;
            if (op.group->member(from) == nullptr) return true;
            op.fail(error, from);
            take_back(op, *message.peer);
            return true;
        }
        return false;
    }
    Group* const group = group_of(message.tag, message.cq_data, true);
    if (group == nullptr) return false;
    if (group->member(from) == nullptr) return true;
    const std::uint32_t sequence = coll::sequence_of(message.cq_data);
    break_group(*group, sequence, error, from);
    for (CollOp& op : active)
        if (op.group == group && !op.join && coll::not_before(coll::sequence_of(op.key), sequence))
            take_back(op, *message.peer);
    return true;
}

// After a join began or ended, or a group went: aborts that came too early are heard, and what nobody can wait for any
// more is refused.
void Collectives::sort_out() noexcept {
    MatchQueue::Waiting over;
    const auto set_aside = [&](MatchQueue::Waiting::iterator it) { over.splice(over.end(), queue.unexpected, it); };
    for (auto it = queue.unexpected.begin(); it != queue.unexpected.end();) {
        const auto at = it++;
        if (coll::number_of(at->message.cq_data) != coll::number_abort) continue;
        std::uint32_t code = 0;
        if (at->data != nullptr) std::memcpy(&code, at->data.get(), std::min(sizeof code, at->bytes));
        if (on_abort(at->message, code)) set_aside(at);
    }
    for (auto it = queue.unexpected.begin(); it != queue.unexpected.end();) {
        const auto at = it++;
        if (!expected(at->message)) set_aside(at);
    }
    // Apart from the list, from which a peer's messages go should it fail meanwhile.
    while (!over.empty()) {
        Unexpected& u = over.front();
        over.pop_front();
        const Envelope message = u.message;
        context().forget(u);
        refuse(message);
    }
}

// ---- Ends ------------------------------------------------------------------------------------------------------------

// What a failed operation still has under way, but for what it announced. Handles that peers echo later find nothing.
[[gnu::cold]] void Collectives::cancel_messages(CollOp& op) noexcept {
    const auto ours = [&op](const void* step) { return static_cast<const Step*>(step)->op == &op; };
    queue.posted.remove_if([&](const RxOp& rx) { return ours(rx.context); });
    ep.store->ops.for_each_used([&](RxOp& rx) {
        if (!rx.message.collective || !ours(rx.context)) return;
        if (rx.is_linked()) rx.message.peer->fetches.erase(rx.message.peer->fetches.iterator_to(rx));
        rx.message = {};
        ep.store->ops.give(&rx);
    });
    op.announced = 0;
    ep.tx_ops.for_each_used([&](TxOp& tx) {
        if (!tx.collective || !ours(tx.context)) return;
        if (tx.streaming) drop_send(tx);
        else ++op.announced;
    });
}

// A member has given up: it fetches nothing any more of what the operation announced to it.
[[gnu::cold]] void Collectives::take_back(CollOp& op, const Peer& from) noexcept {
    ep.tx_ops.for_each_used([&](TxOp& tx) {
        if (!tx.collective || tx.peer != &from || static_cast<const Step*>(tx.context)->op != &op) return;
        if (op.failing) --op.announced;
        drop_send(tx);
    });
}

void Collectives::drop_send(TxOp& tx) noexcept {
    if (tx.streaming) tx.peer->streams.erase(tx.peer->streams.iterator_to(tx));
    ep.ended(tx);
    tx.streaming = tx.collective = false;
    ep.tx_ops.give(&tx);
}

// Called from fail_peer, which has ended what was being sent to it or streamed from it. What it published whole was sent.
void Collectives::peer_failed(Peer& peer, int error) noexcept {
    for (const RxOp& rx : queue.posted)
        if (rx.message.peer == &peer) static_cast<Step*>(rx.context)->op->fail(error, peer.address);
    queue.unexpected.remove_and_dispose_if(
        [&](const Unexpected& u) {
            if (u.message.peer != &peer) return false;
            if (u.message.rendezvous) return true;
            if (!coll::is_join(u.message.cq_data)) return false;
            for (const CollOp& op : active) // A join that we have not called could never succeed.
                if (op.join && op.tag == u.message.tag) return false;
            return true;
        },
        [&](Unexpected* u) { context().forget(*u); });
}

void Collectives::mourn() noexcept {
    for (Unexpected& u : queue.unexpected) u.message.peer->mourned = true;
    for (RxOp& rx : queue.posted) rx.message.peer->mourned = true; // Until its operation has failed.
    for (Slot& slot : groups)
        if (slot.group != nullptr)
            for (Member& member : slot.group->members)
                if (member.peer != nullptr) member.peer->mourned = true;
}

void Collectives::fail_all(int error) noexcept {
    for (CollOp& op : active) op.fail(error);
}

} // namespace nvlf::ofi
