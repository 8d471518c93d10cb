// SPDX-License-Identifier: MIT OR GPL-2.0-only
// send.cc - messages out.
//
// A message up to eager_limit is copied into the lane and forgotten: its buffer is free and it will be delivered whatever
// the sender does next (transmit complete). A larger one announces itself and streams when a receive asks for it, in
// pieces that both ends copy at the same time.
#include <rdma/fi_errno.h>

#include <new>

#include "collectives.hpp"
#include "endpoint.hpp"
#include "work.hpp"

namespace nvlf::ofi {
namespace {

// Payload and header go where the slot's layout (wire.hpp) wants them; the caller has checked for room.
void write_msg(LaneProducer& tx, const SendRequest& request, std::uint64_t id, bool in_ring) noexcept {
    nvlf_slot& slot = tx.slot();
    std::uint8_t flags = request.tagged ? std::uint8_t{wire::flag_tagged} : std::uint8_t{0};
    std::size_t at = 0;
    if ((request.flags & FI_REMOTE_CQ_DATA) != 0) {
        flags |= wire::flag_cq_data;
        std::memcpy(slot.data, &request.cq_data, sizeof request.cq_data);
        at = sizeof request.cq_data;
    }
    if (id != 0) {
        flags |= wire::flag_ack;
        std::memcpy(slot.data + at, &id, sizeof id);
        at += sizeof id;
    }
    const auto bytes = static_cast<std::uint32_t>(request.from.total); // At most eager_limit.
    if (request.target != 0) [[unlikely]] {
        flags |= wire::flag_context;
        const std::uint64_t target = request.target;
        std::memcpy(slot.data + at, &target, sizeof target);
        at += sizeof target;
    }
    if (in_ring) {
        flags |= wire::flag_ring;
        request.from.gather(0, tx.payload(bytes), bytes);
        slot.len = static_cast<std::uint16_t>(bytes);
    } else {
        request.from.gather(0, reinterpret_cast<std::byte*>(slot.data) + at, bytes);
        slot.len = static_cast<std::uint16_t>(at + bytes);
    }
    slot.op = wire::op_msg;
    slot.flags = flags;
    slot.tag = request.tag;
    tx.publish();
}

// All but the publication word, which is the producer's.
void push_slot(LaneProducer& tx, const nvlf_slot& slot) noexcept {
    nvlf_slot& to = tx.slot();
    to.len = slot.len;
    to.op = slot.op;
    to.flags = slot.flags;
    to.tag = slot.tag;
    std::memcpy(to.data, slot.data, sizeof to.data);
    tx.publish();
}

} // namespace

ssize_t Endpoint::send(const SendRequest& request) noexcept {
    if (inherited()) [[unlikely]]
        return -FI_EOPBADSTATE;
    const CallGuard guard{*store};
    ssize_t error = 0;
    Peer* peer = peer_for(request.to, error);
    if (peer == nullptr) [[unlikely]]
        return error;
    if (peer->held_back != 0 || (request.flags & FI_FENCE) != 0) [[unlikely]]
        return start_or_wait(*peer, request);
    return start(*peer, request);
}

ssize_t Endpoint::start(Peer& peer, const SendRequest& request) noexcept {
    return request.from.total <= eager_limit ? send_eager(peer, request) : send_large(peer, request);
}

// An operation that outlasts the call. nullptr: there are too many already.
TxOp* Endpoint::begin(Peer& peer, const SendRequest& request, TxOp::Kind kind) noexcept {
    TxOp* op = tx_ops.take();
    if (op == nullptr) return nullptr;
    op->kind = kind;
    op->peer = &peer;
    op->tx = request.tx;
    op->context = request.context;
    op->flags = request.flags;
    op->tagged = request.tagged;
    op->collective = request.collective;
    op->silent = request.silent;
    op->streaming = false;
    op->delivered = false;
    op->local = request.from;
    op->offset = 0;
    op->total = 0;
    began(*op);
    return op;
}

// What a call answers that found no room in the lane. A credit that nobody can have earned is the end of the peer.
[[gnu::cold]] ssize_t Endpoint::no_room(Peer& peer, Errno why) noexcept {
    if (why == Errno{EPROTO}) fail_peer(peer, FI_ECONNABORTED);
    return why == Errno{EAGAIN} ? -FI_EAGAIN : -FI_EHOSTUNREACH;
}

ssize_t Endpoint::send_eager(Peer& peer, const SendRequest& request) noexcept {
    const bool wants_ack = (request.flags & acknowledged_flags) != 0;
    if (wants_ack && !peer.control.empty()) [[unlikely]]
        return -FI_EAGAIN; // As with one-sided operations: who does not get rid of its answers asks for none.
    const std::size_t header = ((request.flags & FI_REMOTE_CQ_DATA) != 0 ? sizeof(std::uint64_t) : 0) +
                               (wants_ack ? sizeof(std::uint64_t) : 0) +
                               (request.target != 0 ? sizeof(std::uint64_t) : 0);
    const bool in_ring = request.from.total + header > NVLF_SLOT_DATA;
    if (const Errno e = peer.tx.room(in_ring ? static_cast<std::uint32_t>(request.from.total) : 0, control_reserve);
        e.failed()) [[unlikely]]
        return no_room(peer, e);
    if (!wants_ack) [[likely]] {
        write_msg(peer.tx, request, 0, in_ring);
        peer.tx.run_ahead(peer.rx.consumed());
        nvlf_channel_notify(peer.channel);
        request.tx->complete(request.completes_as(), request.flags, request.context, request.silent);
        return 0;
    }
    TxOp* op = begin(peer, request, TxOp::Kind::eager);
    if (op == nullptr) return -FI_EAGAIN;
    write_msg(peer.tx, request, op->handle(), in_ring);
    nvlf_channel_notify(peer.channel);
    return 0;
}

ssize_t Endpoint::send_large(Peer& peer, const SendRequest& request) noexcept {
    if (!peer.control.empty()) return -FI_EAGAIN; // Likewise.
    const bool in_one_piece = request.from.count == 1;
    if (const Errno e = peer.tx.room(in_one_piece ? 0 : sizeof(wire::Pieces), control_reserve); e.failed())
        return no_room(peer, e);
    TxOp* op = begin(peer, request, TxOp::Kind::large);
    if (op == nullptr) return -FI_EAGAIN;
    nvlf_slot& slot = peer.tx.slot();
    slot.op = wire::op_rts;
    slot.len = sizeof(wire::Rts);
    slot.flags = static_cast<std::uint8_t>((request.tagged ? wire::flag_tagged : 0) |
                                           (request.collective ? wire::flag_coll : 0) |
                                           ((request.flags & FI_REMOTE_CQ_DATA) != 0 ? wire::flag_cq_data : 0) |
                                           ((request.flags & acknowledged_flags) != 0 ? wire::flag_ack : 0));
    slot.tag = request.tag;
    wire::Rts rts{op->handle(), request.from.total, request.cq_data, 0, request.target};
    if (in_one_piece) {
        rts.address = reinterpret_cast<std::uintptr_t>(request.from.iov[0].iov_base);
    } else {
        wire::Pieces pieces{};
        request.from.each(0, request.from.total, [&](const std::byte* at, std::size_t bytes) {
            pieces.piece[pieces.count++] = {reinterpret_cast<std::uintptr_t>(at), bytes};
        });
        std::memcpy(peer.tx.payload(sizeof pieces), &pieces, sizeof pieces);
        slot.len = sizeof pieces;
        slot.flags |= wire::flag_ring;
    }
    wire::put(slot, rts);
    peer.tx.publish();
    nvlf_channel_notify(peer.channel);
    return 0;
}

// An answer must not fail: it takes one of the slots kept back for it, or waits in our own memory.
void Endpoint::answer(Peer& peer, const nvlf_slot& slot) noexcept {
    if (!peer.up()) return;
    if (!peer.control.empty() || peer.tx.room(0).failed()) {
        try {
            peer.control.push_back(slot);
            ++waiting_answers;
        } catch (const std::bad_alloc&) {
            fail_peer(peer, FI_ENOMEM); // The peer would wait for ever.
        }
        return;
    }
    push_slot(peer.tx, slot);
    nvlf_channel_notify(peer.channel);
}

void Endpoint::start_stream(Peer& peer, TxOp& op) noexcept {
    op.streaming = true;
    peer.streams.push_back(op);
    pump(peer);
}

// Moves what waits: answers first, then a piece of each stream in turn, until the lane is full.
void Endpoint::pump(Peer& peer) noexcept {
    const std::uint64_t before = peer.tx.published();
    if (!peer.fetches.empty()) fetch_on(peer);
    if (peer.help.ticket != 0) help_on(peer);
    while (!peer.control.empty() && !peer.tx.room(0).failed()) {
        push_slot(peer.tx, peer.control.front());
        peer.control.pop_front();
        --waiting_answers;
    }
    while (!peer.streams.empty()) {
        TxOp& op = peer.streams.front();
        if (!push_piece(peer, op)) break;
        if (!peer.up()) return; // It failed in there, and its streams are gone.
        peer.streams.pop_front();
        if (op.streaming) peer.streams.push_back(op);
        else maybe_finish(op);
    }
    if (peer.channel != nullptr && peer.tx.published() != before) nvlf_channel_notify(peer.channel);
    // What still waits, waits for credit: a peer that gives back what it never got will not give any.
    if (peer.busy() && peer.tx.room(piece_bytes, control_reserve) == Errno{EPROTO}) fail_peer(peer, FI_ECONNABORTED);
}

// One piece of a stream. False: no room now. Clears op.streaming after the last.
bool Endpoint::push_piece(Peer& peer, TxOp& op) noexcept {
    if (op.kind == TxOp::Kind::write) return push_write(peer, op);
    if (op.kind == TxOp::Kind::read) return ask_next_segment(peer, op);
    if (op.kind == TxOp::Kind::respond) return push_response(peer, op);
    if (op.kind == TxOp::Kind::result) return push_result(peer, op);
    const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(piece_bytes, op.total - op.offset));
    if (peer.tx.room(bytes, control_reserve).failed()) return false;
    op.local.gather(op.offset, peer.tx.payload(bytes), bytes);
    nvlf_slot& slot = peer.tx.slot();
    slot.op = wire::op_data;
    slot.flags = wire::flag_ring;
    slot.len = static_cast<std::uint16_t>(bytes);
    wire::put(slot, wire::Data{op.remote, 0});
    peer.tx.publish();
    op.offset += bytes;
    op.streaming = op.offset < op.total;
    return true;
}

