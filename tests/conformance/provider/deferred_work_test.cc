// SPDX-License-Identifier: MIT OR GPL-2.0-only
// deferred_work_test - the deferred work queue of a domain: FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK.
#define BOOST_TEST_MODULE deferred_work
#include <rdma/fi_atomic.h>
#include <rdma/fi_trigger.h>

#include <array>
#include <atomic>
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
constexpr std::uint64_t all_counters = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
constexpr std::uint64_t key = 9;

// Work with all it refers to, for as long as it may be looked at.
struct Job {
    fi_deferred_work work{};
    iovec iov{};
    fi_rma_iov remote{};
    fi_ioc operand{}, compare{}, result{};
    fi_rma_ioc element{};
    fi_op_msg msg{};
    fi_op_tagged tagged{};
    fi_op_rma rma{};
    fi_op_atomic atomic{};
    fi_op_fetch_atomic fetch{};
    fi_op_compare_atomic compare_atomic{};
    fi_op_cntr cntr{};
};

struct Case {
    explicit Case(const SideOptions& options = {.caps = caps, .counted = all_counters}, bool on_fabric = false)
        : memory{on_fabric}, pair{options, options}, trigger{pair.a.open_counter()}, done{pair.a.open_counter()} {
        std::memset(memory.data, 0, 64);
        fid_mr* m = nullptr;
        check(fi_mr_reg(pair.b.domain.get(), memory.data, region_size, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &m,
                        nullptr),
              "fi_mr_reg");
        mr.reset(m);
    }

    Job& job(std::uint64_t threshold, enum fi_op_type type) {
        Job& j = jobs.emplace_back();
        j.work.threshold = threshold;
        j.work.triggering_cntr = trigger.get();
        j.work.completion_cntr = done.get();
        j.work.op_type = type;
        return j;
    }
    Job& message(std::uint64_t threshold, enum fi_op_type type, void* data, std::size_t bytes,
                 std::uint64_t flags = 0) {
        Job& j = job(threshold, type);
        j.iov = {data, bytes};
        j.msg = {pair.a.ep.get(), {&j.iov, nullptr, 1, pair.to_b, &j, 0}, flags};
        if (type == FI_OP_RECV) j.msg.msg.addr = FI_ADDR_UNSPEC;
        j.work.op.msg = &j.msg;
        return j;
    }
    Job& tagged(std::uint64_t threshold, enum fi_op_type type, std::uint64_t tag, void* data, std::size_t bytes,
                std::uint64_t flags = 0) {
        Job& j = job(threshold, type);
        j.iov = {data, bytes};
        j.tagged = {pair.a.ep.get(), {&j.iov, nullptr, 1, pair.to_b, tag, 0, &j, 0}, flags};
        if (type == FI_OP_TRECV) j.tagged.msg.addr = FI_ADDR_UNSPEC;
        j.work.op.tagged = &j.tagged;
        return j;
    }
    Job& rma(std::uint64_t threshold, enum fi_op_type type, std::uint64_t& word, std::uint64_t at_key = key,
             std::uint64_t flags = 0) {
        Job& j = job(threshold, type);
        j.iov = {&word, sizeof word};
        j.remote = {0, sizeof word, at_key};
        j.rma = {pair.a.ep.get(), {&j.iov, nullptr, 1, pair.to_b, &j.remote, 1, &j, 0}, flags};
        j.work.op.rma = &j.rma;
        return j;
    }
    Job& change(std::uint64_t threshold, enum fi_op_type type, const FidPtr<fid_cntr>& cntr, std::uint64_t value) {
        Job& j = job(threshold, type);
        j.work.completion_cntr = nullptr;
        j.cntr = {cntr.get(), value};
        j.work.op.cntr = &j.cntr;
        return j;
    }

    int queue(Job& j) { return fi_control(&pair.a.domain->fid, FI_QUEUE_WORK, &j.work); }
    int cancel(Job& j) { return fi_control(&pair.a.domain->fid, FI_CANCEL_WORK, &j.work); }
    void add(std::uint64_t n) { check(fi_cntr_add(trigger.get(), n), "fi_cntr_add"); }

    // Waits by the completion counter alone, which no endpoint is bound to.
    bool completes(std::uint64_t count) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (fi_cntr_read(done.get()) < count && std::chrono::steady_clock::now() < deadline)
            (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
        return fi_cntr_read(done.get()) == count;
    }
    // Neither the endpoint's queue nor its counters have heard of anything.
    void expect_silence() {
        BOOST_TEST(!poll(pair.a.cq.get()).has_value());
        for (const auto& [bit, cntr] : pair.a.counter) BOOST_TEST(fi_cntr_read(cntr.get()) == 0U);
    }

