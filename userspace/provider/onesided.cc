// SPDX-License-Identifier: MIT OR GPL-2.0-only
// onesided.cc - reads and writes, at the initiator and at the target.
//
// This is the way for memory that is not fabric memory: pieces go through the lane and the target's progress applies
// them. The target keeps no state of a write: each piece is looked up, bounded and acknowledged by itself, so a
// registration that is closed in the middle refuses the rest. A read is a stream of the target's that looks its source up
// anew for each piece, for the same reason.
#include <algorithm>
#include <new>

#include "endpoint.hpp"

namespace nvlf::ofi {
namespace {

constexpr std::size_t inline_write = NVLF_SLOT_DATA - sizeof(wire::Write);

} // namespace

ssize_t Endpoint::start(Peer& peer, const RmaRequest& request) noexcept {
    if (may_go_direct(peer) && (try_direct(peer, request) || try_across(peer, request))) return 0;
    // Who does not get rid of its answers asks for nothing new: two that flood each other would both stop listening.
    if (!peer.control.empty()) return -FI_EAGAIN;
    if (const Errno e = peer.tx.room(0, control_reserve); e.failed()) return no_room(peer, e);
    TxOp* op = tx_ops.take();
    if (op == nullptr) return -FI_EAGAIN;
    op->kind = request.write ? TxOp::Kind::write : TxOp::Kind::read;
    op->peer = &peer;
    op->tx = request.tx;
    op->context = request.context;
    op->flags = request.flags;
    op->silent = request.silent;
    op->notify = false;
    op->has_cq_data = (request.flags & FI_REMOTE_CQ_DATA) != 0;
    op->cq_data = request.cq_data;
    op->target = target_of(request.to);
    op->local = request.local;
    if ((request.flags & FI_INJECT) != 0 && request.local.total > 0) { // The caller's buffer is free when we return.
        op->copy.reset(new (std::nothrow) std::byte[request.local.total]);
        if (op->copy == nullptr) {
            tx_ops.give(op);
            return -FI_ENOMEM;
        }
        request.local.gather(0, op->copy.get(), request.local.total);
        op->local.set(op->copy.get(), request.local.total);
    }
    op->total = op->local.total;
    op->offset = 0;
    std::copy_n(request.segment.begin(), request.segments, op->segment.begin());
    op->segments = request.segments;
    op->segment_at = op->segment_offset = 0;
    began(*op);
    start_stream(peer, *op);
    return 0;
}

// ---- The initiator ---------------------------------------------------------------------------------------------------

bool Endpoint::push_write(Peer& peer, TxOp& op) noexcept {
    const RmaSegment& segment = op.segment[op.segment_at];
    const auto bytes = static_cast<std::uint32_t>(
        std::min<std::uint64_t>({piece_bytes, segment.bytes - op.segment_offset, op.total - op.offset}));
    const bool in_ring = bytes > inline_write;
    if (peer.tx.room(in_ring ? bytes : 0, control_reserve).failed()) return false;
    nvlf_slot& slot = peer.tx.slot();
    wire::put(slot, wire::Write{segment.address + op.segment_offset, op.handle()});
    if (in_ring) {
        op.local.gather(op.offset, peer.tx.payload(bytes), bytes);
        slot.len = static_cast<std::uint16_t>(bytes);
    } else {
        op.local.gather(op.offset, reinterpret_cast<std::byte*>(slot.data) + sizeof(wire::Write), bytes);
        slot.len = static_cast<std::uint16_t>(sizeof(wire::Write) + bytes);
    }
    op.offset += bytes;
    op.segment_offset += bytes;
    if (op.segment_offset == segment.bytes && op.segment_at + 1 < op.segments) {
        ++op.segment_at;
        op.segment_offset = 0;
    }
    op.streaming = op.offset < op.total;
    if (!op.streaming) all_published(op);
    slot.op = wire::op_write;
    slot.tag = segment.key;
    slot.flags = in_ring ? std::uint8_t{wire::flag_ring} : std::uint8_t{0};
    peer.tx.publish();
    op.last_write = ++peer.writes_sent;
    return true;
}

// One request a segment, the next when the one before is answered: so the pieces come in the order of the local buffers.
bool Endpoint::ask_next_segment(Peer& peer, TxOp& op) noexcept {
    if (peer.tx.room(0, control_reserve).failed()) return false;
    const RmaSegment& segment = op.segment[op.segment_at];
    nvlf_slot& slot = peer.tx.slot();
    slot.op = wire::op_read;
    slot.flags = 0;
    slot.len = sizeof(wire::Read);
    slot.tag = segment.key;
    wire::put(slot, wire::Read{segment.address, segment.bytes, op.handle()});
    peer.tx.publish();
    op.segment_offset = 0;
    op.streaming = false;
    if (op.segment_at + 1 == op.segments) all_published(op);
    return true;
}

bool Endpoint::on_read_data(Peer& peer, const nvlf_slot& slot) noexcept {
    std::span<const std::byte> payload;
    if ((slot.flags & wire::flag_ring) != 0) {
        auto ring = peer.rx.payload(slot.len);
        if (!ring) return broken(peer);
        payload = *ring;
    }
    const auto data = wire::get<wire::Data>(slot);
    TxOp* op = tx_ops.find(data.receiver);
    if (op == nullptr || op->peer != &peer || op->kind != TxOp::Kind::read || op->streaming) return true;
    op->notify |= data.notify == 1;
    const std::uint64_t left = op->segment[op->segment_at].bytes - op->segment_offset;
    if (payload.size() > left) return broken(peer); // More than was asked for.
    op->offset += op->local.scatter(op->offset, payload);
    op->segment_offset += payload.size();
    if (payload.size() < left) return true;
    if (++op->segment_at < op->segments) start_stream(peer, *op);
    else maybe_finish(*op);
    return true;
}

bool Endpoint::on_applied(Peer& peer, const nvlf_slot& slot) noexcept {
    const auto count = wire::get<wire::Applied>(slot).count;
    if (count - peer.writes_applied > peer.writes_sent - peer.writes_applied) return broken(peer); // Never sent.
    peer.writes_applied = count;
    while (!peer.unapplied.empty() && peer.unapplied.front().last_write <= count) {
        TxOp& op = peer.unapplied.front();
        peer.unapplied.pop_front();
        maybe_finish(op);
    }
    return true;
}

// ---- The target ------------------------------------------------------------------------------------------------------

bool Endpoint::on_write(Peer& peer, const nvlf_slot& slot) noexcept {
    const auto write = wire::get<wire::Write>(slot);
    std::span<const std::byte> payload;
    if (!payload_of(peer, slot, sizeof(wire::Write), payload)) return broken(peer);
    auto to = domain.mrs.resolve(slot.tag, write.address, payload.size(), FI_REMOTE_WRITE, this);
    if (!to) answer(peer, wire::op_ack, wire::Ack{write.id, static_cast<std::uint32_t>(to.error().value()), 0});
    else (void)to->scatter(0, payload);
    if (to && wants_notify(slot.tag, FI_REMOTE_WRITE)) answer(peer, wire::op_ack, wire::Ack{write.id, 0, 1});
    ++peer.writes_seen; // drain() tells, once for all that it takes in.
    return true;
}

void Endpoint::tell_applied(Peer& peer) noexcept {
    peer.writes_told = peer.writes_seen;
    answer(peer, wire::op_applied, wire::Applied{peer.writes_told});
}

bool Endpoint::on_read(Peer& peer, const nvlf_slot& slot) noexcept {
    const auto read = wire::get<wire::Read>(slot);
    const auto from = domain.mrs.resolve(slot.tag, read.address, read.bytes, FI_REMOTE_READ, this);
    // As with what waits for receives: no peer holds more than it leaves free.
    const bool fair = peer.responses < tx_limit - responses.used();
    TxOp* op = from && fair ? responses.take() : nullptr;
    if (op == nullptr) {
        const int error = from ? FI_ENOMEM : from.error().value();
        answer(peer, wire::op_ack, wire::Ack{read.id, static_cast<std::uint32_t>(error), 0});
        return true;
    }
    op->kind = TxOp::Kind::respond;
    op->peer = &peer;
    op->remote = read.id;
    op->segment[0] = {read.address, read.bytes, slot.tag};
    op->segments = 1;
    op->segment_at = 0;
    op->total = read.bytes;
    op->offset = 0;
    ++peer.responses;
    start_stream(peer, *op);
    return true;
}

bool Endpoint::push_response(Peer& peer, TxOp& op) noexcept {
    const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(piece_bytes, op.total - op.offset));
    if (peer.tx.room(bytes, control_reserve).failed()) return false;
    const auto from =
        domain.mrs.resolve(op.segment[0].key, op.segment[0].address + op.offset, bytes, FI_REMOTE_READ, this);
    if (!from) { // Closed while we answered.
        op.streaming = false;
        answer(peer, wire::op_ack, wire::Ack{op.remote, static_cast<std::uint32_t>(from.error().value()), 0});
        return true;
    }
    nvlf_slot& slot = peer.tx.slot();
    slot.op = wire::op_read_data;
    slot.flags = bytes > 0 ? std::uint8_t{wire::flag_ring} : std::uint8_t{0};
    slot.len = static_cast<std::uint16_t>(bytes);
    wire::put(slot, wire::Data{op.remote, wants_notify(op.segment[0].key, FI_REMOTE_READ) ? 1U : 0U});
    if (bytes > 0) from->gather(0, peer.tx.payload(bytes), bytes);
    peer.tx.publish();
    op.offset += bytes;
    op.streaming = op.offset < op.total;
    return true;
}

} // namespace nvlf::ofi
