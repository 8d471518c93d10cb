// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fabric.cc - see fabric.hpp.
#include "fabric.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "domain.hpp"
#include "eq.hpp"
#include "fabric_memory.hpp"
#include "none.hpp"
#include "wait_set.hpp"
#include "waitable.hpp"

namespace nvlf::ofi {
namespace {

int fabric_close(fid* object) {
    Fabric& fabric = fabric_of(reinterpret_cast<fid_fabric*>(object));
    if (fabric.refs.load(std::memory_order_acquire) != 0) return -FI_EBUSY;
    delete &fabric;
    return 0;
}

int try_wait_one(fid& object) noexcept {
    if (object.fclass == FI_CLASS_WAIT) return wait_set_of(reinterpret_cast<fid_wait*>(&object)).try_wait();
    return try_wait(object);
}

void stop_one(fid& object) noexcept {
    if (object.fclass == FI_CLASS_WAIT) wait_set_of(reinterpret_cast<fid_wait*>(&object)).stop_waiting();
    else stop_waiting(object);
}

// Whatever was armed before one had something to read is disarmed by its own next read.
int fabric_trywait(fid_fabric*, fid** objects, int count) {
    if (count < 0 || (objects == nullptr && count > 0)) return -FI_EINVAL;
    const std::span all{objects, static_cast<std::size_t>(count)};
    if (std::find(all.begin(), all.end(), nullptr) != all.end()) return -FI_EINVAL;
    if (count > 1)
        for (fid* object : all) stop_one(*object);
    for (fid* object : all)
        if (const int ret = try_wait_one(*object); ret != 0) return ret;
    return 0;
}

fi_ops fabric_fid_ops{sizeof(fi_ops), fabric_close, no_bind, no_control, open_nvlf_ops, no_tostr, no_ops_set};

fi_ops_fabric fabric_ops{
    .size = sizeof(fi_ops_fabric),
    .domain = domain_open,
    .passive_ep = none, // Connections are for FI_EP_MSG.
    .eq_open = eq_open,
    .wait_open = wait_set_open,
    .trywait = fabric_trywait,
    .domain2 = none, // The core calls domain when there are no flags.
};

} // namespace

int fabric_open(fi_fabric_attr* attr, fid_fabric** ret_fabric, void* context) noexcept try {
    if (attr == nullptr || attr->name == nullptr || ret_fabric == nullptr) return -FI_EINVAL;
    constexpr std::size_t prefix = sizeof fabric_prefix - 1;
    if (std::strncmp(attr->name, fabric_prefix, prefix) != 0 || attr->name[prefix] == '\0') return -FI_ENODATA;
    auto fabric = std::make_unique<Fabric>();
    fabric->name = attr->name + prefix;
    fabric->api_version = attr->api_version;
    fabric->fid = {.fid = {.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fid_ops},
                   .ops = &fabric_ops,
                   .api_version = attr->api_version};
    *ret_fabric = &fabric.release()->fid;
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

} // namespace nvlf::ofi
