// SPDX-License-Identifier: MIT OR GPL-2.0-only
// wait.cc - see wait.hpp.
#include "wait.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <mutex>
#include <new>
#include <utility>

#include "base/cancel.hpp"
#include "base/result.hpp"
#include "nvlf/nvlf.h"
#include "params.hpp"

namespace nvlf::ofi {

int WaitObject::open(enum fi_wait_obj kind, fid_wait* set) noexcept {
    switch (kind) {
    case FI_WAIT_NONE:
    case FI_WAIT_YIELD: kind_ = kind; return 0;
    case FI_WAIT_UNSPEC:
    case FI_WAIT_FD:
    case FI_WAIT_POLLFD: break;
    case FI_WAIT_SET:
        if (set == nullptr || set->fid.fclass != FI_CLASS_WAIT) return -FI_EINVAL;
        set_ = reinterpret_cast<WaitSet*>(set);
        break;
    case FI_WAIT_MUTEX_COND: return -FI_ENOSYS;
    default: return -FI_EINVAL;
    }
    event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event_) return last_errno().negative();
    if (kind != FI_WAIT_UNSPEC) {
        epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
        epoll_event event{};
        event.events = EPOLLIN;
        if (!epoll_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &event) != 0)
            return last_errno().negative();
    }
    kind_ = kind;
    return 0;
}

int give_descriptor(enum fi_wait_obj kind, int fd, void* arg) noexcept {
    if (arg == nullptr) return -FI_EINVAL;
    if (kind == FI_WAIT_FD) {
        *static_cast<int*>(arg) = fd;
        return 0;
    }
    if (kind != FI_WAIT_POLLFD) return -FI_ENODATA;
    // One that never changes, though what lies behind it does.
    auto& array = *static_cast<fi_wait_pollfd*>(arg);
    array.change_index = 1;
    const std::size_t room = std::exchange(array.nfds, 1);
    if (room < 1) return -FI_ETOOSMALL;
    if (array.fd == nullptr) return -FI_EINVAL;
    array.fd[0] = {.fd = fd, .events = POLLIN, .revents = 0};
    return 0;
}

int WaitObject::control(int command, void* arg) const noexcept {
    switch (command) {
    case FI_GETWAIT: return give_descriptor(kind_, epoll_.get(), arg);
    case FI_GETWAITOBJ:
        if (arg == nullptr) return -FI_EINVAL;
        *static_cast<enum fi_wait_obj*>(arg) = kind_;
        return 0;
    default: return -FI_ENOSYS;
    }
}