void Endpoint::on_cts(Peer& peer, const nvlf_slot& slot) noexcept {
    const auto cts = wire::get<wire::Cts>(slot);
    TxOp* op = tx_ops.find(cts.id);
    if (op == nullptr || op->kind != TxOp::Kind::large || op->peer != &peer || op->streaming || op->offset > 0) return;
    op->remote = cts.receiver;
    op->total = std::min<std::uint64_t>(cts.wanted, op->local.total);
    if (op->total > 0) start_stream(peer, *op);
    else maybe_finish(*op);
}

void Endpoint::on_ack(Peer& peer, const nvlf_slot& slot) noexcept {
    const auto ack = wire::get<wire::Ack>(slot);
    TxOp* op = tx_ops.find(ack.id);
    if (op == nullptr || op->peer != &peer) return;
    // A stranger's number: one that is no error code at all still says that the operation failed.
    if (op->error == 0) op->error = ack.error < FI_ERRNO_MAX ? ack.error : FI_EIO;
    switch (op->kind) {
    case TxOp::Kind::write: // Over when the peer has seen all pieces.
        op->notify |= ack.notify == 1;
        return;
    case TxOp::Kind::read: // A read is only acknowledged when it is refused.
        if (op->streaming) peer.streams.erase(peer.streams.iterator_to(*op));
        op->streaming = false;
        op->offset = op->local.total;
        op->segment_at = op->segments;
        break;
    case TxOp::Kind::fetch: // So is what should bring something back.
        if (op->error == 0) op->error = FI_EIO;
        [[fallthrough]];
    default: op->delivered = true;
    }
    maybe_finish(*op);
}

