// SPDX-License-Identifier: MIT OR GPL-2.0-only
// scalable_ep.cc - one address, several transmit and receive contexts (fi_scalable_ep).
//
// A scalable endpoint is one engine, with one region and one lane to a peer, that reports on the account of several
// contexts. All of it works under one lock: contexts part what is received and who is told, not the work. (Threads that
// are to work side by side open an endpoint each.)
//
// Contexts exist from the start, so that messages for one wait until it is opened; what fi_tx_context and fi_rx_context
// open is the application's handle on one.
#include <rdma/fi_errno.h>

#include <mutex>
#include <new>

#include "endpoint.hpp"
#include "ep_calls.hpp"
#include "ep_queues.hpp"
#include "none.hpp"

namespace nvlf::ofi {
namespace {

struct ContextFid : EpFid {
    RxBinding* binding = nullptr; // Of a receive context.

    template <class F>
    auto side(F&& f) {
        return binding != nullptr ? f(*binding) : f(*tx);
    }
};

ContextFid& context_of(::fid* object) noexcept { return static_cast<ContextFid&>(ep_fid_of(object)); }

int context_bind(::fid* object, ::fid* other, std::uint64_t flags) {
    ContextFid& context = context_of(object);
    if (other == nullptr) return -FI_EINVAL;
    if (context.side([](auto& side) { return side.enabled; })) return -FI_EOPBADSTATE;
    switch (other->fclass) {
    case FI_CLASS_CQ:
    case FI_CLASS_CNTR: return bind_queue(context.endpoint->domain, context.tx, context.binding, *other, flags);
    // It has the endpoint's, and may be told so.
    case FI_CLASS_AV: return context.endpoint->av == &av_of(reinterpret_cast<fid_av*>(other)) ? 0 : -FI_EINVAL;
    case FI_CLASS_EQ: return 0; // Connectionless: nothing would ever be reported there.
    default: return -FI_EINVAL;
    }
}

int context_enable(ContextFid& context) noexcept {
    Endpoint& ep = *context.endpoint;
    return context.side([&](auto& side) {
        if (side.enabled) return 0;
        // A context that sends no messages and receives none may have nothing to report.
        if (!has_queue(side) && (ep.caps & (FI_MSG | FI_TAGGED)) != 0) return -FI_ENOCQ;
        // Before the endpoint itself is enabled there is nothing to drive; it takes along those that are.
        if (const int e = ep.ep != nullptr ? join_queues(ep, side) : 0; e != 0) {
            leave_queues(ep, side);
            return e;
        }
        const std::lock_guard guard{ep.lock()};
        side.enabled = true;
        if (context.binding != nullptr) {
            context.rx->open();
            return 0;
        }
        context.fid.msg = &msg_send_ops;
        context.fid.tagged = &tagged_send_ops;
        context.fid.rma = &rma_ops;
        context.fid.atomic = &atomic_ops;
        return 0;
    });
}

int context_control(::fid* object, int command, void* arg) {
    ContextFid& context = context_of(object);
    return command == FI_ENABLE ? context_enable(context) : ep_control_common(context, command, arg);
}

// What is in flight for it goes on and is reported nowhere.
int context_close(::fid* object) {
    ContextFid& context = context_of(object);
    if (context.aliases.load(std::memory_order_acquire) != 0) return -FI_EBUSY;
    Endpoint& ep = *context.endpoint;
    context.side([&](auto& side) {
        leave_queues(ep, side);
        const auto bound = side;
        {
            const std::lock_guard guard{ep.lock()};
            side.forget_queues();
            if (context.binding != nullptr) context.rx->close();
            else ep.disown(*context.tx);
        }
        release_queues(bound);
    });
    delete &context;
    return 0;
}

fi_ops context_fid_ops{sizeof(fi_ops), context_close, context_bind, context_control, no_ops_open, no_tostr, no_ops_set};

ContextFid* new_context(Endpoint& ep, std::size_t fclass, void* context) noexcept {
    auto* const made = new (std::nothrow) ContextFid;
    if (made == nullptr) return nullptr;
    made->endpoint = &ep;
    made->fid = {.fid = {.fclass = fclass, .context = context, .ops = &context_fid_ops},
                 .ops = &ep_ops,
                 .cm = &ep_cm_ops,
                 .msg = &none_msg,
                 .rma = &none_rma,
                 .tagged = &none_tagged,
                 .atomic = &none_atomic,
                 .collective = &none_collective};
    return made;
}

int sep_tx_context(fid_ep* sep, int index, fi_tx_attr* attr, fid_ep** ret_tx, void* context) {
    Endpoint& ep = endpoint_of(sep);
    if (ret_tx == nullptr || index < 0 || static_cast<std::size_t>(index) >= ep.tx_contexts.size()) return -FI_EINVAL;
    TxContext& tx = ep.tx_contexts[static_cast<std::size_t>(index)];
    if (tx.open) return -FI_EBUSY;
    if (attr != nullptr && (check_tx_attr(*attr, ep.caps) != 0 || (attr->msg_order & ~ep.msg_order) != 0))
        return -FI_EINVAL;
    ContextFid* const made = new_context(ep, FI_CLASS_TX_CTX, context);
    if (made == nullptr) return -FI_ENOMEM;
    made->tx = &tx;
    made->tx_flags = attr != nullptr ? attr->op_flags : ep.tx_flags;
    made->fid.msg = &idle_msg;
    made->fid.rma = &idle_rma;
    made->fid.tagged = &idle_tagged;
    made->fid.atomic = &idle_atomic;
    if (attr != nullptr) fill_tx_attr(*attr, ep.caps, ep.msg_order);
    tx.open = true;
    *ret_tx = &made->fid;
    return 0;
}

int sep_rx_context(fid_ep* sep, int index, fi_rx_attr* attr, fid_ep** ret_rx, void* context) {
    Endpoint& ep = endpoint_of(sep);
    if (ret_rx == nullptr || index < 0 || static_cast<std::size_t>(index) >= ep.rx_bindings.size()) return -FI_EINVAL;
    RxBinding& binding = ep.rx_bindings[static_cast<std::size_t>(index)];
    if (binding.open) return -FI_EBUSY;
    if (attr != nullptr && check_rx_attr(*attr, ep.caps) != 0) return -FI_EINVAL;
    ContextFid* const made = new_context(ep, FI_CLASS_RX_CTX, context);
    if (made == nullptr) return -FI_ENOMEM;
    made->binding = &binding;
    made->rx = binding.context;
    made->rx_flags = attr != nullptr ? attr->op_flags : ep.rx_flags;
    made->fid.msg = &msg_receive_ops;
    made->fid.tagged = &tagged_receive_ops;
    if (attr != nullptr) fill_rx_attr(*attr, ep.caps);
    binding.open = true;
    *ret_rx = &made->fid;
    return 0;
}

int sep_bind(::fid* object, ::fid* other, std::uint64_t flags) {
    // Queues and counters are its contexts'.
    if (other == nullptr || other->fclass == FI_CLASS_CQ || other->fclass == FI_CLASS_CNTR) return -FI_EINVAL;
    return endpoint_of(reinterpret_cast<fid_ep*>(object)).bind(other, flags);
}

int sep_control(::fid* object, int command, void* arg) {
    EpFid& ep = ep_fid_of(object);
    return command == FI_ENABLE ? ep.endpoint->enable() : ep_control_common(ep, command, arg);
}

int sep_close(::fid* object) {
    Endpoint& ep = endpoint_of(reinterpret_cast<fid_ep*>(object));
    for (const TxContext& tx : ep.tx_contexts)
        if (tx.open) return -FI_EBUSY;
    for (const RxBinding& binding : ep.rx_bindings)
        if (binding.open) return -FI_EBUSY;
    if (ep.busy()) return -FI_EBUSY;
    delete &ep;
    return 0;
}

fi_ops sep_fid_ops{sizeof(fi_ops), sep_close, sep_bind, sep_control, no_ops_open, no_tostr, no_ops_set};
fi_ops_ep sep_ops{sizeof(fi_ops_ep), ep_cancel,      ep_getopt,       ep_setopt,
                  sep_tx_context,    sep_rx_context, ep_rx_size_left, none};

} // namespace

int scalable_ep_open(fid_domain* fid, fi_info* info, fid_ep** ret_sep, void* context) noexcept try {
    if (info == nullptr || ret_sep == nullptr || info->ep_attr == nullptr) return -FI_EINVAL;
    if (check_info(domain_of(fid).fabric.api_version, *info) != 0) return -FI_EINVAL;
    std::size_t transmit = info->ep_attr->tx_ctx_cnt;
    std::size_t receive = info->ep_attr->rx_ctx_cnt;
    if (transmit == FI_SHARED_CONTEXT || receive == FI_SHARED_CONTEXT) return -FI_EINVAL;
    if (transmit == 0) transmit = 1;
    if (receive == 0) receive = 1;
    if (const int ret = count_forks(); ret != 0) return ret;
    auto ep = std::make_unique<Endpoint>(domain_of(fid), *info, transmit, receive);
    // It sends and receives nothing by itself.
    ep->tx = nullptr;
    ep->rx = nullptr;
    ep->fid = {.fid = {.fclass = FI_CLASS_SEP, .context = context, .ops = &sep_fid_ops},
               .ops = &sep_ops,
               .cm = &ep_cm_ops,
               .msg = &none_msg,
               .rma = &none_rma,
               .tagged = &none_tagged,
               .atomic = &none_atomic,
               .collective = &none_collective};
    *ret_sep = &ep.release()->fid;
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

} // namespace nvlf::ofi
