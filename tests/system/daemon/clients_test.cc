// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlfd with real sockets and real clients: good ones, dying ones, hostile ones. Every case runs on both event loops.
#define BOOST_TEST_MODULE nvlfd_clients
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>

#include "daemon_process.hpp"

using namespace nvlf;
using namespace nvlf::test;

namespace {

const auto loops = boost::unit_test::data::make(event_loops());

std::vector<std::byte> request(std::uint32_t cmd, std::uint32_t size) {
    std::vector<std::byte> bytes(sizeof(nvlf_msg) + size);
    const nvlf_msg head{NVLF_MSG_MAGIC, cmd, 9, 0};
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, &size, sizeof size);
    return bytes;
}

[[nodiscard]] int admin_limit(ContractClient& client, std::uint32_t limit, std::uint64_t value) {
    nvlf_ioc_admin_limit a{0, limit, value};
    return client.ask(NVLF_CMD_ADMIN_LIMIT, a);
}

} // namespace

BOOST_DATA_TEST_CASE(a_client_is_told_where_it_is, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}, "blue"};
    auto client = daemon.client();
    const nvlf_ioc_info info = client.info();
    BOOST_TEST(info.fabric == "blue");
    BOOST_TEST(info.topology == "fusion-mixed-8");
    BOOST_TEST(info.server_pid == static_cast<std::uint32_t>(daemon.process().pid()));
    nvlf_ioc_client who{};
    BOOST_REQUIRE_EQUAL(client.ask(NVLF_CMD_GET_CLIENT, who), 0);
    BOOST_TEST(who.pid == static_cast<std::uint32_t>(::getpid()));
    BOOST_TEST(who.uid == ::getuid());
    BOOST_TEST(std::string{who.command} == "nvlfd_clients_t"); // As the kernel cuts it.
}

BOOST_DATA_TEST_CASE(memory_goes_from_one_client_to_another_by_token, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto one = daemon.client();
    auto two = daemon.client();
    nvlf_ioc_mem_alloc a{};
    a.bytes = 5 << 20;
    BOOST_REQUIRE_EQUAL(one.ask(NVLF_CMD_MEM_ALLOC, a), 0);
    BOOST_TEST(a.bytes == 6U << 20);
    auto* written = static_cast<char*>(
        ::mmap(nullptr, a.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, one.reply.fds[a.mem_fd].get(), 0));
    BOOST_REQUIRE(written != MAP_FAILED);
    std::strcpy(written, "from one to two");
    nvlf_ioc_mem_export x{};
    x.handle = a.handle;
    x.access = NVLF_ACCESS_READ;
    BOOST_REQUIRE_EQUAL(one.ask(NVLF_CMD_MEM_EXPORT, x), 0);
    nvlf_ioc_mem_import i{};
    std::memcpy(i.token, x.token, sizeof i.token);
    BOOST_REQUIRE_EQUAL(two.ask(NVLF_CMD_MEM_IMPORT, i), 0);
    BOOST_TEST(i.fla == a.fla);
    const void* read = ::mmap(nullptr, i.bytes, PROT_READ, MAP_SHARED, two.reply.fds[i.mem_fd].get(), 0);
    BOOST_REQUIRE(read != MAP_FAILED);
    BOOST_TEST(std::string{static_cast<const char*>(read)} == "from one to two");
    one.close(); // What two has mapped stays mapped.
    BOOST_TEST(two.info().server_pid != 0U);
    BOOST_TEST(std::string{static_cast<const char*>(read)} == "from one to two");
    ::munmap(written, a.bytes);
    ::munmap(const_cast<void*>(read), i.bytes); // munmap takes no const.
}

