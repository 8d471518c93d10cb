// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fence_test - FI_FENCE: what is posted with it, and after it, starts when what was posted before has ended.
#define BOOST_TEST_MODULE fence
#include <rdma/fi_atomic.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "target_memory.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::uint64_t key = 5;
constexpr std::size_t large = 1 << 20; // Of a message that moves only when it is received.
const SideOptions with_fence{.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_FENCE};

struct Case {
    explicit Case(bool on_fabric) : target{on_fabric}, pair{with_fence, with_fence} {
        std::memset(target.data, 0, region_size);
        fid_mr* m = nullptr;
        check(fi_mr_reg(pair.b.domain.get(), target.data, region_size, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &m,
                        nullptr),
              "fi_mr_reg");
        mr.reset(m);
    }

    // A message that cannot end before b receives it.
    void send_large(void* context) {
        pair.post("send",
                  [&] { return fi_send(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, context); });
    }
    void receive_large() {
        check(fi_recv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    }
    ssize_t write(const void* from, std::size_t bytes, std::uint64_t at, std::uint64_t flags, void* context) {
        const iovec local{const_cast<void*>(from), bytes};
        const fi_rma_iov remote{at, bytes, key};
        const fi_msg_rma msg{&local, nullptr, 1, pair.to_b, &remote, 1, context, 0};
        return fi_writemsg(pair.a.ep.get(), &msg, flags);
    }
    void drive() {
        for (int i = 0; i < 200; ++i) {
            (void)fi_cq_read(pair.a.cq.get(), nullptr, 0);
            (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
        }
    }

    TargetMemory target;
    TwoEndpoints pair;
    FidPtr<fid_mr> mr;
    std::vector<char> out = pattern(large, 3);
    std::vector<char> in = std::vector<char>(large);
};

template <class F>
void on_both_kinds_of_memory(F&& f) {
    for (const bool on_fabric : {false, true})
        BOOST_TEST_CONTEXT((on_fabric ? "fabric" : "heap") << " memory") f(on_fabric);
}

} // namespace

BOOST_AUTO_TEST_CASE(a_fenced_operation_and_all_after_it_wait_for_those_before) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        BOOST_TEST((c.pair.a.info->caps & FI_FENCE) != 0U);
        int first = 0, fenced = 0, after = 0, sum = 0, message = 0;
        std::array<char, 8> data{'f', 'e', 'n', 'c', 'e', 'd', 0, 0};
        const std::uint64_t one = 1;
        std::uint64_t was = 77;
        c.send_large(&first);
        BOOST_TEST(c.write(data.data(), 8, 64, FI_FENCE | FI_COMPLETION | FI_INJECT, &fenced) == 0);
        data.fill('z'); // Injected: ours again.
        BOOST_TEST(c.write(c.out.data(), 100'000, 4096, FI_COMPLETION, &after) == 0);
        BOOST_TEST(fi_fetch_atomic(c.pair.a.ep.get(), &one, 1, nullptr, &was, nullptr, c.pair.to_b, 8, key, FI_UINT64,
                                   FI_SUM, &sum) == 0);
        BOOST_TEST(fi_tsend(c.pair.a.ep.get(), "small", 6, nullptr, c.pair.to_b, 9, &message) == 0);
        std::array<char, 8> small{};
        check(fi_trecv(c.pair.b.ep.get(), small.data(), 8, nullptr, FI_ADDR_UNSPEC, 9, 0, nullptr), "trecv");
        c.drive();
        BOOST_TEST(!poll(c.pair.a.cq.get()).has_value());
        BOOST_TEST(!poll(c.pair.b.cq.get()).has_value());
        BOOST_TEST(std::all_of(c.target.data, c.target.data + 200'000, [](char byte) { return byte == 0; }));
        c.receive_large();
        BOOST_TEST(c.pair.wait(c.pair.a, "the first").entry.op_context == &first);
        std::array<const void*, 4> rest{&fenced, &after, &sum, &message};
        for (std::size_t i = 0; i < rest.size(); ++i) {
            const Event done = c.pair.wait(c.pair.a, "an end");
            BOOST_TEST(done.error == 0);
            const auto found = std::find(rest.begin(), rest.end(), done.entry.op_context);
            BOOST_REQUIRE(found != rest.end());
            *found = nullptr;
        }
        BOOST_TEST(c.pair.wait(c.pair.b, "large message").error == 0);
        BOOST_TEST(c.pair.wait(c.pair.b, "small message").error == 0);
        BOOST_TEST(std::strcmp(c.target.data + 64, "fenced") == 0);
        BOOST_TEST(std::equal(c.out.begin(), c.out.begin() + 100'000, c.target.data + 4096));
        BOOST_TEST(was == 0U);
        BOOST_TEST(c.target.data[8] == 1);
        BOOST_TEST(c.in == c.out);
    });
}

BOOST_AUTO_TEST_CASE(a_fence_to_one_peer_holds_back_nobody_else) {
    Case c{true};
    const fi_addr_t self = c.pair.a.insert(c.pair.a.name());
    c.send_large(nullptr);
    int waiting = 0, other = 0;
    BOOST_TEST(c.write("x", 1, 0, FI_FENCE, &waiting) == 0);
    c.pair.post("send to self", [&] { return fi_tsend(c.pair.a.ep.get(), "y", 1, nullptr, self, 1, &other); });
    BOOST_TEST(c.pair.wait(c.pair.a, "send to self").entry.op_context == &other);
    c.receive_large();
    for (int i = 0; i < 2; ++i) BOOST_TEST(c.pair.wait(c.pair.a, "the others").error == 0);
}

BOOST_AUTO_TEST_CASE(nothing_after_a_fence_overtakes_a_message_before_it) {
    on_both_kinds_of_memory([](bool on_fabric) {
        for (const bool fence_the_write : {true, false}) {
            Case c{on_fabric};
            const auto message = pattern(64, 1), later = pattern(64, 2);
            check(fi_recv(c.pair.b.ep.get(), c.target.data, 64, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
            c.pair.post("send",
                        [&] { return fi_send(c.pair.a.ep.get(), message.data(), 64, nullptr, c.pair.to_b, nullptr); });
            // Complete for its sender, and not yet looked at by the target.
            BOOST_TEST(poll(c.pair.a.cq.get()).has_value());
            int operations = 1;
            if (!fence_the_write) {
                const iovec nothing{nullptr, 0};
                const fi_msg_tagged msg{&nothing, nullptr, 1, c.pair.to_b, 1, 0, nullptr, 0};
                BOOST_TEST(fi_tsendmsg(c.pair.a.ep.get(), &msg, FI_FENCE) == 0);
                ++operations;
            }
            BOOST_TEST(
                c.write(later.data(), 64, 0, fence_the_write ? FI_FENCE | FI_COMPLETION : FI_COMPLETION, nullptr) == 0);
            for (int i = 0; i < operations; ++i) BOOST_TEST(c.pair.wait(c.pair.a, "write").error == 0);
            BOOST_TEST(c.pair.wait(c.pair.b, "message").error == 0);
            BOOST_TEST(std::equal(later.begin(), later.end(), c.target.data));
        }
    });
}

BOOST_AUTO_TEST_CASE(a_fence_with_nothing_before_it_costs_nothing) {
    Case c{true};
    BOOST_TEST(c.write("here", 5, 0, FI_FENCE | FI_COMPLETION, nullptr) == 0);
    BOOST_TEST(poll(c.pair.a.cq.get()).has_value()); // The target was never driven.
    BOOST_TEST(std::strcmp(c.target.data, "here") == 0);
}

BOOST_AUTO_TEST_CASE(what_waits_is_bounded) {
    Case c{true};
    c.send_large(nullptr);
    ssize_t result = c.write("x", 1, 0, FI_FENCE, nullptr);
    std::size_t waiting = 0;
    for (; result == 0 && waiting < 1'000'000; ++waiting)
        result = fi_tinject(c.pair.a.ep.get(), "y", 1, c.pair.to_b, waiting);
    BOOST_TEST(result == -FI_EAGAIN);
    c.receive_large();
    for (int i = 0; i < 2; ++i) BOOST_TEST(c.pair.wait(c.pair.a, "message and write").error == 0);
    BOOST_TEST(c.pair.wait(c.pair.b, "large message").error == 0);
    std::array<char, 8> small{};
    for (std::size_t tag = 0; tag + 1 < waiting; ++tag) {
        check(fi_trecv(c.pair.b.ep.get(), small.data(), 8, nullptr, FI_ADDR_UNSPEC, tag, 0, nullptr), "trecv");
        BOOST_REQUIRE_EQUAL(c.pair.wait(c.pair.b, "small message").entry.tag, tag);
    }
}

BOOST_AUTO_TEST_CASE(what_waits_for_a_peer_that_goes_fails_with_the_rest) {
    Case c{true};
    std::array<int, 4> contexts{};
    const std::uint64_t one = 1;
    std::uint64_t was = 0;
    c.send_large(&contexts[0]);
    BOOST_TEST(c.write("x", 1, 0, FI_FENCE, &contexts[1]) == 0);
    BOOST_TEST(fi_fetch_atomic(c.pair.a.ep.get(), &one, 1, nullptr, &was, nullptr, c.pair.to_b, 8, key, FI_UINT64,
                               FI_SUM, &contexts[2]) == 0);
    BOOST_TEST(fi_send(c.pair.a.ep.get(), "y", 1, nullptr, c.pair.to_b, &contexts[3]) == 0);
    c.drive();
    c.pair.b.ep.reset();
    std::array<bool, 4> failed{};
    for (int i = 0; i < 4; ++i) {
        const Event end = c.pair.wait(c.pair.a, "a failure");
        BOOST_TEST(end.error != 0);
        for (std::size_t k = 0; k < 4; ++k) failed[k] |= end.entry.op_context == &contexts[k];
    }
    BOOST_TEST(std::all_of(failed.begin(), failed.end(), [](bool is) { return is; }));
}
