// SPDX-License-Identifier: MIT OR GPL-2.0-only
// wait_set.hpp - fi_wait: sleeping on several queues and counters at once.
//
// Queues enter a set as they are opened (FI_WAIT_SET) and each has a descriptor of its own, as with FI_WAIT_FD. The set
// is an epoll over these, so an application may take the set's one descriptor and sleep on it by itself; fi_wait is
// that very sequence: fi_trywait on every member, poll, look.
#pragma once

#include <rdma/fi_eq.h>

#include <mutex>
#include <vector>

#include "base/cancel.hpp"
#include "base/fd.hpp"
#include "fabric.hpp"
#include "wait.hpp"

namespace nvlf::ofi {

struct WaitSet {
    explicit WaitSet(Fabric& f) noexcept : fabric{f} {}

    fid_wait fid{}; // First: libfabric's pointer is ours.
    Fabric& fabric;

    // -FI_ENOSYS: kinds of wait objects that a set does not have.
    [[nodiscard]] int open(enum fi_wait_obj kind) noexcept;
    [[nodiscard]] enum fi_wait_obj kind() const noexcept { return kind_; }
    [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }

    // `fd` polls readable when the member has news, after try_wait. 0 or -FI_E*.
    [[nodiscard]] int add(::fid& member, int fd) noexcept;
    void remove(::fid& member, int fd) noexcept;
    [[nodiscard]] bool empty() noexcept;

    [[nodiscard]] int try_wait() noexcept;  // 0: sleep on the descriptor. -FI_EAGAIN: there is something to read.
    void stop_waiting() noexcept;           // Ends what try_wait began.
    [[nodiscard]] int wait(int timeout_ms); // A thread may be cancelled in it.

private:
    [[nodiscard]] bool look() noexcept; // Drives all of them. True: one has news, or was signalled.
    [[nodiscard]] bool fabric_gone() noexcept;
    [[nodiscard]] int sleep(int timeout_ms, const Uncancellable& awake);

    std::mutex lock_;
    std::vector<::fid*> members_;
    enum fi_wait_obj kind_ = FI_WAIT_UNSPEC;
    Fd epoll_; // None for FI_WAIT_YIELD.
};

inline WaitSet& wait_set_of(fid_wait* fid) noexcept { return *reinterpret_cast<WaitSet*>(fid); }

// The object that waits by `wait` enters and leaves the wait set with which it was opened, if any. 0 or -FI_E*.
[[nodiscard]] int join_wait_set(WaitObject& wait, fid& owner) noexcept;
void leave_wait_set(WaitObject& wait, fid& owner) noexcept;

int wait_set_open(fid_fabric* fabric, fi_wait_attr* attr, fid_wait** ret_set) noexcept;

} // namespace nvlf::ofi