BOOST_DATA_TEST_CASE(a_killed_client_is_noticed_by_its_peers_at_once, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto survivor = daemon.client();
    const auto own = survivor.publish(77);
    const Fd notice{survivor.reply.fds[own.notice_fd].release()};
    // It connects to us and waits to be killed.
    auto victim = ChildProcess::fork([&daemon] {
        ContractClient client{daemon.socket()};
        const auto endpoint = client.publish();
        nvlf_ioc_ep_connect c{};
        c.endpoint = endpoint.addr.endpoint;
        c.addr = {NVLF_ADDR_MAGIC, NVLF_ADDR_VERSION, NVLF_DEVICE_ANY, 0, 0, 0, 77};
        if (client.ask(NVLF_CMD_EP_CONNECT, c) != 0) return 1;
        ::pause();
        return 0;
    });
    BOOST_REQUIRE(becomes_readable(notice.get()));
    char bytes[64];
    BOOST_TEST(::read(notice.get(), bytes, sizeof bytes) == 1);
    nvlf_ioc_ep_connect c{};
    c.endpoint = own.addr.endpoint;
    BOOST_REQUIRE_EQUAL(survivor.ask(NVLF_CMD_EP_ACCEPT, c), 0);
    const nvlf_addr peer = c.addr;
    victim.kill();
    BOOST_REQUIRE(becomes_readable(notice.get()));
    nvlf_ioc_ep_lookup l{};
    l.addr = peer;
    BOOST_TEST(survivor.ask(NVLF_CMD_EP_LOOKUP, l) == ESTALE);
    BOOST_TEST(survivor.info().clients == 1U);
    BOOST_TEST(survivor.info().allocations == 1U);
}

BOOST_DATA_TEST_CASE(a_killed_nvlfd_hangs_up_on_notices_events_and_connections, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto client = daemon.client();
    const auto own = client.publish();
    const Fd notice{client.reply.fds[own.notice_fd].release()};
    nvlf_ioc_events e{};
    e.mask = NVLF_EVENT_FABRIC;
    BOOST_REQUIRE_EQUAL(client.ask(NVLF_CMD_EVENTS, e), 0);
    const Fd events{client.reply.fds[e.event_fd].release()};
    daemon.process().kill();
    for (const int fd : {notice.get(), events.get(), client.fd()}) {
        pollfd p{fd, POLLIN, 0};
        BOOST_TEST(::poll(&p, 1, patience_ms) == 1);
        BOOST_TEST((p.revents & POLLHUP) != 0);
        char byte = 0;
        BOOST_TEST(::read(fd, &byte, 1) == 0);
    }
}

BOOST_DATA_TEST_CASE(every_descriptor_comes_back_when_clients_are_gone, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto keeper = daemon.client();
    static_cast<void>(keeper.info());
    const std::size_t before = daemon.descriptors();
    {
        std::vector<ContractClient> clients;
        for (int i = 0; i < 50; ++i) {
            clients.push_back(daemon.client());
            static_cast<void>(clients.back().publish());
            nvlf_ioc_events e{};
            BOOST_REQUIRE_EQUAL(clients.back().ask(NVLF_CMD_EVENTS, e), 0);
        }
        // A connection and its process, a region, a doorbell, a notice, an event stream each. nvlfd lets go of a reply's own copies just
        // after it was sent.
        BOOST_TEST(eventually([&daemon, before] { return daemon.descriptors() == before + 50 * 6; }, patience));
    }
    BOOST_TEST(eventually([&daemon, before] { return daemon.descriptors() == before; }, patience));
    BOOST_TEST(keeper.info().clients == 1U);
}

BOOST_DATA_TEST_CASE(messages_that_make_no_sense_are_answered_and_survived, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto client = daemon.client();
    std::mt19937 random{1};
    for (std::size_t i = 0; i < 500; ++i) {
        std::vector<std::byte> bytes(1 + random() % NVLF_MSG_BYTES);
        for (std::byte& b : bytes) b = static_cast<std::byte>(random());
        if (i % 2 == 0 && bytes.size() >= 4) std::memcpy(bytes.data(), "NLFM", 4);
        BOOST_REQUIRE(!client.send(bytes).failed());
        BOOST_REQUIRE(client.receive());
        BOOST_TEST(client.head().error != 0U);
    }
    BOOST_TEST(client.info().clients == 1U);
}

