// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The client's end of the control socket against a daemon that is honest, dying, slow or hostile. The test plays it on the
// other end of a socket pair.
#define BOOST_TEST_MODULE carrier_socket
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "driver/carrier_socket.hpp"
#include "support/resources.hpp"

namespace {
using namespace nvlf;
using namespace std::chrono_literals;

struct Reply {
    nvlf_msg head{NVLF_MSG_MAGIC, 0, 0, 0};
    std::vector<std::byte> body;
    std::vector<int> fds; // The test's own; the reply only carries them.
};

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    return {first, first + sizeof value};
}

void send_reply(int socket, const Reply& reply) {
    auto bytes = bytes_of(reply.head);
    bytes.insert(bytes.end(), reply.body.begin(), reply.body.end());
    static_cast<void>(send_message(socket, bytes, reply.fds, 0));
}

// Two ends, and a thread that answers each request by `answer`, which starts from an honest echo of the request.
class Peer {
public:
    explicit Peer(std::function<void(int, Reply)> answer, std::chrono::milliseconds bound = 10s) {
        int ends[2];
        BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
        carrier = std::make_unique<SocketCarrier>(Fd{ends[0]}, bound);
        socket_.reset(ends[1]);
        thread_ = std::thread{[this, act = std::move(answer)] {
            Message message;
            while (!receive_message(socket_.get(), message, 0).failed() && message.length >= sizeof(nvlf_msg)) {
                ++requests;
                Reply reply;
                std::memcpy(&reply.head, message.bytes.data(), sizeof reply.head);
                reply.body.assign(message.bytes.begin() + sizeof reply.head,
                                  message.bytes.begin() + static_cast<std::ptrdiff_t>(message.length));
                act(socket_.get(), std::move(reply));
            }
        }};
    }
    ~Peer() {
        carrier.reset(); // The thread sees the end of the connection.
        ::shutdown(socket_.get(), SHUT_RDWR);
        thread_.join();
    }

    std::unique_ptr<SocketCarrier> carrier;
    std::atomic<int> requests{0};

private:
    Fd socket_;
    std::thread thread_;
};

int attach(SocketCarrier& carrier) {
    nvlf_ioc_attach body{};
    return carrier.ask(NVLF_CMD_ATTACH, body).value();
}

// One request, answered so; then a second one, which must find the connection closed.
void expect_condemned(std::function<void(int, Reply)> answer) {
    Peer peer{std::move(answer)};
    BOOST_TEST(attach(*peer.carrier) == EPROTO);
    BOOST_TEST(!peer.carrier->usable());
    BOOST_TEST(attach(*peer.carrier) == ENODEV);
    BOOST_TEST(peer.requests == 1);
}

int eventfd_of_ours() { return ::eventfd(0, EFD_CLOEXEC); }
} // namespace

BOOST_AUTO_TEST_CASE(an_answer_replaces_the_struct) {
    Peer peer{[](int socket, Reply reply) {
        nvlf_ioc_attach body{sizeof body, 5};
        reply.body = bytes_of(body);
        send_reply(socket, reply);
    }};
    nvlf_ioc_attach body{0, NVLF_DEVICE_ANY};
    BOOST_TEST(peer.carrier->ask(NVLF_CMD_ATTACH, body).value() == 0);
    BOOST_TEST(body.device == 5U);
}

BOOST_AUTO_TEST_CASE(an_errno_passes_and_the_connection_lives_on) {
    Peer peer{[](int socket, Reply reply) {
        reply.head.error = EHOSTDOWN;
        send_reply(socket, reply); // With the struct behind it,
        reply.body.clear();
    }};
    BOOST_TEST(attach(*peer.carrier) == EHOSTDOWN);
    Peer terse{[](int socket, Reply reply) {
        reply.head.error = EHOSTDOWN;
        reply.body.clear(); // or without.
        send_reply(socket, reply);
    }};
    BOOST_TEST(attach(*terse.carrier) == EHOSTDOWN);
    BOOST_TEST(attach(*terse.carrier) == EHOSTDOWN);
    BOOST_TEST(terse.carrier->usable());
}

