// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Sleeping without missing anything, with endpoints made of a descriptor and a flag.
#define BOOST_TEST_MODULE provider_wait
#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "endpoint_api.hpp"
#include "params.hpp"
#include "wait.hpp"

namespace nvlf::ofi {

// A lane that a peer writes to: `pending` messages, of which progress makes `*done` completions. The doorbell rings only
// while it is armed.
struct Endpoint {
    std::atomic<int>* done = nullptr;
    Fd doorbell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::atomic<int> armed{0};
    std::atomic<int> pending{0};
    std::atomic<int> progressed{0};

    void deliver() {
        pending.fetch_add(1);
        const std::uint64_t one = 1;
        if (armed.load() > 0 && ::write(doorbell.get(), &one, sizeof one) != sizeof one)
            std::abort(); // Boost.Test's checks are for the main thread only.
    }
};

void endpoint_progress(Endpoint& endpoint) noexcept {
    endpoint.progressed.fetch_add(1);
    if (endpoint.done != nullptr) endpoint.done->fetch_add(endpoint.pending.exchange(0));
}
int endpoint_wait_fd(const Endpoint& endpoint) noexcept { return endpoint.doorbell.get(); }
void endpoint_arm(Endpoint& endpoint) noexcept { endpoint.armed.fetch_add(1); }
bool endpoint_ready(Endpoint& endpoint) noexcept { return endpoint.pending.load() > 0; }
void endpoint_disarm(Endpoint& endpoint) noexcept {
    std::uint64_t rings = 0;
    if (endpoint.armed.fetch_sub(1) == 1) {
        [[maybe_unused]] const ssize_t got = ::read(endpoint.doorbell.get(), &rings, sizeof rings);
    }
}

const Params& params() noexcept {
    static const Params values{}; // No spinning to speak of: 20 us.
    return values;
}

} // namespace nvlf::ofi

using namespace nvlf::ofi;
using namespace std::chrono_literals;

namespace {

// A completion object: counts what its endpoints, or other threads, put in.
struct Queue {
    std::atomic<int> done{0};
    WaitObject wait;
    EndpointList endpoints{true};

    explicit Queue(enum fi_wait_obj kind) { BOOST_REQUIRE(wait.open(kind, nullptr) == 0); }
    Waitable waitable() { return {wait, &endpoints, nullptr}; }

    static ssize_t take(void* self) {
        Queue& queue = *static_cast<Queue*>(self);
        queue.endpoints.progress();
        int count = queue.done.load();
        while (count > 0 && !queue.done.compare_exchange_weak(count, count - 1)) {}
        return count > 0 ? 1 : -FI_EAGAIN;
    }
    static ssize_t peek(void* self) {
        Queue& queue = *static_cast<Queue*>(self);
        queue.endpoints.progress();
        return queue.done.load() > 0 ? 0 : -FI_EAGAIN;
    }
    ssize_t read(int timeout_ms) { return block(waitable(), take, this, timeout_ms, -FI_ETIMEDOUT); }
    void push() {
        done.fetch_add(1);
        wait.notify();
    }
};

bool readable(int fd) {
    pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&polled, 1, 0) == 1;
}

constexpr int forever = 30'000; // A bound, should the code under test be broken.

} // namespace

BOOST_AUTO_TEST_CASE(a_wait_that_nothing_ends_times_out_not_early) {
    Queue queue{FI_WAIT_UNSPEC};
    for (const int timeout : {0, 1, 15}) {
        const auto start = std::chrono::steady_clock::now();
        BOOST_TEST(queue.read(timeout) == -FI_ETIMEDOUT);
        BOOST_TEST((std::chrono::steady_clock::now() - start >= std::chrono::milliseconds{timeout}));
    }
}

BOOST_AUTO_TEST_CASE(what_is_there_already_is_answered_without_sleeping) {
    Queue queue{FI_WAIT_UNSPEC};
    queue.push();
    BOOST_TEST(queue.read(0) == 1);
}

