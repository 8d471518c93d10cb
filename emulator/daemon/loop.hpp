// SPDX-License-Identifier: MIT OR GPL-2.0-only
// loop.hpp - waiting for many descriptors at once.
//
// The interface says as little as both ways of doing it have in common: readiness, level-triggered. io_uring carries it by
// one-shot polls that are armed again when the caller comes back to wait, in the same system call that waits; so a
// request costs nvlfd one io_uring_enter, one recvmsg and one sendmsg, and the code above cannot tell it from epoll,
// which serves where io_uring is refused (containers' seccomp, sysctl kernel.io_uring_disabled). Receiving through the ring
// as well would save a call on a path that is not hot, at the price of two message paths to test.
//
// A key names a watch; the caller never uses one again, so what the kernel reports late about a watch that was removed
// cannot be taken for news about its successor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"

namespace nvlf::daemon {

struct Ready {
    std::uint64_t key = 0;
    bool readable = false; // Or at its end, or broken: reading tells which.
    bool writable = false;
};

enum class Interest { read, read_and_write }; // The end of the other side is always reported.

class Loop {
public:
    virtual ~Loop() = default;
    // `fd` stays the caller's and open until remove().
    [[nodiscard]] virtual Errno add(int fd, std::uint64_t key, Interest interest) = 0;
    [[nodiscard]] virtual Errno change(int fd, std::uint64_t key, Interest interest) = 0;
    virtual void remove(int fd, std::uint64_t key) = 0;
    // Appends what is ready. No bound: nullopt. Comes back empty when the bound passes or a signal came.
    [[nodiscard]] virtual Errno wait(std::optional<std::uint32_t> milliseconds, std::vector<Ready>& ready) = 0;
    [[nodiscard]] virtual const char* name() const noexcept = 0;
};

[[nodiscard]] Result<std::unique_ptr<Loop>> make_epoll_loop();
// ENOSYS or EPERM where it is refused.
[[nodiscard]] Result<std::unique_ptr<Loop>> make_uring_loop();

} // namespace nvlf::daemon