BOOST_AUTO_TEST_CASE(a_refused_version_tells_which_one_is_spoken) {
    Peer peer{[](int socket, Reply reply) {
        nvlf_ioc_info info{};
        info.size = sizeof info;
        info.abi = 7 << 16;
        reply.head.error = EPROTONOSUPPORT;
        reply.body = bytes_of(info);
        send_reply(socket, reply);
    }};
    nvlf_ioc_info info{};
    BOOST_TEST(peer.carrier->ask(NVLF_CMD_GET_INFO, info).value() == EPROTONOSUPPORT);
    BOOST_TEST(info.abi == 7U << 16);
}

BOOST_AUTO_TEST_CASE(answers_of_the_wrong_shape_are_eproto_and_the_end) {
    expect_condemned([](int s, Reply r) {
        ++r.head.magic;
        send_reply(s, r);
    });
    expect_condemned([](int s, Reply r) {
        ++r.head.tag;
        send_reply(s, r);
    });
    expect_condemned([](int s, Reply r) {
        ++r.head.cmd;
        send_reply(s, r);
    });
    expect_condemned([](int s, Reply r) {
        r.head.error = 4096;
        send_reply(s, r);
    });
    expect_condemned([](int s, Reply r) {
        r.head.error = 0x80000000;
        send_reply(s, r);
    });
    expect_condemned([](int s, Reply r) {
        r.body.pop_back();
        send_reply(s, r);
    });
    expect_condemned([](int s, Reply r) {
        r.body.push_back({});
        send_reply(s, r);
    });
    expect_condemned([](int s, Reply r) {
        r.body.clear();
        send_reply(s, r);
    });
    expect_condemned([](int s, Reply r) {
        r.body[0] ^= std::byte{1};
        send_reply(s, r);
    }); // Its `size`.
    // Boost.Test is for one thread: what the peer saw is checked when its thread is joined.
    ssize_t sent = -1;
    expect_condemned([&](int s, Reply) { sent = ::send(s, "x", 1, MSG_NOSIGNAL); });
    BOOST_TEST(sent == 1);
    const std::vector<std::byte> huge(NVLF_MSG_BYTES + 1);
    expect_condemned([&](int s, Reply) { sent = ::send(s, huge.data(), huge.size(), MSG_NOSIGNAL); });
    BOOST_TEST(sent == static_cast<ssize_t>(huge.size()));
}

BOOST_AUTO_TEST_CASE(descriptors_nobody_asked_for_are_eproto_and_closed) {
    const Fd extra{eventfd_of_ours()};
    const auto before = test::open_descriptors();
    for (const std::size_t count : {1U, 4U}) {
        for (const std::uint32_t error : {0U, 1U})
            expect_condemned([&](int s, Reply r) {
                r.head.error = error;
                r.fds.assign(count, extra.get());
                send_reply(s, r);
            });
    }
    BOOST_TEST(test::open_descriptors() == before);
}

BOOST_AUTO_TEST_CASE(descriptor_indices_are_checked_before_any_is_handed_out) {
    struct Case {
        std::uint32_t state_fd, shared_fd;
        std::size_t fds;
        int error;
    };
    const Fd extra{eventfd_of_ours()};
    const auto before = test::open_descriptors();
    for (const Case c :
         {Case{0, 1, 2, 0}, Case{1, 0, 2, 0}, Case{NVLF_NO_FD, 0, 1, 0}, Case{NVLF_NO_FD, NVLF_NO_FD, 0, 0},
          Case{0, 0, 2, EPROTO}, Case{0, 0, 1, EPROTO}, Case{0, 2, 2, EPROTO}, Case{0, NVLF_NO_FD, 2, EPROTO},
          Case{0, 1, 3, EPROTO}, Case{4, 5, 2, EPROTO}, Case{0xfffffffe, 0, 1, EPROTO}, Case{0, 1, 0, EPROTO}}) {
        Peer peer{[&](int s, Reply r) {
            nvlf_ioc_state body{};
            body.size = sizeof body;
            body.state_fd = c.state_fd;
            body.shared_fd = c.shared_fd;
            r.body = bytes_of(body);
            r.fds.assign(c.fds, extra.get());
            send_reply(s, r);
        }};
        nvlf_ioc_state body{};
        BOOST_TEST(peer.carrier->ask(NVLF_CMD_GET_STATE, body).value() == c.error);
        if (c.error == 0) {
            const Fd state = take_fd(body.state_fd);
            const Fd shared = take_fd(body.shared_fd);
            BOOST_TEST(static_cast<bool>(state) == (c.state_fd != NVLF_NO_FD));
            BOOST_TEST(static_cast<bool>(shared) == (c.shared_fd != NVLF_NO_FD));
            if (state) BOOST_TEST((::fcntl(state.get(), F_GETFD) & FD_CLOEXEC) != 0);
        }
    }
    BOOST_TEST(test::open_descriptors() == before);
}

