// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/endpoint.hpp"

#include <unistd.h>

#include <algorithm>
#include <cassert>

#include "daemon/memfd.hpp"

namespace nvlf::daemon {
namespace {

// The same for (a, b) and (b, a).
std::uint64_t channel_key(std::uint32_t a, std::uint32_t b) {
    return std::uint64_t{std::min(a, b)} << 32 | std::max(a, b);
}

} // namespace

Endpoint* EndpointTable::find(std::uint32_t id) {
    const auto it = table_.find(id);
    return it != table_.end() ? &it->second : nullptr;
}

Endpoint* EndpointTable::find_service(std::uint64_t service, std::uint32_t device) {
    // Those of one service lie in the order in which they came.
    const auto [first, last] = services_.equal_range(service);
    for (auto it = first; it != last; ++it) {
        Endpoint* endpoint = find(it->second);
        if (device == NVLF_DEVICE_ANY || endpoint->device == device) return endpoint;
    }
    return nullptr;
}

Result<Endpoint*> EndpointTable::find_exact(std::uint32_t id, std::uint32_t epoch) {
    Endpoint* endpoint = find(id);
    if (endpoint != nullptr && endpoint->epoch == epoch) return endpoint;
    const bool was = epoch != 0 && id < epochs_.size() && epoch <= epochs_[id];
    return Errno{was ? ESTALE : ENOENT};
}

Endpoint& EndpointTable::publish(Endpoint endpoint) {
    std::uint32_t id = static_cast<std::uint32_t>(epochs_.size());
    if (free_ids_.empty()) {
        assert(id < state_.endpoints().size());
        epochs_.push_back(0);
    } else {
        id = free_ids_.top();
        free_ids_.pop();
    }
    if (++epochs_[id] == 0) epochs_[id] = 1; // 0 means "none alive".
    endpoint.id = id;
    endpoint.epoch = epochs_[id];
    if (endpoint.service != 0) services_.emplace(endpoint.service, id);
    ++endpoint.region->regions;
    const auto [it, inserted] = table_.emplace(id, std::move(endpoint));
    assert(inserted);
    live_store<decltype(nvlf_state_endpoint::epoch)>(state_.endpoints()[id].epoch, it->second.epoch);
    return it->second;
}

void EndpointTable::withdraw(Endpoint& endpoint) {
    const std::uint32_t id = endpoint.id;
    live_store<decltype(nvlf_state_endpoint::epoch)>(state_.endpoints()[id].epoch, 0);
    const auto [first, last] = services_.equal_range(endpoint.service);
    const auto name = std::find_if(first, last, [&](const auto& entry) { return entry.second == id; });
    if (name != last) services_.erase(name);
    const auto peers = std::move(endpoint.peers);
    for (const std::uint32_t peer : peers) drop_channel(endpoint, peer);
    --endpoint.region->regions;
    left_offers_ -= endpoint.left.size();
    table_.erase(id);
    free_ids_.push(id);
}

void EndpointTable::drop_channel(Endpoint& gone, std::uint32_t peer) {
    const auto it = channels_.find(channel_key(gone.id, peer));
    assert(it != channels_.end());
    if (on_channel_gone) on_channel_gone(it->second);
    channels_.erase(it);
    if (peer == gone.id) return;
    Endpoint* survivor = find(peer);
    assert(survivor != nullptr);
    survivor->peers.erase(gone.id);
    const auto offer = std::find(survivor->offers.begin(), survivor->offers.end(), gone.id);
    if (offer != survivor->offers.end()) survivor->offers.erase(offer);
    call(*survivor);
    if (on_peer_gone) on_peer_gone(*survivor, gone);
}

void EndpointTable::call(Endpoint& endpoint) noexcept {
    live_add<decltype(nvlf_state_endpoint::notices)>(state_.endpoints()[endpoint.id].notices, 1);
    endpoint.notice->ring();
}

Channel* EndpointTable::find_channel(const Endpoint& a, const Endpoint& b) {
    const auto it = channels_.find(channel_key(a.id, b.id));
    return it != channels_.end() ? &it->second : nullptr;
}

void EndpointTable::offer(Endpoint& from, Endpoint& to, Fd channel, ClientId begun_by) {
    const bool to_itself = from.id == to.id;
    channels_.emplace(channel_key(from.id, to.id),
                      Channel{from.id, to.id, begun_by, to_itself ? Fd{} : std::move(channel)});
    from.peers.insert(to.id);
    if (to_itself) return;
    to.peers.insert(from.id);
    to.offers.push_back(from.id);
    call(to);
}

Fd EndpointTable::take_offer(Endpoint& to, const Endpoint& from) {
    Channel* channel = find_channel(to, from);
    assert(channel != nullptr && channel->fd);
    if (on_offer_taken) on_offer_taken(*channel);
    // The oldest as a rule; further back only when this side connected as well.
    to.offers.erase(std::find(to.offers.begin(), to.offers.end(), from.id));
    return std::move(channel->fd);
}

void EndpointTable::leave_offer(Endpoint& to, LeftOffer offer) {
    if (to.left.size() >= left_offers_per_endpoint || left_offers_ >= max_left_offers_) return;
    to.left.push_back(std::move(offer));
    ++left_offers_;
}

LeftOffer EndpointTable::take_left_offer(Endpoint& to) {
    LeftOffer offer = std::move(to.left.front());
    to.left.pop_front();
    --left_offers_;
    return offer;
}

Result<Fd> make_channel(const Endpoint& side0, const Endpoint& side1) {
    auto fd = make_memory("nvlf-channel", NVLF_CHANNEL_BYTES);
    if (!fd) return fd.error();
    nvlf_channel_header header{};
    header.magic = NVLF_CHANNEL_MAGIC;
    header.abi = NVLF_ABI_VERSION;
    header.endpoint[0] = side0.id;
    header.endpoint[1] = side1.id;
    header.epoch[0] = side0.epoch;
    header.epoch[1] = side1.epoch;
    if (::pwrite(fd->get(), &header, sizeof header, 0) != sizeof header) return Errno{ENOMEM};
    if (const Errno e = seal(fd->get(), Seal::size); e.failed()) return resource_errno(e);
    return fd;
}

} // namespace nvlf::daemon
