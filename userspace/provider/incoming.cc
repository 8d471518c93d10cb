// SPDX-License-Identifier: MIT OR GPL-2.0-only
// incoming.cc - messages as they come out of a lane, turned into what receives understand.
//
// Each handler answers false when the slot cannot be taken in yet.
#include <algorithm>

#include "base/cancel.hpp"
#include "collectives.hpp"
#include "endpoint.hpp"
#include "provider.hpp"

namespace nvlf::ofi {

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
