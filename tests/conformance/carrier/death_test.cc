// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A carrier that is killed and a peer that is killed: everybody hears of it at once, nobody hangs, nothing stays.
#define BOOST_TEST_MODULE carrier_death
#include <boost/test/unit_test.hpp>

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "fabric.hpp"
#include "support/resources.hpp"

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {
bool readable(int fd, int bound_ms) {
    pollfd waited{fd, POLLIN, 0};
    return ::poll(&waited, 1, bound_ms) == 1;
}

// Whether something that we sent to a carrier lies there unread: the kernel counts it to the sender.
bool request_unread() {
    for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
        const int fd = std::stoi(entry.path().filename());
        int type = 0;
        socklen_t length = sizeof type;
        int bytes = 0;
        if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET &&
            ::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0)
            return true;
    }
    return false;
}

// Whether a child has come to a stop; its end can still be waited for.
bool stopped(pid_t pid) {
    siginfo_t what{};
    return ::waitid(P_PID, static_cast<id_t>(pid), &what, WSTOPPED | WNOHANG) == 0 && what.si_pid == pid;
}
} // namespace

BOOST_AUTO_TEST_CASE(a_killed_carrier_is_enodev_to_every_call_and_memory_stays_usable) {
    FabricDaemon daemon;
    const auto before = open_descriptors();
    {
        Fabric fabric = open_fabric(daemon);
        Mem mem = alloc(fabric);
        auto* ptr = static_cast<char*>(map(mem));
        Ep a = publish(fabric);
        Ep b = publish(fabric);
        Channel ab = connect(a, b);
        BOOST_REQUIRE(nvlf_events(fabric.get(), NVLF_EVENT_FABRIC) == 0);
        daemon.kill();

        // The kernel lets go of a dead process's sockets a moment after it was reaped, where io_uring held them.
        BOOST_TEST(eventually([&] { return nvlf_poll_alive(fabric.get()) == 0; }, 10s));
        BOOST_TEST(readable(nvlf_ep_wait_fd(a.get()), 5000));
        nvlf_ep_disarm(a.get());
        BOOST_TEST(readable(nvlf_ep_wait_fd(a.get()), 0)); // For good: it is not to be slept on any more.
        nvlf_event event{};
        BOOST_TEST(nvlf_event_read(fabric.get(), &event) == -ENODEV);

        nvlf_mem* mem2 = nullptr;
        nvlf_ep* ep2 = nullptr;
        nvlf_channel* channel2 = nullptr;
        nvlf_ioc_info info{};
        nvlf_device device{};
        nvlf_addr addr = *nvlf_ep_addr(b.get());
        std::uint8_t token[NVLF_TOKEN_LEN]{};
        BOOST_TEST(nvlf_get_info(fabric.get(), &info) == -ENODEV);
        BOOST_TEST(nvlf_get_device(fabric.get(), 0, &device) == -ENODEV);
        BOOST_TEST(nvlf_mem_alloc(fabric.get(), 0, 1, 0, &mem2) == -ENODEV);
        BOOST_TEST(nvlf_mem_import(fabric.get(), token, &mem2) == -ENODEV);
        BOOST_TEST(nvlf_mem_export(mem.get(), NVLF_ACCESS_READ, token) == -ENODEV);
        BOOST_TEST(nvlf_ep_publish(fabric.get(), 0, 0, 4096, &ep2) == -ENODEV);
        BOOST_TEST(nvlf_ep_connect(a.get(), &addr, &channel2) == -ENODEV);
        BOOST_TEST(nvlf_ep_accept(a.get(), &channel2) == -ENODEV);
        BOOST_TEST(nvlf_ep_lookup(fabric.get(), &addr) == -ENODEV);
        BOOST_TEST(nvlf_events(fabric.get(), 0) == -ENODEV);
        BOOST_TEST(nvlf_attach(fabric.get(), 0, nullptr) == -ENODEV);
        BOOST_TEST(nvlf_admin_down(fabric.get(), 0) == -ENODEV);
        BOOST_TEST(nvlf_alive(fabric.get()) == 0);

        *ptr = 'x';
        nvlf_channel_tx(ab.get())->data[0] = 1;
        nvlf_channel_notify(ab.get());
        BOOST_TEST(nvlf_channel_rx(ab.get()) != nullptr);

        nvlf_channel_put(ab.release());
        BOOST_TEST(nvlf_ep_put(a.release()) == 0);
        BOOST_TEST(nvlf_ep_put(b.release()) == 0);
        BOOST_TEST(nvlf_mem_put(mem.release()) == 0);
        BOOST_TEST(nvlf_close(fabric.release()) == 0);
    }
    BOOST_TEST(open_descriptors() == before);
    // The socket that it left is one that nobody listens on, and then the name is free.
    const nvlf_open_args args = args_for(daemon);
    nvlf_fabric* none = nullptr;
    BOOST_TEST(nvlf_open(&args, &none) == -ENOENT);
    daemon.start();
    const Fabric again = open_fabric(daemon);
    BOOST_TEST(nvlf_alive(again.get()) == 1);
}

