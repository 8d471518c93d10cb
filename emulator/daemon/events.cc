// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/events.hpp"

#include <sys/socket.h>

#include <limits>

#include "daemon/memfd.hpp"

namespace nvlf::daemon {
namespace {

// What the kernel charges for one small message is about 800 bytes, whatever its length.
constexpr int notice_buffer = 4608;      // The least that Linux gives; a handful of bytes.
constexpr int events_buffer = 64 * 1024; // Some 150 events.

// The client's end does not block: a reader drains it to EAGAIN.
Result<Fd> open_pair(int type, int buffer, Fd& ret_client_end) {
    int pair[2];
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return resource_errno(last_errno());
    Fd ours{pair[0]};
    ret_client_end.reset(pair[1]);
    ::setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    if (::shutdown(ours.get(), SHUT_RD) != 0) return resource_errno(last_errno());
    return ours;
}

} // namespace

Result<Notice> Notice::open(Fd& ret_client_end) {
    auto ours = open_pair(SOCK_STREAM, notice_buffer, ret_client_end);
    if (!ours) return ours.error();
    return Notice{std::move(*ours)};
}

void Notice::ring() const noexcept {
    // Full means that it is readable already, and broken that nobody reads: both are fine.
    [[maybe_unused]] const ssize_t sent = ::send(ours_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Result<EventStream> EventStream::open(std::uint32_t mask, Fd& ret_client_end) {
    auto ours = open_pair(SOCK_SEQPACKET, events_buffer, ret_client_end);
    if (!ours) return ours.error();
    return EventStream{mask, std::move(*ours)};
}

void EventStream::send(nvlf_event event) noexcept {
    if ((event.type & mask_) == 0) return;
    event.lost = lost_;
    if (::send(ours_.get(), &event, sizeof event, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof event) lost_ = 0;
    else if (lost_ < std::numeric_limits<std::uint32_t>::max()) ++lost_;
}

} // namespace nvlf::daemon
