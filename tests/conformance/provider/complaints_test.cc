// SPDX-License-Identifier: MIT OR GPL-2.0-only
// complaints_test - what users of shared-memory providers have complained of, and has no better place among these tests.
//
// docs/COMPLAINTS.md lists all of it and says which test looks at what. Here: floods in both directions, what is left of
// an endpoint that closes, children that exit, threads that are cancelled, signal handlers, and calls from several threads.
#define BOOST_TEST_MODULE complaints
#include <malloc.h>
#include <pthread.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "nvlf/nvlf.h"
#include "support/child_process.hpp"
#include "support/resources.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

constexpr std::size_t unexpected_limit = 8u << 20;

using Handlers = std::array<struct sigaction, 32>; // Signals that are no real-time ones.
Handlers handlers() {
    Handlers all{};
    for (int signal = 1; signal < static_cast<int>(all.size()); ++signal)
        (void)::sigaction(signal, nullptr, &all[static_cast<std::size_t>(signal)]);
    return all;
}

// Before libfabric is asked for anything.
struct SmallBudget : OwnFabric {
    SmallBudget() {
        ::setenv("FI_NVLF_UNEXPECTED_LIMIT", "8M", 1);
        ::setenv("FI_LOG_LEVEL", "warn", 1);
        before = handlers();
    }
    static inline Handlers before;
};
BOOST_TEST_GLOBAL_FIXTURE(SmallBudget);

