// SPDX-License-Identifier: MIT OR GPL-2.0-only
// trigger_test - FI_TRIGGER: operations that wait until a counter has come far enough, in every call form that takes flags.
#define BOOST_TEST_MODULE trigger
#include <rdma/fi_atomic.h>
#include <rdma/fi_trigger.h>

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "target_memory.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER;

fi_triggered_context when(const FidPtr<fid_cntr>& cntr, std::size_t threshold) {
    fi_triggered_context condition{};
    condition.event_type = FI_TRIGGER_THRESHOLD;
    condition.trigger.threshold = {cntr.get(), threshold};
    return condition;
}

struct Case {
    explicit Case(const SideOptions& a = {.caps = caps}, const SideOptions& b = {.caps = caps})
        : pair{a, b}, cntr{pair.a.open_counter()} {}

    // A tagged message from a, when `condition` holds.
    ssize_t send(std::uint64_t tag, fi_triggered_context& condition, std::uint64_t flags = 0,
                 const void* data = nullptr, std::size_t bytes = 0) {
        const iovec iov{const_cast<void*>(data), bytes};
        const fi_msg_tagged msg{&iov, nullptr, 1, pair.to_b, tag, 0, &condition, 0};
        return fi_tsendmsg(pair.a.ep.get(), &msg, flags | FI_TRIGGER);
    }

    // The tag of the next message to b, which takes whatever comes.
    std::uint64_t next_tag() {
        check(fi_trecv(pair.b.ep.get(), taken.data(), taken.size(), nullptr, FI_ADDR_UNSPEC, 0, ~std::uint64_t{0},
                       nullptr),
              "trecv");
        const Event event = pair.wait(pair.b, "message");
        BOOST_TEST(event.error == 0);
        return event.entry.tag;
    }

    // How many messages come with the tags 0, 1, 2, ...
    std::size_t in_order(std::size_t many) {
        std::size_t count = 0;
        while (count < many && next_tag() == count) {
            ++count;
            while (poll(pair.a.cq.get())) {}
        }
        return count;
    }

    // A message that waits for nothing: what was sent before it has come when it has.
    void expect_nothing_before_now() {
        constexpr std::uint64_t now = 0xabcdef;
        pair.post("tsend", [&] { return fi_tsend(pair.a.ep.get(), nullptr, 0, nullptr, pair.to_b, now, nullptr); });
        BOOST_TEST(pair.wait(pair.a, "tsend").error == 0);
        BOOST_TEST(next_tag() == now);
    }

    std::vector<char> taken = std::vector<char>(8192);
    TwoEndpoints pair;
    FidPtr<fid_cntr> cntr; // Of a's domain, and of no endpoint.
};

} // namespace

BOOST_AUTO_TEST_CASE(a_message_goes_when_its_counter_reaches_the_threshold) {
    Case c;
    fi_triggered_context condition = when(c.cntr, 3);
    check(c.send(1, condition, FI_COMPLETION), "tsendmsg");
    check(fi_cntr_add(c.cntr.get(), 2), "fi_cntr_add");
    c.expect_nothing_before_now();
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    BOOST_TEST(c.next_tag() == 1U);
    const Event sent = c.pair.wait(c.pair.a, "the triggered message");
    BOOST_TEST(sent.entry.op_context == &condition);
    BOOST_TEST(sent.entry.flags == (FI_SEND | FI_TAGGED));
    check(fi_cntr_add(c.cntr.get(), 10), "fi_cntr_add"); // Once is enough.
    c.expect_nothing_before_now();
}

BOOST_AUTO_TEST_CASE(a_threshold_that_is_reached_already_means_now) {
    Case c;
    check(fi_cntr_set(c.cntr.get(), 5), "fi_cntr_set");
    fi_triggered_context condition = when(c.cntr, 5);
    check(c.send(1, condition), "tsendmsg");
    BOOST_TEST(c.next_tag() == 1U);
}

BOOST_AUTO_TEST_CASE(failures_count_towards_the_threshold) {
    Case c;
    fi_triggered_context condition = when(c.cntr, 3);
    check(c.send(1, condition), "tsendmsg");
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    check(fi_cntr_adderr(c.cntr.get(), 2), "fi_cntr_adderr");
    BOOST_TEST(c.next_tag() == 1U);
}

