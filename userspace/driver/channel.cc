// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "driver/channel.hpp"

#include <cstddef>
#include <cstring>
#include <memory>

using namespace nvlf;

namespace {

bool same(const ::nvlf_addr& a, const ::nvlf_addr& b) noexcept { return std::memcmp(&a, &b, sizeof a) == 0; }

nvlf_lane* lane(const Mapping& channel, std::size_t number) noexcept {
    // The mapping starts on a page, and the header page keeps the lanes aligned.
    return reinterpret_cast<nvlf_lane*>(static_cast<std::byte*>(channel.data()) + NVLF_CHANNEL_LANE_OFF(number));
}

// Maps what the carrier handed over. Our own code fixes the layout: sizes are only checked, never followed.
int take_over(nvlf_channel& channel, nvlf_ioc_ep_connect& body) noexcept {
    nvlf_fabric& fabric = *channel.ep->fabric;
    const Fd lanes_fd = take_fd(body.channel_fd);
    const Fd region_fd = take_fd(body.region_fd);
    channel.doorbell = take_fd(body.doorbell_fd);
    const bool to_itself = same(body.addr, channel.ep->address);
    const bool sound = lanes_fd && region_fd && channel.doorbell && complete_address(fabric, body.addr) &&
                       body.side <= 1 && (!to_itself || body.side == 0) && body.channel_bytes >= NVLF_CHANNEL_BYTES &&
                       body.region_bytes >= sizeof(nvlf_region) && mappable(fabric.info, lanes_fd.get()) &&
                       mappable(fabric.info, region_fd.get());
    if (!sound) return nonsense(fabric);
    Result<Mapping> lanes = Mapping::map(lanes_fd.get(), NVLF_CHANNEL_BYTES, Mapping::Access::read_write);
    if (!lanes) return lanes.error() == Errno{EPROTO} ? nonsense(fabric) : lanes.error().negative();
    Result<Mapping> region = Mapping::map(region_fd.get(), body.region_bytes, Mapping::Access::read);
    if (!region) return region.error() == Errno{EPROTO} ? nonsense(fabric) : region.error().negative();

    channel.peer = body.addr;
    channel.life = nvlf_state_endpoints(&fabric.region()) + body.addr.endpoint;
    channel.lanes = *std::move(lanes);
    channel.region = *std::move(region);
    channel.tx = lane(channel.lanes, body.side);
    channel.rx = lane(channel.lanes, to_itself ? 0 : 1 - body.side);
    // The slots are used all, one after the other: without this the first lap of a lane takes a fault every 64 messages, at
    // both ends. Not the data, of which most conversations need little.
    for (const std::size_t number : {0, 1})
        channel.lanes.populate(NVLF_CHANNEL_LANE_OFF(number), offsetof(nvlf_lane, data));
    const auto& header = *static_cast<const nvlf_region*>(channel.region.data());
    channel.armed = &header.armed;
    channel.fence = !fabric.membarrier || (load_relaxed(header.flags) & NVLF_REGION_FENCE) != 0;
    return 0;
}

int contact(nvlf_ep* ep, std::uint32_t cmd, const ::nvlf_addr& peer, nvlf_channel** ret_channel) noexcept {
    return guarded([&] {
        auto channel = std::make_unique<nvlf_channel>();
        channel->ep = ep;
        nvlf_ioc_ep_connect body{};
        body.endpoint = ep->address.endpoint;
        body.addr = peer;
        if (const Errno error = ep->fabric->carrier->ask(cmd, body); error.failed()) return error.negative();
        if (const int error = take_over(*channel, body); error != 0) return error;
        ep->channels.fetch_add(1, std::memory_order_relaxed);
        *ret_channel = channel.release();
        return 0;
    });
}

} // namespace

int nvlf_ep_connect(nvlf_ep* ep, const ::nvlf_addr* peer, nvlf_channel** ret_channel) noexcept {
    if (ep == nullptr || peer == nullptr || ret_channel == nullptr) return -EINVAL;
    return contact(ep, NVLF_CMD_EP_CONNECT, *peer, ret_channel);
}

int nvlf_ep_accept(nvlf_ep* ep, nvlf_channel** ret_channel) noexcept {
    if (ep == nullptr || ret_channel == nullptr) return -EINVAL;
    return contact(ep, NVLF_CMD_EP_ACCEPT, {}, ret_channel);
}

void nvlf_channel_put(nvlf_channel* channel) noexcept {
    if (channel == nullptr) return;
    nvlf_ep* ep = channel->ep;
    delete channel;
    ep->channels.fetch_sub(1, std::memory_order_release);
}

const ::nvlf_addr* nvlf_channel_peer(const nvlf_channel* channel) noexcept {
    return channel != nullptr ? &channel->peer : nullptr;
}
nvlf_lane* nvlf_channel_tx(const nvlf_channel* channel) noexcept { return channel != nullptr ? channel->tx : nullptr; }
nvlf_lane* nvlf_channel_rx(const nvlf_channel* channel) noexcept { return channel != nullptr ? channel->rx : nullptr; }

const nvlf_region* nvlf_channel_region(const nvlf_channel* channel, size_t* ret_bytes) noexcept {
    if (channel == nullptr) return nullptr;
    if (ret_bytes != nullptr) *ret_bytes = channel->region.size();
    return static_cast<const nvlf_region*>(channel->region.data());
}

int nvlf_channel_process(const nvlf_channel* channel, int* ret_fd) noexcept {
    if (channel == nullptr || ret_fd == nullptr) return -EINVAL;
    nvlf_ioc_ep_process body{};
    body.endpoint = channel->ep->address.endpoint;
    body.addr = channel->peer;
    nvlf_fabric& fabric = *channel->ep->fabric;
    if (const Errno error = fabric.carrier->ask(NVLF_CMD_EP_PROCESS, body); error.failed()) return error.negative();
    Fd process = take_fd(body.process_fd);
    if (!process) return nonsense(fabric);
    *ret_fd = process.release();
    return 0;
}

int nvlf_channel_alive(const nvlf_channel* channel) noexcept {
    if (channel == nullptr) return -EINVAL;
    // acquire: whoever sees the peer gone sees all that it published before.
    return static_cast<int>(load_acquire(channel->life->epoch) == channel->peer.epoch);
}
