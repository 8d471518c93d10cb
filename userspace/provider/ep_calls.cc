// SPDX-License-Identifier: MIT OR GPL-2.0-only
// ep_calls.cc - see ep_calls.hpp.
#include "ep_calls.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <mutex>
#include <new>

#include "collectives.hpp"
#include "endpoint.hpp"
#include "none.hpp"

namespace nvlf::ofi {
namespace {

// ---- Options ---------------------------------------------------------------------------------------------------------

// libfabric 1.18 gave it this number. No CUDA call is ever made by us, so that we are forbidden to is no news.
constexpr int opt_cuda_api_permitted = 10;

template <class T>
int get_value(const T& from, void* value, std::size_t* bytes) noexcept {
    if (value == nullptr || bytes == nullptr) return -FI_EINVAL;
    const std::size_t room = *bytes;
    *bytes = sizeof from;
    if (room < sizeof from) return -FI_ETOOSMALL;
    std::memcpy(value, &from, sizeof from);
    return 0;
}

template <class T>
[[nodiscard]] bool take_value(const void* value, std::size_t bytes, T& ret_value) noexcept {
    if (value == nullptr || bytes != sizeof ret_value) return false;
    std::memcpy(&ret_value, value, bytes);
    return true;
}

int set_min_multi_recv(RxContext* context, const void* value, std::size_t bytes) noexcept {
    if (context == nullptr) return -FI_ENOPROTOOPT;
    std::size_t least = 0;
    if (!take_value(value, bytes, least)) return -FI_EINVAL;
    const std::lock_guard guard{context->store.lock};
    context->min_multi_recv = least;
    return 0;
}

// Device memory of the fabric is mapped by whoever moves data: there is no way that is not from peer to peer.
int set_hmem_p2p(EpFid& ep, const void* value, std::size_t bytes) noexcept {
    int mode = 0;
    if (!take_value(value, bytes, mode)) return -FI_EINVAL;
    switch (mode) {
    case FI_HMEM_P2P_ENABLED:
    case FI_HMEM_P2P_REQUIRED:
    case FI_HMEM_P2P_PREFERRED: ep.hmem_p2p = mode; return 0;
    case FI_HMEM_P2P_DISABLED: return -FI_EOPNOTSUPP;
    default: return -FI_EINVAL;
    }
}

int set_cuda_api_permitted(const void* value, std::size_t bytes) noexcept {
    bool permitted = false;
    if (!take_value(value, bytes, permitted)) return -FI_EINVAL;
    return permitted ? -FI_EOPNOTSUPP : 0;
}

// ---- Default flags ---------------------------------------------------------------------------------------------------

constexpr std::uint64_t directions = FI_TRANSMIT | FI_RECV;

// -FI_EINVAL: neither or both directions, or one that it does not have. -FI_EBADFLAGS: no flags of that direction.
int check_ops_flags(const EpFid& ep, std::uint64_t flags) noexcept {
    if ((flags & directions) != FI_TRANSMIT && (flags & directions) != FI_RECV) return -FI_EINVAL;
    const bool transmit = (flags & FI_TRANSMIT) != 0;
    if (transmit ? ep.tx == nullptr : ep.rx == nullptr) return -FI_EINVAL;
    return (flags & ~(directions | FI_TRIGGER | (transmit ? tx_op_flags : rx_op_flags))) != 0 ? -FI_EBADFLAGS : 0;
}

void set_ops_flags(EpFid& ep, std::uint64_t flags) noexcept {
    ((flags & FI_TRANSMIT) != 0 ? ep.tx_flags : ep.rx_flags) = flags & ~directions;
}

int get_ops_flags(const EpFid& ep, std::uint64_t& flags) noexcept {
    if ((flags & directions) != FI_TRANSMIT && (flags & directions) != FI_RECV) return -FI_EINVAL;
    flags = (flags & FI_TRANSMIT) != 0 ? ep.tx_flags : ep.rx_flags;
    return 0;
}

// ---- Aliases ---------------------------------------------------------------------------------------------------------

// Another handle on the same engine and contexts, with default flags of its own.
struct Alias : EpFid {
    explicit Alias(EpFid& of) noexcept;
    EpFid& origin;
};

Alias& alias_of(::fid* object) noexcept { return static_cast<Alias&>(ep_fid_of(object)); }

int alias_close(::fid* object) {
    Alias& alias = alias_of(object);
    alias.origin.aliases.fetch_sub(1, std::memory_order_acq_rel);
    delete &alias;
    return 0;
}

// What is bound, enabled or named is the origin.
int alias_bind(::fid* object, ::fid* other, std::uint64_t flags) {
    ::fid& origin = alias_of(object).origin.fid.fid;
    return origin.ops->bind(&origin, other, flags);
}

int alias_control(::fid* object, int command, void* arg) {
    Alias& alias = alias_of(object);
    if (const int ret = ep_control_common(alias, command, arg); ret != -FI_ENOSYS) return ret;
    ::fid& origin = alias.origin.fid.fid;
    return origin.ops->control(&origin, command, arg);
}

fi_ops alias_fid_ops{sizeof(fi_ops), alias_close, alias_bind, alias_control, no_ops_open, no_tostr, no_ops_set};

Alias::Alias(EpFid& of) noexcept : origin{of} {
    fid = of.fid;
    fid.fid.ops = &alias_fid_ops;
    endpoint = of.endpoint;
    tx = of.tx;
    rx = of.rx;
    tx_flags = of.tx_flags;
    rx_flags = of.rx_flags;
    hmem_p2p = of.hmem_p2p;
    of.aliases.fetch_add(1, std::memory_order_acq_rel);
}

// A context that is not enabled yet changes its calls when it is: the alias would not hear of it.
int new_alias(EpFid& ep, const struct fi_alias* arg) noexcept {
    if (arg == nullptr || arg->fid == nullptr) return -FI_EINVAL;
    if (const int ret = check_ops_flags(ep, arg->flags); ret != 0) return ret;
    if (ep.fid.msg == &idle_msg) return -FI_EOPBADSTATE;
    EpFid& origin = ep.fid.fid.ops == &alias_fid_ops ? static_cast<Alias&>(ep).origin : ep;
    auto* const alias = new (std::nothrow) Alias{origin};
    if (alias == nullptr) return -FI_ENOMEM;
    alias->tx_flags = ep.tx_flags;
    alias->rx_flags = ep.rx_flags;
    set_ops_flags(*alias, arg->flags);
    *arg->fid = &alias->fid.fid;
    return 0;
}

} // namespace

ssize_t ep_cancel(::fid* object, void* context) {
    const EpFid& ep = ep_fid_of(object);
    RxContext* const rx = ep.rx;
    WorkQueue& work = ep.endpoint != nullptr ? ep.endpoint->domain.work : rx->store.work;
    if (work.cancel(ep.endpoint, rx, context)) return 0;
    return rx != nullptr ? rx->cancel(context) : -FI_ENOSYS;
}

int ep_getopt(::fid* object, int level, int name, void* value, std::size_t* bytes) {
    const EpFid& ep = ep_fid_of(object);
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    switch (name) {
    case FI_OPT_MIN_MULTI_RECV:
        return ep.rx != nullptr ? get_value(ep.rx->min_multi_recv, value, bytes) : -FI_ENOPROTOOPT;
    case FI_OPT_FI_HMEM_P2P: return get_value(ep.hmem_p2p, value, bytes);
    case opt_cuda_api_permitted: return get_value(false, value, bytes);
    default: return -FI_ENOPROTOOPT;
    }
}

int ep_setopt(::fid* object, int level, int name, const void* value, std::size_t bytes) {
    EpFid& ep = ep_fid_of(object);
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    switch (name) {
    case FI_OPT_MIN_MULTI_RECV: return set_min_multi_recv(ep.rx, value, bytes);
    case FI_OPT_FI_HMEM_P2P: return set_hmem_p2p(ep, value, bytes);
    case opt_cuda_api_permitted: return set_cuda_api_permitted(value, bytes);
    default: return -FI_ENOPROTOOPT;
    }
}

// How many receives may be posted now. (How many sends, depends on to whom, so that is not answered.)
ssize_t ep_rx_size_left(fid_ep* f) {
    RxContext* const rx = ep_fid_of(f).rx;
    if (rx == nullptr) return -FI_ENOSYS;
    const std::lock_guard guard{rx->store.lock};
    return rx->closed != 0 ? -rx->closed : static_cast<ssize_t>(rx_limit - rx->store.ops.used());
}

int ep_getname(::fid* object, void* address, std::size_t* bytes) {
    const Endpoint* const endpoint = ep_fid_of(object).endpoint;
    return endpoint != nullptr ? endpoint->name(address, bytes) : -FI_ENOSYS;
}

int ep_control_common(EpFid& ep, int command, void* arg) noexcept {
    switch (command) {
    case FI_GETOPSFLAG: return arg != nullptr ? get_ops_flags(ep, *static_cast<std::uint64_t*>(arg)) : -FI_EINVAL;
    case FI_SETOPSFLAG: {
        if (arg == nullptr) return -FI_EINVAL;
        const std::uint64_t flags = *static_cast<const std::uint64_t*>(arg);
        const int ret = check_ops_flags(ep, flags);
        if (ret == 0) set_ops_flags(ep, flags);
        return ret;
    }
    case FI_ALIAS: return new_alias(ep, static_cast<const struct fi_alias*>(arg));
    default: return -FI_ENOSYS;
    }
}

fi_ops_ep ep_ops{sizeof(fi_ops_ep), ep_cancel, ep_getopt, ep_setopt, none, none, ep_rx_size_left, none};
fi_ops_cm ep_cm_ops{sizeof(fi_ops_cm), none, ep_getname, none, none, none, none, none, none, join_collective};

} // namespace nvlf::ofi
