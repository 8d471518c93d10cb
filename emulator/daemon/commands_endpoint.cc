// SPDX-License-Identifier: MIT OR GPL-2.0-only
// EP_*: who can be talked to, and first contact.
#include <sys/eventfd.h>

#include "daemon/server.hpp"

namespace nvlf::daemon {

nvlf_addr Server::address_of(const Endpoint& endpoint) const noexcept {
    nvlf_addr addr{};
    addr.magic = NVLF_ADDR_MAGIC;
    addr.version = NVLF_ADDR_VERSION;
    addr.device = endpoint.device;
    for (std::size_t i = 0; i < 8; ++i) addr.fabric |= static_cast<__u64>(uuid_[8 + i]) << (8 * (7 - i));
    addr.endpoint = endpoint.id;
    addr.epoch = endpoint.epoch;
    addr.service = endpoint.service;
    return addr;
}

// The living endpoint that an address, complete or of a service, is of.
Result<Endpoint*> Server::resolve(const nvlf_addr& addr) {
    if (addr.magic != NVLF_ADDR_MAGIC || addr.version != NVLF_ADDR_VERSION) return Errno{EINVAL};
    if (addr.fabric != 0 && addr.fabric != address_of(Endpoint{}).fabric) return Errno{EXDEV};
    if (addr.epoch == 0) {
        if (addr.endpoint != 0 || addr.service == 0) return Errno{EINVAL};
        Endpoint* endpoint = endpoints_.find_service(addr.service, addr.device);
        return endpoint != nullptr ? Result<Endpoint*>{endpoint} : Errno{ENOENT};
    }
    auto endpoint = endpoints_.find_exact(addr.endpoint, addr.epoch);
    // Somebody changed an address that we made.
    if (endpoint && ((*endpoint)->device != addr.device || (*endpoint)->service != addr.service)) return Errno{ENOENT};
    return endpoint;
}

Endpoint* Server::own_endpoint(const Client& client, std::uint32_t id) {
    return client.endpoints.count(id) != 0 ? endpoints_.find(id) : nullptr;
}

Errno Server::ep_publish(Client& client, nvlf_ioc_ep_publish& a, Descriptors& out) {
    if (const Errno e = check_device(a.device); e.failed()) return e;
    const auto region = client.allocations.find(a.region);
    if (region == client.allocations.end()) return Errno{ENOENT};
    if (a.service != 0 && endpoints_.find_service(a.service, a.device) != nullptr) return Errno{EADDRINUSE};
    if (client.endpoints.size() >= config_.limits.endpoints_per_file) return Errno{EDQUOT};
    if (endpoints_.count() >= config_.limits.endpoints) return Errno{EMFILE};
    if (const Errno e = check_descriptors(client, 2); e.failed()) return e;

    Endpoint endpoint;
    endpoint.device = a.device;
    endpoint.service = a.service;
    endpoint.owner = client.id;
    endpoint.region = region->second;
    endpoint.doorbell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!endpoint.doorbell) return resource_errno(last_errno());
    auto doorbell = duplicate(endpoint.doorbell.get());
    if (!doorbell) return doorbell.error();
    Fd notice_end;
    auto notice = Notice::open(notice_end);
    if (!notice) return notice.error();
    endpoint.notice = std::move(*notice);

    const Endpoint& published = endpoints_.publish(std::move(endpoint));
    client.endpoints.insert(published.id);
    client.descriptors += 2;
    a.doorbell_fd = out.add(std::move(*doorbell));
    a.notice_fd = out.add(std::move(notice_end));
    a.addr = address_of(published);
    return Errno{};
}

// What this endpoint sent to peers that have not taken its channels yet must still reach them.
void Server::leave_offers(const Endpoint& endpoint) {
    for (const std::uint32_t id : endpoint.peers) {
        Endpoint* peer = endpoints_.find(id);
        const Channel* channel = endpoints_.find_channel(endpoint, *peer);
        if (!channel->fd || channel->side0 != endpoint.id) continue;
        auto copy = duplicate(channel->fd.get());
        auto region = open_read_only(endpoint.region->fd.get());
        auto doorbell = duplicate(endpoint.doorbell.get());
        if (!copy || !region || !doorbell) continue; // Out of descriptors: what was sent is lost.
        endpoints_.leave_offer(*peer, {address_of(endpoint), *std::move(copy), *std::move(region), *std::move(doorbell),
                                       endpoint.region->bytes});
    }
}

void Server::withdraw(Client& owner, Endpoint& endpoint) {
    leave_offers(endpoint);
    owner.endpoints.erase(endpoint.id);
    owner.descriptors -= 2;
    endpoints_.withdraw(endpoint);
}

Errno Server::ep_withdraw(Client& client, nvlf_ioc_ep_withdraw& a, Descriptors&) {
    Endpoint* own = own_endpoint(client, a.endpoint);
    if (own == nullptr) return Errno{ENOENT};
    withdraw(client, *own);
    return Errno{};
}

