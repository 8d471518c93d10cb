// SPDX-License-Identifier: MIT OR GPL-2.0-only
// peers.cc - first contact, acceptance, and what is left to do when a peer is gone.
//
// A peer that withdraws its endpoint says goodbye in its lane first. One that does not has died: what we wanted from it
// completes in error, and so do receives that nobody else is left to satisfy. Until then its lane is read to the end:
// what it published before it died was sent.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/cancel.hpp"
#include "collectives.hpp"
#include "endpoint.hpp"
#include "params.hpp"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

constexpr auto contact_retry = std::chrono::milliseconds{1};

std::uint64_t endpoint_key(const nvlf_addr& a) noexcept { return std::uint64_t{a.epoch} << 32 | a.endpoint; }

// What the carrier says of an endpoint, in the state region.
bool lives(nvlf_fabric* fabric, const nvlf_addr& address) noexcept {
    const nvlf_state* state = nvlf_state_region(fabric, nullptr);
    if (address.endpoint >= state->endpoint_count) return false;
    auto& word = const_cast<__u32&>(nvlf_state_endpoints(state)[address.endpoint].epoch);
    return std::atomic_ref{word}.load(std::memory_order_acquire) == address.epoch;
}

} // namespace

// Cold: the first message to an address, and each one to an address whose endpoint is gone or not there yet.
[[gnu::cold]] Peer* Endpoint::contact(fi_addr_t to, ssize_t& error) noexcept try {
    nvlf_addr address{};
    if (!may_send()) return error = -FI_EOPBADSTATE, nullptr;
    if (dead != 0) return error = -dead, nullptr;
    forget_stale_addresses();
    if (!av->lookup(to, address)) return error = -FI_EINVAL, nullptr;
    const fi_addr_t index = av->index_of(to);
    if (index >= by_addr.size()) by_addr.resize(index + 1, nullptr);
    const bool by_service = address.endpoint == 0 && address.epoch == 0;
    if (!by_service && by_endpoint.count(endpoint_key(address)) == 0) accept_all(); // It may have come first.
    Peer* peer = by_service ? nullptr : known(address);
    if (peer == nullptr) {
        if (gone(to) != 0) return error = -FI_EHOSTUNREACH, nullptr;
        if (contact_addr == to && Clock::now() < contact_next) return error = -FI_EAGAIN, nullptr;
        const int e = connect(address, peer);
        if (e == -ENOENT && by_service) return error = not_there_yet(to), nullptr;
        if (e != 0) return error = refused(address, e), nullptr;
    }
    contact_addr = FI_ADDR_NOTAVAIL;
    by_addr[index] = peer;
    // An endpoint that is gone stays so.
    return peer->up() ? peer : (error = -FI_EHOSTUNREACH, nullptr);
} catch (const std::bad_alloc&) {
    error = -FI_ENOMEM;
    return nullptr;
}

// The peer at a complete address, as far as we have met it. Whose a service is at the moment only the carrier knows.
Peer* Endpoint::known(const nvlf_addr& address) noexcept {
    const auto there = by_endpoint.find(endpoint_key(address));
    return there == by_endpoint.end() ? nullptr : there->second;
}

// Asks the carrier for the channel. 0 or a negative errno.
int Endpoint::connect(nvlf_addr address, Peer*& ret_peer) noexcept {
    if (const int e = nvlf_ep_lookup(domain.nvlf, &address); e != 0) return e;
    accept_all();
    ret_peer = known(address);
    if (ret_peer != nullptr) return 0;
    ::nvlf_channel* channel = nullptr;
    if (const int e = nvlf_ep_connect(ep, &address, &channel); e != 0) return e;
    ret_peer = adopt(channel);
    return ret_peer != nullptr ? 0 : -ENOMEM;
}

// What an application is told of a failed first contact. Limits and shortages may pass, all else will not.
ssize_t Endpoint::refused(const nvlf_addr& address, int error) noexcept {
    if (error == -EEXIST) return -FI_EAGAIN; // Its offer is on the way to us.
    const Uncancellable whole;
    FI_WARN_ONCE(&provider, FI_LOG_EP_CTRL, "no channel to endpoint %u on device %u (service %llu): %s\n",
                 address.endpoint, address.device, static_cast<unsigned long long>(address.service),
                 std::strerror(-error));
    switch (error) {
    case -ENOMEM:
    case -ENODEV:
    case -EMFILE:
    case -EDQUOT:
    case -EHOSTDOWN: return error;
    default: return -FI_EHOSTUNREACH;
    }
}

