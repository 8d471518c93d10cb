// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "driver/endpoint.hpp"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <memory>
#include <string_view>

using namespace nvlf;

namespace {

Errno watch(int epoll, int fd) noexcept {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? Errno{} : last_errno();
}

// The header that peers believe from the moment of publication on.
void write_header(nvlf_region& region, bool owner_has_membarrier) noexcept {
    region.magic = NVLF_REGION_MAGIC;
    region.abi = NVLF_ABI_VERSION;
    region.flags = owner_has_membarrier ? 0 : NVLF_REGION_FENCE;
}

int allocate_region(nvlf_ep& ep, std::uint32_t device, std::uint64_t bytes) noexcept {
    if (const int error = nvlf_mem_alloc(ep.fabric.get(), device, bytes, 0, &ep.memory); error != 0) return error;
    void* region = nullptr;
    if (const int error = nvlf_mem_map(ep.memory, &region); error != 0) return error;
    ep.region = static_cast<nvlf_region*>(region);
    write_header(*ep.region, ep.fabric->membarrier);
    return 0;
}

void withdraw(nvlf_fabric& fabric, std::uint32_t endpoint) noexcept {
    nvlf_ioc_ep_withdraw body{};
    body.endpoint = endpoint;
    static_cast<void>(fabric.carrier->ask(NVLF_CMD_EP_WITHDRAW, body)); // It can only fail by not being there any more.
}

int publish(nvlf_ep& ep, std::uint32_t device, std::uint64_t service) noexcept {
    nvlf_fabric& fabric = *ep.fabric;
    nvlf_ioc_ep_publish body{};
    body.device = device;
    body.service = service;
    body.region = ep.memory->handle;
    const Errno error = fabric.carrier->ask(NVLF_CMD_EP_PUBLISH, body);
    if (error == Errno{EMFILE} && complete_address(fabric, body.addr)) withdraw(fabric, body.addr.endpoint);
    if (error.failed()) return error.negative();
    ep.doorbell = take_fd(body.doorbell_fd);
    ep.notice = take_fd(body.notice_fd);
    const bool sound = ep.doorbell && ep.notice && complete_address(fabric, body.addr) && body.addr.device == device &&
                       body.addr.service == service;
    if (!sound) return nonsense(fabric);
    ep.address = body.addr;
    ep.life = nvlf_state_endpoints(&fabric.region()) + body.addr.endpoint;
    return 0;
}

// All that can fail after publication for want of descriptors is done before it, but for epoll_ctl, which needs those
// that publication brings.
int prepare_wait(nvlf_ep& ep) noexcept {
    ep.wait.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!ep.wait) return last_errno().negative();
    if (ep.wait.get() > 2) return 0;
    const int moved = ::fcntl(ep.wait.get(), F_DUPFD_CLOEXEC, 3);
    if (moved < 0) return last_errno().negative();
    ep.wait.reset(moved);
    return 0;
}

int arrange_wait(nvlf_ep& ep) noexcept {
    for (const Fd* fd : {&ep.doorbell, &ep.notice}) {
        // Both are drained to EAGAIN. The doorbell's flag is shared with its peers: see drain() in wait.cc.
        const int flags = ::fcntl(fd->get(), F_GETFL);
        if (flags < 0 || ::fcntl(fd->get(), F_SETFL, flags | O_NONBLOCK) != 0) return last_errno().negative();
        if (const Errno error = watch(ep.wait.get(), fd->get()); error.failed()) return error.negative();
    }
    return 0;
}

// Enters the list of those who wake for the fabric's events. May throw bad_alloc.
int enlist(nvlf_ep& ep) {
    nvlf_fabric& fabric = *ep.fabric;
    const std::lock_guard guard{fabric.events_lock};
    fabric.endpoints.push_back(&ep);
    const Errno error = watch_events(ep, fabric.events.get());
    if (error.failed()) fabric.endpoints.pop_back();
    return error.negative();
}

struct Undo { // Of an endpoint that did not come about: whatever had been done is undone.
    void operator()(nvlf_ep* ep) const noexcept {
        if (ep->life != nullptr) withdraw(*ep->fabric, ep->address.endpoint);
        nvlf_mem_put(ep->memory);
        delete ep;
    }
};

} // namespace

namespace nvlf {

Errno watch_events(nvlf_ep& ep, int events) noexcept { return events >= 0 ? watch(ep.wait.get(), events) : Errno{}; }

} // namespace nvlf

int nvlf_ep_publish(nvlf_fabric* fabric, uint32_t device, uint64_t service, uint64_t region_bytes,
                    nvlf_ep** ret_ep) noexcept {
    if (fabric == nullptr || ret_ep == nullptr || region_bytes < sizeof(nvlf_region)) return -EINVAL;
    return guarded([&] {
        std::unique_ptr<nvlf_ep, Undo> ep{new nvlf_ep{*fabric}};
        int error = allocate_region(*ep, device, region_bytes);
        if (error == 0) error = prepare_wait(*ep);
        if (error == 0) error = publish(*ep, device, service);
        if (error == 0) error = arrange_wait(*ep);
        if (error == 0) error = enlist(*ep);
        if (error == 0) *ret_ep = ep.release();
        return error;
    });
}

int nvlf_ep_put(nvlf_ep* ep) noexcept {
    if (ep == nullptr) return 0;
    // acquire: pairs with the release when a channel is put.
    if (ep->channels.load(std::memory_order_acquire) != 0) return -EBUSY;
    {
        const std::lock_guard guard{ep->fabric->events_lock};
        std::erase(ep->fabric->endpoints, ep);
    }
    Undo{}(ep);
    return 0;
}

const ::nvlf_addr* nvlf_ep_addr(const nvlf_ep* ep) noexcept { return ep != nullptr ? &ep->address : nullptr; }
nvlf_region* nvlf_ep_region(const nvlf_ep* ep) noexcept { return ep != nullptr ? ep->region : nullptr; }

uint64_t nvlf_service(const char* name) noexcept {
    if (name == nullptr || *name == '\0') return 0;
    const std::string_view text{name};
    std::uint64_t number = 0;
    // Up to 18 digits: far below 2^63, and no overflow to think of.
    if (text.size() <= 18 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        for (const char c : text) number = number * 10 + static_cast<std::uint64_t>(c - '0');
        return number;
    }
    // FNV-1a, 64 bits: part of the interface, since both ends of a conversation must get the same number.
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return hash | 1ULL << 63;
}

int nvlf_ep_lookup(nvlf_fabric* fabric, ::nvlf_addr* addr) noexcept {
    if (fabric == nullptr || addr == nullptr) return -EINVAL;
    nvlf_ioc_ep_lookup body{};
    body.addr = *addr;
    const Errno error = fabric->carrier->ask(NVLF_CMD_EP_LOOKUP, body);
    if (error.failed()) return error.negative();
    if (!complete_address(*fabric, body.addr)) return nonsense(*fabric);
    *addr = body.addr;
    return 0;
}

uint32_t nvlf_ep_notices(const nvlf_ep* ep) noexcept {
    // acquire: what the carrier did before it counted (an epoch set to 0, an offer) is seen after.
    return ep != nullptr ? load_acquire(ep->life->notices) : 0;
}
