// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Completion queues, counters and event queues through libfabric; completions come from an endpoint that sends to itself.
#define BOOST_TEST_MODULE provider_queues
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>

#include "conformance/provider/loop.hpp"

using namespace nvlf::test;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(RunningFabric);
} // namespace

BOOST_AUTO_TEST_CASE(queues_that_are_not_offered_are_refused) {
    Objects o;
    fid_cq* cq = nullptr;
    const auto open = [&](const std::function<void(fi_cq_attr&)>& set) {
        fi_cq_attr attr{};
        set(attr);
        return fi_cq_open(o.domain.get(), &attr, &cq, nullptr);
    };
    BOOST_TEST(open([](fi_cq_attr& a) { a.wait_obj = FI_WAIT_SET; }) == -FI_EINVAL); // Which set?
    BOOST_TEST(open([](fi_cq_attr& a) { a.wait_obj = FI_WAIT_MUTEX_COND; }) == -FI_ENOSYS);
    BOOST_TEST(open([](fi_cq_attr& a) { a.flags = FI_MORE; }) == -FI_EBADFLAGS);
    BOOST_TEST(open([](fi_cq_attr& a) { a.size = std::size_t{1} << 40; }) == -FI_EINVAL);
    BOOST_TEST(fi_cq_open(o.domain.get(), nullptr, &cq, nullptr) == -FI_EINVAL);
}

BOOST_AUTO_TEST_CASE(an_unspecified_format_becomes_the_shortest) {
    Objects o;
    fi_cq_attr attr{};
    fid_cq* cq = nullptr;
    check(fi_cq_open(o.domain.get(), &attr, &cq, nullptr), "fi_cq_open");
    BOOST_TEST(attr.format == FI_CQ_FORMAT_CONTEXT);
    BOOST_TEST(fi_close(&cq->fid) == 0);
}

BOOST_AUTO_TEST_CASE(an_empty_queue_says_so_to_every_kind_of_read) {
    Objects o;
    const auto cq = open_cq(o, FI_WAIT_UNSPEC);
    fi_cq_entry entry{};
    fi_cq_err_entry error{};
    BOOST_TEST(fi_cq_read(cq.get(), &entry, 1) == -FI_EAGAIN);
    BOOST_TEST(fi_cq_read(cq.get(), nullptr, 0) == -FI_EAGAIN);
    BOOST_TEST(fi_cq_read(cq.get(), nullptr, 1) == -FI_EINVAL);
    BOOST_TEST(fi_cq_readerr(cq.get(), &error, 0) == -FI_EAGAIN);
    BOOST_TEST(fi_cq_sread(cq.get(), &entry, 1, nullptr, 0) == -FI_EAGAIN);
    BOOST_TEST(fi_cq_sread(cq.get(), &entry, 1, nullptr, 5) == -FI_EAGAIN);
    char text[4];
    BOOST_TEST(fi_cq_strerror(cq.get(), ENOENT, nullptr, text, sizeof text) ==
               std::string{fi_strerror(ENOENT)}.substr(0, 3));
}

BOOST_AUTO_TEST_CASE(without_a_wait_object_blocking_reads_are_invalid_and_counters_spin) {
    Objects o;
    const auto cq = open_cq(o, FI_WAIT_NONE);
    fi_cq_entry entry{};
    BOOST_TEST(fi_cq_sread(cq.get(), &entry, 1, nullptr, 0) == -FI_EINVAL);
    BOOST_TEST(fi_cq_signal(cq.get()) == -FI_EINVAL);
    const auto cntr = open_cntr(o, FI_WAIT_NONE);
    BOOST_TEST(fi_cntr_wait(cntr.get(), 1, 0) == -FI_ETIMEDOUT);
    const auto eq = open_eq(o, FI_WAIT_NONE);
    std::uint32_t event = 0;
    BOOST_TEST(fi_eq_sread(eq.get(), &event, &entry, sizeof entry, 0, 0) == -FI_EINVAL);
    int fd = -1;
    BOOST_TEST(fi_control(&cq->fid, FI_GETWAIT, &fd) == -FI_ENODATA);
}

BOOST_AUTO_TEST_CASE(a_signal_ends_a_blocking_read) {
    Objects o;
    const auto cq = open_cq(o, FI_WAIT_UNSPEC);
    int signalled = -1;
    std::thread other{[&] { signalled = fi_cq_signal(cq.get()); }};
    fi_cq_entry entry{};
    BOOST_TEST(fi_cq_sread(cq.get(), &entry, 1, nullptr, bound_ms) == -FI_EAGAIN);
    other.join();
    BOOST_TEST(signalled == 0);
}

