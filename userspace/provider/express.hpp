// SPDX-License-Identifier: MIT OR GPL-2.0-only
// express.hpp - the short way of a small message.
//
// Most messages fit a slot, want nothing but to arrive, and find a receive at the head of the queue that has room for them.
// The general way (send.cc, incoming.cc) spends more time on finding out what such a message does not need than on moving
// it.
// The functions here do what the general ones do, for exactly the messages that they ask for; of all others they answer
// false, and have changed nothing.
#pragma once

#include <cstring>

#include "endpoint.hpp"
#include "work.hpp"

namespace nvlf::ofi {

// Of a message that asks for nothing beyond what its publication gives.
inline constexpr std::uint64_t express_flags =
    FI_COMPLETION | FI_MORE | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;

// At most NVLF_SLOT_DATA bytes. A word is the commonest, and a call takes longer than to move it.
inline void copy_small(void* to, const void* from, std::size_t bytes) noexcept {
    if (bytes == sizeof(std::uint64_t)) std::memcpy(to, from, sizeof(std::uint64_t));
    else if (bytes != 0) std::memcpy(to, from, bytes);
}

[[nodiscard]] inline bool Endpoint::send_express(const ExpressSend& message) noexcept {
    if (message.bytes > NVLF_SLOT_DATA || (message.flags & ~express_flags) != 0 || inherited()) return false;
    const CallGuard guard{*store};
    if (!is_live(message.to)) [[unlikely]] // Nor is an address that names a receive context.
        return false;
    Peer& peer = *by_addr[message.to];
    if (peer.held_back != 0 || peer.tx.room(0, control_reserve).failed()) [[unlikely]]
        return false;
    nvlf_slot& slot = peer.tx.slot();
    slot.len = static_cast<std::uint16_t>(message.bytes);
    slot.op = wire::op_msg;
    slot.flags = message.tagged ? std::uint8_t{wire::flag_tagged} : std::uint8_t{0};
    slot.tag = message.tag;
    copy_small(slot.data, message.buffer, message.bytes);
    peer.tx.publish();
    peer.tx.run_ahead(peer.rx.consumed());
    nvlf_channel_notify(peer.channel);
    message.tx->complete(message.tagged ? FI_TAGGED : FI_MSG, message.flags, message.context, message.silent);
    return true;
}

// `slot` is a copy of ours, and holds an op_msg.
[[nodiscard]] inline bool RxContext::take_express(Peer& peer, const RxBinding& binding,
                                                  const nvlf_slot& slot) noexcept {
    if ((slot.flags & ~wire::flag_tagged) != 0 || slot.len > NVLF_SLOT_DATA) return false;
    const bool tagged = slot.flags != 0;
    MatchQueue& in = queue(tagged);
    if (in.posted.empty()) return false;
    RxOp& op = in.posted.front();
    if (tagged && !tags_match(op.tag, op.ignore, slot.tag)) return false;
    if (op.source != FI_ADDR_UNSPEC && binding.source_of(peer) != op.source) return false;
    if ((op.flags & (FI_MULTI_RECV | flag_deferred)) != 0 || op.to.count != 1 || op.to.total < slot.len) return false;
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    if ((binding.caps & (FI_SOURCE | FI_SOURCE_ERR)) != 0) {
        source = binding.reported_source(peer);
        if (source == FI_ADDR_NOTAVAIL) return false; // It may be an error.
    }
    in.posted.pop_front();
    copy_small(op.to.iov[0].iov_base, slot.data, slot.len);
    if (binding.recv_cntr != nullptr) binding.recv_cntr->add(1);
    if (binding.cq != nullptr && (!binding.selective || (op.flags & FI_COMPLETION) != 0))
        binding.cq->push({.context = op.context,
                          .flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG),
                          .len = slot.len,
                          .buf = op.to.iov[0].iov_base,
                          .tag = slot.tag,
                          .source = source});
    store.ops.give(&op);
    return true;
}

[[nodiscard]] inline bool Endpoint::take_express(Peer& peer, const nvlf_slot& slot) noexcept {
    return !rx_bindings.empty() && rx_bindings.front().context->take_express(peer, rx_bindings.front(), slot);
}

} // namespace nvlf::ofi