Errno Server::ep_lookup(Client&, nvlf_ioc_ep_lookup& a, Descriptors&) {
    const auto endpoint = resolve(a.addr);
    if (!endpoint) return endpoint.error();
    a.addr = address_of(**endpoint);
    return Errno{};
}

// Fills what is out in `a`. The only part of first contact that can still fail, hence done before anything is changed:
// `channel` is a descriptor for the client alone.
Errno Server::hand_out_channel(nvlf_ioc_ep_connect& a, Descriptors& out, std::uint32_t side, Fd channel,
                               const Endpoint& peer) const {
    auto region = open_read_only(peer.region->fd.get());
    if (!region) return region.error();
    auto doorbell = duplicate(peer.doorbell.get());
    if (!doorbell) return doorbell.error();
    a.addr = address_of(peer);
    a.side = side;
    a.channel_fd = out.add(std::move(channel));
    a.region_fd = out.add(std::move(*region));
    a.doorbell_fd = out.add(std::move(*doorbell));
    a.channel_bytes = NVLF_CHANNEL_BYTES;
    a.region_bytes = peer.region->bytes;
    return Errno{};
}

Errno Server::take_offer(Endpoint& own, Endpoint& peer, nvlf_ioc_ep_connect& a, Descriptors& out) {
    auto copy = duplicate(endpoints_.find_channel(own, peer)->fd.get());
    if (!copy) return copy.error();
    if (const Errno e = hand_out_channel(a, out, 1, std::move(*copy), peer); e.failed()) return e;
    endpoints_.take_offer(own, peer);
    return Errno{};
}

Errno Server::begin_channel(Client& client, Endpoint& own, Endpoint& peer, nvlf_ioc_ep_connect& a, Descriptors& out) {
    const bool to_itself = own.id == peer.id;
    const Limits& limits = config_.limits;
    if (!to_itself && peer.offers.size() >= limits.pending_accepts) return Errno{EMFILE};
    if (client.channels >= limits.channels_per_file) return Errno{EDQUOT};
    if (endpoints_.channel_count() >= limits.channels) return Errno{EMFILE};
    if (!to_itself)
        if (const Errno e = check_descriptors(client, 1); e.failed()) return e;
    auto channel = make_channel(own, peer);
    if (!channel) return channel.error();
    auto copy = duplicate(channel->get());
    if (!copy) return copy.error();
    if (const Errno e = hand_out_channel(a, out, 0, std::move(*copy), peer); e.failed()) return e;
    endpoints_.offer(own, peer, std::move(*channel), client.id);
    ++client.channels;
    if (!to_itself) ++client.descriptors;
    return Errno{};
}

Errno Server::ep_connect(Client& client, nvlf_ioc_ep_connect& a, Descriptors& out) {
    Endpoint* own = own_endpoint(client, a.endpoint);
    if (own == nullptr) return Errno{ENOENT};
    const auto found = resolve(a.addr);
    if (!found) return found.error();
    Endpoint& peer = **found;
    if (const Errno e = check_device(own->device); e.failed()) return e;
    if (const Errno e = check_device(peer.device); e.failed()) return e;
    const Channel* channel = endpoints_.find_channel(*own, peer);
    if (channel == nullptr) return begin_channel(client, *own, peer, a, out);
    if (own == &peer) return Errno{EBUSY};
    const bool offered_to_us = channel->fd && channel->side1 == own->id;
    return offered_to_us ? take_offer(*own, peer, a, out) : Errno{EEXIST};
}

Errno Server::ep_accept(Client& client, nvlf_ioc_ep_connect& a, Descriptors& out) {
    Endpoint* own = own_endpoint(client, a.endpoint);
    if (own == nullptr) return Errno{ENOENT};
    if (!own->left.empty()) {
        LeftOffer left = endpoints_.take_left_offer(*own);
        a.addr = left.addr;
        a.side = 1;
        a.channel_fd = out.add(std::move(left.channel));
        a.region_fd = out.add(std::move(left.region));
        a.doorbell_fd = out.add(std::move(left.doorbell));
        a.channel_bytes = NVLF_CHANNEL_BYTES;
        a.region_bytes = left.region_bytes;
        return Errno{};
    }
    if (own->offers.empty()) return Errno{EAGAIN};
    return take_offer(*own, *endpoints_.find(own->offers.front()), a, out);
}

// Whom one has a channel with one knows already; nobody else learns who is who.
Errno Server::ep_process(Client& client, nvlf_ioc_ep_process& a, Descriptors& out) {
    const Endpoint* own = own_endpoint(client, a.endpoint);
    if (own == nullptr) return Errno{ENOENT};
    const auto peer = a.addr.epoch != 0 ? resolve(a.addr) : Errno{ENOENT};
    if (!peer) return peer.error();
    if (endpoints_.find_channel(*own, **peer) == nullptr) return Errno{ENOENT};
    const Client* owner = find_client((*peer)->owner);
    if (owner == nullptr || !owner->identity.process) return Errno{EOPNOTSUPP};
    auto process = duplicate(owner->identity.process.get());
    if (!process) return process.error();
    a.process_fd = out.add(std::move(*process));
    return Errno{};
}

} // namespace nvlf::daemon
