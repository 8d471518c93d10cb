// SPDX-License-Identifier: MIT OR GPL-2.0-only
// domain.cc - see domain.hpp.
#include "domain.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "address.hpp"
#include "av.hpp"
#include "base/cancel.hpp"
#include "cntr.hpp"
#include "collectives.hpp"
#include "cq.hpp"
#include "deferred_work.hpp"
#include "endpoint.hpp"
#include "eq.hpp"
#include "fabric_memory.hpp"
#include "info.hpp"
#include "none.hpp"
#include "poll_set.hpp"
#include "provider.hpp"
#include "shared_context.hpp"

namespace nvlf::ofi {
namespace {

int domain_close(fid* object) {
    const Uncancellable whole;
    Domain& domain = domain_of(reinterpret_cast<fid_domain*>(object));
    if (domain.refs.load(std::memory_order_acquire) != 0) return -FI_EBUSY;
    delete &domain;
    return 0;
}

// Keys fit fi_mr_key, so a raw key is the key; the pair of calls is for applications that use them with every provider.
int map_raw_key(const struct fi_mr_map_raw* map) noexcept {
    if (map == nullptr || map->raw_key == nullptr || map->key == nullptr) return -FI_EINVAL;
    if (map->flags != 0 || map->key_size != sizeof *map->key) return -FI_EINVAL;
    std::memcpy(map->key, map->raw_key, sizeof *map->key);
    return 0;
}

int domain_control(fid* object, int command, void* arg) {
    Domain& domain = domain_of(reinterpret_cast<fid_domain*>(object));
    switch (command) {
    case FI_QUEUE_WORK: return queue_work(domain, static_cast<const ::fi_deferred_work*>(arg));
    case FI_CANCEL_WORK: return cancel_work(domain, static_cast<const ::fi_deferred_work*>(arg));
    case FI_FLUSH_WORK: return flush_work(domain, static_cast<::fid*>(arg));
    case FI_MAP_RAW_MR: return map_raw_key(static_cast<const struct fi_mr_map_raw*>(arg));
    case FI_UNMAP_KEY: return 0;
    default: return -FI_ENOSYS;
    }
}

int domain_endpoint(fid_domain* domain, fi_info* info, fid_ep** ret_ep, void* context) {
    if (info == nullptr || ret_ep == nullptr) return -FI_EINVAL;
    if (check_info(domain_of(domain).fabric.api_version, *info) != 0) return -FI_EINVAL;
    return endpoint_open(domain, info, ret_ep, context);
}

// An event queue for registrations. They are complete when the call returns, but who binds one waits for its events.
int domain_bind(fid* object, fid* other, std::uint64_t flags) {
    Domain& domain = domain_of(reinterpret_cast<fid_domain*>(object));
    if (other == nullptr || other->fclass != FI_CLASS_EQ) return -FI_EINVAL;
    if ((flags & ~FI_REG_MR) != 0) return -FI_EBADFLAGS;
    Eq& eq = eq_of(reinterpret_cast<fid_eq*>(other));
    if (&eq.fabric != &domain.fabric || domain.eq != nullptr) return -FI_EINVAL;
    eq.refs.fetch_add(1, std::memory_order_relaxed);
    domain.eq = &eq;
    domain.reports_mrs = (flags & FI_REG_MR) != 0;
    return 0;
}

fi_ops domain_fid_ops{sizeof(fi_ops), domain_close, domain_bind, domain_control, open_nvlf_ops, no_tostr, no_ops_set};

fi_ops_domain domain_ops{
    .size = sizeof(fi_ops_domain),
    .av_open = av_open,
    .cq_open = cq_open,
    .endpoint = domain_endpoint,
    .scalable_ep = scalable_ep_open,
    .cntr_open = cntr_open,
    .poll_open = poll_set_open,
    .stx_ctx = shared_tx_open,
    .srx_ctx = shared_rx_open,
    .query_atomic = query_atomic,
    .query_collective = query_collective,
    .endpoint2 = none,
};

struct FabricClose {
    void operator()(nvlf_fabric* open) const noexcept { nvlf_close(open); }
};
using OpenFabric = std::unique_ptr<nvlf_fabric, FabricClose>;

int open_fabric(const Fabric& fabric, OpenFabric& ret_open) noexcept {
    nvlf_open_args args{};
    args.size = sizeof args;
    args.fabric = fabric.name.c_str();
    nvlf_fabric* open = nullptr;
    if (const int ret = nvlf_open(&args, &open); ret < 0) {
        FI_WARN(&provider, FI_LOG_DOMAIN, "fabric '%s' cannot be opened: %s\n", fabric.name.c_str(), nvlf_open_error());
        return ret;
    }
    ret_open.reset(open);
    return 0;
}

int attach(nvlf_fabric* open, const char* name, std::uint32_t& ret_device) noexcept {
    int ret = nvlf_find_device(open, name, &ret_device);
    if (ret >= 0) ret = nvlf_attach(open, ret_device, &ret_device);
    if (ret < 0) FI_WARN(&provider, FI_LOG_DOMAIN, "device '%s' cannot be attached to: %s\n", name, fi_strerror(-ret));
    return ret < 0 ? ret : 0;
}

// As the carrier puts it into the addresses that it makes: the last eight bytes of the UUID, first byte first.
int fabric_id(nvlf_fabric* open, std::uint64_t& ret_id) noexcept {
    nvlf_ioc_info info{};
    info.size = sizeof info;
    if (const int ret = nvlf_get_info(open, &info); ret < 0) return ret;
    std::uint64_t id = 0;
    for (std::size_t i = 8; i < sizeof info.uuid; ++i) id = id << 8 | info.uuid[i];
    ret_id = id;
    return 0;
}

} // namespace

Domain::~Domain() {
    thread.reset(); // It looks at the fabric.
    if (eq != nullptr) eq->refs.fetch_sub(1, std::memory_order_acq_rel);
    fabric.refs.fetch_sub(1, std::memory_order_acq_rel);
    // Endpoints hold memory and channels of the fabric; they are gone, or refs would not have let us come here.
    if (const int ret = nvlf_close(nvlf); ret < 0)
        FI_WARN(&provider, FI_LOG_DOMAIN, "fabric '%s' was not closed cleanly: %s\n", fabric.name.c_str(),
                fi_strerror(-ret));
}

bool Domain::add_endpoint(Endpoint& endpoint) noexcept try {
    const std::lock_guard guard{endpoints_lock_};
    const std::vector<const Mr*> known = mrs.all();
    endpoints_.reserve(endpoints_.size() + 1);
    for (std::size_t i = 0; i < drivers_.size(); ++i) {
        if (drivers_[i]->add_endpoint(endpoint) == 0) continue;
        while (i-- > 0) drivers_[i]->remove_endpoint(endpoint);
        return false;
    }
    if (thread != nullptr && thread->add(endpoint) != 0) {
        for (Cntr* cntr : drivers_) cntr->remove_endpoint(endpoint);
        return false;
    }
    endpoints_.push_back(&endpoint);
    for (const Mr* mr : known) endpoint_mr_changed(endpoint, *mr, true);
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

void Domain::remove_endpoint(Endpoint& endpoint) noexcept {
    const std::lock_guard guard{endpoints_lock_};
    if (std::erase(endpoints_, &endpoint) == 0) return;
    for (Cntr* cntr : drivers_) cntr->remove_endpoint(endpoint);
    if (thread != nullptr) thread->remove(endpoint);
}

int Domain::drive_with(Cntr& cntr) noexcept try {
    const std::lock_guard guard{endpoints_lock_};
    if (std::find(drivers_.begin(), drivers_.end(), &cntr) != drivers_.end()) return 0;
    drivers_.reserve(drivers_.size() + 1);
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
        const int ret = cntr.add_endpoint(*endpoints_[i]);
        if (ret == 0) continue;
        while (i-- > 0) cntr.remove_endpoint(*endpoints_[i]);
        return ret;
    }
    drivers_.push_back(&cntr);
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

void Domain::drive_no_more_with(Cntr& cntr) noexcept {
    const std::lock_guard guard{endpoints_lock_};
    std::erase(drivers_, &cntr);
}

Errno Domain::add_mr(Mr& mr, bool new_key) noexcept {
    const std::lock_guard guard{endpoints_lock_};
    const Errno error = new_key ? mrs.add_with_new_key(mr) : mrs.add(mr);
    if (error.failed()) return error;
    for (Endpoint* endpoint : endpoints_) endpoint_mr_changed(*endpoint, mr, true);
    return {};
}

void Domain::enable_mr(Mr& mr) noexcept {
    const std::lock_guard guard{endpoints_lock_};
    mrs.change([&] { mr.enabled = true; });
    relist(mr);
}

void Domain::refresh_mr(Mr& mr) noexcept {
    const std::lock_guard guard{endpoints_lock_};
    relist(mr);
}

void Domain::relist(Mr& mr) noexcept {
    for (Endpoint* endpoint : endpoints_) {
        endpoint_mr_changed(*endpoint, mr, false);
        endpoint_mr_changed(*endpoint, mr, true);
    }
}

void Domain::remove_mr(Mr& mr) noexcept {
    const std::lock_guard guard{endpoints_lock_};
    mrs.remove(mr);
    for (Endpoint* endpoint : endpoints_) endpoint_mr_changed(*endpoint, mr, false);
}

int domain_open(fid_fabric* fid, fi_info* info, fid_domain** ret_domain, void* context) noexcept try {
    const Uncancellable whole;
    if (info == nullptr || ret_domain == nullptr || info->domain_attr == nullptr || info->domain_attr->name == nullptr)
        return -FI_EINVAL;
    Fabric& fabric = fabric_of(fid);
    const fi_domain_attr& attr = *info->domain_attr;
    if (check_info(fabric.api_version, *info) != 0) return -FI_EINVAL;

    OpenFabric open;
    if (const int ret = open_fabric(fabric, open); ret != 0) return ret;
    std::uint32_t device = 0;
    if (const int ret = attach(open.get(), attr.name, device); ret != 0) return ret;
    std::uint64_t id = 0;
    if (const int ret = fabric_id(open.get(), id); ret != 0) return ret;

    const bool automatic =
        progress_for(attr.control_progress) == FI_PROGRESS_AUTO || progress_for(attr.data_progress) == FI_PROGRESS_AUTO;
    std::unique_ptr<ProgressThread> thread;
    if (automatic) {
        if (const int ret = ProgressThread::start(open.get(), thread); ret != 0) {
            FI_WARN(&provider, FI_LOG_DOMAIN, "no thread for automatic progress: %s\n", fi_strerror(-ret));
            return ret;
        }
    }
    auto domain = std::make_unique<Domain>(fabric, open.get(), device, attr.threading == FI_THREAD_DOMAIN && !automatic,
                                           mr_mode_bits(attr.mr_mode), info->caps);
    domain->work.thread = thread.get();
    domain->thread = std::move(thread);
    static_cast<void>(open.release()); // The domain closes it.
    fabric.refs.fetch_add(1, std::memory_order_acq_rel);
    domain->fabric_id = id;
    domain->addr_format = addr_format_for(info->addr_format);
    domain->fid = {.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops},
                   .ops = &domain_ops,
                   .mr = &mr_ops};
    *ret_domain = &domain.release()->fid;
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

} // namespace nvlf::ofi
