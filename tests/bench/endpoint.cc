// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See endpoint.hpp: what is done once, and what is never done when all goes well.
#include "endpoint.hpp"

#include <cstring>

#include <poll.h>

namespace nvlf::bench {
namespace {

fi_info* find(const EndpointOptions& options, std::uint64_t caps) {
    struct Free {
        void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
    };
    const std::unique_ptr<fi_info, Free> hints{fi_allocinfo()};
    hints->caps = caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = options.thread_safe ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
    // What most applications offer; it also lets shm take its fast way, without the target, for one-sided operations.
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = ::strdup(options.provider.c_str());
    const bool sockets = options.provider == "tcp"; // Its names are those of the network; a port is found by itself.
    fi_info* found = nullptr;
    const int result = fi_getinfo(FI_VERSION(1, 17), sockets ? "127.0.0.1" : nullptr,
                                  sockets ? nullptr : options.service.c_str(), FI_SOURCE, hints.get(), &found);
    if (result == -FI_ENODATA) return nullptr;
    check(result, "fi_getinfo");
    return found;
}

template <class F, class Open>
FidPtr<F> open(const char* call, Open&& make) {
    F* object = nullptr;
    check(make(&object), call);
    return FidPtr<F>{object};
}

} // namespace

Endpoint::Endpoint(const EndpointOptions& options) : patience_{options.patience} {
    constexpr std::uint64_t needed = FI_TAGGED | FI_RMA;
    fi_info* found = find(options, needed | FI_ATOMIC);
    if (found == nullptr) found = find(options, needed);
    if (found == nullptr) throw NotOffered{"no interface of provider " + options.provider};
    info_.reset(found);
    inject_size_ = info_->tx_attr->inject_size;
    fabric_ = open<fid_fabric>("fi_fabric", [&](auto** f) { return fi_fabric(info_->fabric_attr, f, nullptr); });
    domain_ =
        open<fid_domain>("fi_domain", [&](auto** d) { return fi_domain(fabric_.get(), info_.get(), d, nullptr); });
    fi_av_attr av{};
    av.type = FI_AV_TABLE;
    av_ = open<fid_av>("fi_av_open", [&](auto** a) { return fi_av_open(domain_.get(), &av, a, nullptr); });
    fi_cq_attr cq{};
    cq.format = FI_CQ_FORMAT_CONTEXT;
    cq.size = 4096;
    cq.wait_obj = options.wait_fd ? FI_WAIT_FD : FI_WAIT_NONE;
    fid_cq* queue = nullptr;
    const int opened = fi_cq_open(domain_.get(), &cq, &queue, nullptr);
    if (opened != 0 && options.wait_fd) throw NotOffered{options.provider + " has no queue with a descriptor"};
    check(opened, "fi_cq_open");
    cq_.reset(queue);
    ep_ = open<fid_ep>("fi_endpoint", [&](auto** e) { return fi_endpoint(domain_.get(), info_.get(), e, nullptr); });
    check(fi_ep_bind(ep_.get(), &av_->fid, 0), "fi_ep_bind, av");
    check(fi_ep_bind(ep_.get(), &cq_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind, cq");
    check(fi_enable(ep_.get()), "fi_enable");
    if (options.wait_fd) check(fi_control(&cq_->fid, FI_GETWAIT, &wait_fd_), "FI_GETWAIT");
}

std::vector<std::uint8_t> Endpoint::name() const {
    std::vector<std::uint8_t> bytes(256);
    std::size_t size = bytes.size();
    check(fi_getname(&ep_->fid, bytes.data(), &size), "fi_getname");
    bytes.resize(size);
    return bytes;
}

void Endpoint::insert(const std::vector<std::vector<std::uint8_t>>& names) {
    for (const auto& name : names) {
        fi_addr_t address = FI_ADDR_NOTAVAIL;
        if (fi_av_insert(av_.get(), name.data(), 1, &address, 0, nullptr) != 1)
            throw FabricError{"fi_av_insert", FI_EINVAL};
        peers_.push_back(address);
    }
}

void Endpoint::sleep() {
    fid* object = &cq_->fid;
    const int result = fi_trywait(fabric_.get(), &object, 1);
    if (result == -FI_EAGAIN) return;
    check(result, "fi_trywait");
    pollfd waited{.fd = wait_fd_, .events = POLLIN, .revents = 0};
    ::poll(&waited, 1, -1);
}

void Endpoint::failed(ssize_t result) {
    if (result != -FI_EAVAIL) check(result, "fi_cq_read");
    fi_cq_err_entry entry{};
    check(fi_cq_readerr(cq_.get(), &entry, 0), "fi_cq_readerr");
    throw FabricError{"an operation", entry.err};
}

} // namespace nvlf::bench
