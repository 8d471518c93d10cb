// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A client that speaks the contract over the socket by hand, so that nvlfd is tested without libnvlf, and with messages
// that libnvlf would never send. Every wait is bounded.
#pragma once

#include <boost/test/unit_test.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "base/message.hpp"
#include "nvlf/ioctl.h"

namespace nvlf::test {

inline constexpr int patience_ms =
    10000; // Long enough for a loaded machine under a sanitizer; never waited for in vain.

class ContractClient {
public:
    // errno in error() when nobody answers there.
    explicit ContractClient(const std::string& path) : socket_{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)} {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        BOOST_REQUIRE_LT(path.size(), sizeof address.sun_path);
        std::memcpy(address.sun_path, path.data(), path.size());
        if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) error_ = errno;
    }

    [[nodiscard]] int error() const { return error_; }
    [[nodiscard]] int fd() const { return socket_.get(); }
    void close() { socket_.reset(); }

    [[nodiscard]] Errno send(std::span<const std::byte> bytes, std::span<const int> fds = {}, int flags = 0) {
        return send_message(socket_.get(), bytes, fds, flags);
    }

    // False: the carrier has closed the connection.
    [[nodiscard]] bool receive() {
        pollfd p{socket_.get(), POLLIN, 0};
        BOOST_REQUIRE_EQUAL(::poll(&p, 1, patience_ms), 1);
        const Errno e = receive_message(socket_.get(), reply, MSG_DONTWAIT);
        return !e.failed() && reply.length > 0;
    }

    [[nodiscard]] nvlf_msg head() const {
        nvlf_msg head{};
        std::memcpy(&head, reply.bytes.data(), sizeof head);
        return head;
    }

    // One exchange; the errno of the reply, ENODEV when the carrier has closed. `a` is changed on success.
    template <class T>
    int ask(std::uint32_t cmd, T& a) {
        a.size = sizeof a;
        std::array<std::byte, sizeof(nvlf_msg) + sizeof(T)> message;
        const nvlf_msg h{NVLF_MSG_MAGIC, cmd, ++tag_, 0};
        std::memcpy(message.data(), &h, sizeof h);
        std::memcpy(message.data() + sizeof h, &a, sizeof a);
        if (send(message, {}, MSG_DONTWAIT).failed() || !receive()) return ENODEV;
        BOOST_REQUIRE_EQUAL(head().cmd, cmd);
        BOOST_REQUIRE_EQUAL(head().tag, tag_);
        if (head().error == 0) std::memcpy(&a, reply.bytes.data() + sizeof h, sizeof a);
        return static_cast<int>(head().error);
    }
    [[nodiscard]] nvlf_ioc_info info() {
        nvlf_ioc_info a{};
        a.abi_wanted = NVLF_ABI_VERSION;
        BOOST_REQUIRE_EQUAL(ask(NVLF_CMD_GET_INFO, a), 0);
        return a;
    }
    // An endpoint with a region of its own. Its descriptors are in reply.fds until the next exchange.
    [[nodiscard]] nvlf_ioc_ep_publish publish(std::uint64_t service = 0) {
        nvlf_ioc_mem_alloc memory{};
        memory.bytes = 1;
        BOOST_REQUIRE_EQUAL(ask(NVLF_CMD_MEM_ALLOC, memory), 0);
        nvlf_ioc_ep_publish a{};
        a.region = memory.handle;
        a.service = service;
        BOOST_REQUIRE_EQUAL(ask(NVLF_CMD_EP_PUBLISH, a), 0);
        return a;
    }

    Message reply;

private:
    Fd socket_;
    int error_ = 0;
    std::uint32_t tag_ = 0;
};

[[nodiscard]] inline bool becomes_readable(int fd, short events = POLLIN) {
    pollfd p{fd, events, 0};
    return ::poll(&p, 1, patience_ms) == 1;
}

} // namespace nvlf::test