BOOST_AUTO_TEST_CASE(operations_start_in_the_order_of_thresholds_and_then_as_they_were_posted) {
    Case c;
    std::array<fi_triggered_context, 5> condition{when(c.cntr, 3), when(c.cntr, 1), when(c.cntr, 2), when(c.cntr, 1),
                                                  when(c.cntr, 3)};
    for (std::size_t i = 0; i < condition.size(); ++i) check(c.send(i, condition[i]), "tsendmsg");
    check(fi_cntr_set(c.cntr.get(), 7), "fi_cntr_set");
    for (const std::uint64_t tag : {1, 3, 2, 0, 4}) BOOST_TEST(c.next_tag() == tag);
}

// The large ones find no room where small ones still would: these must not overtake.
BOOST_AUTO_TEST_CASE(more_than_the_lane_takes_comes_in_order_all_the_same) {
    Case c;
    constexpr std::size_t many = 3000;
    const auto data = pattern(8000, 1);
    std::deque<fi_triggered_context> condition;
    for (std::size_t i = 0; i < many; ++i)
        check(c.send(i, condition.emplace_back(when(c.cntr, 1)), 0, data.data(), i % 2 == 0 ? data.size() : 0),
              "tsendmsg");
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    BOOST_TEST(c.in_order(many) == many);
}

// Each message counts as sent, which sends the next one.
BOOST_AUTO_TEST_CASE(operations_trigger_each_other) {
    Case c{{.caps = caps, .counted = FI_SEND}};
    const auto& sent = c.pair.a.counter.at(FI_SEND);
    constexpr std::size_t many = 2000;
    std::deque<fi_triggered_context> condition;
    for (std::size_t i = 0; i < many; ++i) check(c.send(i, condition.emplace_back(when(sent, i + 1))), "tsendmsg");
    c.pair.post("tsend", [&] { return fi_tsend(c.pair.a.ep.get(), nullptr, 0, nullptr, c.pair.to_b, many, nullptr); });
    BOOST_TEST(c.next_tag() == many);
    BOOST_TEST(c.in_order(many) == many);
    BOOST_TEST(fi_cntr_read(sent.get()) == many + 1);
}

