// SPDX-License-Identifier: MIT OR GPL-2.0-only
// carrier.hpp - the one seam between libnvlf and whatever carries a fabric.
//
// A carrier takes the structs of nvlf/ioctl.h. Everything above this file is the same for each of them: a kernel carrier is
// an ioctl() behind the same two functions. Descriptor fields hold real descriptors on this side of the seam, in both
// directions; those that come back belong to the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "nvlf/ioctl.h"

namespace nvlf {

class Carrier {
public:
    Carrier() = default;
    Carrier(const Carrier&) = delete;
    Carrier& operator=(const Carrier&) = delete;
    virtual ~Carrier() = default;

    // One command and its answer; `body` is the command's struct with `size` set. May be called by several threads.
    //   an errno of the contract  the carrier refused; the body is as the contract says
    //   ENODEV      the carrier is gone, now or since an earlier call
    //   EPROTO      it answered nonsense; from now on it counts as gone
    //   ETIMEDOUT   it did not answer in time; likewise
    //   EMFILE      this process has no descriptor left for the answer, whose other fields are in the body
    //   EOWNERDEAD  this is a forked child: the carrier is its parent's
    [[nodiscard]] virtual Errno transact(std::uint32_t cmd, std::span<std::byte> body) noexcept = 0;

    // Polls hung-up when the carrier is gone. -1 in a forked child.
    [[nodiscard]] virtual int fd() const noexcept = 0;

    // What came from the carrier by other ways was nonsense: from now on it counts as gone.
    virtual void condemn() noexcept = 0;
    // Neither condemned nor seen to be gone; asks nobody.
    [[nodiscard]] virtual bool usable() const noexcept = 0;
    [[nodiscard]] virtual bool in_forked_child() const noexcept = 0;

    // transact() for a struct of the contract: sets its `size`.
    template <class T>
    [[nodiscard]] Errno ask(std::uint32_t cmd, T& body) noexcept {
        body.size = sizeof body;
        return transact(cmd, std::as_writable_bytes(std::span{&body, 1}));
    }

protected:
    Carrier(Carrier&&) = default;
};

// The descriptor that an answer's field holds, if any, in the hands of an owner.
[[nodiscard]] inline Fd take_fd(std::uint32_t& field) noexcept {
    const std::uint32_t value = std::exchange(field, NVLF_NO_FD);
    return value == NVLF_NO_FD ? Fd{} : Fd{static_cast<int>(value)};
}

} // namespace nvlf
