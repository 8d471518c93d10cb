// SPDX-License-Identifier: MIT OR GPL-2.0-only
// work_queue.hpp - operations that wait for a counter: triggered operations and deferred work, fi_trigger(3).
//
// What is to be done is a request like any other (work.hpp), put aside until the successes and failures of a counter together
// reach a threshold. Each counter keeps what waits for it, by threshold. Counters change with locks held, in the middle of
// an engine, so work that becomes due is only noted there (reached). It starts in the same call of the application's, when
// that has let go of its locks (fire): at the end of whatever drives an endpoint, posts an operation or changes a counter.
// Whoever finds another at it leaves it to that one, so chains of work do not nest, however long they are. What finds
// its lane full is due still, and tried again.
//
// Order of locks: the queue's own comes after all others, and no other is taken under it.
#pragma once

#include <atomic>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "lock.hpp"
#include "progress_thread.hpp"

struct fi_deferred_work;

namespace nvlf::ofi {

struct Cntr;
struct Endpoint;
struct RxContext;
struct Work;

// Work of a domain that has not ended.
inline constexpr std::size_t work_limit = 1u << 20;

// Of lists: each piece of work is among all of its queue, and in the list of its state (but while it is being started).
struct ByState;
struct InQueue;
template <class Tag>
using WorkHook = boost::intrusive::list_base_hook<boost::intrusive::tag<Tag>,
                                                  boost::intrusive::link_mode<boost::intrusive::safe_link>>;
struct WorkItem : WorkHook<ByState>, WorkHook<InQueue> {
    Cntr* trigger = nullptr;
    std::uint64_t threshold = 0;
};
template <class Tag>
using WorkListOf = boost::intrusive::list<WorkItem, boost::intrusive::base_hook<WorkHook<Tag>>,
                                          boost::intrusive::constant_time_size<false>>;
using WorkList = WorkListOf<ByState>;

class WorkQueue {
public:
    explicit WorkQueue(bool locked) noexcept : lock_{locked} {}
    WorkQueue(const WorkQueue&) = delete;
    WorkQueue& operator=(const WorkQueue&) = delete;
    ~WorkQueue();

    // Takes it in; the objects it refers to cannot be closed any more. -FI_EAGAIN: there is too much of it. What the
    // counter allows already, starts.
    [[nodiscard]] int add(std::unique_ptr<Work> work) noexcept;

    // A counter's value has come to where work waits for it.
    void reached(Cntr& cntr) noexcept;
    // Cheap while nothing is due. The caller holds no lock but that of a list of endpoints.
    void fire() noexcept {
        if (due()) [[unlikely]]
            fire_due();
    }
    [[nodiscard]] bool due() const noexcept { return any_due_.load(std::memory_order_relaxed); }
    // There is something to do now of which no peer will tell. Who else goes on with it than the application's own calls:
    // the thread of a domain with automatic progress, if it is one.
    void stir() noexcept {
        if (thread != nullptr) [[unlikely]]
            thread->stir();
    }
    ProgressThread* thread = nullptr;
    // Deferred work that was started is over, its counters told.
    void ended(Work& work) noexcept;

    // FI_CANCEL_WORK, FI_FLUSH_WORK: takes back what has not started. -FI_ENOENT: it has, or was never here. `trigger`: only
    // what waits for this counter; nullptr: all deferred work.
    [[nodiscard]] int cancel(const ::fi_deferred_work& name) noexcept;
    void flush(const Cntr* trigger) noexcept;
    // fi_cancel: the oldest triggered operation of this endpoint, or on this receive context, that was posted with this
    // context and has not started; it ends in error. False: there is none.
    [[nodiscard]] bool cancel(const Endpoint* endpoint, const RxContext* rx, const void* context) noexcept;

    // An endpoint (a shared receive context) closes. First none of its work starts any more; when its engine has stopped,
    // what was started is forgotten.
    void stop(const Endpoint* endpoint, const RxContext* rx) noexcept;
    void forget(const Endpoint* endpoint, const RxContext* rx) noexcept;

private:
    [[gnu::cold]] void fire_due() noexcept;
    void collect_due(Cntr& cntr) noexcept;
    [[nodiscard]] static bool blocked(const Work& work, WorkList& before) noexcept;
    void take_out(Work& work) noexcept;
    template <class F>
    [[nodiscard]] bool drop_if(F&& wanted) noexcept;
    static void destroy(Work& work) noexcept;

    SpinLock lock_;
    WorkListOf<InQueue> all_;
    WorkList due_;
    std::size_t count_ = 0;
    bool firing_ = false;
    const Endpoint* starting_endpoint_ = nullptr; // Whose work is being started, without the lock.
    const RxContext* starting_rx_ = nullptr;
    std::atomic<bool> any_due_{false};
};

} // namespace nvlf::ofi