BOOST_DATA_TEST_CASE(a_message_that_is_too_long_is_eproto, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto client = daemon.client();
    std::vector<std::byte> bytes = request(NVLF_CMD_GET_DEVICE, NVLF_MSG_BYTES);
    BOOST_REQUIRE_EQUAL(::send(client.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    BOOST_REQUIRE(client.receive());
    BOOST_TEST(client.head().error == static_cast<unsigned>(EPROTO));
    BOOST_TEST(client.info().clients == 1U);
}

BOOST_DATA_TEST_CASE(descriptors_that_nobody_asked_for_are_closed_however_many, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto client = daemon.client();
    static_cast<void>(client.info());
    const std::size_t before = daemon.descriptors();
    const std::vector<std::byte> bytes = request(NVLF_CMD_GET_INFO, sizeof(nvlf_ioc_info));
    for (const std::size_t count : {1U, 4U, 5U, 100U, 253U}) {
        // By hand: send_message() refuses more than a message may carry.
        std::vector<int> fds(count, 0);
        std::vector<std::byte> control(CMSG_SPACE(count * sizeof(int)));
        iovec iov{const_cast<std::byte*>(bytes.data()), bytes.size()}; // sendmsg only reads it.
        msghdr h{};
        h.msg_iov = &iov;
        h.msg_iovlen = 1;
        h.msg_control = control.data();
        h.msg_controllen = control.size();
        cmsghdr* c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        std::memcpy(CMSG_DATA(c), fds.data(), count * sizeof(int));
        BOOST_REQUIRE_EQUAL(::sendmsg(client.fd(), &h, 0), static_cast<ssize_t>(bytes.size()));
        BOOST_REQUIRE(client.receive());
        BOOST_TEST(client.head().error == static_cast<unsigned>(EPROTO));
        BOOST_TEST(eventually([&daemon, before] { return daemon.descriptors() == before; }, patience));
    }
}

BOOST_DATA_TEST_CASE(a_client_that_does_not_read_its_replies_is_dropped_and_nobody_else_suffers, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto good = daemon.client();
    auto bad = daemon.client();
    const std::vector<std::byte> bytes = request(NVLF_CMD_GET_STATE, sizeof(nvlf_ioc_state));
    // Bounded: what nvlfd keeps for it is some dozens of replies.
    int sent = 0;
    for (; sent < 100000; ++sent) {
        const Errno e = bad.send(bytes, {}, MSG_DONTWAIT);
        if (e == Errno{EAGAIN}) {
            BOOST_REQUIRE(becomes_readable(bad.fd(), POLLOUT));
            continue;
        }
        if (e.failed()) break; // EPIPE: dropped.
    }
    BOOST_TEST(sent < 100000);
    BOOST_TEST(daemon.process().wait_for_output("does not read its replies", patience));
    BOOST_TEST(good.info().clients == 1U);
}

BOOST_DATA_TEST_CASE(requests_that_come_in_a_heap_are_answered_in_order, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto client = daemon.client();
    constexpr std::uint32_t heap = 24; // More than one turn's worth, and less than what is dropped for.
    for (std::uint32_t i = 0; i < heap; ++i) {
        std::vector<std::byte> bytes = request(NVLF_CMD_GET_DEVICE, sizeof(nvlf_ioc_device));
        std::memcpy(bytes.data() + offsetof(nvlf_msg, tag), &i, sizeof i);
        BOOST_REQUIRE(!client.send(bytes).failed());
    }
    for (std::uint32_t i = 0; i < heap; ++i) {
        BOOST_REQUIRE(client.receive());
        BOOST_TEST(client.head().tag == i);
    }
}

BOOST_DATA_TEST_CASE(a_client_over_the_limit_is_a_guest_and_there_is_room_when_one_leaves, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto one = daemon.client();
    BOOST_REQUIRE_EQUAL(admin_limit(one, NVLF_LIMIT_CLIENTS, 2), 0);
    auto two = daemon.client();
    static_cast<void>(two.info());
    auto three = daemon.client();
    BOOST_TEST((three.info().caps & NVLF_CAP_GUEST) != 0U);
    nvlf_ioc_mem_alloc m{};
    m.bytes = 1;
    BOOST_TEST(three.ask(NVLF_CMD_MEM_ALLOC, m) == EMFILE);
    two.close();
    BOOST_TEST(eventually([&one] { return one.info().clients == 1; }, patience));
    auto four = daemon.client();
    BOOST_TEST(four.info().clients == 2U);
}

BOOST_DATA_TEST_CASE(nvlfd_without_a_descriptor_left_sheds_newcomers_and_goes_on, loops, loop) {
    // Soft and hard, so that nvlfd cannot raise it.
    const TempDir dir;
    auto child = ChildProcess::spawn({"/bin/sh", "-c", "ulimit -n 40; exec \"$@\"", "sh", program("nvlfd"), "--dir",
                                      dir.path(), "--event-loop", loop});
    BOOST_REQUIRE_MESSAGE(child.wait_for_output("serves", patience), child.output());
    ContractClient first{dir / "default.sock"};
    static_cast<void>(first.info());
    std::vector<ContractClient> crowd;
    for (int i = 0; i < 60; ++i) crowd.emplace_back(dir / "default.sock");
    BOOST_TEST(child.wait_for_output("no descriptor left", patience));
    BOOST_TEST(first.info().server_pid != 0U); // It lives, and serves who is in.
    nvlf_ioc_mem_alloc m{};
    m.bytes = 1;
    BOOST_TEST(first.ask(NVLF_CMD_MEM_ALLOC, m) == EMFILE);
    crowd.clear();
    BOOST_TEST(eventually([&first] { return first.info().clients == 1; }, patience));
    BOOST_TEST(first.ask(NVLF_CMD_MEM_ALLOC, m) == 0);
}

BOOST_DATA_TEST_CASE(a_hundred_clients_killed_at_any_point_leave_nothing, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto keeper = daemon.client();
    const auto own = keeper.publish(5);
    static_cast<void>(keeper.info()); // The reply before this one is let go of by now.
    const std::size_t before = daemon.descriptors();
    for (int i = 0; i < 100; ++i) {
        auto victim = ChildProcess::fork([&daemon] {
            for (;;) {
                ContractClient client{daemon.socket()};
                const auto endpoint = client.publish();
                nvlf_ioc_ep_connect c{};
                c.endpoint = endpoint.addr.endpoint;
                c.addr = {NVLF_ADDR_MAGIC, NVLF_ADDR_VERSION, NVLF_DEVICE_ANY, 0, 0, 0, 5};
                if (client.ask(NVLF_CMD_EP_CONNECT, c) != 0) return 1;
            }
        });
        // Somewhere in what it does: after as many exchanges of ours as the number says.
        for (int exchange = 0; exchange < i % 10; ++exchange) static_cast<void>(keeper.info());
        victim.kill();
    }
    BOOST_TEST(eventually([&keeper] { return keeper.info().clients == 1; }, patience));
    const nvlf_ioc_info info = keeper.info();
    BOOST_TEST(info.endpoints == 1U);
    BOOST_TEST(info.allocations == 1U);
    // What the dead had sent can still be taken; after that nothing is left of them.
    int error = 0;
    for (int i = 0; i < 1000 && error == 0; ++i) {
        nvlf_ioc_ep_connect c{};
        c.endpoint = own.addr.endpoint;
        error = keeper.ask(NVLF_CMD_EP_ACCEPT, c);
    }
    BOOST_TEST(error == EAGAIN);
    BOOST_TEST(eventually([&daemon, before] { return daemon.descriptors() == before; }, patience));
}

BOOST_DATA_TEST_CASE(two_clients_that_connect_to_each_other_at_once_share_one_channel, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto one = daemon.client();
    auto two = daemon.client();
    const auto a = one.publish();
    const auto b = two.publish();
    nvlf_ioc_ep_connect x{};
    x.endpoint = a.addr.endpoint;
    x.addr = b.addr;
    BOOST_REQUIRE_EQUAL(one.ask(NVLF_CMD_EP_CONNECT, x), 0);
    nvlf_ioc_ep_connect y{};
    y.endpoint = b.addr.endpoint;
    y.addr = a.addr;
    BOOST_REQUIRE_EQUAL(two.ask(NVLF_CMD_EP_CONNECT, y), 0);
    BOOST_TEST(x.side != y.side);
    auto* left = static_cast<char*>(
        ::mmap(nullptr, x.channel_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, one.reply.fds[x.channel_fd].get(), 0));
    auto* right = static_cast<char*>(
        ::mmap(nullptr, y.channel_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, two.reply.fds[y.channel_fd].get(), 0));
    BOOST_REQUIRE(left != MAP_FAILED && right != MAP_FAILED);
    left[5000] = 'x';
    BOOST_TEST(right[5000] == 'x');
    ::munmap(left, x.channel_bytes);
    ::munmap(right, y.channel_bytes);
}
