// SPDX-License-Identifier: MIT OR GPL-2.0-only
// wait.hpp - how a thread waits for completions without burning its processor, and without missing one.
//
// A completion comes about in two ways: a peer wrote to a lane (nobody here knows yet; the endpoint's doorbell rings if
// it is armed), or another thread's progress put it into our queue (no doorbell rings). So a sleeper announces itself
// first (WaitObject::begin), arms every endpoint, looks once more, and then polls the endpoints' descriptors together
// with an eventfd of its own, to which news of the second kind is written while somebody sleeps.
//
// EndpointList is the set of endpoints that a completion object drives, WaitObject the way to sleep on one. An
// application that polls by itself (FI_WAIT_FD) sleeps by the same rules: fi_trywait begins and arms, its next read ends.
#pragma once

#include <rdma/fi_eq.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fd.hpp"
#include "endpoint_api.hpp"
#include "lock.hpp"

struct nvlf_fabric;

namespace nvlf::ofi {

struct WaitSet;

// Answers -FI_EAGAIN while there is nothing, after having driven progress; anything else ends the waiting.
using Look = ssize_t (*)(void* self);

class WaitObject {
public:
    // `set` counts for FI_WAIT_SET only. -FI_ENOSYS for mutexes; -FI_EINVAL for what is no wait object.
    [[nodiscard]] int open(enum fi_wait_obj kind, fid_wait* set) noexcept;
    [[nodiscard]] WaitSet* set() const noexcept { return set_; } // nullptr: FI_WAIT_SET it is not.

    [[nodiscard]] enum fi_wait_obj kind() const noexcept { return kind_; }
    [[nodiscard]] bool can_block() const noexcept { return kind_ != FI_WAIT_NONE && kind_ != FI_WAIT_SET; }
    [[nodiscard]] bool can_signal() const noexcept { return kind_ != FI_WAIT_NONE; }
    [[nodiscard]] int control(int command, void* arg) const noexcept; // FI_GETWAIT, FI_GETWAITOBJ

    // There is news. Cheap while nobody sleeps. To be called after the news can be seen.
    void notify() noexcept {
        // seq_cst, here and in begin(): either we see the sleeper, or its last look sees our news.
        if (sleepers_.load(std::memory_order_seq_cst) > 0) [[unlikely]]
            ring();
    }

    // Makes a blocking call return: one that sleeps now, else the next.
    void signal() noexcept;
    [[nodiscard]] bool signalled() const noexcept { return signalled_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool take_signal() noexcept {
        return signalled() && signalled_.exchange(false, std::memory_order_acq_rel);
    }

    // Around sleeping: from begin() to end(), notify() rings event_fd(). What rang before is seen by the look that must
    // follow. The ring is silenced when all who slept as it rang have come to their end(): one to whom it means nothing
    // (fi_cntr_wait for a higher count) must not take it from one to whom it does and who has not run yet.
    using Ticket = std::uint64_t; // How often it had rung at begin().
    [[nodiscard]] Ticket begin() noexcept;
    void end(Ticket ticket) noexcept;

    // True while an application may sleep on the descriptor, from fi_trywait to its next read.
    [[nodiscard]] bool armed() const noexcept { return armed_.load(std::memory_order_relaxed); }
    // Keeps the ticket. False: it is armed already, by another thread.
    [[nodiscard]] bool arm(Ticket ticket) noexcept;
    // The ticket, to be ended. Nothing: another thread was faster.
    [[nodiscard]] std::optional<Ticket> disarm() noexcept;

    [[nodiscard]] int event_fd() const noexcept { return event_.get(); }
    // All of it in one descriptor: for FI_WAIT_FD, FI_WAIT_POLLFD and FI_WAIT_SET, else -1.
    [[nodiscard]] int epoll_fd() const noexcept { return epoll_.get(); }

private:
    void ring() noexcept;
    void silence() noexcept;

    enum fi_wait_obj kind_ = FI_WAIT_NONE;
    WaitSet* set_ = nullptr;
    Fd event_; // Rung for news and signals.
    Fd epoll_; // What the application polls, over event_ and the endpoints' descriptors.
    std::atomic<int> sleepers_{0};
    std::atomic<bool> signalled_{false};
    std::atomic<bool> armed_{false};
    std::mutex lock_; // What follows, and ringing and silencing: never held by who has news and finds nobody asleep.
    std::uint64_t rings_ = 0;
    int unaware_ = 0; // Sleepers that began before the last ring.
    Ticket armed_ticket_ = 0;
};

class EndpointList {
public:
    explicit EndpointList(bool locked) noexcept : lock_{locked} {}

