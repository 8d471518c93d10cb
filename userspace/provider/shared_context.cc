// SPDX-License-Identifier: MIT OR GPL-2.0-only
// shared_context.cc - see shared_context.hpp.
#include "shared_context.hpp"

#include <rdma/fi_errno.h>

#include <new>

#include "endpoint.hpp"
#include "ep_calls.hpp"
#include "none.hpp"
#include "params.hpp"

namespace nvlf::ofi {
namespace {

int stx_close(::fid* object) {
    SharedTx& stx = shared_tx_of(object);
    if (stx.endpoints.load(std::memory_order_acquire) != 0) return -FI_EBUSY;
    stx.domain.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &stx;
    return 0;
}

fi_ops stx_fid_ops{sizeof(fi_ops), stx_close, no_bind, no_control, no_ops_open, no_tostr, no_ops_set};
fi_ops_ep stx_ops{sizeof(fi_ops_ep), none, none, none, none, none, none, none};

int srx_close(::fid* object) {
    SharedRx& srx = shared_rx_of(object);
    if (srx.endpoints.load(std::memory_order_acquire) != 0 || srx.aliases.load(std::memory_order_acquire) != 0)
        return -FI_EBUSY;
    srx.domain.work.stop(nullptr, &srx.context);
    srx.domain.work.forget(nullptr, &srx.context);
    srx.domain.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &srx;
    return 0;
}

// Queues and counters are those of the endpoints. It takes receives from the start, so enabling it does nothing.
int srx_control(::fid* object, int command, void* arg) {
    return command == FI_ENABLE ? 0 : ep_control_common(ep_fid_of(object), command, arg);
}

fi_ops srx_fid_ops{sizeof(fi_ops), srx_close, no_bind, srx_control, no_ops_open, no_tostr, no_ops_set};

} // namespace

SharedRx::SharedRx(Domain& d, std::uint64_t caps) noexcept
    : domain{d}, store{d.work, d.locks(), params().unexpected_limit}, context{store, caps} {
    rx = &context;
    context.open();
}

int shared_tx_open(fid_domain* fid, fi_tx_attr* attr, fid_stx** ret_stx, void* context) noexcept {
    Domain& domain = domain_of(fid);
    if (ret_stx == nullptr || (attr != nullptr && check_tx_attr(*attr, domain.caps) != 0)) return -FI_EINVAL;
    auto* const stx = new (std::nothrow) SharedTx{domain};
    if (stx == nullptr) return -FI_ENOMEM;
    stx->fid = {.fid = {.fclass = FI_CLASS_STX_CTX, .context = context, .ops = &stx_fid_ops}, .ops = &stx_ops};
    if (attr != nullptr) fill_tx_attr(*attr, domain.caps, attr->msg_order);
    domain.refs.fetch_add(1, std::memory_order_acq_rel);
    *ret_stx = &stx->fid;
    return 0;
}

int shared_rx_open(fid_domain* fid, fi_rx_attr* attr, fid_ep** ret_srx, void* context) noexcept {
    Domain& domain = domain_of(fid);
    if (ret_srx == nullptr || (attr != nullptr && check_rx_attr(*attr, domain.caps) != 0)) return -FI_EINVAL;
    if (const int ret = count_forks(); ret != 0) return ret;
    const std::uint64_t caps = attr != nullptr && attr->caps != 0 ? attr->caps : domain.caps;
    auto* const srx = new (std::nothrow) SharedRx{domain, caps};
    if (srx == nullptr) return -FI_ENOMEM;
    if (attr != nullptr) {
        srx->rx_flags = attr->op_flags;
        fill_rx_attr(*attr, domain.caps);
    }
    srx->fid = {.fid = {.fclass = FI_CLASS_SRX_CTX, .context = context, .ops = &srx_fid_ops},
                .ops = &ep_ops,
                .cm = &none_cm,
                .msg = &msg_receive_ops,
                .rma = &none_rma,
                .tagged = &tagged_receive_ops,
                .atomic = &none_atomic,
                .collective = &none_collective};
    domain.refs.fetch_add(1, std::memory_order_acq_rel);
    *ret_srx = &srx->fid;
    return 0;
}

} // namespace nvlf::ofi