BOOST_AUTO_TEST_CASE(no_completion_is_missed_whoever_brings_it) {
    // Each round ends the wait once, by a peer's doorbell or by another thread; a lost wake-up runs into the bound.
    Queue queue{FI_WAIT_UNSPEC};
    Endpoint endpoint;
    endpoint.done = &queue.done;
    BOOST_REQUIRE(queue.endpoints.add(endpoint, queue.wait) == 0);
    constexpr int rounds = 2000;
    std::atomic<int> taken{0};
    std::thread producer{[&] {
        for (int i = 0; i < rounds; ++i) {
            while (taken.load() < i) std::this_thread::yield();
            if (i % 2 == 0) endpoint.deliver();
            else queue.push();
        }
    }};
    int got = 0;
    for (; got < rounds && queue.read(forever) == 1; ++got) taken.store(got + 1);
    taken.store(rounds);
    producer.join();
    BOOST_TEST(got == rounds);
    BOOST_TEST(endpoint.armed.load() == 0);
    queue.endpoints.remove(endpoint, queue.wait);
}

BOOST_AUTO_TEST_CASE(sleepers_share_what_comes_and_none_is_left_asleep) {
    Queue queue{FI_WAIT_UNSPEC};
    constexpr int each = 500;
    std::atomic<int> got{0};
    std::vector<std::thread> sleepers;
    for (int i = 0; i < 3; ++i)
        sleepers.emplace_back([&] {
            for (int n = 0; n < each; ++n)
                if (queue.read(forever) == 1) got.fetch_add(1);
        });
    for (int n = 0; n < 3 * each; ++n) queue.push();
    for (std::thread& sleeper : sleepers) sleeper.join();
    BOOST_TEST(got.load() == 3 * each);
}

BOOST_AUTO_TEST_CASE(a_sleeper_to_whom_a_ring_means_nothing_does_not_take_it_from_another) {
    // A counter, of which one thread waits for each next count and another for the last one only.
    Queue queue{FI_WAIT_UNSPEC};
    constexpr int rounds = 1000;
    struct Goal {
        std::atomic<int>& count;
        int wanted;
        static ssize_t look(void* self) {
            const Goal& goal = *static_cast<Goal*>(self);
            return goal.count.load() >= goal.wanted ? 0 : -FI_EAGAIN;
        }
    };
    std::atomic<int> count{0};
    std::atomic<int> seen{0};
    std::atomic<bool> slept_through{false};
    std::thread each{[&] {
        for (int i = 1; i <= rounds && !slept_through; ++i) {
            Goal next{count, i};
            const auto start = std::chrono::steady_clock::now();
            const bool good = block(queue.waitable(), Goal::look, &next, forever, -FI_ETIMEDOUT) == 0;
            // It is found at the end of the time, too.
            if (!good || std::chrono::steady_clock::now() - start > std::chrono::milliseconds{forever / 2})
                slept_through = true;
            seen = i;
        }
    }};
    std::thread last{[&] {
        Goal all{count, rounds};
        (void)block(queue.waitable(), Goal::look, &all, forever, -FI_ETIMEDOUT);
    }};
    for (int i = 1; i <= rounds && !slept_through; ++i) {
        // Past the time that a wait spins, as a rule: both are asleep then.
        const auto soon = std::chrono::steady_clock::now() + std::chrono::microseconds{i % 8 * 30};
        while (std::chrono::steady_clock::now() < soon) std::this_thread::yield();
        count = i;
        queue.wait.notify();
        while (seen < i && !slept_through) std::this_thread::yield();
    }
    count = rounds;
    queue.wait.notify();
    each.join();
    last.join();
    BOOST_TEST(!slept_through);
}

BOOST_AUTO_TEST_CASE(of_two_threads_that_arm_an_object_one_does_and_of_two_that_disarm_it_one_does) {
    Queue queue{FI_WAIT_FD};
    const auto ticket = queue.wait.begin();
    BOOST_TEST(queue.wait.arm(ticket));
    BOOST_TEST(!queue.wait.arm(ticket));
    BOOST_TEST(queue.wait.disarm().has_value());
    BOOST_TEST(!queue.wait.disarm().has_value());
    queue.wait.end(ticket);
}

BOOST_AUTO_TEST_CASE(a_signal_ends_one_wait_and_is_kept_when_nobody_waits) {
    Queue queue{FI_WAIT_UNSPEC};
    queue.wait.signal();
    BOOST_TEST(queue.read(forever) == -FI_EAGAIN);
    BOOST_TEST(queue.read(0) == -FI_ETIMEDOUT);
    std::thread waker{[&] { queue.wait.signal(); }};
    BOOST_TEST(queue.read(forever) == -FI_EAGAIN);
    waker.join();
}

