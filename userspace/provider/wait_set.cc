// SPDX-License-Identifier: MIT OR GPL-2.0-only
// wait_set.cc - see wait_set.hpp.
//
// Lock order: the set's, then those that its members' calls take.
#include "wait_set.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>

#include <memory>
#include <new>

#include "base/result.hpp"
#include "none.hpp"
#include "nvlf/nvlf.h"
#include "waitable.hpp"

namespace nvlf::ofi {

int WaitSet::open(enum fi_wait_obj kind) noexcept {
    switch (kind) {
    case FI_WAIT_YIELD: kind_ = kind; return 0;
    case FI_WAIT_UNSPEC:
    case FI_WAIT_FD:
    case FI_WAIT_POLLFD: break;
    case FI_WAIT_MUTEX_COND: return -FI_ENOSYS;
    default: return -FI_EINVAL; // FI_WAIT_NONE cannot wait, and sets do not nest.
    }
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) return last_errno().negative();
    kind_ = kind;
    return 0;
}

int WaitSet::add(::fid& member, int fd) noexcept try {
    const std::lock_guard guard{lock_};
    members_.reserve(members_.size() + 1); // Before the kernel knows of it.
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return last_errno().negative();
    members_.push_back(&member);
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

void WaitSet::remove(::fid& member, int fd) noexcept {
    const std::lock_guard guard{lock_};
    if (std::erase(members_, &member) != 0 && epoll_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

bool WaitSet::empty() noexcept {
    const std::lock_guard guard{lock_};
    return members_.empty();
}

// Those that were armed before one had something to read are disarmed by their own next reads.
int WaitSet::try_wait() noexcept {
    if (!epoll_) return -FI_EINVAL;
    stop_waiting();
    const std::lock_guard guard{lock_};
    for (::fid* member : members_)
        if (const int ret = ofi::try_wait(*member); ret != 0) return ret;
    return 0;
}

void WaitSet::stop_waiting() noexcept {
    const std::lock_guard guard{lock_};
    for (::fid* member : members_) ofi::stop_waiting(*member);
}

bool WaitSet::look() noexcept {
    const std::lock_guard guard{lock_};
    for (::fid* member : members_)
        if (look_for_news(*member) || waitable_of(*member)->wait.take_signal()) return true;
    return false;
}

bool WaitSet::fabric_gone() noexcept {
    const std::lock_guard guard{lock_};
    for (::fid* member : members_)
        if (nvlf_fabric* open = waitable_of(*member)->fabric; open != nullptr && nvlf_poll_alive(open) == 0)
            return true;
    return false;
}

int WaitSet::sleep(int timeout_ms, const Uncancellable& awake) {
    const int ret = try_wait();
    if (ret == 0) {
        struct Rise { // Be it by a cancellation.
            ~Rise() { set.stop_waiting(); }
            WaitSet& set;
        } const rise{*this};
        pollfd polled{.fd = epoll_.get(), .events = POLLIN, .revents = 0};
        // Interrupted, timed out or woken: the caller looks again in any case.
        awake.but_for([&] { ::poll(&polled, 1, timeout_ms); });
    }
    return ret;
}

int WaitSet::wait(int timeout_ms) {
    const Uncancellable awake;
    const Deadline deadline{timeout_ms};
    while (!look()) {
        if (deadline.passed()) return -FI_ETIMEDOUT;
        if (!epoll_ || sleep(deadline.remaining_ms(), awake) == -FI_EAGAIN) ::sched_yield();
        // Without a carrier the descriptors stay readable for ever, and nothing comes any more.
        else if (fabric_gone() && !look()) return -FI_ENODEV;
    }
    return 0;
}

namespace {

int wait_set_wait(fid_wait* fid, int timeout) { return wait_set_of(fid).wait(timeout); }

int wait_set_control(fid* object, int command, void* arg) {
    const WaitSet& set = wait_set_of(reinterpret_cast<fid_wait*>(object));
    switch (command) {
    case FI_GETWAIT: return give_descriptor(set.kind(), set.descriptor(), arg);
    case FI_GETWAITOBJ:
        if (arg == nullptr) return -FI_EINVAL;
        *static_cast<enum fi_wait_obj*>(arg) = set.kind();
        return 0;
    default: return -FI_ENOSYS;
    }
}

int wait_set_close(fid* object) {
    WaitSet& set = wait_set_of(reinterpret_cast<fid_wait*>(object));
    if (!set.empty()) return -FI_EBUSY;
    set.fabric.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &set;
    return 0;
}

fi_ops wait_set_fid_ops{sizeof(fi_ops), wait_set_close, no_bind, wait_set_control, no_ops_open, no_tostr, no_ops_set};
fi_ops_wait wait_set_ops{.size = sizeof(fi_ops_wait), .wait = wait_set_wait};

} // namespace

int join_wait_set(WaitObject& wait, fid& owner) noexcept {
    return wait.set() != nullptr ? wait.set()->add(owner, wait.epoll_fd()) : 0;
}

void leave_wait_set(WaitObject& wait, fid& owner) noexcept {
    if (wait.set() != nullptr) wait.set()->remove(owner, wait.epoll_fd());
}

int wait_set_open(fid_fabric* fid, fi_wait_attr* attr, fid_wait** ret_set) noexcept {
    if (attr == nullptr || ret_set == nullptr) return -FI_EINVAL;
    if (attr->flags != 0) return -FI_EBADFLAGS;
    Fabric& fabric = fabric_of(fid);
    std::unique_ptr<WaitSet> set{new (std::nothrow) WaitSet{fabric}};
    if (!set) return -FI_ENOMEM;
    if (const int ret = set->open(attr->wait_obj); ret != 0) return ret;
    set->fid = {.fid = {.fclass = FI_CLASS_WAIT, .context = nullptr, .ops = &wait_set_fid_ops}, .ops = &wait_set_ops};
    fabric.refs.fetch_add(1, std::memory_order_acq_rel);
    *ret_set = &set.release()->fid;
    return 0;
}

} // namespace nvlf::ofi