void WaitObject::ring() noexcept {
    if (!event_) return; // FI_WAIT_YIELD looks again anyhow.
    const Uncancellable whole;
    const std::lock_guard guard{lock_};
    ++rings_;
    unaware_ = sleepers_.load(std::memory_order_relaxed); // Changes under the lock only.
    const std::uint64_t one = 1;
    // Fails only when it is readable already, 2^64 - 2 rings after the last look.
    [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
}

void WaitObject::signal() noexcept {
    signalled_.store(true, std::memory_order_release);
    ring();
}

void WaitObject::silence() noexcept {
    std::uint64_t rings = 0;
    if (event_) {
        const Uncancellable whole;
        [[maybe_unused]] const ssize_t drained = ::read(event_.get(), &rings, sizeof rings);
    }
}

WaitObject::Ticket WaitObject::begin() noexcept {
    const std::lock_guard guard{lock_};
    if (unaware_ == 0) silence();
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    return rings_;
}

void WaitObject::end(Ticket ticket) noexcept {
    const std::lock_guard guard{lock_};
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    if (ticket != rings_ && --unaware_ == 0) silence();
}

bool WaitObject::arm(Ticket ticket) noexcept {
    const std::lock_guard guard{lock_};
    if (armed_.load(std::memory_order_relaxed)) return false;
    armed_ticket_ = ticket;
    armed_.store(true, std::memory_order_relaxed);
    return true;
}

std::optional<WaitObject::Ticket> WaitObject::disarm() noexcept {
    const std::lock_guard guard{lock_};
    if (!armed_.load(std::memory_order_relaxed)) return std::nullopt;
    armed_.store(false, std::memory_order_relaxed);
    return armed_ticket_;
}

int EndpointList::add(Endpoint& endpoint, WaitObject& wait) noexcept try {
    const std::lock_guard guard{lock_};
    const auto item =
        std::find_if(items_.begin(), items_.end(), [&](const Item& i) { return i.endpoint == &endpoint; });
    if (item != items_.end()) {
        ++item->count;
        return 0;
    }
    items_.reserve(items_.size() + 1); // Before the kernel knows of it.
    if (const int fd = endpoint_wait_fd(endpoint); fd >= 0 && wait.epoll_fd() >= 0) {
        epoll_event event{};
        event.events = EPOLLIN;
        if (::epoll_ctl(wait.epoll_fd(), EPOLL_CTL_ADD, fd, &event) != 0) return last_errno().negative();
    }
    items_.push_back({&endpoint, 1});
    for (int i = 0; i < armed_; ++i) endpoint_arm(endpoint);
    wait.notify(); // Sleepers do not have its descriptor yet.
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

void EndpointList::remove(Endpoint& endpoint, WaitObject& wait) noexcept {
    const std::lock_guard guard{lock_};
    const auto item =
        std::find_if(items_.begin(), items_.end(), [&](const Item& i) { return i.endpoint == &endpoint; });
    if (item == items_.end() || --item->count > 0) return;
    for (int i = 0; i < armed_; ++i) endpoint_disarm(endpoint);
    if (const int fd = endpoint_wait_fd(endpoint); fd >= 0 && wait.epoll_fd() >= 0)
        ::epoll_ctl(wait.epoll_fd(), EPOLL_CTL_DEL, fd, nullptr);
    items_.erase(item);
}

void EndpointList::progress() noexcept {
    // Who finds another thread at it does not wait for it: that one drives them just as well. (Who then goes to sleep asks
    // ready(), and that does wait.)
    const std::unique_lock guard{lock_, std::try_to_lock};
    if (!guard) return;
    for (const Item& item : items_) endpoint_progress(*item.endpoint);
}

void EndpointList::arm() noexcept {
    const std::lock_guard guard{lock_};
    ++armed_;
    for (const Item& item : items_) endpoint_arm(*item.endpoint);
}

void EndpointList::disarm() noexcept {
    const std::lock_guard guard{lock_};
    --armed_;
    for (const Item& item : items_) endpoint_disarm(*item.endpoint);
}

bool EndpointList::ready() noexcept {
    const std::lock_guard guard{lock_};
    return std::any_of(items_.begin(), items_.end(), [](const Item& i) { return endpoint_ready(*i.endpoint); });
}

bool EndpointList::wait_fds(std::vector<pollfd>& ret_polled) noexcept try {
    const std::lock_guard guard{lock_};
    for (const Item& item : items_) {
        if (const int fd = endpoint_wait_fd(*item.endpoint); fd >= 0)
            ret_polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    }
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

bool news_of(const Waitable& object, std::vector<pollfd>& ret_polled) noexcept try {
    ret_polled.assign(1, {.fd = object.wait.event_fd(), .events = POLLIN, .revents = 0});
    return object.endpoints == nullptr || object.endpoints->wait_fds(ret_polled);
} catch (const std::bad_alloc&) {
    return false;
}

namespace {

using Clock = std::chrono::steady_clock;

// Sleeps on everything that may bring news; false when that was impossible for want of memory.
bool poll_all(const Waitable& object, int timeout_ms, const Uncancellable& awake) {
    std::vector<pollfd> polled;
    if (!news_of(object, polled)) return false;
    // Interrupted, timed out or woken: the caller looks again in any case.
    awake.but_for([&] { ::poll(polled.data(), polled.size(), timeout_ms); });
    return true;
}

// Announced as asleep, from here to its end, be that a cancellation.
struct Bed {
    explicit Bed(const Waitable& o) noexcept : object{o}, ticket{o.wait.begin()} {
        if (object.endpoints != nullptr) object.endpoints->arm();
    }
    ~Bed() {
        if (object.endpoints != nullptr) object.endpoints->disarm();
        object.wait.end(ticket);
    }
    Bed(const Bed&) = delete;
    Bed& operator=(const Bed&) = delete;

    const Waitable& object;
    const WaitObject::Ticket ticket;
};

// One round of sleeping: until there may be something new.
ssize_t sleep_once(const Waitable& object, Look look, void* self, int timeout_ms, const Uncancellable& awake) {
    const Bed bed{object};
    const ssize_t got = look(self);
    if (got == -FI_EAGAIN && !object.wait.signalled()) {
        const bool busy = object.endpoints != nullptr && object.endpoints->ready();
        if (busy || !poll_all(object, timeout_ms, awake)) ::sched_yield();
    }
    return got;
}

} // namespace

Deadline::Deadline(int timeout_ms) noexcept
    : end_{Clock::now() + std::chrono::milliseconds{std::max(timeout_ms, 0)}}, never_{timeout_ms < 0} {}

bool Deadline::passed() const noexcept { return !never_ && Clock::now() >= end_; }

int Deadline::remaining_ms() const noexcept {
    if (never_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
    return static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX));
}

ssize_t block(const Waitable& object, Look look, void* self, int timeout_ms, ssize_t timed_out) {
    const Uncancellable awake;
    const Deadline deadline{timeout_ms};
    const Clock::time_point spin_until = Clock::now() + std::chrono::microseconds{params().wait_spin_us};
    bool slept = false;
    for (ssize_t got = look(self);; got = look(self)) {
        if (got != -FI_EAGAIN) {
            // Others who sleep here may have missed the ring that begin() silenced, and there may be more to read.
            object.wait.notify();
            return got;
        }
        if (object.wait.take_signal()) return -FI_EAGAIN;
        if (deadline.passed()) return timed_out;
        // After a sleep only: it costs a system call. Without a carrier the descriptors stay readable for ever.
        if (slept && object.fabric != nullptr && nvlf_poll_alive(object.fabric) == 0) return -FI_ENODEV;
        const bool sleeps = object.wait.kind() != FI_WAIT_YIELD && object.wait.kind() != FI_WAIT_NONE;
        if (!sleeps || Clock::now() < spin_until) {
            ::sched_yield();
            awake.but_for([] { ::pthread_testcancel(); });
            continue;
        }
        got = sleep_once(object, look, self, deadline.remaining_ms(), awake);
        slept = true;
        if (got != -FI_EAGAIN) {
            object.wait.notify();
            return got;
        }
    }
}

int begin_try_wait(const Waitable& object, Look look, void* self) noexcept {
    if (object.wait.epoll_fd() < 0) return -FI_EINVAL;
    // Anew each time: a doorbell that rang since the last time rings no more before it is armed again.
    if (object.wait.armed()) end_try_wait(object);
    const WaitObject::Ticket ticket = object.wait.begin();
    if (object.endpoints != nullptr) object.endpoints->arm();
    if (!object.wait.arm(ticket)) { // One is enough for both.
        if (object.endpoints != nullptr) object.endpoints->disarm();
        object.wait.end(ticket);
    }
    const bool idle = look(self) == -FI_EAGAIN && !(object.endpoints != nullptr && object.endpoints->ready());
    if (idle) return 0;
    end_try_wait(object);
    return -FI_EAGAIN;
}

void end_try_wait(const Waitable& object) noexcept {
    const auto ticket = object.wait.disarm();
    if (!ticket) return;
    if (object.endpoints != nullptr) object.endpoints->disarm();
    object.wait.end(*ticket);
}

} // namespace nvlf::ofi
