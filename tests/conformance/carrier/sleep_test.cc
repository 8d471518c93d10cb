// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Doorbells: whoever sleeps is woken, nobody is woken twice for one sleep, and no message is slept through.
#define BOOST_TEST_MODULE carrier_sleep
#include <boost/test/unit_test.hpp>

#include <poll.h>

#include <atomic>
#include <thread>

#include "fabric.hpp"

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {
bool readable(const Ep& ep, int bound_ms = 0) {
    pollfd waited{nvlf_ep_wait_fd(ep.get()), POLLIN, 0};
    return ::poll(&waited, 1, bound_ms) == 1;
}

struct World {
    FabricDaemon daemon;
    Fabric here = open_fabric(daemon);
    Fabric there = open_fabric(daemon);
    Ep a = publish(here);
    Ep b = publish(there);
    Channel ab = connect(a, b);
    Channel ba = accept(b);
    World() { nvlf_ep_disarm(b.get()); } // The offer's notice.
};

std::uint32_t next_seq(const std::uint32_t seq) { return seq + 1; }

// The least of a lane that an idle protocol needs: one slot's publication word, counting up.
void produce(nvlf_channel* channel, std::uint32_t seq) {
    __atomic_store_n(&nvlf_channel_tx(channel)->slot[0].seq, seq, __ATOMIC_RELEASE);
    nvlf_channel_notify(channel);
}
std::uint32_t look(nvlf_channel* channel) {
    return __atomic_load_n(&nvlf_channel_rx(channel)->slot[0].seq, __ATOMIC_ACQUIRE);
}

// Waits for `seq` as a provider does: look, arm, look again, sleep. False when it slept through it.
bool consume(nvlf_ep* ep, nvlf_channel* channel, std::uint32_t seq) {
    while (look(channel) != seq) {
        nvlf_ep_arm(ep);
        bool slept_through = false;
        if (look(channel) != seq) {
            pollfd waited{nvlf_ep_wait_fd(ep), POLLIN, 0};
            slept_through = ::poll(&waited, 1, 10'000) == 0;
        }
        nvlf_ep_disarm(ep);
        if (slept_through) return false;
    }
    return true;
}
} // namespace

BOOST_AUTO_TEST_CASE(an_awake_peer_is_not_rung) {
    World w;
    nvlf_channel_notify(w.ab.get());
    BOOST_TEST(!readable(w.b));
}

BOOST_AUTO_TEST_CASE(a_sleeping_peer_is_rung_once_for_each_sleep) {
    World w;
    for (int sleep = 0; sleep < 3; ++sleep) {
        nvlf_ep_arm(w.b.get());
        BOOST_TEST(!readable(w.b));
        nvlf_channel_notify(w.ab.get());
        BOOST_TEST(readable(w.b));
        nvlf_ep_disarm(w.b.get());
        BOOST_TEST(!readable(w.b));
        nvlf_channel_notify(w.ab.get());
        BOOST_TEST(!readable(w.b));
    }
    nvlf_ep_arm(w.b.get());
    nvlf_channel_notify(w.ab.get());
    nvlf_ep_arm(w.b.get()); // A new sleep without waking up in between.
    nvlf_channel_notify(w.ab.get());
    BOOST_TEST(readable(w.b));
}

BOOST_AUTO_TEST_CASE(a_thread_can_be_woken_by_its_own_doorbell) {
    World w;
    nvlf_ep_arm(w.b.get());
    std::thread waker{[&] { nvlf_ep_ring(w.b.get()); }};
    BOOST_TEST(readable(w.b, 10'000));
    waker.join();
    nvlf_ep_disarm(w.b.get());
    BOOST_TEST(!readable(w.b));
}

BOOST_AUTO_TEST_CASE(two_threads_that_sleep_after_each_message_miss_none) {
    World w;
    constexpr std::uint32_t rounds = 5000;
    // Atomic: a lane is mapped at an address for each end, so TSan does not see what its cursors order.
    std::atomic<bool> good{true};
    std::thread echo{[&] {
        for (std::uint32_t seq = 1; seq <= rounds && good; seq = next_seq(seq)) {
            if (!consume(w.b.get(), w.ba.get(), seq)) return;
            produce(w.ba.get(), seq);
        }
    }};
    for (std::uint32_t seq = 1; seq <= rounds && good; seq = next_seq(seq)) {
        produce(w.ab.get(), seq);
        good = consume(w.a.get(), w.ab.get(), seq);
    }
    echo.join();
    BOOST_TEST(good.load());
}

BOOST_AUTO_TEST_CASE(two_processes_that_sleep_after_each_message_miss_none) {
    const FabricDaemon daemon;
    constexpr std::uint64_t service = 4711;
    constexpr std::uint32_t rounds = 5000;
    auto echo = ChildProcess::fork([&] {
        const Fabric own = open_fabric(daemon);
        const Ep ep = publish(own, 4, service);
        nvlf_channel* channel = nullptr;
        pollfd waited{nvlf_ep_wait_fd(ep.get()), POLLIN, 0};
        if (::poll(&waited, 1, 10'000) != 1 || nvlf_ep_accept(ep.get(), &channel) != 0) return 1;
        const Channel accepted{channel};
        for (std::uint32_t seq = 1; seq <= rounds; ++seq) {
            if (!consume(ep.get(), channel, seq)) return 2;
            produce(channel, seq);
        }
        return 0;
    });
    const Fabric own = open_fabric(daemon);
    const Ep ep = publish(own);
    nvlf_addr addr{};
    addr.magic = NVLF_ADDR_MAGIC;
    addr.version = NVLF_ADDR_VERSION;
    addr.device = NVLF_DEVICE_ANY;
    addr.service = service;
    BOOST_REQUIRE(eventually([&] { return nvlf_ep_lookup(own.get(), &addr) == 0; }, 10s));
    nvlf_channel* channel = nullptr;
    BOOST_REQUIRE(nvlf_ep_connect(ep.get(), &addr, &channel) == 0);
    const Channel connected{channel};
    bool good = true;
    for (std::uint32_t seq = 1; seq <= rounds && good; ++seq) {
        produce(channel, seq);
        good = consume(ep.get(), channel, seq);
    }
    BOOST_TEST(good);
    BOOST_TEST(echo.wait(10s).exited_with(0), echo.output());
}

BOOST_AUTO_TEST_CASE(events_wake_endpoints_published_before_and_after_they_were_asked_for) {
    const FabricDaemon daemon;
    const Fabric fabric = open_fabric(daemon);
    BOOST_TEST(nvlf_event_fd(fabric.get()) == -ENOENT);
    const Ep before = publish(fabric);
    BOOST_REQUIRE(nvlf_events(fabric.get(), NVLF_EVENT_DEVICE) == 0);
    const Ep after = publish(fabric);
    nvlf_event event{};
    BOOST_TEST(nvlf_event_read(fabric.get(), &event) == -EAGAIN);
    BOOST_REQUIRE(nvlf_admin_state(fabric.get(), NVLF_OBJECT_DEVICE, 2, NVLF_STATE_DOWN, 0) == 0);
    BOOST_TEST(readable(before));
    BOOST_TEST(readable(after));
    BOOST_TEST(nvlf_event_read(fabric.get(), &event) == 0);
    BOOST_TEST(event.type == NVLF_EVENT_DEVICE);
    BOOST_TEST(event.index == 2U);
    BOOST_TEST(event.state == unsigned{NVLF_STATE_DOWN});
    BOOST_TEST(!readable(before));
    BOOST_TEST(nvlf_events(fabric.get(), NVLF_EVENT_DEVICE) == 0); // Replaces the stream.
    BOOST_REQUIRE(nvlf_admin_state(fabric.get(), NVLF_OBJECT_DEVICE, 2, NVLF_STATE_UP, 0) == 0);
    BOOST_TEST(readable(before));
    BOOST_TEST(nvlf_events(fabric.get(), 1U << 31) == -EINVAL);
}