// As often as it is taken, and then refused for so long that it will not be taken any more. Both sides are driven.
template <class F>
int fill(TwoEndpoints& pair, F&& inject) {
    int taken = 0;
    for (int refused = 0; refused < 2000;) {
        const ssize_t result = inject(taken);
        if (result == 0) {
            ++taken;
            refused = 0;
            continue;
        }
        BOOST_REQUIRE_EQUAL(result, -FI_EAGAIN);
        ++refused;
        (void)fi_cq_read(pair.a.cq.get(), nullptr, 0);
        (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
    }
    return taken;
}

void exchange_small_and_large(TwoEndpoints& pair) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{300'000}}) {
        const auto out = pattern(bytes, 3);
        std::vector<char> in(bytes);
        check(fi_recv(pair.b.ep.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        pair.post("send", [&] { return fi_send(pair.a.ep.get(), out.data(), bytes, nullptr, pair.to_b, nullptr); });
        BOOST_TEST(pair.wait(pair.b, "receive").error == 0);
        BOOST_TEST(pair.wait(pair.a, "send").error == 0);
        BOOST_TEST((in == out));
    }
}

} // namespace

BOOST_AUTO_TEST_CASE(a_flood_that_nobody_receives_costs_its_budget_and_loses_nothing) {
    TwoEndpoints pair;
    exchange_small_and_large(pair); // All that costs memory once.
    std::vector<char> message(4096);
    const std::uint64_t before = resident_kib();
    const int taken = fill(pair, [&](int i) {
        std::memcpy(message.data(), &i, sizeof i);
        return fi_inject(pair.a.ep.get(), message.data(), message.size(), pair.to_b);
    });
    const std::uint64_t grown = resident_kib() - before;
    BOOST_TEST_MESSAGE(taken << " messages of 4 KiB were taken, for " << grown << " KiB");
    BOOST_TEST(taken > 256);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // Their shadow grows, too.
    BOOST_TEST(grown <= unexpected_limit / 1024 + 4096);
#endif
    for (int i = 0; i < taken; ++i) {
        check(fi_recv(pair.b.ep.get(), message.data(), message.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        BOOST_REQUIRE_EQUAL(pair.wait(pair.b, "a message of the flood").error, 0);
        int number = -1;
        std::memcpy(&number, message.data(), sizeof number);
        BOOST_REQUIRE_EQUAL(number, i);
    }
    exchange_small_and_large(pair);
}

BOOST_AUTO_TEST_CASE(two_that_flood_each_other_get_out_of_it) {
    TwoEndpoints pair;
    const std::vector<char> message(4096);
    int to_b = 0;
    int to_a = 0;
    (void)fill(pair, [&](int i) -> ssize_t {
        const bool forth = i % 2 == 0;
        const ssize_t one = fi_inject(forth ? pair.a.ep.get() : pair.b.ep.get(), message.data(), message.size(),
                                      forth ? pair.to_b : pair.to_a);
        if (one == 0) ++(forth ? to_b : to_a);
        if (one != -FI_EAGAIN) return one;
        const ssize_t other = fi_inject(forth ? pair.b.ep.get() : pair.a.ep.get(), message.data(), message.size(),
                                        forth ? pair.to_a : pair.to_b);
        if (other == 0) ++(forth ? to_a : to_b);
        return other;
    });
    BOOST_TEST(to_a > 256);
    BOOST_TEST(to_b > 256);
    std::vector<char> in(4096);
    for (; to_a + to_b > 0;) {
        Side& side = to_a > to_b ? pair.a : pair.b;
        check(fi_recv(side.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        BOOST_REQUIRE_EQUAL(pair.wait(side, "a message of the flood").error, 0);
        --(to_a > to_b ? to_a : to_b);
    }
    exchange_small_and_large(pair);
}

BOOST_AUTO_TEST_CASE(an_endpoint_that_closes_leaves_nothing_of_what_was_pending) {
    const auto round = [] {
        TwoEndpoints pair;
        const std::vector<char> out(200'000, 'x');
        std::array<char, 64> in{};
        for (int i = 0; i < 20; ++i) {
            for (const std::size_t bytes : {std::size_t{8}, std::size_t{3000}, std::size_t{200'000}})
                pair.post("tsend",
                          [&] { return fi_tsend(pair.a.ep.get(), out.data(), bytes, nullptr, pair.to_b, 1, nullptr); });
            check(fi_trecv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr), "trecv");
        }
        for (int i = 0; i < 100; ++i) (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
    };
    for (int i = 0; i < 5; ++i) round();
    const std::size_t before = ::mallinfo2().uordblks;
    const std::size_t descriptors = open_descriptors();
    for (int i = 0; i < 20; ++i) round();
    BOOST_TEST(open_descriptors() == descriptors);
    const std::size_t after = ::mallinfo2().uordblks; // Sanitizers say nothing here: they look for themselves.
    BOOST_TEST(after <= before + 60'000, before << " bytes before, " << after << " after 20 rounds");
}

BOOST_AUTO_TEST_CASE(a_child_that_exits_leaves_its_parent_in_peace) {
    TwoEndpoints pair;
    exchange_small_and_large(pair);
    auto child = ChildProcess::fork([]() -> int { std::exit(0); }); // With all that libfabric does at the end.
    BOOST_TEST(child.wait(std::chrono::seconds{20}).exited_with(0), child.output());
    exchange_small_and_large(pair);
}

BOOST_AUTO_TEST_CASE(a_child_may_open_a_fabric_of_its_own_and_so_may_its_parent) {
    TwoEndpoints pair;
    exchange_small_and_large(pair);
    auto child = ChildProcess::fork([] {
        TwoEndpoints own;
        const int out = 7;
        int in = 0;
        if (fi_recv(own.b.ep.get(), &in, sizeof in, nullptr, FI_ADDR_UNSPEC, nullptr) != 0) return 2;
        while (fi_inject(own.a.ep.get(), &out, sizeof out, own.to_b) == -FI_EAGAIN) {}
        return own.wait(own.b, "receive").error == 0 && in == out ? 0 : 1;
    });
    BOOST_TEST(child.wait(std::chrono::seconds{20}).exited_with(0), child.output());
    exchange_small_and_large(pair);
}

BOOST_AUTO_TEST_CASE(no_signal_handler_is_anybody_elses_than_before) {
    {
        TwoEndpoints pair;
        exchange_small_and_large(pair);
    }
    const Handlers now = handlers();
    for (std::size_t signal = 1; signal < now.size(); ++signal)
        BOOST_TEST((now[signal].sa_handler == SmallBudget::before[signal].sa_handler), "signal " << signal);
}

BOOST_AUTO_TEST_CASE(a_thread_that_is_cancelled_while_it_waits_holds_nothing_back) {
    TwoEndpoints pair{{.threading = FI_THREAD_SAFE}, {.threading = FI_THREAD_SAFE}};
    exchange_small_and_large(pair);
    std::atomic<bool> waits{false};
    struct Waiting {
        fid_cq* cq;
        std::atomic<bool>& waits;
    } waiting{pair.b.cq.get(), waits};
    pthread_t thread{};
    BOOST_REQUIRE(::pthread_create(
                      &thread, nullptr,
                      [](void* arg) -> void* {
                          auto& w = *static_cast<Waiting*>(arg);
                          w.waits = true;
                          fi_cq_tagged_entry entry{};
                          for (;;) (void)fi_cq_sread(w.cq, &entry, 1, nullptr, -1);
                      },
                      &waiting) == 0);
    BOOST_TEST(eventually([&] { return waits.load(); }, std::chrono::seconds{20}));
    BOOST_REQUIRE(::pthread_cancel(thread) == 0);
    void* result = nullptr;
    timespec end{};
    ::clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    BOOST_REQUIRE(::pthread_timedjoin_np(thread, &result, &end) == 0);
    BOOST_TEST(result == PTHREAD_CANCELED);
    exchange_small_and_large(pair); // Nor is a lock held.
    fi_cq_tagged_entry entry{};
    BOOST_TEST(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, 1) == -FI_EAGAIN);
}

BOOST_AUTO_TEST_CASE(a_thread_that_is_cancelled_while_it_sends_ends_after_its_call) {
    TwoEndpoints pair{{.threading = FI_THREAD_SAFE}, {.threading = FI_THREAD_SAFE}};
    // Each round meets anew: connecting, waking a sleeper and closing are full of what cancels a thread.
    for (int i = 0; i < 20; ++i) {
        pthread_t thread{};
        BOOST_REQUIRE(::pthread_create(
                          &thread, nullptr,
                          [](void* arg) -> void* {
                              (void)::pthread_cancel(::pthread_self());
                              auto& two = *static_cast<TwoEndpoints*>(arg);
                              const int value = 1;
                              (void)fi_inject(two.a.ep.get(), &value, sizeof value, two.to_b);
                              (void)fi_cq_read(two.a.cq.get(), nullptr, 0);
                              fid_cntr* counter = nullptr;
                              fi_cntr_attr attr{};
                              attr.wait_obj = FI_WAIT_UNSPEC;
                              if (fi_cntr_open(two.a.domain.get(), &attr, &counter, nullptr) == 0)
                                  (void)fi_close(&counter->fid);
                              return nullptr;
                          },
                          &pair) == 0);
        BOOST_REQUIRE(::pthread_join(thread, nullptr) == 0);
        int in = 0;
        check(fi_recv(pair.b.ep.get(), &in, sizeof in, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        BOOST_REQUIRE_EQUAL(pair.wait(pair.b, "what the thread sent").error, 0);
    }
}

BOOST_AUTO_TEST_CASE(addresses_come_and_go_beside_those_who_send) {
    TwoEndpoints pair{{.threading = FI_THREAD_SAFE}, {.threading = FI_THREAD_SAFE}};
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    std::thread inserter{[&] {
        for (std::uint64_t i = 0; !over; ++i) { // Services that nobody has.
            std::array<nvlf_addr, 8> addrs{};
            for (std::size_t k = 0; k < addrs.size(); ++k) {
                addrs[k].magic = NVLF_ADDR_MAGIC;
                addrs[k].version = NVLF_ADDR_VERSION;
                addrs[k].device = NVLF_DEVICE_ANY;
                addrs[k].service = 1000 + i * addrs.size() + k;
            }
            std::array<fi_addr_t, 8> indices{};
            if (fi_av_insert(pair.a.av.get(), addrs.data(), addrs.size(), indices.data(), 0, nullptr) != 8) ++wrong;
            if (i % 2 == 0 && fi_av_remove(pair.a.av.get(), indices.data(), indices.size(), 0) != 0) ++wrong;
            if (i > 2000) i = 0;
        }
    }};
    for (int i = 0; i < 5000; ++i) {
        int in = -1;
        check(fi_recv(pair.b.ep.get(), &in, sizeof in, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        pair.post("inject", [&] { return fi_inject(pair.a.ep.get(), &i, sizeof i, pair.to_b); });
        const Event got = pair.wait(pair.b, "receive");
        BOOST_REQUIRE_EQUAL(got.error, 0);
        BOOST_REQUIRE_EQUAL(in, i);
    }
    over = true;
    inserter.join();
    BOOST_TEST(wrong == 0);
}

// What goes to the standard error meanwhile.
template <class F>
std::string said_during(F&& f) {
    std::FILE* const file = std::tmpfile();
    BOOST_REQUIRE(file != nullptr);
    std::fflush(stderr);
    const int before = ::dup(STDERR_FILENO);
    (void)::dup2(::fileno(file), STDERR_FILENO);
    f();
    std::fflush(stderr);
    (void)::dup2(before, STDERR_FILENO);
    (void)::close(before);
    std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
    std::rewind(file);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    (void)std::fclose(file);
    return text;
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_gone_is_no_flood_of_warnings) {
    const Side a;
    fi_addr_t gone = FI_ADDR_NOTAVAIL;
    {
        const Side b;
        gone = a.insert(b.name());
    }
    int refused = 0;
    const std::string said = said_during([&] {
        for (int i = 0; i < 1000; ++i) refused += fi_inject(a.ep.get(), "x", 1, gone) == -FI_EHOSTUNREACH ? 1 : 0;
    });
    BOOST_TEST(refused == 1000);
    BOOST_TEST(std::count(said.begin(), said.end(), '\n') <= 1, said);
}

// One side posts, then reads one of its queues alone; so does the other.
BOOST_AUTO_TEST_CASE(either_queue_of_an_endpoint_carries_its_work_on) {
    const SideOptions options{.caps = FI_MSG | FI_TAGGED};
    struct TwoQueues : Side {
        explicit TwoQueues(const SideOptions& o) : Side{o} {
            for (auto* queue : {&tx, &rx}) {
                fi_cq_attr attr{};
                attr.format = FI_CQ_FORMAT_TAGGED;
                fid_cq* opened = nullptr;
                check(fi_cq_open(domain.get(), &attr, &opened, nullptr), "fi_cq_open");
                queue->reset(opened);
            }
            fid_ep* e = nullptr;
            check(fi_endpoint(domain.get(), info.get(), &e, nullptr), "fi_endpoint");
            two.reset(e);
            check(fi_ep_bind(e, &av->fid, 0), "bind av");
            check(fi_ep_bind(e, &tx->fid, FI_TRANSMIT), "bind tx");
            check(fi_ep_bind(e, &rx->fid, FI_RECV), "bind rx");
            check(fi_enable(e), "fi_enable");
        }
        [[nodiscard]] std::vector<char> its_name() const {
            std::vector<char> bytes(64);
            std::size_t size = bytes.size();
            check(fi_getname(&two->fid, bytes.data(), &size), "fi_getname");
            bytes.resize(size);
            return bytes;
        }
        FidPtr<fid_cq> tx, rx;
        FidPtr<fid_ep> two;
    };
    const TwoQueues a{options};
    const TwoQueues b{options};
    const fi_addr_t to_b = a.insert(b.its_name());
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{10'000}, std::size_t{2'000'000}}) {
        const auto out = pattern(bytes, 1);
        std::vector<char> in(bytes);
        check(fi_recv(b.two.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        ssize_t sent = -FI_EAGAIN;
        while (sent == -FI_EAGAIN) {
            sent = fi_send(a.two.get(), out.data(), bytes, nullptr, to_b, nullptr);
            (void)fi_cq_read(b.rx.get(), nullptr, 0);
        }
        check(sent, "send");
        bool told = false;
        bool got = false;
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (!(told && got) && std::chrono::steady_clock::now() < deadline) {
            told = told || poll(a.tx.get()).has_value();
            got = got || poll(b.rx.get()).has_value();
        }
        BOOST_TEST(told);
        BOOST_TEST(got);
        BOOST_TEST((in == out));
    }
}
