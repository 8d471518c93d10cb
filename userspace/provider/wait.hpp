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

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fd.hpp"
#include "endpoint_api.hpp"
#include "lock.hpp"

struct nvlf_fabric;

namespace nvlf::ofi {

class EndpointList;

class WaitObject {
public:
    // -FI_ENOSYS for wait sets, mutexes and poll arrays; -FI_EINVAL for what is no wait object.
    [[nodiscard]] int open(enum fi_wait_obj kind) noexcept;

    [[nodiscard]] enum fi_wait_obj kind() const noexcept { return kind_; }
    [[nodiscard]] bool can_block() const noexcept { return kind_ != FI_WAIT_NONE; }
    [[nodiscard]] int control(int command, void* arg) const noexcept; // FI_GETWAIT, FI_GETWAITOBJ

    // There is news. Cheap while nobody sleeps. To be called after the news can be seen.
    void notify() noexcept {
        // seq_cst, here and in begin(): either we see the sleeper, or its last look sees our news.
        if (sleepers_.load(std::memory_order_seq_cst) > 0) [[unlikely]]
            ring();
    }

    // Makes a blocking call return, the next one if there is none now.
    void signal() noexcept;
    [[nodiscard]] bool take_signal() noexcept {
        return signalled_.load(std::memory_order_relaxed) && signalled_.exchange(false, std::memory_order_acq_rel);
    }

    void begin() noexcept;
    void end() noexcept;
    void wake_others() noexcept { notify(); }

    // For fi_trywait. True while an application may sleep on the descriptor; the next read calls rest().
    [[nodiscard]] bool armed() const noexcept { return armed_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool set_armed(bool armed) noexcept { return armed_.exchange(armed, std::memory_order_acq_rel); }

    [[nodiscard]] int event_fd() const noexcept { return event_.get(); }
    [[nodiscard]] int epoll_fd() const noexcept { return epoll_.get(); }

private:
    void ring() noexcept;
    void drain() noexcept;

    enum fi_wait_obj kind_ = FI_WAIT_NONE;
    Fd event_; // Rung for news and signals.
    Fd epoll_; // FI_WAIT_FD: what the application polls, over event_ and the endpoints' descriptors.
    std::atomic<int> sleepers_{0};
    std::atomic<bool> signalled_{false};
    std::atomic<bool> armed_{false};
};

class EndpointList {
public:
    explicit EndpointList(bool locked) noexcept : lock_{locked} {}

    // Counted: an endpoint that was added twice (for FI_SEND and for FI_RECV) must be removed twice. -FI_ENOMEM, or what
    // epoll_ctl says.
    [[nodiscard]] int add(Endpoint& endpoint, const WaitObject& wait) noexcept;
    // After the last one the endpoint is progressed no more. It must not hold its lock here.
    void remove(Endpoint& endpoint, const WaitObject& wait) noexcept;

    void progress() noexcept;
    void arm() noexcept;
    void disarm() noexcept;
    [[nodiscard]] bool ready() noexcept;
    // Appends the descriptors on which a sleeper polls. False: no memory.
    [[nodiscard]] bool wait_fds(std::vector<int>& ret_fds) noexcept;

private:
    struct Item {
        Endpoint* endpoint;
        int count; // add() minus remove()
        int armed; // arm() minus disarm() since it joined
    };
    SpinLock lock_;
    std::vector<Item> items_;
};

// What a blocking call does between two looks. `look` drives progress and answers -FI_EAGAIN while there is nothing.
// Answers what `look` answered, -FI_EAGAIN when signalled, `timed_out` after `timeout_ms` (< 0: never), -FI_ENODEV when
// the fabric is gone, so that nothing can come any more. `fabric` may be NULL: then that is not asked.
class Blocker {
public:
    using Look = ssize_t (*)(void* self);
    Blocker(WaitObject& wait, EndpointList* endpoints, nvlf_fabric* fabric) noexcept
        : wait_{wait}, endpoints_{endpoints}, fabric_{fabric} {}
    [[nodiscard]] ssize_t run(Look look, void* self, int timeout_ms, ssize_t timed_out) noexcept;

private:
    [[nodiscard]] ssize_t sleep(Look look, void* self, int poll_ms) noexcept;
    WaitObject& wait_;
    EndpointList* endpoints_;
    nvlf_fabric* fabric_;
};

// fi_trywait for one object: 0 when it may be polled, -FI_EAGAIN when there is something to read.
[[nodiscard]] int try_wait(WaitObject& wait, EndpointList* endpoints, Blocker::Look look, void* self) noexcept;
// Ends what try_wait began. Reads call it when wait.armed().
void end_try_wait(WaitObject& wait, EndpointList* endpoints) noexcept;

} // namespace nvlf::ofi