void Endpoint::maybe_finish(TxOp& op) noexcept {
    if (op.streaming) return;
    const bool wants_ack = (op.flags & acknowledged_flags) != 0;
    switch (op.kind) {
    case TxOp::Kind::eager:
    case TxOp::Kind::large:
        if (wants_ack && !op.delivered) return;
        break;
    case TxOp::Kind::write:
        if (op.last_write > op.peer->writes_applied) return op.peer->unapplied.push_back(op);
        // The target hears of a write that is there, all of it, and of no other.
        if (op.error == 0 && (op.has_cq_data || op.notify))
            notify(*op.peer, FI_REMOTE_WRITE, {op.segment.data(), op.segments}, op.total,
                   op.has_cq_data ? &op.cq_data : nullptr, op.target);
        if (!op.peer->up()) return; // It failed in there, and all its operations.
        break;
    case TxOp::Kind::read:
        if (op.segment_at < op.segments) return;
        if (op.error == 0 && op.notify)
            notify(*op.peer, FI_REMOTE_READ, {op.segment.data(), op.segments}, op.total, nullptr);
        if (!op.peer->up()) return; // Likewise.
        break;
    case TxOp::Kind::atomic:
    case TxOp::Kind::fetch:
        if (!op.delivered) return;
        break;
    case TxOp::Kind::respond:
    case TxOp::Kind::result: break;
    }
    finish(op, static_cast<int>(op.error));
}

