// SPDX-License-Identifier: MIT OR GPL-2.0-only
// trigger.cc - FI_TRIGGER: an operation that is posted when a counter has come far enough.
//
// Call forms come here with a request that is complete and checked. It is kept (work_queue.hpp), or handed to the deferred
// work that is being put together by this very call (deferred_work.cc).
#include <rdma/fi_trigger.h>

#include <memory>
#include <new>
#include <type_traits>

#include "calls.hpp"
#include "work.hpp"

namespace nvlf::ofi {
namespace {

WorkQueue& queue_of(const EpFid& from) noexcept {
    return from.endpoint != nullptr ? from.endpoint->domain.work : from.rx->store.work;
}

// The condition is in the operation's context.
int take_condition(const WorkQueue& queue, const void* context, Work& work) noexcept {
    const auto* condition = static_cast<const fi_triggered_context*>(context);
    if (condition == nullptr) return -FI_EINVAL;
    if (condition->event_type != FI_TRIGGER_THRESHOLD) return -FI_ENOSYS;
    fid_cntr* const cntr = condition->trigger.threshold.cntr;
    if (cntr == nullptr || cntr->fid.fclass != FI_CLASS_CNTR || &cntr_of(cntr).domain.work != &queue) return -FI_EINVAL;
    work.trigger = &cntr_of(cntr);
    work.threshold = condition->trigger.threshold.threshold;
    return 0;
}

template <class Request>
ssize_t put_aside_any(EpFid& from, const Request& request) noexcept try {
    constexpr bool receives = std::is_same_v<Request, ReceiveRequest>;
    if (from.work != nullptr) {
        from.work->request = request;
        return 0;
    }
    WorkQueue& queue = queue_of(from);
    auto work = std::make_unique<Work>(queue);
    if (const int ret = take_condition(queue, request.context, *work); ret != 0) return ret;
    Request late = request;
    if constexpr (!receives) {
        if ((late.flags & FI_INJECT) != 0) work->copy = own_buffers(late);
    } else {
        work->rx = from.rx;
    }
    work->request = late;
    work->endpoint = from.endpoint;
    return queue.add(std::move(work));
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

} // namespace

int take_trigger(const EpFid& from, std::uint64_t& flags, std::uint64_t known) noexcept {
    const std::uint64_t reason = from.work != nullptr ? flag_deferred : FI_TRIGGER;
    if ((flags & ~(known | reason)) != 0) return -FI_EBADFLAGS;
    if (from.work == nullptr && from.endpoint != nullptr) {
        if ((from.endpoint->caps & FI_TRIGGER) == 0) return -FI_EBADFLAGS;
        if (from.endpoint->ep == nullptr) return -FI_EOPBADSTATE;
    }
    flags &= ~reason;
    return 0;
}

ssize_t put_aside(EpFid& from, const SendRequest& request) noexcept { return put_aside_any(from, request); }
ssize_t put_aside(EpFid& from, const RmaRequest& request) noexcept { return put_aside_any(from, request); }
ssize_t put_aside(EpFid& from, const AtomicRequest& request) noexcept { return put_aside_any(from, request); }
ssize_t put_aside(EpFid& from, const ReceiveRequest& request) noexcept { return put_aside_any(from, request); }

} // namespace nvlf::ofi
