// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "soak/station.hpp"

#include <cstring>

namespace nvlf::soak {
namespace {

using test::check;
using test::FidPtr;

// On a fabric that is just being replaced the driver says ENOENT and the like: to the caller all of it is "no fabric".
void check_driver(int result, const char* what) {
    if (result < 0) throw test::FabricError{what, -result};
}

template <class F, class Open>
FidPtr<F> open(const char* what, Open&& call) {
    F* object = nullptr;
    check(call(&object), what);
    return FidPtr<F>{object};
}

test::InfoPtr draw_info(Random& random, unsigned threads, bool& ret_atomics) {
    const test::InfoPtr hints{fi_allocinfo()};
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_MULTI_RECV;
    if (chance(random, 50)) hints->caps |= FI_DIRECTED_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = ::strdup("nvlf");
    constexpr enum fi_threading alone[] = {FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_SAFE};
    hints->domain_attr->threading = threads > 1 ? FI_THREAD_SAFE : alone[draw(random, 3)];
    if (chance(random, 50)) hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    constexpr std::uint64_t levels[] = {0, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE};
    hints->tx_attr->op_flags = levels[draw(random, 3)];
    fi_info* found = nullptr;
    check(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo");
    ret_atomics = (found->caps & FI_ATOMIC) != 0;
    // Any device will do.
    for (std::uint64_t skip = draw(random, 8); skip > 0 && found->next != nullptr; --skip) {
        fi_info* next = found->next;
        found->next = nullptr;
        fi_freeinfo(found);
        found = next;
    }
    return test::InfoPtr{found};
}

} // namespace

Window::Window(bool on_device) {
    if (!on_device) {
        heap_ = std::make_unique<char[]>(window_bytes + 64);
        const auto address = reinterpret_cast<std::uintptr_t>(heap_.get());
        data_ = heap_.get() + (64 - address % 64); // Atomics want it aligned.
        return;
    }
    check_driver(nvlf_open(nullptr, &fabric_), "nvlf_open");
    std::uint32_t device = 0;
    void* start = nullptr;
    int result = nvlf_attach(fabric_, NVLF_DEVICE_ANY, &device);
    if (result == 0) result = nvlf_mem_alloc(fabric_, device, window_bytes, 0, &memory_);
    if (result == 0) result = nvlf_mem_map(memory_, &start);
    if (result != 0) {
        if (memory_ != nullptr) (void)nvlf_mem_put(memory_);
        (void)nvlf_close(fabric_);
        throw test::FabricError{"memory on a device", -result};
    }
    data_ = static_cast<char*>(start);
}

Window::~Window() {
    if (memory_ != nullptr) (void)nvlf_mem_put(memory_);
    if (fabric_ != nullptr) (void)nvlf_close(fabric_);
}

Station::Station(Random& random, unsigned threads)
    : blocks{chance(random, 50)},
      atomics{false},
      info{draw_info(random, threads, atomics)},
      window{chance(random, 60)} {
    fabric = open<fid_fabric>("fi_fabric", [&](auto** f) { return fi_fabric(info->fabric_attr, f, nullptr); });
    domain = open<fid_domain>("fi_domain", [&](auto** d) { return fi_domain(fabric.get(), info.get(), d, nullptr); });
    mr = open<fid_mr>("fi_mr_reg", [&](auto** m) {
        return fi_mr_reg(domain.get(), window.data(), window_bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, random() >> 1,
                         0, m, nullptr);
    });
    fi_av_attr av_attr{};
    av_attr.type = chance(random, 50) ? FI_AV_TABLE : FI_AV_MAP;
    av = open<fid_av>("fi_av_open", [&](auto** a) { return fi_av_open(domain.get(), &av_attr, a, nullptr); });
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    cq_attr.wait_obj = !blocks ? FI_WAIT_NONE : chance(random, 50) ? FI_WAIT_FD : FI_WAIT_UNSPEC;
    cq = open<fid_cq>("fi_cq_open", [&](auto** c) { return fi_cq_open(domain.get(), &cq_attr, c, nullptr); });
    ep = open<fid_ep>("fi_endpoint", [&](auto** e) { return fi_endpoint(domain.get(), info.get(), e, nullptr); });
    check(fi_ep_bind(ep.get(), &av->fid, 0), "fi_ep_bind, av");
    check(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind, cq");
    check(fi_enable(ep.get()), "fi_enable");
}

Presence Station::presence(std::uint64_t life) const {
    Presence presence;
    std::size_t bytes = presence.name.size();
    check(fi_getname(&ep->fid, presence.name.data(), &bytes), "fi_getname");
    presence.name_bytes = bytes;
    presence.key = fi_mr_key(mr.get());
    const bool by_address = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    presence.base = by_address ? reinterpret_cast<std::uintptr_t>(window.data()) : 0;
    presence.life = life;
    return presence;
}

} // namespace nvlf::soak