// A service that nobody has published yet: the application tries again, as often as it likes but for so long only.
ssize_t Endpoint::not_there_yet(fi_addr_t to) noexcept {
    const auto now = Clock::now();
    if (contact_addr != to) contact_until = now + std::chrono::milliseconds{params().connect_timeout_ms};
    contact_addr = to;
    contact_next = now + contact_retry;
    return now < contact_until ? -FI_EAGAIN : -FI_EHOSTUNREACH;
}

// After the address vector changed, what we remember of it may no longer be true.
void Endpoint::forget_stale_addresses() noexcept {
    const std::uint32_t changes = av->changes();
    if (changes == av_changes) return;
    av_changes = changes;
    for (Peer* peer : live) peer->fi_addr = FI_ADDR_NOTAVAIL;
    for (Peer*& peer : by_addr) peer = nullptr;
}

// Takes the channel. nullptr without memory: the channel is given back, and the peer sees us as silent.
Peer* Endpoint::adopt(::nvlf_channel* channel) noexcept try {
    const bool self = std::memcmp(nvlf_channel_peer(channel), nvlf_ep_addr(ep), sizeof(nvlf_addr)) == 0;
    peers.reserve(peers.size() + 1);
    live.reserve(live.size() + 1);
    auto peer = std::make_unique<Peer>(channel, self);
    channel = nullptr; // The peer's from here on, also when what follows fails.
    for (RxBinding& binding : rx_bindings)
        binding.context->unreported_death = 0; // Somebody new: receives have a hope again.
    by_endpoint[endpoint_key(peer->address)] = peer.get();
    live.push_back(peer.get());
    peers.push_back(std::move(peer));
    return peers.back().get();
} catch (const std::bad_alloc&) {
    nvlf_channel_put(channel);
    return nullptr;
}

// Short of descriptors or memory, what is offered stays with the carrier and is asked for again (look_around).
void Endpoint::accept_all() noexcept {
    to_accept = false;
    for (std::uint32_t i = 0; i < NVLF_MAX_PENDING_ACCEPTS; ++i) {
        ::nvlf_channel* channel = nullptr;
        const int e = nvlf_ep_accept(ep, &channel);
        if (e == 0 && adopt(channel) != nullptr) continue;
        to_accept = e == -EMFILE || e == -ENFILE || e == -ENOMEM;
        if (!to_accept) return;
        const Uncancellable whole;
        FI_WARN_ONCE(&provider, FI_LOG_EP_CTRL, "a peer's channel cannot be taken yet: %s\n", std::strerror(-e));
        return;
    }
}

// After the carrier said that something about our peers changed.
[[gnu::cold]] void Endpoint::check_peers() noexcept {
    accept_all();
    for (std::size_t i = live.size(); i-- > 0;) {
        Peer& peer = *live[i];
        if (nvlf_channel_alive(peer.channel) != 0) continue;
        // What a full lane and our own hand hold, and no more: an endpoint that is withdrawn may belong to a process that
        // lives on and goes on writing.
        (void)drain(peer, NVLF_LANE_SLOTS + 1);
        if (peer.up()) fail_peer(peer, peer.said_bye ? FI_ECONNRESET : FI_ECONNABORTED);
    }
}

// The peer is gone, or not to be trusted any more. Its record stays, its channel goes.
[[gnu::cold]] void Endpoint::fail_peer(Peer& peer, int error) noexcept {
    if (!peer.up()) return;
    (void)source_of(peer); // While it counts as living: what is remembered of the others is not kept up to date.
    peer.state = peer.said_bye ? Peer::State::closed : Peer::State::dead;
    std::erase(live, &peer);
    waiting_answers -= peer.control.size();
    peer.control.clear();
    peer.streams.clear();
    unshare(peer);
    peer.fetches.clear();
    fail_waiting(peer, error);
    peer.unapplied.clear();
    for (Pool<TxOp>* pool : {&tx_ops, &responses})
        pool->for_each_used([&](TxOp& op) {
            if (op.peer != &peer) return;
            op.streaming = false;
            finish(op, error);
        });
    for (RxBinding& binding : rx_bindings) binding.context->forget_announced(peer);
    store->ops.for_each_used([&](RxOp& op) {
        if (op.message.peer == &peer && op.message.rendezvous && op.got < op.wanted)
            op.message.binding->context->end_large(op, error);
    });
    if (collectives != nullptr) collectives->peer_failed(peer, error);
    to_bury = true;
    for (RxBinding& binding : rx_bindings) {
        if (peer.said_bye) binding.context->peer_left(peer, error);
        else binding.context->peer_died(peer, error);
    }
}

