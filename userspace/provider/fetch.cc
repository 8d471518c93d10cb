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
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "endpoint.hpp"
#include "params.hpp"

namespace nvlf::ofi {
namespace {

// Of one message in one go. Others, and other threads, have their turn in between; the fixed cost of a call is a few
// hundredths of what this takes.
constexpr std::size_t step_bytes = 1U << 20;

// Of a message that both ends copy. Two parts as long as the fixed cost of a call counts; then so many that the one who
// ends first does not wait long for the other.
constexpr std::size_t chunk_of(std::size_t bytes) noexcept {
    constexpr std::size_t page = 4096;
    constexpr std::size_t middle = 128U << 10;
    const std::size_t chunk = bytes <= 2 * middle ? bytes / 2 : std::clamp(bytes / 16, middle, step_bytes);
    const std::size_t least = bytes / ShareWord::most_chunks;
    return (std::max(chunk, least) + page - 1) / page * page;
}

// No memory lies there: it would go on past the last address.
constexpr bool wraps(std::uint64_t address, std::uint64_t bytes) noexcept { return bytes > UINT64_MAX - address; }

// Theirs, as buffers. Nothing when they are not what they should be: pieces that are `total` bytes together.
std::optional<Buffers> source_of_message(std::span<const std::byte> payload, std::uint64_t total) noexcept {
    wire::Pieces pieces{};
    if (payload.size() != sizeof pieces) return std::nullopt;
    std::memcpy(&pieces, payload.data(), sizeof pieces);
    if (pieces.count == 0 || pieces.count > iov_limit) return std::nullopt;
    Buffers source;
    std::uint64_t left = total;
    for (std::size_t i = 0; i < pieces.count; ++i) {
        if (pieces.piece[i].bytes > left || wraps(pieces.piece[i].address, pieces.piece[i].bytes)) return std::nullopt;
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
            if (op.wanted >= params().share_from && op.to.count == 1 && peer.sharing == nullptr && !peer.self)
                share(op);
            if (!peer.up()) return; // It failed in there, and with it all that it sends.
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
    if (peer.sharing == &op) return share_step(op);
    const std::size_t bytes = std::min(op.wanted - op.got, step_bytes);
    if (peer.cma.read(op.to, op.got, op.from, op.got, bytes).failed()) return ask(op);
    op.got += bytes;
    return op.got == op.wanted && end_fetch(op);
}

// In this order: what was copied before the peer was seen alive was copied from a buffer that was still its own.
bool Endpoint::end_fetch(RxOp& op) noexcept {
    if (nvlf_channel_alive(op.message.peer->channel) == 0) return ask(op);
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

// ---- By both ends --------------------------------------------------------------------------------------------------

// Asks the sender for help with a message that we fetch. One at a time from each peer.
void Endpoint::share(RxOp& op) noexcept {
    Peer& peer = *op.message.peer;
    op.chunk = chunk_of(op.wanted);
    op.mine = 0;
    op.spoilt = false;
    if (++peer.ticket == 0) ++peer.ticket;
    peer.sharing = &op;
    ShareWord{*nvlf_channel_rx(peer.channel)}.open(peer.ticket,
                                                   static_cast<std::uint32_t>((op.wanted + op.chunk - 1) / op.chunk));
    answer(peer, wire::op_share,
           wire::Share{op.message.id, reinterpret_cast<std::uintptr_t>(op.to.iov[0].iov_base), op.wanted, op.chunk,
                       peer.ticket});
}

// As fetch_step.
bool Endpoint::share_step(RxOp& op) noexcept {
    Peer& peer = *op.message.peer;
    ShareWord word{*nvlf_channel_rx(peer.channel)};
    const std::size_t at = op.mine * op.chunk;
    if (!op.spoilt && at < op.wanted && word.take_front(peer.ticket)) {
        const std::size_t bytes = std::min(op.wanted - at, op.chunk);
        op.spoilt = peer.cma.read(op.to, at, op.from, at, bytes).failed();
        ++op.mine;
        if (at + bytes < op.wanted) return false;
    }
    const ShareWord::Rest rest = word.rest(peer.ticket);
    if (rest.busy && nvlf_channel_alive(peer.channel) != 0) return false; // Nothing may be told while it still writes.
    (void)word.close();
    peer.sharing = nullptr;
    if (op.spoilt) return ask(op);
    op.got = rest.copied ? op.wanted : std::min(op.wanted, op.mine * op.chunk);
    return op.got == op.wanted ? end_fetch(op) : fetch_step(op);
}

// What is shared is given up. The sender may be writing into the buffer at this moment, and after us the buffer is the
// application's: so we wait, but not for ever.
void Endpoint::unshare(Peer& peer) noexcept {
    if (peer.sharing == nullptr) return;
    peer.sharing = nullptr;
    ShareWord word{*nvlf_channel_rx(peer.channel)};
    if (!word.close()) return;
    const auto until = Clock::now() + std::chrono::seconds{1};
    while (word.busy() && nvlf_channel_alive(peer.channel) != 0 && Clock::now() < until) ::sched_yield();
}

void Endpoint::on_share(Peer& peer, const nvlf_slot& slot) noexcept {
    const auto share = wire::get<wire::Share>(slot);
    const TxOp* op = tx_ops.find(share.id);
    if (op == nullptr || op->kind != TxOp::Kind::large || op->peer != &peer || op->streaming || op->offset > 0) return;
    if (share.wanted > op->local.total || wraps(share.address, share.wanted) || share.chunk != chunk_of(share.wanted) ||
        share.wanted == 0) {
        broken(peer);
        return;
    }
    if (!peer.cma.usable(peer.channel)) return;
    peer.help = {static_cast<std::uint16_t>(share.ticket),      share.id, share.address, share.wanted, share.chunk,
                 (share.wanted + share.chunk - 1) / share.chunk};
    help_on(peer);
}

// One chunk. All that we touch of ours is within the message, whatever the word says; and it is over after as many as there
// are, however often the word offers them.
void Endpoint::help_on(Peer& peer) noexcept {
    Help& help = peer.help;
    ShareWord word{*nvlf_channel_tx(peer.channel)};
    const TxOp* op = tx_ops.find(help.id);
    const auto chunk = op != nullptr && help.left > 0 ? word.take_back(help.ticket) : std::nullopt;
    if (!chunk) {
        help.ticket = 0;
        return;
    }
    --help.left;
    Buffers there;
    there.set(reinterpret_cast<const void*>(help.address), help.bytes);
    const std::uint64_t at = *chunk * help.chunk;
    const bool copied =
        at < help.bytes && !peer.cma.write(op->local, at, there, at, std::min(help.chunk, help.bytes - at)).failed();
    word.let_go(help.ticket, copied);
    nvlf_channel_notify(peer.channel);
    if (!copied) help.ticket = 0;
}

// One step of the message whose turn it is.
void Endpoint::fetch_on(Peer& peer) noexcept {
    RxOp& op = peer.fetches.front();
    peer.fetches.pop_front();
    if (!fetch_step(op)) peer.fetches.push_back(op);
}

} // namespace nvlf::ofi