BOOST_AUTO_TEST_CASE(a_carrier_that_goes_down_says_goodbye) {
    FabricDaemon daemon;
    const Fabric fabric = open_fabric(daemon);
    daemon.process().signal(SIGTERM);
    BOOST_TEST(eventually([&] { return nvlf_alive(fabric.get()) == 0; }, 10s)); // Without a system call.
    BOOST_TEST(daemon.process().wait(10s).exited_with(0));
    const nvlf_open_args args = args_for(daemon);
    nvlf_fabric* none = nullptr;
    BOOST_TEST(nvlf_open(&args, &none) == -ENOENT);
}

BOOST_AUTO_TEST_CASE(a_carrier_killed_in_the_middle_of_a_call_is_no_hang) {
    FabricDaemon daemon;
    const Fabric fabric = open_fabric(daemon);
    const pid_t pid = daemon.process().pid();
    BOOST_REQUIRE(!request_unread());
    daemon.process().signal(SIGSTOP); // So that the request lies in the socket when the daemon dies.
    BOOST_REQUIRE(eventually([&] { return stopped(pid); }, 10s));
    bool asked = false;
    std::thread killer{[&] {
        asked = eventually(request_unread, 10s);
        ::kill(pid, SIGKILL);
    }};
    nvlf_ioc_info info{};
    const auto start = std::chrono::steady_clock::now();
    BOOST_TEST(nvlf_get_info(fabric.get(), &info) == -ENODEV);
    BOOST_TEST((std::chrono::steady_clock::now() - start < 5s));
    killer.join();
    BOOST_TEST(asked);
}

BOOST_AUTO_TEST_CASE(a_killed_peer_is_known_by_one_load_and_wakes_its_peers) {
    FabricDaemon daemon;
    const Fabric fabric = open_fabric(daemon);
    const auto daemons = open_descriptors(daemon.process().pid());
    {
        const Ep ep = publish(fabric, 0, 99);
        BOOST_REQUIRE(nvlf_events(fabric.get(), NVLF_EVENT_ENDPOINT) == 0);
        auto peer = ChildProcess::fork([&] {
            const Fabric own = open_fabric(daemon);
            const Ep mine = publish(own);
            nvlf_addr addr = *nvlf_ep_addr(mine.get());
            addr.device = NVLF_DEVICE_ANY;
            addr.endpoint = 0;
            addr.epoch = 0;
            addr.service = 99;
            nvlf_channel* channel = nullptr;
            if (nvlf_ep_connect(mine.get(), &addr, &channel) != 0) return 1;
            ::poll(nullptr, 0, -1); // Until it is killed.
            return 0;
        });
        BOOST_REQUIRE(readable(nvlf_ep_wait_fd(ep.get()), 10'000));
        nvlf_ep_disarm(ep.get());
        const Channel channel = accept(ep);
        BOOST_TEST(nvlf_channel_alive(channel.get()) == 1);
        peer.kill();
        BOOST_TEST(readable(nvlf_ep_wait_fd(ep.get()), 10'000));
        BOOST_TEST(nvlf_channel_alive(channel.get()) == 0);
        nvlf_event event{};
        BOOST_TEST(eventually([&] { return nvlf_event_read(fabric.get(), &event) == 0; }, 10s));
        BOOST_TEST(event.type == NVLF_EVENT_ENDPOINT);
        BOOST_TEST(event.addr.endpoint == nvlf_channel_peer(channel.get())->endpoint);
    }
    BOOST_TEST(nvlf_events(fabric.get(), 0) == 0);
    nvlf_ioc_info info{};
    BOOST_REQUIRE(nvlf_get_info(fabric.get(), &info) == 0);
    BOOST_TEST(info.clients == 1U);
    BOOST_TEST(info.endpoints == 0U);
    BOOST_TEST(info.allocated_bytes == 0U);
    // One more for the event stream.
    BOOST_TEST(eventually([&] { return open_descriptors(daemon.process().pid()) <= daemons + 1; }, 10s));
}