BOOST_AUTO_TEST_CASE(a_daemon_that_closes_is_enodev_at_once_and_ever_after) {
    Peer peer{[](int s, Reply) { ::shutdown(s, SHUT_RDWR); }};
    BOOST_TEST(attach(*peer.carrier) == ENODEV);
    BOOST_TEST(attach(*peer.carrier) == ENODEV);
    BOOST_TEST(peer.requests == 1);
}

BOOST_AUTO_TEST_CASE(a_daemon_that_does_not_answer_is_given_up_in_bounded_time) {
    Peer peer{[](int, Reply) {}, 50ms};
    const auto start = std::chrono::steady_clock::now();
    BOOST_TEST(attach(*peer.carrier) == ETIMEDOUT);
    BOOST_TEST((std::chrono::steady_clock::now() - start < 5s));
    BOOST_TEST(attach(*peer.carrier) == ENODEV); // A late answer would be taken for that of another question.
}

BOOST_AUTO_TEST_CASE(each_of_many_threads_gets_its_own_answer) {
    Peer peer{[](int s, Reply r) { send_reply(s, r); }};
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (std::uint32_t t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (std::uint32_t i = 0; i < 200; ++i) {
                nvlf_ioc_attach body{0, t * 1000 + i};
                if (peer.carrier->ask(NVLF_CMD_ATTACH, body).failed() || body.device != t * 1000 + i) ++wrong;
            }
        });
    for (auto& thread : threads) thread.join();
    BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(an_unknown_command_is_not_sent) {
    Peer peer{[](int s, Reply r) { send_reply(s, r); }};
    nvlf_ioc_attach body{};
    BOOST_TEST(peer.carrier->ask(0x7f, body).value() == EINVAL);
    BOOST_TEST(peer.carrier->ask(NVLF_CMD_GET_INFO, body).value() == EINVAL); // A struct that is not its own.
    BOOST_TEST(peer.requests == 0);
}

BOOST_AUTO_TEST_CASE(output_descriptor_fields_are_zero_in_the_request) {
    Peer peer{[](int s, Reply r) {
        nvlf_ioc_state body{};
        std::memcpy(&body, r.body.data(), sizeof body);
        r.head.error = body.state_fd == 0 && body.shared_fd == 0 ? ENOENT : EINVAL;
        send_reply(s, r);
    }};
    nvlf_ioc_state body{};
    body.state_fd = NVLF_NO_FD;
    BOOST_TEST(peer.carrier->ask(NVLF_CMD_GET_STATE, body).value() == ENOENT);
}

BOOST_AUTO_TEST_CASE(a_forked_child_is_refused_and_its_end_does_not_disturb_the_parent) {
    Peer peer{[](int s, Reply r) { send_reply(s, r); }};
    BOOST_REQUIRE(attach(*peer.carrier) == 0);
    const pid_t child = ::fork();
    if (child == 0) { // Of a process with threads: nothing here allocates.
        const bool good =
            attach(*peer.carrier) == EOWNERDEAD && peer.carrier->fd() == -1 && peer.carrier->in_forked_child();
        ::_exit(good ? 0 : 1);
    }
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
    BOOST_TEST(attach(*peer.carrier) == 0);
    BOOST_TEST(!peer.carrier->in_forked_child());
}

BOOST_AUTO_TEST_CASE(a_living_child_does_not_hide_the_death_of_the_connection) {
    int ends[2];
    int hold[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    BOOST_REQUIRE(::pipe2(hold, O_CLOEXEC) == 0);
    const Fd daemon{ends[1]};
    auto carrier = std::make_unique<SocketCarrier>(Fd{ends[0]});
    const pid_t child = ::fork();
    if (child == 0) { // Lives until the parent's end of the pipe closes.
        ::close(hold[1]);
        char nothing = 0;
        ::_exit(::read(hold[0], &nothing, 1) == 0 ? 0 : 1);
    }
    ::close(hold[0]);
    carrier.reset();
    pollfd waited{daemon.get(), POLLIN, 0};
    BOOST_TEST(::poll(&waited, 1, 5000) == 1);
    BOOST_TEST((waited.revents & POLLHUP) != 0);
    ::close(hold[1]);
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
}