// Nothing that we could be woken by tells of it.
BOOST_AUTO_TEST_CASE(who_sleeps_until_a_peer_is_there_wakes) {
    Case c{{.caps = caps, .threading = FI_THREAD_SAFE}};
    fi_addr_t to = FI_ADDR_NOTAVAIL;
    BOOST_REQUIRE(fi_av_insertsvc(c.pair.a.av.get(), "localhost", "4711", &to, 0, nullptr) == 1);
    c.pair.to_b = to;
    fi_triggered_context condition = when(c.cntr, 1);
    check(c.send(1, condition, FI_COMPLETION), "tsendmsg");
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    fi_cq_tagged_entry entry{};
    ssize_t got = 0;
    const auto start = std::chrono::steady_clock::now();
    std::thread sleeper{[&] { got = fi_cq_sread(c.pair.a.cq.get(), &entry, 1, nullptr, 20'000); }};
    const Side late{{.caps = caps, .service = "4711"}};
    sleeper.join();
    BOOST_TEST(
        (std::chrono::steady_clock::now() - start < std::chrono::seconds{10})); // And not at the end of its time.
    BOOST_TEST(got == 1);
    BOOST_TEST(entry.op_context == &condition);
}

BOOST_AUTO_TEST_CASE(an_injected_buffer_is_free_at_once) {
    Case c;
    auto data = pattern(200, 1);
    const auto expected = data;
    fi_triggered_context condition = when(c.cntr, 1);
    check(c.send(1, condition, FI_INJECT, data.data(), data.size()), "tsendmsg");
    std::fill(data.begin(), data.end(), '?');
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    std::vector<char> in(expected.size());
    check(fi_trecv(c.pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), "trecv");
    BOOST_TEST(c.pair.wait(c.pair.b, "message").error == 0);
    BOOST_TEST(in == expected);
}

BOOST_AUTO_TEST_CASE(receives_are_posted_late_too) {
    Case c;
    char tagged = 0, untagged = 0, later = 0;
    fi_triggered_context first = when(c.cntr, 1), second = when(c.cntr, 2);
    const iovec tagged_iov{&tagged, 1}, untagged_iov{&untagged, 1};
    const fi_msg_tagged tagged_msg{&tagged_iov, nullptr, 1, FI_ADDR_UNSPEC, 7, 0, &first, 0};
    check(fi_trecvmsg(c.pair.a.ep.get(), &tagged_msg, FI_TRIGGER | FI_COMPLETION), "trecvmsg");
    const fi_msg untagged_msg{&untagged_iov, nullptr, 1, FI_ADDR_UNSPEC, &second, 0};
    check(fi_recvmsg(c.pair.a.ep.get(), &untagged_msg, FI_TRIGGER | FI_COMPLETION), "recvmsg");
    // Posted before them, in effect.
    check(fi_trecv(c.pair.a.ep.get(), &later, 1, nullptr, FI_ADDR_UNSPEC, 7, 0, &later), "trecv");
    const auto send = [&](char data) {
        c.pair.post("tsend", [&] { return fi_tinject(c.pair.b.ep.get(), &data, 1, c.pair.to_a, 7); });
    };
    send('a');
    BOOST_TEST(c.pair.wait(c.pair.a, "the plain receive").entry.op_context == &later);
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    send('b');
    BOOST_TEST(c.pair.wait(c.pair.a, "the triggered receive").entry.op_context == &first);
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    c.pair.post("inject", [&] { return fi_inject(c.pair.b.ep.get(), "c", 1, c.pair.to_a); });
    BOOST_TEST(c.pair.wait(c.pair.a, "the triggered receive").entry.op_context == &second);
    BOOST_TEST(later == 'a');
    BOOST_TEST(tagged == 'b');
    BOOST_TEST(untagged == 'c');
}

BOOST_AUTO_TEST_CASE(one_sided_operations_are_triggered_on_both_kinds_of_memory) {
    for (const bool on_fabric : {false, true}) BOOST_TEST_CONTEXT((on_fabric ? "fabric" : "heap") << " memory") {
            TargetMemory memory{on_fabric};
            Case c;
            fid_mr* m = nullptr;
            check(fi_mr_reg(c.pair.b.domain.get(), memory.data, region_size, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 9, 0,
                            &m, nullptr),
                  "fi_mr_reg");
            const FidPtr<fid_mr> mr{m};
            fid_ep* a = c.pair.a.ep.get();
            std::array<fi_triggered_context, 4> condition{when(c.cntr, 1), when(c.cntr, 2), when(c.cntr, 3),
                                                          when(c.cntr, 4)};
            std::uint64_t out = 40, in = 0, two = 2, found = 0;
            const iovec out_iov{&out, sizeof out}, in_iov{&in, sizeof in};
            const fi_rma_iov remote{0, sizeof out, 9};
            const fi_msg_rma write{&out_iov, nullptr, 1, c.pair.to_b, &remote, 1, &condition[0], 0};
            check(fi_writemsg(a, &write, FI_TRIGGER | FI_COMPLETION), "writemsg");
            const fi_msg_rma read{&in_iov, nullptr, 1, c.pair.to_b, &remote, 1, &condition[1], 0};
            check(fi_readmsg(a, &read, FI_TRIGGER | FI_COMPLETION), "readmsg");
            const fi_ioc operand{&two, 1};
            fi_ioc result{&found, 1};
            const fi_rma_ioc element{0, 1, 9};
            fi_msg_atomic add{&operand, nullptr, 1, c.pair.to_b, &element, 1, FI_UINT64, FI_SUM, &condition[2], 0};
            check(fi_atomicmsg(a, &add, FI_TRIGGER | FI_COMPLETION), "atomicmsg");
            add.context = &condition[3];
            check(fi_fetch_atomicmsg(a, &add, &result, nullptr, 1, FI_TRIGGER | FI_COMPLETION), "fetch_atomicmsg");
            std::memset(memory.data, 0, sizeof out);
            for (auto& step : condition) {
                check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
                const Event done = c.pair.wait(c.pair.a, "the triggered operation");
                BOOST_TEST(done.error == 0);
                BOOST_TEST(done.entry.op_context == &step);
            }
            BOOST_TEST(in == 40U);
            BOOST_TEST(found == 42U);
            std::memcpy(&found, memory.data, sizeof found);
            BOOST_TEST(found == 44U);
        }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_done_any_more_ends_in_error) {
    Case c;
    std::uint64_t out = 1;
    const iovec iov{&out, sizeof out};
    const fi_rma_iov remote{0, sizeof out, 12345};
    fi_triggered_context condition = when(c.cntr, 1);
    const fi_msg_rma msg{&iov, nullptr, 1, c.pair.to_b, &remote, 1, &condition, 0};
    check(fi_writemsg(c.pair.a.ep.get(), &msg, FI_TRIGGER), "writemsg");
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    const Event done = c.pair.wait(c.pair.a, "write");
    BOOST_TEST(done.error == FI_EKEYREJECTED);
    BOOST_TEST(done.entry.op_context == &condition);
    // An address that is removed while the message waits.
    fi_triggered_context second = when(c.cntr, 2);
    check(c.send(1, second), "tsendmsg");
    check(fi_av_remove(c.pair.a.av.get(), &c.pair.to_b, 1, 0), "fi_av_remove");
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    const Event failed = c.pair.wait(c.pair.a, "tsendmsg");
    BOOST_TEST(failed.error != 0);
    BOOST_TEST(failed.entry.op_context == &second);
}

BOOST_AUTO_TEST_CASE(an_alias_triggers_what_takes_no_flags) {
    Case c;
    fid_ep* alias = nullptr;
    check(fi_ep_alias(c.pair.a.ep.get(), &alias, FI_TRANSMIT | FI_TRIGGER), "fi_ep_alias");
    const FidPtr<fid_ep> owned{alias};
    fi_triggered_context condition = when(c.cntr, 1);
    check(fi_tsend(alias, nullptr, 0, nullptr, c.pair.to_b, 1, &condition), "tsend");
    c.expect_nothing_before_now();
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    BOOST_TEST(c.next_tag() == 1U);
}

BOOST_AUTO_TEST_CASE(what_still_waits_can_be_cancelled) {
    Case c;
    fi_triggered_context send = when(c.cntr, 1), receive = when(c.cntr, 1);
    check(c.send(1, send), "tsendmsg");
    char data = 0;
    const iovec iov{&data, 1};
    const fi_msg_tagged msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, 7, 0, &receive, 0};
    check(fi_trecvmsg(c.pair.a.ep.get(), &msg, FI_TRIGGER), "trecvmsg");
    for (fi_triggered_context* cancelled : {&receive, &send}) {
        check(fi_cancel(&c.pair.a.ep->fid, cancelled), "fi_cancel");
        const Event event = c.pair.wait(c.pair.a, "the cancelled operation");
        BOOST_TEST(event.error == FI_ECANCELED);
        BOOST_TEST(event.entry.op_context == cancelled);
    }
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    c.expect_nothing_before_now();
    c.pair.a.ep.reset();
    BOOST_TEST(fi_close(&c.cntr.release()->fid) == 0);
}

BOOST_AUTO_TEST_CASE(a_counter_stays_as_long_as_something_waits_for_it_which_ends_with_the_endpoint) {
    Case c;
    fi_triggered_context condition = when(c.cntr, 1);
    check(c.send(1, condition), "tsendmsg");
    BOOST_TEST(fi_close(&c.cntr->fid) == -FI_EBUSY);
    c.pair.a.ep.reset();
    BOOST_TEST(fi_close(&c.cntr.release()->fid) == 0);
}

BOOST_AUTO_TEST_CASE(conditions_that_make_no_sense_are_refused) {
    Case c;
    const iovec iov{nullptr, 0};
    const fi_msg_tagged none{&iov, nullptr, 1, c.pair.to_b, 1, 0, nullptr, 0};
    BOOST_TEST(fi_tsendmsg(c.pair.a.ep.get(), &none, FI_TRIGGER) == -FI_EINVAL);
    fi_triggered_context condition{};
    BOOST_TEST(c.send(1, condition) == -FI_EINVAL); // No counter.
    const FidPtr<fid_cntr> foreign = c.pair.b.open_counter();
    condition = when(foreign, 1);
    BOOST_TEST(c.send(1, condition) == -FI_EINVAL); // Of another domain.
    condition = when(c.cntr, 1);
    condition.trigger.threshold.cntr = reinterpret_cast<fid_cntr*>(c.pair.a.cq.get());
    BOOST_TEST(c.send(1, condition) == -FI_EINVAL);
    condition = when(c.cntr, 1);
    condition.event_type = FI_TRIGGER_XPU;
    BOOST_TEST(c.send(1, condition) == -FI_ENOSYS);
    condition = when(c.cntr, 1);
    BOOST_TEST(c.send(1, condition, std::uint64_t{1} << 63) == -FI_EBADFLAGS);
    BOOST_TEST(c.send(1, condition, FI_INJECT, nullptr, 1u << 20) == -FI_EMSGSIZE);
    const fi_msg_tagged peek{&iov, nullptr, 1, FI_ADDR_UNSPEC, 1, 0, &condition, 0};
    BOOST_TEST(fi_trecvmsg(c.pair.a.ep.get(), &peek, FI_TRIGGER | FI_PEEK) == -FI_EBADFLAGS);
    check(fi_cntr_add(c.cntr.get(), 1), "fi_cntr_add");
    c.expect_nothing_before_now();
}