// Nobody but ourselves is left to talk to.
bool Endpoint::alone() const noexcept {
    return std::all_of(live.begin(), live.end(), [](const Peer* peer) { return peer->self; });
}

// Forgets those that are gone, once nobody up the stack works on them. The channel goes in any case; a record stays while it
// is needed: for a message that waits for its receive, for an address that the application still has, or because the
// endpoint lives on and must not be met a second time.
void Endpoint::bury() noexcept {
    to_bury = false;
    for (RxBinding& binding : rx_bindings)
        binding.context->for_each_waiting([this](Unexpected& u) {
            if (u.message.binding->endpoint == this) u.message.peer->mourned = true;
        });
    if (collectives != nullptr) collectives->mourn();
    std::erase_if(peers, [this](std::unique_ptr<Peer>& peer) {
        const bool mourned = std::exchange(peer->mourned, false);
        if (peer->up()) return false;
        peer->put_imports();
        nvlf_channel_put(std::exchange(peer->channel, nullptr));
        if (mourned || peer->fi_addr != FI_ADDR_NOTAVAIL || lives(domain.nvlf, peer->address)) return false;
        by_endpoint.erase(endpoint_key(peer->address));
        std::replace(by_addr.begin(), by_addr.end(), peer.get(), static_cast<Peer*>(nullptr));
        return true;
    });
}

// The fabric itself is gone. Nobody would tell us of a peer's death any more, so nothing may be left waiting.
[[gnu::cold]] void Endpoint::fail_all(int error) noexcept {
    if (dead != 0) return;
    dead = error;
    while (!live.empty()) fail_peer(*live.back(), error);
    if (collectives != nullptr) collectives->fail_all(error);
    for (RxBinding& binding : rx_bindings) binding.context->fail_all(error);
}

// FI_E* when the endpoint at this address is gone for good, else 0. (At a service's address somebody may still come.)
int Endpoint::gone(fi_addr_t source) noexcept {
    nvlf_addr address{};
    if (!av->lookup(source, address)) return 0;
    if (const Peer* peer = known(address); peer != nullptr) {
        if (peer->up()) return 0;
        return peer->state == Peer::State::closed ? FI_ECONNRESET : FI_ECONNABORTED;
    }
    if (address.endpoint == 0 && address.epoch == 0) return 0;
    return lives(domain.nvlf, address) ? 0 : FI_ECONNABORTED;
}

fi_addr_t Endpoint::source_of(Peer& peer) noexcept {
    if (av == nullptr) return FI_ADDR_NOTAVAIL;
    forget_stale_addresses();
    if (peer.fi_addr == FI_ADDR_NOTAVAIL) {
        peer.fi_addr = av->find(peer.address);
        peer.reported_addr = av->reported(peer.fi_addr);
    }
    return peer.fi_addr;
}

fi_addr_t Endpoint::reported_source(Peer& peer) noexcept {
    return source_of(peer) != FI_ADDR_NOTAVAIL ? peer.reported_addr : FI_ADDR_NOTAVAIL;
}

// In good order: whoever reads this does not take our silence for death. A lane that is full keeps it from him. Not in a
// forked child that closes what it inherited: the parent's conversations go on.
void Endpoint::say_bye() noexcept {
    if (inherited() || nvlf_alive(domain.nvlf) == 0) return;
    for (Peer* peer : live) {
        if (peer->self || peer->tx.room(0).failed()) continue;
        nvlf_slot& slot = peer->tx.slot();
        slot.op = wire::op_bye;
        slot.flags = 0;
        slot.len = 0;
        peer->tx.publish();
        nvlf_channel_notify(peer->channel);
    }
}

} // namespace nvlf::ofi
