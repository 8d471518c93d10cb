// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Messages at their limits, and descriptors that nobody asked for: none may be lost, none may leak.
#define BOOST_TEST_MODULE message
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/message.hpp"
#include "support/resources.hpp"

namespace {
using namespace nvlf;

struct Pair {
    Fd a;
    Fd b;
    Pair() {
        int ends[2];
        BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
        a.reset(ends[0]);
        b.reset(ends[1]);
    }
};

// sendmsg without send_message's own limits.
void send_raw(int socket, std::size_t bytes, std::size_t fds) {
    std::vector<std::byte> body(bytes);
    iovec iov{body.data(), body.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * 16)> control{};
    msghdr header{};
    header.msg_iov = &iov;
    header.msg_iovlen = 1;
    if (fds != 0) {
        header.msg_control = control.data();
        header.msg_controllen = CMSG_SPACE(sizeof(int) * fds);
        cmsghdr* c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * fds);
        for (std::size_t i = 0; i < fds; ++i) std::memcpy(CMSG_DATA(c) + i * sizeof(int), &socket, sizeof(int));
    }
    BOOST_REQUIRE(::sendmsg(socket, &header, 0) == static_cast<ssize_t>(bytes));
}
} // namespace

BOOST_AUTO_TEST_CASE(bytes_and_descriptors_arrive_together_and_close_on_exec) {
    const Pair pair;
    const std::array text{std::byte{'h'}, std::byte{'i'}};
    const std::array fds{pair.a.get(), pair.b.get(), pair.a.get(), pair.b.get()};
    BOOST_REQUIRE(!send_message(pair.a.get(), text, fds, 0).failed());
    Message message;
    BOOST_REQUIRE(!receive_message(pair.b.get(), message, 0).failed());
    BOOST_TEST(message.length == 2U);
    BOOST_TEST(message.fd_count == 4U);
    for (const Fd& fd : message.fds) BOOST_TEST((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

BOOST_AUTO_TEST_CASE(the_longest_message_passes_and_one_byte_more_is_emsgsize) {
    const Pair pair;
    Message message;
    send_raw(pair.a.get(), NVLF_MSG_BYTES, 0);
    BOOST_TEST(!receive_message(pair.b.get(), message, 0).failed());
    BOOST_TEST(message.length == std::size_t{NVLF_MSG_BYTES});
    send_raw(pair.a.get(), NVLF_MSG_BYTES + 1, 0);
    BOOST_TEST(receive_message(pair.b.get(), message, 0).value() == EMSGSIZE);
    BOOST_TEST(message.length == 0U);
    const std::vector<std::byte> long_body(NVLF_MSG_BYTES + 1);
    BOOST_TEST(send_message(pair.a.get(), long_body, {}, 0).value() == EMSGSIZE);
}

BOOST_AUTO_TEST_CASE(too_many_descriptors_are_emsgsize_and_none_leaks) {
    const Pair pair;
    const auto before = test::open_descriptors();
    Message message;
    send_raw(pair.a.get(), 16, NVLF_MSG_FDS + 1);
    BOOST_TEST(receive_message(pair.b.get(), message, 0).value() == EMSGSIZE);
    BOOST_TEST(message.fd_count == 0U);
    BOOST_TEST(test::open_descriptors() == before);
}

BOOST_AUTO_TEST_CASE(a_full_descriptor_table_is_emfile_and_the_bytes_are_there) {
    const Pair pair;
    send_raw(pair.a.get(), 16, 3);
    rlimit limit{};
    BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlimit tight{static_cast<rlim_t>(pair.b.get()) + 2, limit.rlim_max}; // Room for one.
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
    Message message;
    const Errno error = receive_message(pair.b.get(), message, 0);
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    BOOST_TEST(error.value() == EMFILE);
    BOOST_TEST(message.length == 16U);
    BOOST_TEST(message.fd_count == 0U);
}

BOOST_AUTO_TEST_CASE(the_next_message_does_not_inherit_the_descriptors_of_the_last) {
    const Pair pair;
    const auto before = test::open_descriptors();
    {
        Message message;
        send_raw(pair.a.get(), 16, 2);
        send_raw(pair.a.get(), 16, 0);
        BOOST_REQUIRE(!receive_message(pair.b.get(), message, 0).failed());
        BOOST_TEST(message.fd_count == 2U);
        BOOST_REQUIRE(!receive_message(pair.b.get(), message, 0).failed());
        BOOST_TEST(message.fd_count == 0U);
        BOOST_TEST(test::open_descriptors() == before);
    }
    BOOST_TEST(test::open_descriptors() == before);
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_gone_is_epipe_to_the_sender_and_no_signal) {
    Pair pair;
    pair.b.reset();
    const std::array text{std::byte{'x'}};
    BOOST_TEST(send_message(pair.a.get(), text, {}, 0).value() == EPIPE);
}
