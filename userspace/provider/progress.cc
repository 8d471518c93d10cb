// SPDX-License-Identifier: MIT OR GPL-2.0-only
// progress.cc - what has come in, and what waited for room; and how an endpoint goes to sleep.
//
// One call looks at every living peer's next slot (a load that hits the cache while nothing came), takes in a bounded
// batch from each, so that no peer starves another, and moves what waits to go out. System calls happen only when the
// carrier's notice word changed, or once in carrier_look while nothing comes in: a killed carrier cannot change words.
#include <mutex>

#include "collectives.hpp"
#include "endpoint.hpp"
#include "express.hpp"
#include "params.hpp"

namespace nvlf::ofi {
namespace {

constexpr unsigned batch = 32;                     // Slots from one peer before the next one's turn.
constexpr std::uint32_t idle_polls_per_look = 512; // Reading the clock costs as much as looking at a few lanes.
constexpr auto carrier_look = std::chrono::milliseconds{2};

} // namespace

void Endpoint::progress() noexcept {
    if (ep == nullptr || inherited()) return;
    const CallGuard guard{*store};
    if (to_bury) [[unlikely]]
        bury();
    see_notices();
    bool busy = false;
    for (std::size_t i = live.size(); i-- > 0;) { // Backwards: a peer that fails leaves the list.
        Peer& peer = *live[i];
        busy |= drain(peer, batch);
        if (peer.busy() && peer.up()) [[unlikely]]
            pump(peer);
        if (!peer.waiting.empty()) [[unlikely]]
            run_waiting(peer);
    }
    if (collectives != nullptr) collectives->progress();
    look_around(busy);
}

// Takes in up to `limit` slots. True when there was one.
bool Endpoint::drain(Peer& peer, unsigned limit) noexcept {
    // It asks faster than it takes our answers.
    if (waiting_answers != 0 && peer.control.size() + waiting_answers > control_limit) [[unlikely]]
        return false;
    unsigned taken = 0;
    bool more_room = false; // For the producer.
    nvlf_slot slot;
    for (; taken < limit; ++taken) {
        if (peer.holding) [[unlikely]]
            slot = peer.held;
        else if (!peer.rx.pop(slot)) break;
        peer.holding = !dispatch(peer, slot);
        if (!peer.up()) [[unlikely]]
            return true;
        if (peer.holding) [[unlikely]] {
            peer.held = slot;
            break;
        }
        more_room |= peer.rx.release();
    }
    if (peer.writes_told != peer.writes_seen) [[unlikely]]
        tell_applied(peer);
    // Not for what is held: credit says that it has been dealt with.
    if (taken < limit && !peer.holding) more_room |= peer.rx.give_credit();
    // A producer that sleeps for want of room is woken, as by a message.
    if (more_room) nvlf_channel_notify(peer.channel);
    return taken > 0;
}

// What lies in the lanes has come, and what lies with the carrier.
void Endpoint::drain_all() noexcept {
    see_notices();
    for (std::size_t i = live.size(); i-- > 0;) (void)drain(*live[i], NVLF_LANE_SLOTS);
}

bool Endpoint::dispatch(Peer& peer, const nvlf_slot& slot) noexcept {
    switch (slot.op) {
    case wire::op_msg: return take_express(peer, slot) || on_msg(peer, slot);
    case wire::op_rts: return on_rts(peer, slot);
    case wire::op_cts: on_cts(peer, slot); return true;
    case wire::op_data: return on_data(peer, slot);
    case wire::op_read_data: return on_read_data(peer, slot);
    case wire::op_ack: on_ack(peer, slot); return true;
    case wire::op_write: return on_write(peer, slot);
    case wire::op_read: return on_read(peer, slot);
    case wire::op_notify: return on_notify(peer, slot);
    case wire::op_atomic: return on_atomic(peer, slot);
    case wire::op_result: return on_result(peer, slot);
    case wire::op_applied: return on_applied(peer, slot);
    case wire::op_share: on_share(peer, slot); return true;
    case wire::op_bye: peer.said_bye = true; return true;
    case wire::op_coll: return collectives != nullptr ? collectives->on_message(peer, slot) : broken(peer);
    default: return broken(peer);
    }
}

bool Endpoint::drop_peer(Peer& peer, int error) noexcept {
    fail_peer(peer, error);
    return true;
}

// While nothing comes in: does the carrier still live?
void Endpoint::look_around(bool busy) noexcept {
    if (busy) {
        idle_polls = 0;
        return;
    }
    ++idle_polls;
    if (dead != 0) return;
    // Once polls yield the processor, each may take as long as everybody else's turn, and the clock is the cheaper part.
    const bool yielding = params().yield_after != 0 && idle_polls > params().yield_after;
    if (!yielding && idle_polls % idle_polls_per_look != 0) [[likely]]
        return;
    const auto now = Clock::now();
    if (now < next_look) return;
    next_look = now + carrier_look;
    if (to_accept) accept_all();
    if (nvlf_poll_alive(domain.nvlf) == 0) fail_all(FI_ENODEV);
}

// Is there something for progress() to do? Streams that wait for room do not count: their peer rings when it makes some.
bool Endpoint::ready() noexcept {
    if (ep == nullptr || inherited()) return false;
    const std::lock_guard guard{lock()};
    if (nvlf_ep_notices(ep) != notices_seen || (dead == 0 && nvlf_poll_alive(domain.nvlf) == 0)) return true;
    if (domain.work.due()) return true; // Its lane was full, or something else that passes, of which nobody tells us.
    if (to_accept) return true;         // Asked for again by the clock, for which nothing wakes us.
    for (const Peer* peer : live)
        if (!peer->holding && peer->rx.ready()) return true;
    for (Peer* peer : live)
        if (!peer->fetches.empty() || peer->help.ticket != 0 ||
            (peer->busy() && !peer->tx.room(piece_bytes, control_reserve).failed()) || can_run_waiting(*peer))
            return true;
    return collectives != nullptr && collectives->ready();
}

void endpoint_progress(Endpoint& endpoint) noexcept { endpoint.progress(); }

int endpoint_wait_fd(const Endpoint& endpoint) noexcept {
    return endpoint.ep != nullptr ? nvlf_ep_wait_fd(endpoint.ep) : -1;
}

void endpoint_arm(Endpoint& endpoint) noexcept {
    if (endpoint.ep == nullptr) return;
    const std::lock_guard guard{endpoint.lock()};
    if (endpoint.armed++ == 0) nvlf_ep_arm(endpoint.ep);
}

bool endpoint_ready(Endpoint& endpoint) noexcept { return endpoint.ready(); }

// The carrier may have been killed while we slept: its descriptor woke us, and no word in memory says so.
void endpoint_disarm(Endpoint& endpoint) noexcept {
    if (endpoint.ep == nullptr) return;
    const std::lock_guard guard{endpoint.lock()};
    if (endpoint.armed > 0 && --endpoint.armed == 0) nvlf_ep_disarm(endpoint.ep);
    if (endpoint.dead == 0 && nvlf_poll_alive(endpoint.domain.nvlf) == 0) endpoint.fail_all(FI_ENODEV);
}

} // namespace nvlf::ofi