BOOST_AUTO_TEST_CASE(each_format_carries_what_it_has_room_for_and_several_are_read_at_once) {
    int context[2];
    {
        Loop loop{FI_WAIT_NONE, FI_CQ_FORMAT_CONTEXT};
        loop.receive(&context[0]);
        loop.receive(&context[1]);
        loop.send();
        loop.send();
        fi_cq_entry entries[3];
        int got = 0;
        for (int tries = 0; got < 2 && tries < 1'000'000; ++tries) {
            const ssize_t n = fi_cq_read(loop.cq.get(), entries + got, static_cast<std::size_t>(3 - got));
            if (n > 0) got += static_cast<int>(n);
        }
        BOOST_REQUIRE(got == 2);
        BOOST_TEST(entries[0].op_context == &context[0]);
        BOOST_TEST(entries[1].op_context == &context[1]);
    }
    Loop loop{FI_WAIT_UNSPEC, FI_CQ_FORMAT_TAGGED};
    loop.receive(&context[0]);
    loop.send();
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    BOOST_REQUIRE(fi_cq_sreadfrom(loop.cq.get(), &entry, 1, &source, nullptr, bound_ms) == 1);
    BOOST_TEST(entry.op_context == &context[0]);
    BOOST_TEST((entry.flags & (FI_RECV | FI_MSG)) == (FI_RECV | FI_MSG));
    BOOST_TEST(entry.len == sizeof loop.outbox);
    BOOST_TEST(source == loop.self);
    BOOST_TEST(loop.inbox == loop.outbox);
}

BOOST_AUTO_TEST_CASE(what_is_bound_to_an_endpoint_does_not_close_before_it) {
    Loop loop{FI_WAIT_NONE, FI_CQ_FORMAT_CONTEXT};
    BOOST_TEST(fi_close(&loop.cq->fid) == -FI_EBUSY);
    BOOST_TEST(fi_close(&loop.cntr->fid) == -FI_EBUSY);
    BOOST_TEST(fi_close(&loop.av->fid) == -FI_EBUSY);
    BOOST_TEST(fi_close(&loop.domain->fid) == -FI_EBUSY);
}

BOOST_AUTO_TEST_CASE(a_descriptor_polls_readable_when_a_message_comes_and_trywait_tells_when_to_poll) {
    Loop loop{FI_WAIT_FD, FI_CQ_FORMAT_CONTEXT};
    int fd = -1;
    BOOST_REQUIRE(fi_control(&loop.cq->fid, FI_GETWAIT, &fd) == 0);
    fid* fids[] = {&loop.cq->fid};
    int context = 0;
    for (int round = 0; round < 100; ++round) {
        loop.receive(&context);
        BOOST_REQUIRE(fi_trywait(loop.fabric.get(), fids, 1) == 0);
        loop.send();
        // Either the descriptor tells, or trywait forbids to rely on it.
        const bool told = readable(fd) || fi_trywait(loop.fabric.get(), fids, 1) == -FI_EAGAIN;
        BOOST_REQUIRE(told);
        fi_cq_entry entry{};
        ssize_t got = -FI_EAGAIN;
        for (int tries = 0; got == -FI_EAGAIN && tries < 1'000'000; ++tries) got = fi_cq_read(loop.cq.get(), &entry, 1);
        BOOST_REQUIRE(got == 1);
        while (fi_cq_read(loop.cq.get(), &entry, 1) > 0) {}
    }
    BOOST_TEST(fi_trywait(loop.fabric.get(), fids, 1) == 0);
    BOOST_TEST(!readable(fd));
    fids[0] = &loop.av->fid;
    BOOST_TEST(fi_trywait(loop.fabric.get(), fids, 1) == -FI_EINVAL);
}