// Reports the end of an operation and gives it back.
void Endpoint::finish(TxOp& op, int error) noexcept {
    // Nobody's here: the reader learns of an error by an acknowledgement.
    if (op.kind == TxOp::Kind::respond || op.kind == TxOp::Kind::result) {
        if (op.kind == TxOp::Kind::result) op.peer->result_bytes -= op.total;
        op.copy.reset();
        --op.peer->responses;
        return responses.give(&op);
    }
    ended(op);
    if (op.collective) { // Nobody's own, either.
        collectives->sent(op, error);
        op.collective = false;
        op.error = 0;
        return tx_ops.give(&op);
    }
    std::uint64_t kind = 0;
    switch (op.kind) {
    case TxOp::Kind::write: kind = FI_RMA | FI_WRITE; break;
    case TxOp::Kind::read: kind = FI_RMA | FI_READ; break;
    case TxOp::Kind::atomic: kind = FI_ATOMIC | FI_WRITE; break;
    case TxOp::Kind::fetch: kind = FI_ATOMIC | FI_READ; break;
    default: kind = op.tagged ? FI_TAGGED : FI_MSG;
    }
    if (error == 0) op.tx->complete(kind, op.flags, op.context, op.silent);
    else op.tx->fail(kind, op.context, error);
    op.copy.reset();
    op.error = 0;
    tx_ops.give(&op);
}

void TxContext::complete(std::uint64_t kind, std::uint64_t flags, void* context, bool silent) noexcept {
    if (Cntr* const to = counter(kind); to != nullptr) to->add(1);
    if (cq == nullptr) {
        if (work != nullptr) work->sent(kind, context, 0);
        return;
    }
    if (silent || (selective && (flags & FI_COMPLETION) == 0)) return;
    if ((kind & (FI_RMA | FI_ATOMIC)) == 0) kind |= FI_SEND;
    cq->push({.context = context, .flags = kind});
}

void TxContext::fail(std::uint64_t kind, void* context, int error) noexcept {
    if (Cntr* const to = counter(kind); to != nullptr) to->add_error(1);
    if (cq == nullptr) {
        if (work != nullptr) work->sent(kind, context, error);
        return;
    }
    if ((kind & (FI_RMA | FI_ATOMIC)) == 0) kind |= FI_SEND;
    cq->push_error({.c = {.context = context, .flags = kind}, .err = error});
}

} // namespace nvlf::ofi
