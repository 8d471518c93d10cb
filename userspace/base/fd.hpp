// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fd.hpp - a descriptor with one owner.
#pragma once

#include <unistd.h>

#include <utility>

#include "base/cancel.hpp"

namespace nvlf {

class Fd {
public:
    constexpr Fd() noexcept = default;
    constexpr explicit Fd(int fd) noexcept : fd_{fd} {}
    Fd(Fd&& other) noexcept : fd_{other.release()} {}
    Fd& operator=(Fd&& other) noexcept {
        if (this != &other) reset(other.release());
        return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd() { reset(); }

    [[nodiscard]] constexpr int get() const noexcept { return fd_; }
    constexpr explicit operator bool() const noexcept { return fd_ >= 0; }
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

    // Linux releases the descriptor even when close() reports EINTR, so there is nothing to retry.
    void reset(int fd = -1) noexcept {
        if (fd_ >= 0) {
            const Uncancellable whole;
            ::close(fd_);
        }
        fd_ = fd;
    }

private:
    int fd_ = -1;
};

} // namespace nvlf