BOOST_AUTO_TEST_CASE(an_endpoint_that_joins_while_somebody_sleeps_wakes_him_too) {
    Queue queue{FI_WAIT_UNSPEC};
    Endpoint endpoint;
    endpoint.done = &queue.done;
    ssize_t got = 0;
    std::thread sleeper{[&] { got = queue.read(forever); }};
    BOOST_TEST(queue.endpoints.add(endpoint, queue.wait) == 0);
    endpoint.deliver();
    sleeper.join();
    BOOST_TEST(got == 1);
    BOOST_TEST(endpoint.armed.load() == 0);
    queue.endpoints.remove(endpoint, queue.wait);
}

BOOST_AUTO_TEST_CASE(an_endpoint_bound_twice_is_progressed_once_and_until_its_last_removal) {
    Queue queue{FI_WAIT_FD};
    Endpoint endpoint;
    BOOST_REQUIRE(queue.endpoints.add(endpoint, queue.wait) == 0);
    BOOST_REQUIRE(queue.endpoints.add(endpoint, queue.wait) == 0);
    queue.endpoints.progress();
    BOOST_TEST(endpoint.progressed.load() == 1);
    queue.endpoints.remove(endpoint, queue.wait);
    queue.endpoints.progress();
    BOOST_TEST(endpoint.progressed.load() == 2);
    queue.endpoints.remove(endpoint, queue.wait);
    queue.endpoints.progress();
    BOOST_TEST(endpoint.progressed.load() == 2);
}

BOOST_AUTO_TEST_CASE(a_descriptor_becomes_readable_by_a_doorbell_and_by_another_thread) {
    Queue queue{FI_WAIT_FD};
    Endpoint endpoint;
    endpoint.done = &queue.done;
    BOOST_REQUIRE(queue.endpoints.add(endpoint, queue.wait) == 0);
    int fd = -1;
    BOOST_REQUIRE(queue.wait.control(FI_GETWAIT, &fd) == 0);

    for (int round = 0; round < 3; ++round) {
        BOOST_REQUIRE(begin_try_wait(queue.waitable(), Queue::peek, &queue) == 0);
        BOOST_TEST(!readable(fd));
        if (round % 2 == 0) endpoint.deliver();
        else queue.push();
        BOOST_TEST(readable(fd));
        BOOST_TEST(begin_try_wait(queue.waitable(), Queue::peek, &queue) == -FI_EAGAIN);
        BOOST_TEST(!queue.wait.armed());
        BOOST_TEST(endpoint.armed.load() == 0);
        BOOST_TEST(queue.read(0) == 1);
    }
    queue.endpoints.remove(endpoint, queue.wait);
}

BOOST_AUTO_TEST_CASE(an_endpoint_that_joins_after_try_wait_is_polled_as_well_and_leaves_disarmed) {
    Queue queue{FI_WAIT_FD};
    Endpoint endpoint;
    endpoint.done = &queue.done;
    BOOST_REQUIRE(begin_try_wait(queue.waitable(), Queue::peek, &queue) == 0);
    BOOST_REQUIRE(queue.endpoints.add(endpoint, queue.wait) == 0);
    endpoint.deliver();
    BOOST_TEST(readable(queue.wait.epoll_fd()));
    queue.endpoints.remove(endpoint, queue.wait);
    BOOST_TEST(endpoint.armed.load() == 0);
    end_try_wait(queue.waitable());
}

BOOST_AUTO_TEST_CASE(wait_objects_that_are_not_offered_say_so) {
    WaitObject wait;
    BOOST_TEST(wait.open(FI_WAIT_SET, nullptr) == -FI_EINVAL);
    BOOST_TEST(wait.open(FI_WAIT_MUTEX_COND, nullptr) == -FI_ENOSYS);
    BOOST_TEST(wait.open(static_cast<enum fi_wait_obj>(7), nullptr) == -FI_EINVAL);
    int fd = -1;
    BOOST_TEST(wait.open(FI_WAIT_UNSPEC, nullptr) == 0);
    BOOST_TEST(wait.control(FI_GETWAIT, &fd) == -FI_ENODATA);
    BOOST_TEST(wait.control(FI_GETWAIT, nullptr) == -FI_EINVAL);
    enum fi_wait_obj kind = FI_WAIT_NONE;
    BOOST_TEST(wait.control(FI_GETWAITOBJ, &kind) == 0);
    BOOST_TEST(kind == FI_WAIT_UNSPEC);
}
