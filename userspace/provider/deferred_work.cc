// SPDX-License-Identifier: MIT OR GPL-2.0-only
// deferred_work.cc - see deferred_work.hpp.
//
// What is deferred is described like the argument of a call: fi_sendmsg and its like. So it is that call which checks it and
// makes a request of it, made on a handle which says that the request is wanted and not its execution (EpFid::work).
#include "deferred_work.hpp"

#include <rdma/fi_errno.h>
#include <rdma/fi_trigger.h>

#include <memory>
#include <new>

#include "cntr.hpp"
#include "domain.hpp"
#include "endpoint.hpp"
#include "work.hpp"

namespace nvlf::ofi {
namespace {

bool is_cntr_of(const Domain& domain, const fid_cntr* cntr) noexcept {
    return cntr != nullptr && cntr->fid.fclass == FI_CLASS_CNTR &&
           &reinterpret_cast<const Cntr*>(cntr)->domain == &domain;
}

// An endpoint's handle as the work uses it.
struct Handle : EpFid {
    Handle(const EpFid& of, Work& w) noexcept {
        endpoint = of.endpoint;
        tx = &w.account;
        rx = of.rx;
        work = &w;
    }
};

// 0, or why nothing can be deferred on this endpoint.
int check_endpoint(const Domain& domain, const fid_ep* ep, bool receives) noexcept {
    if (ep == nullptr) return -FI_EINVAL;
    switch (ep->fid.fclass) {
    case FI_CLASS_EP:
    case FI_CLASS_TX_CTX:
    case FI_CLASS_RX_CTX:
    case FI_CLASS_SRX_CTX: break;
    default: return -FI_EINVAL;
    }
    const auto& from = reinterpret_cast<const EpFid&>(*ep);
    if (receives ? from.rx == nullptr : from.tx == nullptr) return -FI_EINVAL;
    if (receives && from.endpoint == nullptr) return &from.rx->store.work == &domain.work ? 0 : -FI_EINVAL;
    if (&from.endpoint->domain != &domain) return -FI_EINVAL;
    if ((from.endpoint->caps & FI_TRIGGER) == 0) return -FI_ENOSYS;
    return from.endpoint->ep != nullptr ? 0 : -FI_EOPBADSTATE;
}

// Has `call(handle, flags)` make the request of a data transfer.
template <class Operation, class Call>
ssize_t take_operation(const Domain& domain, Work& work, const Operation* op, bool receives, Call&& call) noexcept {
    if (op == nullptr) return -FI_EINVAL;
    if (const int ret = check_endpoint(domain, op->ep, receives); ret != 0) return ret;
    if ((op->flags & flag_deferred) != 0) return -FI_EBADFLAGS;
    const EpFid& from = ep_fid_of(op->ep);
    work.endpoint = from.endpoint;
    work.tx = from.tx;
    work.account.work = &work;
    Handle handle{from, work};
    return call(&handle.fid, op->flags | flag_deferred);
}

// A receive hears of its end by itself.
void hold_receive(Work& work, const EpFid& from) noexcept {
    auto& request = std::get<ReceiveRequest>(work.request);
    work.rx = from.rx;
    work.context = request.context;
    request.context = &work;
    request.flags |= flag_deferred;
}

template <class Operation, class Call>
ssize_t take_receive(const Domain& domain, Work& work, const Operation* op, Call&& call) noexcept {
    // A buffer for several messages has no one end.
    if (op != nullptr && (op->flags & FI_MULTI_RECV) != 0) return -FI_ENOSYS;
    const ssize_t ret = take_operation(domain, work, op, true, call);
    if (ret == 0) hold_receive(work, ep_fid_of(op->ep));
    return ret;
}

int take_counter(Domain& domain, Work& work, const fi_op_cntr* op, bool set) noexcept {
    if (op == nullptr || !is_cntr_of(domain, op->cntr)) return -FI_EINVAL;
    if (work.completion != nullptr) return -FI_EINVAL; // Of a change to a counter no other hears.
    Cntr& cntr = cntr_of(op->cntr);
    work.request = CntrRequest{&cntr, op->value, set};
    return domain.drive_with(cntr);
}

ssize_t take(Domain& domain, const ::fi_deferred_work& what, Work& work) noexcept {
    switch (what.op_type) {
    case FI_OP_RECV:
        return take_receive(domain, work, what.op.msg, [&](fid_ep* ep, std::uint64_t flags) {
            return msg_ops.recvmsg(ep, &what.op.msg->msg, flags);
        });
    case FI_OP_TRECV:
        return take_receive(domain, work, what.op.tagged, [&](fid_ep* ep, std::uint64_t flags) {
            return tagged_ops.recvmsg(ep, &what.op.tagged->msg, flags);
        });
    case FI_OP_SEND:
        return take_operation(domain, work, what.op.msg, false, [&](fid_ep* ep, std::uint64_t flags) {
            return msg_ops.sendmsg(ep, &what.op.msg->msg, flags);
        });
    case FI_OP_TSEND:
        return take_operation(domain, work, what.op.tagged, false, [&](fid_ep* ep, std::uint64_t flags) {
            return tagged_ops.sendmsg(ep, &what.op.tagged->msg, flags);
        });
    case FI_OP_READ:
        return take_operation(domain, work, what.op.rma, false, [&](fid_ep* ep, std::uint64_t flags) {
            return rma_ops.readmsg(ep, &what.op.rma->msg, flags);
        });
    case FI_OP_WRITE:
        return take_operation(domain, work, what.op.rma, false, [&](fid_ep* ep, std::uint64_t flags) {
            return rma_ops.writemsg(ep, &what.op.rma->msg, flags);
        });
    case FI_OP_ATOMIC:
        return take_operation(domain, work, what.op.atomic, false, [&](fid_ep* ep, std::uint64_t flags) {
            return atomic_ops.writemsg(ep, &what.op.atomic->msg, flags);
        });
    case FI_OP_FETCH_ATOMIC:
        return take_operation(domain, work, what.op.fetch_atomic, false, [&](fid_ep* ep, std::uint64_t flags) {
            const fi_op_fetch_atomic& op = *what.op.fetch_atomic;
            return atomic_ops.readwritemsg(ep, &op.msg, const_cast<fi_ioc*>(op.fetch.msg_iov), op.fetch.desc,
                                           op.fetch.iov_count, flags);
        });
    case FI_OP_COMPARE_ATOMIC:
        return take_operation(domain, work, what.op.compare_atomic, false, [&](fid_ep* ep, std::uint64_t flags) {
            const fi_op_compare_atomic& op = *what.op.compare_atomic;
            return atomic_ops.compwritemsg(ep, &op.msg, op.compare.msg_iov, op.compare.desc, op.compare.iov_count,
                                           const_cast<fi_ioc*>(op.fetch.msg_iov), op.fetch.desc, op.fetch.iov_count,
                                           flags);
        });
    case FI_OP_CNTR_SET: return take_counter(domain, work, what.op.cntr, true);
    case FI_OP_CNTR_ADD: return take_counter(domain, work, what.op.cntr, false);
    default: return -FI_ENOSYS;
    }
}

} // namespace

int queue_work(Domain& domain, const ::fi_deferred_work* what) noexcept try {
    if (what == nullptr || !is_cntr_of(domain, what->triggering_cntr)) return -FI_EINVAL;
    if (what->completion_cntr != nullptr && !is_cntr_of(domain, what->completion_cntr)) return -FI_EINVAL;
    auto work = std::make_unique<Work>(domain.work);
    work->name = what;
    work->trigger = &cntr_of(what->triggering_cntr);
    work->threshold = what->threshold;
    if (what->completion_cntr != nullptr) {
        work->completion = &cntr_of(what->completion_cntr);
        if (const int ret = domain.drive_with(*work->completion); ret != 0) return ret;
    }
    if (const ssize_t ret = take(domain, *what, *work); ret != 0) return static_cast<int>(ret);
    return domain.work.add(std::move(work));
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

int cancel_work(Domain& domain, const ::fi_deferred_work* what) noexcept {
    return what != nullptr ? domain.work.cancel(*what) : -FI_EINVAL;
}

int flush_work(Domain& domain, ::fid* cntr) noexcept {
    if (cntr == nullptr) {
        domain.work.flush(nullptr);
        return 0;
    }
    const auto* trigger = reinterpret_cast<const fid_cntr*>(cntr);
    if (!is_cntr_of(domain, trigger)) return -FI_EINVAL;
    domain.work.flush(reinterpret_cast<const Cntr*>(trigger));
    return 0;
}

} // namespace nvlf::ofi
