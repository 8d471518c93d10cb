// SPDX-License-Identifier: MIT OR GPL-2.0-only
// work_queue.cc - see work_queue.hpp.
#include "work_queue.hpp"

#include <rdma/fi_errno.h>
#include <sched.h>

#include <algorithm>
#include <mutex>

#include "cntr.hpp"
#include "work.hpp"

namespace nvlf::ofi {
namespace {

Work& work_of(WorkItem& item) noexcept { return static_cast<Work&>(item); }
const Work& work_of(const WorkItem& item) noexcept { return static_cast<const Work&>(item); }

// The counters that a piece of work uses.
template <class F>
void each_counter(const Work& work, F&& f) {
    if (work.trigger != nullptr) f(*work.trigger);
    if (work.completion != nullptr) f(*work.completion);
    if (const auto* change = std::get_if<CntrRequest>(&work.request); change != nullptr) f(*change->cntr);
}

bool belongs(const Work& work, const Endpoint* endpoint, const RxContext* rx) noexcept {
    return (endpoint != nullptr && work.endpoint == endpoint) || (rx != nullptr && work.rx == rx);
}

const void* context_of(const Work& work) noexcept {
    return std::visit(
        [](const auto& request) -> const void* {
            if constexpr (std::is_same_v<std::decay_t<decltype(request)>, CntrRequest>) return nullptr;
            else return request.context;
        },
        work.request);
}

} // namespace

WorkQueue::~WorkQueue() {
    while (!all_.empty()) {
        Work& work = work_of(all_.front());
        take_out(work);
        destroy(work);
    }
}

void WorkQueue::destroy(Work& work) noexcept {
    each_counter(work, [](Cntr& cntr) { cntr.refs.fetch_sub(1, std::memory_order_acq_rel); });
    delete &work;
}

int WorkQueue::add(std::unique_ptr<Work> owned) noexcept {
    Work& work = *owned;
    Cntr& cntr = *work.trigger;
    {
        const std::lock_guard guard{lock_};
        if (count_ >= work_limit) return -FI_EAGAIN;
        ++count_;
        each_counter(work, [](Cntr& used) { used.refs.fetch_add(1, std::memory_order_relaxed); });
        all_.push_back(*owned.release());
        // Behind those of the same threshold; mostly it is the last.
        auto at = cntr.waiting.end();
        while (at != cntr.waiting.begin() && std::prev(at)->threshold > work.threshold) --at;
        cntr.waiting.insert(at, work);
        // seq_cst, here and in Cntr::add: either that sees the threshold, or we see the sum.
        cntr.next_threshold.store(cntr.waiting.front().threshold, std::memory_order_seq_cst);
        if (cntr.sum() >= work.threshold) collect_due(cntr);
    }
    fire();
    return 0;
}

void WorkQueue::reached(Cntr& cntr) noexcept {
    const std::lock_guard guard{lock_};
    collect_due(cntr);
}

void WorkQueue::collect_due(Cntr& cntr) noexcept {
    const std::uint64_t sum = cntr.sum();
    while (!cntr.waiting.empty() && cntr.waiting.front().threshold <= sum) {
        Work& work = work_of(cntr.waiting.front());
        cntr.waiting.pop_front();
        work.state = Work::State::due;
        due_.push_back(work);
    }
    cntr.next_threshold.store(cntr.waiting.empty() ? Cntr::no_threshold : cntr.waiting.front().threshold,
                              std::memory_order_seq_cst);
    any_due_.store(!due_.empty(), std::memory_order_relaxed);
}

// Order within an endpoint: what found no room keeps back what comes after it.
bool WorkQueue::blocked(const Work& work, WorkList& before) noexcept {
    return std::any_of(before.begin(), before.end(), [&](const WorkItem& item) {
        const Work& other = work_of(item);
        return other.endpoint == work.endpoint && other.rx == work.rx;
    });
}

void WorkQueue::fire_due() noexcept {
    std::unique_lock guard{lock_};
    if (firing_) return; // Who does it looks again before it ends.
    firing_ = true;
    WorkList later;
    while (!due_.empty()) {
        Work& work = work_of(due_.front());
        due_.pop_front();
        if (blocked(work, later)) {
            later.push_back(work);
            continue;
        }
        const bool stays = work.deferred() && !std::holds_alternative<CntrRequest>(work.request);
        work.state = stays ? Work::State::started : Work::State::starting;
        starting_endpoint_ = work.endpoint;
        starting_rx_ = work.rx;
        guard.unlock();
        const ssize_t result = work.start();
        if (result != 0 && result != -FI_EAGAIN) work.fail(static_cast<int>(-result));
        guard.lock();
        starting_endpoint_ = nullptr;
        starting_rx_ = nullptr;
        if (result == -FI_EAGAIN) {
            work.state = Work::State::due;
            later.push_back(work);
        } else if (!stays) {
            take_out(work);
            destroy(work);
        }
    }
    due_.splice(due_.begin(), later);
    any_due_.store(!due_.empty(), std::memory_order_relaxed);
    firing_ = false;
    if (due()) stir();
}

void WorkQueue::ended(Work& work) noexcept {
    const std::lock_guard guard{lock_};
    take_out(work);
    destroy(work);
}

// Out of all lists.
void WorkQueue::take_out(Work& work) noexcept {
    switch (work.state) {
    case Work::State::waiting: {
        Cntr& cntr = *work.trigger;
        cntr.waiting.erase(cntr.waiting.iterator_to(work));
        cntr.next_threshold.store(cntr.waiting.empty() ? Cntr::no_threshold : cntr.waiting.front().threshold,
                                  std::memory_order_seq_cst);
        break;
    }
    case Work::State::due: due_.erase(due_.iterator_to(work)); break;
    case Work::State::starting:
    case Work::State::started: break;
    }
    all_.erase(all_.iterator_to(work));
    --count_;
}

// Throws away what wanted(work) names. Under the lock.
template <class F>
bool WorkQueue::drop_if(F&& wanted) noexcept {
    bool any = false;
    for (auto at = all_.begin(); at != all_.end();) {
        Work& work = work_of(*at++);
        if (!wanted(work)) continue;
        take_out(work);
        destroy(work);
        any = true;
    }
    any_due_.store(!due_.empty(), std::memory_order_relaxed);
    return any;
}

int WorkQueue::cancel(const ::fi_deferred_work& name) noexcept {
    const std::lock_guard guard{lock_};
    const auto queued = [&](const Work& work) {
        return work.name == &name && (work.state == Work::State::waiting || work.state == Work::State::due);
    };
    return drop_if(queued) ? 0 : -FI_ENOENT;
}

void WorkQueue::flush(const Cntr* trigger) noexcept {
    const std::lock_guard guard{lock_};
    (void)drop_if([&](const Work& work) {
        return work.deferred() && (trigger == nullptr || work.trigger == trigger) &&
               (work.state == Work::State::waiting || work.state == Work::State::due);
    });
}

bool WorkQueue::cancel(const Endpoint* endpoint, const RxContext* rx, const void* context) noexcept {
    Work* work = nullptr;
    {
        const std::lock_guard guard{lock_};
        const auto found = std::find_if(all_.begin(), all_.end(), [&](const WorkItem& item) {
            const Work& w = work_of(item);
            return !w.deferred() && belongs(w, endpoint, rx) && context_of(w) == context &&
                   (w.state == Work::State::waiting || w.state == Work::State::due);
        });
        if (found == all_.end()) return false;
        work = &work_of(*found);
        take_out(*work);
        any_due_.store(!due_.empty(), std::memory_order_relaxed);
    }
    work->fail(FI_ECANCELED);
    destroy(*work);
    return true;
}

void WorkQueue::stop(const Endpoint* endpoint, const RxContext* rx) noexcept {
    std::unique_lock guard{lock_};
    (void)drop_if([&](const Work& work) {
        return belongs(work, endpoint, rx) && (work.state == Work::State::waiting || work.state == Work::State::due);
    });
    // Another thread's progress may just be starting some. It is not among what is due, so it comes back at most once.
    while ((endpoint != nullptr && starting_endpoint_ == endpoint) || (rx != nullptr && starting_rx_ == rx)) {
        guard.unlock();
        ::sched_yield();
        guard.lock();
        (void)drop_if([&](const Work& work) { return belongs(work, endpoint, rx) && work.state == Work::State::due; });
    }
}

void WorkQueue::forget(const Endpoint* endpoint, const RxContext* rx) noexcept {
    const std::lock_guard guard{lock_};
    (void)drop_if([&](const Work& work) { return belongs(work, endpoint, rx); });
}

} // namespace nvlf::ofi
