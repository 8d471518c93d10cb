// SPDX-License-Identifier: MIT OR GPL-2.0-only
// endpoint.hpp - endpoints, and the channels between them.
//
// An endpoint id is an index into the table of the state region and is used again, lowest first, so that the part of the
// table in use stays small; the epoch, which grows with each use of the id, tells the uses apart. A channel belongs to a
// pair of living endpoints: when one of them ends the channel is forgotten, and the other learns it in this order: first
// the state word says that the peer is dead, then `notices` of the survivor moves, then it is woken. Whoever wakes sees
// the truth.
//
// The channel's memory is made when the first side connects, which gets it at once. It waits here until the other side
// takes it. From then on nvlfd has no descriptor of it: only the two ends can map it. When its maker ends first, the
// offer is left behind: what was sent into the channel was sent, and is there to be read.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "daemon/events.hpp"
#include "daemon/memory.hpp"
#include "daemon/state_region.hpp"
#include "nvlf/lane.h"

namespace nvlf::daemon {

// An offer whose maker is gone, with all that EP_ACCEPT hands out.
struct LeftOffer {
    nvlf_addr addr{};
    Fd channel;
    Fd region; // Read-only.
    Fd doorbell;
    std::uint64_t region_bytes = 0;
};

// Nobody is charged for these, so they are few: of one endpoint, and in the fabric (Limits::left_offers).
inline constexpr std::size_t left_offers_per_endpoint = 64;

struct Endpoint {
    std::uint32_t id = 0;
    std::uint32_t epoch = 0;
    std::uint32_t device = 0;
    std::uint64_t service = 0;
    ClientId owner = 0;
    Memory* region = nullptr;
    Fd doorbell;
    std::optional<Notice> notice;
    std::unordered_set<std::uint32_t> peers; // It has a channel with each; itself, too, when it does.
    std::deque<std::uint32_t> offers;        // Peers whose channel it has not taken yet, the oldest first.
    std::deque<LeftOffer> left;              // The same, of peers that are gone.
};

struct Channel {
    std::uint32_t side0 = 0; // Who connected first.
    std::uint32_t side1 = 0;
    ClientId begun_by = 0;
    Fd fd; // Held while the offer waits.
};

class EndpointTable {
public:
    EndpointTable(StateRegion& state, std::size_t max_left_offers) : state_{state}, max_left_offers_{max_left_offers} {}

    [[nodiscard]] std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(table_.size()); }
    [[nodiscard]] std::uint32_t channel_count() const noexcept { return static_cast<std::uint32_t>(channels_.size()); }

    [[nodiscard]] Endpoint* find(std::uint32_t id);
    // Of this name on this device; on NVLF_DEVICE_ANY the one that has had it longest.
    [[nodiscard]] Endpoint* find_service(std::uint64_t service, std::uint32_t device);
    // ENOENT: there never was one with this id and epoch. ESTALE: there was.
    [[nodiscard]] Result<Endpoint*> find_exact(std::uint32_t id, std::uint32_t epoch);

    // `endpoint` complete but for id and epoch; its service is free on its device. It lives in the state region afterwards.
    Endpoint& publish(Endpoint endpoint);
    // on_peer_gone(survivor, gone) for each endpoint that had a channel with it; on_channel_gone for each channel.
    void withdraw(Endpoint& endpoint);

    [[nodiscard]] Channel* find_channel(const Endpoint& a, const Endpoint& b);
    // Offers it to `to` and wakes `to`. From `from` to itself nothing is offered.
    void offer(Endpoint& from, Endpoint& to, Fd channel, ClientId begun_by);
    // The offer that `from` made to `to`; the channel is then nvlfd's no more.
    Fd take_offer(Endpoint& to, const Endpoint& from);

    // Keeps an offer beyond the end of its maker, which follows. Dropped when there are too many.
    void leave_offer(Endpoint& to, LeftOffer offer);
    [[nodiscard]] LeftOffer take_left_offer(Endpoint& to);

    std::function<void(const Endpoint& survivor, const Endpoint& gone)> on_peer_gone;
    std::function<void(const Channel&)> on_channel_gone;
    std::function<void(const Channel&)> on_offer_taken; // Its descriptor leaves us.

private:
    void call(Endpoint& endpoint) noexcept;
    void drop_channel(Endpoint& gone, std::uint32_t peer);

    StateRegion& state_;
    std::size_t max_left_offers_;
    std::size_t left_offers_ = 0;
    std::unordered_map<std::uint32_t, Endpoint> table_;
    std::multimap<std::uint64_t, std::uint32_t> services_;
    std::unordered_map<std::uint64_t, Channel> channels_;
    std::vector<std::uint32_t> epochs_; // The last one of each id ever used.
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free_ids_;
};

// A new channel between side 0 and side 1, its header written, its size sealed.
[[nodiscard]] Result<Fd> make_channel(const Endpoint& side0, const Endpoint& side1);

} // namespace nvlf::daemon
