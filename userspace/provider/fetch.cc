// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fetch.cc - large messages fetched by their receiver.
//
// A sender announces a large message together with where it lies (op_rts). A receiver that can reach that memory copies
// it straight into the buffer that waits for it and then says so (op_ack): one copy, one slot each way, and the sender's
// processor has no part in it. A receiver that cannot, or that fails on the way, asks for the message as a stream (op_cts)
// and it comes through the lane, from its first byte: so nothing depends on the fetching.
//
// The sender's addresses are a stranger's, and are looked up in that stranger's own memory (cma.hpp). What is fetched is
// believed only if the peer is still there afterwards: an endpoint that closes may give its buffers back.
#include <cstring>
#include <optional>

#include "endpoint.hpp"

namespace nvlf::ofi {
namespace {

// Of one message in one go. Others, and other threads, have their turn in between; the fixed cost of a call is a few
// hundredths of what this takes.
constexpr std::size_t step_bytes = 1U << 20;

// Theirs, as buffers. Nothing when they are not what they should be: pieces that are `total` bytes together.
std::optional<Buffers> source_of_message(std::span<const std::byte> payload, std::uint64_t total) noexcept {
    wire::Pieces pieces{};
    if (payload.size() != sizeof pieces) return std::nullopt;
    std::memcpy(&pieces, payload.data(), sizeof pieces);
    if (pieces.count == 0 || pieces.count > iov_limit) return std::nullopt;
    Buffers source;
    std::uint64_t left = total;
    for (std::size_t i = 0; i < pieces.count; ++i) {
        if (pieces.piece[i].bytes > left) return std::nullopt;
        left -= pieces.piece[i].bytes;
        source.iov[i] = {reinterpret_cast<void*>(pieces.piece[i].address), pieces.piece[i].bytes};
    }
    if (left != 0) return std::nullopt;
    source.count = pieces.count;
    source.total = total;
    return source;
}

} // namespace

// Fetches a message for a receive that has `message` and `wanted` set, or asks for it. It may be over afterwards.
void Endpoint::fetch(RxOp& op, std::span<const std::byte> payload) noexcept {
    Peer& peer = *op.message.peer;
    op.fetched = false;
    if (peer.up() && peer.cma.usable(peer.channel)) {
        if (const auto source = source_of_message(payload, op.message.total)) {
            op.from = *source;
            op.fetched = true;
            if (fetch_step(op)) return;
            peer.fetches.push_back(op);
            return;
        }
    }
    ask(op);
}

// The next part of it. True: it is off this way, because all of it is there or because it has to be asked for.
bool Endpoint::fetch_step(RxOp& op) noexcept {
    Peer& peer = *op.message.peer;
    const std::size_t bytes = std::min(op.wanted - op.got, step_bytes);
    if (peer.cma.read(op.to, op.got, op.from, op.got, bytes).failed()) return ask(op);
    op.got += bytes;
    if (op.got < op.wanted) return false;
    // In this order: what was copied before the peer was seen alive was copied from a buffer that was still its own.
    if (nvlf_channel_alive(peer.channel) == 0) return ask(op);
    op.message.binding->context->end_large(op, 0);
    return true;
}

// As a stream, all of it.
bool Endpoint::ask(RxOp& op) noexcept {
    op.fetched = false;
    op.got = 0;
    answer(*op.message.peer, wire::op_cts, wire::Cts{op.message.id, op.handle(), op.wanted});
    if (op.wanted == 0) op.message.binding->context->end_large(op, 0);
    return true;
}

// One step of the message whose turn it is.
void Endpoint::fetch_on(Peer& peer) noexcept {
    RxOp& op = peer.fetches.front();
    peer.fetches.pop_front();
    if (!fetch_step(op)) peer.fetches.push_back(op);
}

} // namespace nvlf::ofi
