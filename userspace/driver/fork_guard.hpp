// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fork_guard.hpp - a connection that does not survive fork() in the child.
//
// A forked child shares the parent's socket. If it talked, the two would take each other's answers; and as long as it
// merely lives, nvlfd cannot see the parent's death, because the socket is still open. So the child closes its copy
// before fork() returns there. Children made by raw clone() escape this, as they escape all of pthread_atfork.
#pragma once

#include <atomic>

#include "base/fd.hpp"

namespace nvlf {

class ForkGuard {
public:
    explicit ForkGuard(Fd fd) noexcept;
    ~ForkGuard();
    ForkGuard(const ForkGuard&) = delete;
    ForkGuard& operator=(const ForkGuard&) = delete;

    [[nodiscard]] int fd() const noexcept { return fd_.get(); }
    [[nodiscard]] bool in_child() const noexcept { return in_child_.load(std::memory_order_relaxed); }

private:
    static void before_fork() noexcept;
    static void after_fork_in_parent() noexcept;
    static void after_fork_in_child() noexcept;

    Fd fd_;
    std::atomic<bool> in_child_{false};
    ForkGuard* next_ = nullptr; // List of all guards of the process.
    ForkGuard** previous_ = nullptr;
};

} // namespace nvlf