    TargetMemory memory;
    TwoEndpoints pair;
    FidPtr<fid_mr> mr;
    FidPtr<fid_cntr> trigger; // Of a's domain, and of no endpoint.
    FidPtr<fid_cntr> done;
    std::deque<Job> jobs;
};

} // namespace

BOOST_AUTO_TEST_CASE(messages_are_counted_by_their_own_counter_and_reported_nowhere_else) {
    Case c;
    std::array<char, 2> out{'m', 't'}, in{}, answer{'x', 'y'};
    check(c.queue(c.message(1, FI_OP_SEND, &out[0], 1)), "queue");
    check(c.queue(c.tagged(2, FI_OP_TSEND, 7, &out[1], 1)), "queue");
    check(c.queue(c.message(1, FI_OP_RECV, &in[0], 1)), "queue");
    check(c.queue(c.tagged(2, FI_OP_TRECV, 8, &in[1], 1)), "queue");
    fid_ep* b = c.pair.b.ep.get();
    std::array<char, 2> arrived{};
    check(fi_recv(b, &arrived[0], 1, nullptr, FI_ADDR_UNSPEC, &arrived[0]), "recv");
    check(fi_trecv(b, &arrived[1], 1, nullptr, FI_ADDR_UNSPEC, 7, 0, &arrived[1]), "trecv");
    c.add(1);
    BOOST_TEST(c.pair.wait(c.pair.b, "the message").entry.op_context == &arrived[0]);
    c.add(1);
    BOOST_TEST(c.pair.wait(c.pair.b, "the tagged message").entry.op_context == &arrived[1]);
    BOOST_TEST(c.completes(2));
    c.pair.post("inject", [&] { return fi_inject(b, &answer[0], 1, c.pair.to_a); });
    c.pair.post("tinject", [&] { return fi_tinject(b, &answer[1], 1, c.pair.to_a, 8); });
    BOOST_TEST(c.completes(4));
    BOOST_TEST(arrived == out);
    BOOST_TEST(in == answer);
    c.expect_silence();
}