    // Counted: an endpoint that was added twice (for FI_SEND and for FI_RECV) must be removed twice. -FI_ENOMEM, or what
    // epoll_ctl says. Sleepers learn of it.
    [[nodiscard]] int add(Endpoint& endpoint, WaitObject& wait) noexcept;
    // After the last one the endpoint is progressed no more. The caller must not hold its lock.
    void remove(Endpoint& endpoint, WaitObject& wait) noexcept;

    void progress() noexcept;
    void arm() noexcept; // Nests; endpoints that join meanwhile are armed, too.
    void disarm() noexcept;
    [[nodiscard]] bool ready() noexcept;
    // Appends the descriptors on which a sleeper polls. False: no memory.
    [[nodiscard]] bool wait_fds(std::vector<pollfd>& ret_polled) noexcept;

private:
    struct Item {
        Endpoint* endpoint;
        int count; // add() minus remove()
    };
    SpinLock lock_;
    std::vector<Item> items_;
    int armed_ = 0; // arm() minus disarm()
};

// A completion object as seen by whoever waits for it.
struct Waitable {
    WaitObject& wait;
    EndpointList* endpoints; // nullptr: none drives it.
    nvlf_fabric* fabric;     // nullptr: it does not depend on one.
};

// The descriptors on which one polls who sleeps until there may be news. False: no memory.
[[nodiscard]] bool news_of(const Waitable& object, std::vector<pollfd>& ret_polled) noexcept;

// A blocking call. Answers what `look` answered, -FI_EAGAIN when signalled, `timed_out` after `timeout_ms` (< 0: never),
// -FI_ENODEV when there is nothing and the fabric is gone, so that nothing will come.
// A thread may be cancelled while it sleeps, and unwinds then: the caller must not be noexcept.
[[nodiscard]] ssize_t block(const Waitable& object, Look look, void* self, int timeout_ms, ssize_t timed_out);

// fi_trywait for one object: 0 when its descriptor may be polled, -FI_EAGAIN when there is something to read (`look` must
// not take it), -FI_EINVAL when it has none.
[[nodiscard]] int begin_try_wait(const Waitable& object, Look look, void* self) noexcept;
// Ends what begin_try_wait began. Reads call it when wait.armed().
void end_try_wait(const Waitable& object) noexcept;

// FI_GETWAIT of what sleeps on one descriptor: as `kind` has it, -FI_ENODATA when that shows none.
[[nodiscard]] int give_descriptor(enum fi_wait_obj kind, int fd, void* arg) noexcept;

// How long poll() may sleep. Rounded up: it must not return before the deadline, or we would spin through the last
// millisecond. -1 for ever.
class Deadline {
public:
    explicit Deadline(int timeout_ms) noexcept; // < 0: never.
    [[nodiscard]] bool passed() const noexcept;
    [[nodiscard]] int remaining_ms() const noexcept;

private:
    std::chrono::steady_clock::time_point end_;
    bool never_;
};

// With more processes than cores, one that polls keeps those from running for whom it waits: so a poll that found nothing
// too often in a row gives the processor away.
class Patience {
public:
    void found() noexcept { vain_.store(0, std::memory_order_relaxed); }
    void found_nothing(std::uint32_t yield_after) noexcept {
        // Not an atomic increment: when threads race, some counts are lost, and that is all.
        const std::uint32_t vain = vain_.load(std::memory_order_relaxed) + 1;
        vain_.store(vain, std::memory_order_relaxed);
        if (yield_after != 0 && vain > yield_after) [[unlikely]]
            ::sched_yield();
    }

private:
    std::atomic<std::uint32_t> vain_{0};
};

} // namespace nvlf::ofi