BOOST_AUTO_TEST_CASE(counters_add_set_and_count_completions) {
    Loop loop{FI_WAIT_NONE, FI_CQ_FORMAT_CONTEXT};
    fid_cntr* const cntr = loop.cntr.get();
    BOOST_TEST(fi_cntr_read(cntr) == 0U);
    BOOST_TEST(fi_cntr_set(cntr, 10) == 0);
    BOOST_TEST(fi_cntr_add(cntr, 5) == 0);
    BOOST_TEST(fi_cntr_read(cntr) == 15U);
    BOOST_TEST(fi_cntr_seterr(cntr, 3) == 0);
    BOOST_TEST(fi_cntr_adderr(cntr, 1) == 0);
    BOOST_TEST(fi_cntr_readerr(cntr) == 4U);
    BOOST_TEST(fi_cntr_wait(cntr, 15, 0) == 0);
    BOOST_TEST(fi_cntr_wait(cntr, 16, 1) == -FI_ETIMEDOUT);
    int context = 0;
    loop.receive(&context);
    loop.send();
    BOOST_TEST(fi_cntr_wait(cntr, 16, bound_ms) == 0);
    BOOST_TEST(fi_cntr_read(cntr) == 16U);
}

BOOST_AUTO_TEST_CASE(an_error_wakes_who_waits_for_a_counter) {
    Objects o;
    const auto cntr = open_cntr(o, FI_WAIT_UNSPEC);
    std::atomic<bool> done{false};
    std::thread other{[&] {
        // Until the waiter has seen one: an error that came before the wait began is not news to it.
        while (!done.load()) fi_cntr_adderr(cntr.get(), 1);
    }};
    BOOST_TEST(fi_cntr_wait(cntr.get(), 1, bound_ms) == -FI_EAVAIL);
    done.store(true);
    other.join();
}

BOOST_AUTO_TEST_CASE(events_are_read_in_order_may_be_peeked_at_and_need_room) {
    Objects o;
    const auto eq = open_eq(o, FI_WAIT_UNSPEC);
    fi_eq_entry entry{};
    entry.fid = &o.domain->fid;
    for (std::uint64_t i = 0; i < 3; ++i) {
        entry.data = i;
        BOOST_TEST(fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof entry, 0) == static_cast<ssize_t>(sizeof entry));
    }
    std::uint32_t event = 99;
    BOOST_TEST(fi_eq_read(eq.get(), &event, &entry, 4, 0) == -FI_ETOOSMALL);
    BOOST_TEST(fi_eq_read(eq.get(), &event, &entry, sizeof entry, FI_PEEK) == static_cast<ssize_t>(sizeof entry));
    BOOST_TEST(entry.data == 0U);
    for (std::uint64_t i = 0; i < 3; ++i) {
        BOOST_TEST(fi_eq_sread(eq.get(), &event, &entry, sizeof entry, bound_ms, 0) ==
                   static_cast<ssize_t>(sizeof entry));
        BOOST_TEST(entry.data == i);
        BOOST_TEST(event == static_cast<std::uint32_t>(FI_NOTIFY));
    }
    BOOST_TEST(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0) == -FI_EAGAIN);
    BOOST_TEST(fi_eq_sread(eq.get(), &event, &entry, sizeof entry, 5, 0) == -FI_EAGAIN);
    fi_eq_err_entry error{};
    BOOST_TEST(fi_eq_readerr(eq.get(), &error, 0) == -FI_EAGAIN);
    BOOST_TEST(fi_eq_read(eq.get(), &event, &entry, sizeof entry, FI_MORE) == -FI_EBADFLAGS);
}

BOOST_AUTO_TEST_CASE(an_event_queue_not_opened_for_writing_is_not_written_and_one_with_a_descriptor_tells) {
    Objects o;
    fi_eq_attr attr{};
    fid_eq* e = nullptr;
    check(fi_eq_open(o.fabric.get(), &attr, &e, nullptr), "fi_eq_open");
    fi_eq_entry entry{};
    BOOST_TEST(fi_eq_write(e, FI_NOTIFY, &entry, sizeof entry, 0) == -FI_EINVAL);
    BOOST_TEST(fi_close(&e->fid) == 0);

    const auto eq = open_eq(o, FI_WAIT_FD);
    int fd = -1;
    BOOST_REQUIRE(fi_control(&eq->fid, FI_GETWAIT, &fd) == 0);
    fid* fids[] = {&eq->fid};
    BOOST_TEST(fi_trywait(o.fabric.get(), fids, 1) == 0);
    BOOST_TEST(!readable(fd));
    BOOST_TEST(fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof entry, 0) == static_cast<ssize_t>(sizeof entry));
    BOOST_TEST(readable(fd));
    BOOST_TEST(fi_trywait(o.fabric.get(), fids, 1) == -FI_EAGAIN);
}
