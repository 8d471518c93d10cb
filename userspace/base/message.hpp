// SPDX-License-Identifier: MIT OR GPL-2.0-only
// message.hpp - one seqpacket message with its descriptors, as both ends of the control socket send and take it.
//
// The kernel hands us descriptors whether we want them or not: each one that arrives is owned at once, so that a
// message which is then refused leaks nothing. A truncated message or descriptor array is an error, never a prefix.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "nvlf/ioctl.h"

namespace nvlf {

struct Message {
    std::array<std::byte, NVLF_MSG_BYTES> bytes;
    std::size_t length = 0; // 0 after receive(): the peer has closed.
    std::array<Fd, NVLF_MSG_FDS> fds;
    std::size_t fd_count = 0;

    [[nodiscard]] std::span<const std::byte> body() const noexcept { return {bytes.data(), length}; }
};

// Sends all of it or nothing. `flags` as for sendmsg, MSG_NOSIGNAL is added; the descriptors stay the caller's.
[[nodiscard]] Errno send_message(int socket, std::span<const std::byte> body, std::span<const int> fds,
                                 int flags) noexcept;

// Takes one message.
//   EMSGSIZE  it is longer, or has more descriptors, than a message may: what came of it is closed and gone
//   EMFILE    this process has no descriptor left for those that it brought: they are gone, its bytes are here
[[nodiscard]] Errno receive_message(int socket, Message& message, int flags) noexcept;

} // namespace nvlf