BOOST_AUTO_TEST_CASE(large_messages_end_when_they_have_arrived) {
    Case c;
    auto out = pattern(1 << 20, 3);
    std::vector<char> in(out.size()), back(out.size());
    check(c.queue(c.message(1, FI_OP_SEND, out.data(), out.size())), "queue");
    check(c.queue(c.message(1, FI_OP_RECV, back.data(), back.size())), "queue");
    c.add(1);
    fid_ep* b = c.pair.b.ep.get();
    check(fi_recv(b, in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    BOOST_TEST(c.pair.wait(c.pair.b, "the message").error == 0);
    c.pair.post("send", [&] { return fi_send(b, in.data(), in.size(), nullptr, c.pair.to_a, nullptr); });
    BOOST_TEST(c.completes(2));
    BOOST_TEST(in == out);
    BOOST_TEST(back == out);
    c.expect_silence();
}

BOOST_AUTO_TEST_CASE(one_sided_operations_wait_for_each_other) {
    for (const bool on_fabric : {false, true}) BOOST_TEST_CONTEXT((on_fabric ? "fabric" : "heap") << " memory") {
            Case c{{.caps = caps, .counted = all_counters}, on_fabric};
            std::uint64_t out = 40, in = 0, two = 2, found = 0, old = 0, expected = 44, sixty = 60;
            check(c.queue(c.rma(1, FI_OP_WRITE, out)), "queue");
            // The rest goes by the counter of what is done.
            const auto next = [&](Job& j) {
                j.work.triggering_cntr = c.done.get();
                check(c.queue(j), "queue");
            };
            next(c.rma(1, FI_OP_READ, in));
            Job& atomic = c.job(2, FI_OP_ATOMIC);
            atomic.operand = {&two, 1};
            atomic.element = {0, 1, key};
            const fi_msg_atomic sum{&atomic.operand, nullptr, 1, c.pair.to_b, &atomic.element, 1, FI_UINT64,
                                    FI_SUM,          nullptr, 0};
            atomic.atomic = {c.pair.a.ep.get(), sum, 0};
            atomic.work.op.atomic = &atomic.atomic;
            next(atomic);
            Job& fetch = c.job(3, FI_OP_FETCH_ATOMIC);
            fetch.result = {&found, 1};
            fetch.fetch = {c.pair.a.ep.get(), sum, {&fetch.result, nullptr, 1}, 0};
            fetch.work.op.fetch_atomic = &fetch.fetch;
            next(fetch);
            Job& compare = c.job(4, FI_OP_COMPARE_ATOMIC);
            compare.operand = {&sixty, 1};
            compare.compare = {&expected, 1};
            compare.result = {&old, 1};
            fi_msg_atomic swap = sum;
            swap.msg_iov = &compare.operand;
            swap.op = FI_CSWAP;
            compare.compare_atomic = {
                c.pair.a.ep.get(), swap, {&compare.result, nullptr, 1}, {&compare.compare, nullptr, 1}, 0};
            compare.work.op.compare_atomic = &compare.compare_atomic;
            next(compare);
            BOOST_TEST(fi_cntr_read(c.done.get()) == 0U);
            c.add(1);
            BOOST_TEST(c.completes(5));
            BOOST_TEST(in == 40U);
            BOOST_TEST(found == 42U);
            BOOST_TEST(old == 44U);
            std::uint64_t now = 0;
            std::memcpy(&now, c.memory.data, sizeof now);
            BOOST_TEST(now == 60U);
            c.expect_silence();
        }
}

BOOST_AUTO_TEST_CASE(counters_are_set_and_added_to) {
    Case c;
    const FidPtr<fid_cntr> other = c.pair.a.open_counter();
    check(c.queue(c.change(1, FI_OP_CNTR_SET, other, 5)), "queue");
    check(c.queue(c.change(2, FI_OP_CNTR_ADD, other, 7)), "queue");
    BOOST_TEST(fi_cntr_read(other.get()) == 0U);
    c.add(1);
    BOOST_TEST(fi_cntr_read(other.get()) == 5U);
    c.add(1);
    BOOST_TEST(fi_cntr_read(other.get()) == 12U);
    BOOST_TEST(fi_cntr_read(c.done.get()) == 0U);
}

// Each step makes the next one due: on a stack they would not fit.
BOOST_AUTO_TEST_CASE(chains_of_any_length_run_in_one_call) {
    Case c;
    constexpr std::uint64_t many = 100'000;
    for (std::uint64_t i = 1; i <= many; ++i) check(c.queue(c.change(i, FI_OP_CNTR_ADD, c.trigger, 1)), "queue");
    c.add(1);
    BOOST_TEST(fi_cntr_read(c.trigger.get()) == many + 1);
}

BOOST_AUTO_TEST_CASE(who_asks_for_completions_gets_them) {
    Case c;
    char out = 'a', in = 0;
    Job& send = c.message(1, FI_OP_SEND, &out, 1, FI_COMPLETION);
    Job& receive = c.message(1, FI_OP_RECV, &in, 1, FI_COMPLETION);
    check(c.queue(send), "queue");
    check(c.queue(receive), "queue");
    c.add(1);
    BOOST_TEST(c.pair.wait(c.pair.a, "send").entry.op_context == &send);
    c.pair.post("inject", [&] { return fi_inject(c.pair.b.ep.get(), "b", 1, c.pair.to_a); });
    const Event received = c.pair.wait(c.pair.a, "receive");
    BOOST_TEST(received.entry.op_context == &receive);
    BOOST_TEST(received.entry.flags == (FI_RECV | FI_MSG));
    BOOST_TEST(in == 'b');
    BOOST_TEST(c.completes(2));
    BOOST_TEST(fi_cntr_read(c.pair.a.counter.at(FI_SEND).get()) == 1U);
    BOOST_TEST(fi_cntr_read(c.pair.a.counter.at(FI_RECV).get()) == 1U);
}

BOOST_AUTO_TEST_CASE(failures_are_counted_as_such_and_never_lost) {
    Case c;
    std::uint64_t word = 1;
    check(c.queue(c.rma(1, FI_OP_WRITE, word, 12345)), "queue");
    c.add(1);
    while (fi_cntr_readerr(c.done.get()) == 0) (void)fi_cq_read(c.pair.b.cq.get(), nullptr, 0);
    BOOST_TEST(fi_cntr_read(c.done.get()) == 0U);
    c.expect_silence();
    Job& unheard = c.rma(2, FI_OP_WRITE, word, 12345);
    unheard.work.completion_cntr = nullptr;
    check(c.queue(unheard), "queue");
    c.add(1);
    const Event failed = c.pair.wait(c.pair.a, "write");
    BOOST_TEST(failed.error == FI_EKEYREJECTED);
    BOOST_TEST(failed.entry.op_context == &unheard);
}

BOOST_AUTO_TEST_CASE(work_is_copied_when_it_is_queued) {
    Case c;
    std::array<std::uint64_t, 2> word{11, 12};
    Job& job = c.rma(1, FI_OP_WRITE, word[0]);
    check(c.queue(job), "queue");
    job.iov.iov_base = &word[1];
    job.remote.addr = 8;
    job.work.threshold = 2;
    check(c.queue(job), "queue");
    job.work = {};
    job.rma = {};
    job.iov = {};
    c.add(2);
    BOOST_TEST(c.completes(2));
    BOOST_TEST(std::memcmp(c.memory.data, word.data(), sizeof word) == 0);
}

BOOST_AUTO_TEST_CASE(what_has_not_started_can_be_taken_back) {
    Case c;
    const FidPtr<fid_cntr> other = c.pair.a.open_counter();
    Job& first = c.change(1, FI_OP_CNTR_ADD, c.done, 1);
    Job& second = c.change(1, FI_OP_CNTR_ADD, c.done, 10);
    check(c.queue(first), "queue");
    check(c.queue(second), "queue");
    check(c.cancel(first), "cancel");
    BOOST_TEST(c.cancel(first) == -FI_ENOENT);
    c.add(1);
    BOOST_TEST(fi_cntr_read(c.done.get()) == 10U);
    BOOST_TEST(c.cancel(second) == -FI_ENOENT);
    Job& third = c.change(2, FI_OP_CNTR_ADD, c.done, 100);
    Job& fourth = c.change(1, FI_OP_CNTR_ADD, c.done, 1000);
    fourth.work.triggering_cntr = other.get();
    check(c.queue(third), "queue");
    check(c.queue(fourth), "queue");
    check(fi_control(&c.pair.a.domain->fid, FI_FLUSH_WORK, &c.trigger->fid), "flush");
    c.add(1);
    check(fi_cntr_add(other.get(), 1), "fi_cntr_add");
    BOOST_TEST(fi_cntr_read(c.done.get()) == 1010U);
    check(c.queue(c.change(3, FI_OP_CNTR_ADD, c.done, 1)), "queue");
    check(fi_control(&c.pair.a.domain->fid, FI_FLUSH_WORK, nullptr), "flush");
    c.add(1);
    BOOST_TEST(fi_cntr_read(c.done.get()) == 1010U);
}

BOOST_AUTO_TEST_CASE(a_receive_that_has_started_is_cancelled_like_any_other) {
    Case c;
    char in = 0;
    Job& receive = c.tagged(1, FI_OP_TRECV, 7, &in, 1);
    check(c.queue(receive), "queue");
    c.add(1);
    BOOST_TEST(c.cancel(receive) == -FI_ENOENT);
    check(fi_cancel(&c.pair.a.ep->fid, &receive), "fi_cancel");
    BOOST_TEST(fi_cntr_readerr(c.done.get()) == 1U);
    c.expect_silence();
}

BOOST_AUTO_TEST_CASE(counters_outlive_their_work_and_endpoints_do_not_wait_for_it) {
    Case c;
    char in = 0;
    check(c.queue(c.tagged(1, FI_OP_TRECV, 7, &in, 1)), "queue");
    check(c.queue(c.tagged(2, FI_OP_TRECV, 8, &in, 1)), "queue");
    c.add(1); // One is posted, one waits.
    BOOST_TEST(fi_close(&c.trigger->fid) == -FI_EBUSY);
    BOOST_TEST(fi_close(&c.done->fid) == -FI_EBUSY);
    c.pair.a.ep.reset();
    BOOST_TEST(fi_close(&c.done.release()->fid) == 0);
    BOOST_TEST(fi_close(&c.trigger.release()->fid) == 0);
}

BOOST_AUTO_TEST_CASE(who_sleeps_on_the_last_counter_of_a_chain_wakes) {
    const SideOptions options{.caps = caps, .threading = FI_THREAD_SAFE};
    Case c{options};
    std::uint64_t word = 77;
    check(c.queue(c.rma(1, FI_OP_WRITE, word)), "queue");
    const FidPtr<fid_cntr> last = c.pair.a.open_counter();
    Job& step = c.change(1, FI_OP_CNTR_ADD, last, 1);
    step.work.triggering_cntr = c.done.get();
    check(c.queue(step), "queue");
    std::atomic<bool> over{false};
    std::thread target{[&] {
        while (!over) (void)fi_cq_read(c.pair.b.cq.get(), nullptr, 0);
    }};
    std::thread other{[&] { (void)fi_cntr_add(c.trigger.get(), 1); }};
    const int waited = fi_cntr_wait(last.get(), 1, 20'000);
    over = true;
    other.join();
    target.join();
    BOOST_TEST(waited == 0);
    BOOST_TEST(std::memcmp(c.memory.data, &word, sizeof word) == 0);
}

// Two threads make work of endpoints due and start it while these are closed.
BOOST_AUTO_TEST_CASE(an_endpoint_may_close_while_its_work_becomes_due) {
    const SideOptions options{.caps = caps, .threading = FI_THREAD_SAFE};
    Case c{options};
    const Side& a = c.pair.a;
    std::atomic<bool> over{false};
    const auto drive = [&] {
        while (!over) {
            (void)fi_cntr_add(c.trigger.get(), 1);
            (void)fi_cntr_read(c.done.get());
            (void)fi_cq_read(c.pair.b.cq.get(), nullptr, 0);
        }
    };
    std::thread first{drive}, second{drive};
    std::vector<char> data(8000);
    for (int round = 0; round < 100; ++round) {
        fid_ep* e = nullptr;
        check(fi_endpoint(a.domain.get(), a.info.get(), &e, nullptr), "fi_endpoint");
        const FidPtr<fid_ep> ep{e};
        check(fi_ep_bind(e, &a.av->fid, 0), "bind av");
        check(fi_ep_bind(e, &a.cq->fid, FI_TRANSMIT | FI_RECV), "bind cq");
        check(fi_enable(e), "fi_enable");
        for (std::uint64_t i = 0; i < 20; ++i) {
            const std::uint64_t soon = fi_cntr_read(c.trigger.get()) + i;
            Job& job = i % 4 == 0 ? c.tagged(soon, FI_OP_TRECV, 7, data.data(), data.size())
                                  : c.tagged(soon, FI_OP_TSEND, 7, data.data(), data.size());
            job.tagged.ep = e;
            check(c.queue(job), "queue");
        }
    }
    over = true;
    first.join();
    second.join();
    BOOST_TEST(fi_close(&c.trigger.release()->fid) == 0);
    BOOST_TEST(fi_close(&c.done.release()->fid) == 0);
}

BOOST_AUTO_TEST_CASE(work_that_makes_no_sense_is_refused) {
    Case c;
    fid* domain = &c.pair.a.domain->fid;
    BOOST_TEST(fi_control(domain, FI_QUEUE_WORK, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_control(domain, FI_CANCEL_WORK, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_control(domain, FI_FLUSH_WORK, &c.pair.a.cq->fid) == -FI_EINVAL);
    char data = 0;
    const auto refused = [&](const char* what, int expected, auto&& spoil) {
        Job& j = c.message(1, FI_OP_SEND, &data, 1);
        spoil(j);
        BOOST_TEST_CONTEXT(what) BOOST_TEST(c.queue(j) == expected);
    };
    const FidPtr<fid_cntr> foreign = c.pair.b.open_counter();
    refused("no trigger", -FI_EINVAL, [](Job& j) { j.work.triggering_cntr = nullptr; });
    refused("foreign trigger", -FI_EINVAL, [&](Job& j) { j.work.triggering_cntr = foreign.get(); });
    refused("foreign completion", -FI_EINVAL, [&](Job& j) { j.work.completion_cntr = foreign.get(); });
    refused("no operation", -FI_EINVAL, [](Job& j) { j.work.op.msg = nullptr; });
    refused("no endpoint", -FI_EINVAL, [](Job& j) { j.msg.ep = nullptr; });
    refused("foreign endpoint", -FI_EINVAL, [&](Job& j) { j.msg.ep = c.pair.b.ep.get(); });
    refused("not an endpoint", -FI_EINVAL, [&](Job& j) { j.msg.ep = reinterpret_cast<fid_ep*>(c.pair.a.cq.get()); });
    refused("unknown flag", -FI_EBADFLAGS, [](Job& j) { j.msg.flags = std::uint64_t{1} << 63; });
    refused("triggered twice", -FI_EBADFLAGS, [](Job& j) { j.msg.flags = FI_TRIGGER; });
    refused("too many buffers", -FI_EINVAL, [](Job& j) { j.msg.msg.iov_count = 100; });
    refused("unknown operation", -FI_ENOSYS, [](Job& j) { j.work.op_type = static_cast<enum fi_op_type>(15); });
    refused("several messages", -FI_ENOSYS, [](Job& j) {
        j.work.op_type = FI_OP_RECV;
        j.msg.flags = FI_MULTI_RECV;
    });
    refused("a completion of a counter's", -FI_EINVAL, [&](Job& j) {
        j.work.op_type = FI_OP_CNTR_ADD;
        j.cntr = {c.trigger.get(), 1};
        j.work.op.cntr = &j.cntr;
    });
    c.add(10);
    BOOST_TEST(fi_cntr_read(c.done.get()) == 0U);
    c.expect_silence();
}
