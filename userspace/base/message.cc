// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "base/message.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstring>

namespace nvlf {
namespace {

constexpr std::size_t control_bytes = CMSG_SPACE(sizeof(int) * NVLF_MSG_FDS);

// Owns what the kernel installed. More descriptors than fit cannot arrive: the control buffer has no room for them and
// the kernel then closes the rest and sets MSG_CTRUNC.
void take_descriptors(msghdr& header, Message& message) noexcept {
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (message.fd_count < message.fds.size()) message.fds[message.fd_count++].reset(fd);
            else Fd{fd}.reset();
        }
    }
}

} // namespace

Errno send_message(int socket, std::span<const std::byte> body, std::span<const int> fds, int flags) noexcept {
    if (fds.size() > NVLF_MSG_FDS || body.size() > NVLF_MSG_BYTES) return Errno{EMSGSIZE};
    iovec iov{const_cast<std::byte*>(body.data()), body.size()}; // sendmsg only reads it.
    msghdr header{};
    header.msg_iov = &iov;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<std::byte, control_bytes> control{};
    if (!fds.empty()) {
        header.msg_control = control.data();
        header.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
    }
    for (;;) {
        if (::sendmsg(socket, &header, flags | MSG_NOSIGNAL) >= 0) return Errno{};
        if (errno != EINTR) return last_errno();
    }
}

Errno receive_message(int socket, Message& message, int flags) noexcept {
    for (Fd& fd : message.fds) fd.reset();
    message.fd_count = 0;
    message.length = 0;
    iovec iov{message.bytes.data(), message.bytes.size()};
    alignas(cmsghdr) std::array<std::byte, control_bytes> control{};
    msghdr header{};
    header.msg_iov = &iov;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    ssize_t got = 0;
    do {
        got = ::recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return last_errno();
    take_descriptors(header, message);
    message.length = static_cast<std::size_t>(got);
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) return Errno{};
    // The buffer has room for all that may come, so that descriptors which stop short of it could not be installed.
    const bool out_of_descriptors = (header.msg_flags & MSG_TRUNC) == 0 && message.fd_count < message.fds.size();
    for (Fd& fd : message.fds) fd.reset();
    message.fd_count = 0;
    if (out_of_descriptors) return Errno{EMFILE};
    message.length = 0;
    return Errno{EMSGSIZE};
}

} // namespace nvlf
