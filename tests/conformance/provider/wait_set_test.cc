// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Wait sets: sleeping on a queue, a counter and an event queue at once, by fi_wait and by the set's own descriptor.
#define BOOST_TEST_MODULE provider_wait_sets
#include <boost/test/unit_test.hpp>
#include <thread>

#include "conformance/provider/loop.hpp"

using namespace nvlf::test;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(RunningFabric);

FidPtr<fid_wait> open_set(Objects& o, enum fi_wait_obj kind) {
    fi_wait_attr attr{};
    attr.wait_obj = kind;
    fid_wait* set = nullptr;
    check(fi_wait_open(o.fabric.get(), &attr, &set), "fi_wait_open");
    return FidPtr<fid_wait>{set};
}

// A loop whose queue and counter wait by a set, together with an event queue.
struct Waiting {
    explicit Waiting(enum fi_wait_obj kind) : set{open_set(loop, kind)} {
        loop.open(open_cq(loop, FI_WAIT_SET, FI_CQ_FORMAT_CONTEXT, set.get()), open_cntr(loop, FI_WAIT_SET, set.get()));
        eq = open_eq(loop, FI_WAIT_SET, set.get());
    }
    ~Waiting() {
        eq.reset();
        loop.ep.reset();
        loop.cq.reset();
        loop.cntr.reset();
        set.reset(); // Before the fabric.
    }
    // The message that was sent: from the queue and from the counter.
    void take() {
        fi_cq_entry entry{};
        ssize_t got = -FI_EAGAIN;
        while (got == -FI_EAGAIN && fi_wait(set.get(), bound_ms) == 0) {
            (void)fi_cntr_read(loop.cntr.get());
            got = fi_cq_read(loop.cq.get(), &entry, 1);
        }
        BOOST_TEST(got == 1);
        (void)fi_cntr_read(loop.cntr.get());
    }
    Loop loop;
    FidPtr<fid_wait> set;
    FidPtr<fid_eq> eq;
};
} // namespace

BOOST_AUTO_TEST_CASE(sets_that_are_not_offered_are_refused) {
    Objects o;
    fid_wait* none = nullptr;
    const auto open = [&](enum fi_wait_obj kind, std::uint64_t flags) {
        fi_wait_attr attr{};
        attr.wait_obj = kind;
        attr.flags = flags;
        return fi_wait_open(o.fabric.get(), &attr, &none);
    };
    BOOST_TEST(open(FI_WAIT_NONE, 0) == -FI_EINVAL);
    BOOST_TEST(open(FI_WAIT_SET, 0) == -FI_EINVAL);
    BOOST_TEST(open(FI_WAIT_FD, FI_MORE) == -FI_EBADFLAGS);
    BOOST_TEST(fi_wait_open(o.fabric.get(), nullptr, &none) == -FI_EINVAL);
}

BOOST_AUTO_TEST_CASE(a_set_closes_after_its_members) {
    Waiting w{FI_WAIT_UNSPEC};
    BOOST_TEST(fi_close(&w.set->fid) == -FI_EBUSY);
    fi_cq_entry entry{};
    BOOST_TEST(fi_cq_sread(w.loop.cq.get(), &entry, 1, nullptr, 0) == -FI_EINVAL); // fi_wait is the way to sleep here.
}

BOOST_AUTO_TEST_CASE(a_wait_ends_for_whichever_member_has_something_and_times_out_without) {
    for (const enum fi_wait_obj kind : {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_POLLFD, FI_WAIT_YIELD}) {
        BOOST_TEST_CONTEXT("wait object " << kind) {
            Waiting w{kind};
            BOOST_TEST(fi_wait(w.set.get(), 0) == -FI_ETIMEDOUT);
            BOOST_TEST(fi_wait(w.set.get(), 5) == -FI_ETIMEDOUT);
            int context = 0;
            w.loop.receive(&context);
            w.loop.send();
            w.take();
            BOOST_TEST(fi_wait(w.set.get(), 0) == -FI_ETIMEDOUT);

            BOOST_TEST(fi_cq_signal(w.loop.cq.get()) == 0);
            BOOST_TEST(fi_wait(w.set.get(), bound_ms) == 0);
            BOOST_TEST(fi_wait(w.set.get(), 0) == -FI_ETIMEDOUT);

            fi_eq_entry entry{};
            std::uint32_t event = 0;
            check(fi_eq_write(w.eq.get(), FI_NOTIFY, &entry, sizeof entry, 0), "fi_eq_write");
            BOOST_TEST(fi_wait(w.set.get(), bound_ms) == 0);
            check(fi_eq_read(w.eq.get(), &event, &entry, sizeof entry, 0), "fi_eq_read");
            BOOST_TEST(fi_wait(w.set.get(), 0) == -FI_ETIMEDOUT);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_sleeping_wait_is_woken_by_another_thread) {
    Waiting w{FI_WAIT_FD};
    ssize_t written = 0;
    std::thread other{[&] {
        const fi_eq_entry entry{};
        written = fi_eq_write(w.eq.get(), FI_NOTIFY, &entry, sizeof entry, 0);
    }};
    BOOST_TEST(fi_wait(w.set.get(), bound_ms) == 0);
    other.join();
    BOOST_TEST(written == static_cast<ssize_t>(sizeof(fi_eq_entry)));
}

BOOST_AUTO_TEST_CASE(the_descriptor_of_a_set_tells_for_all_its_members) {
    Waiting w{FI_WAIT_FD};
    enum fi_wait_obj kind = FI_WAIT_NONE;
    BOOST_TEST(fi_control(&w.set->fid, FI_GETWAITOBJ, &kind) == 0);
    BOOST_TEST(kind == FI_WAIT_FD);
    int fd = -1;
    BOOST_REQUIRE(fi_control(&w.set->fid, FI_GETWAIT, &fd) == 0);
    fid* fids[] = {&w.set->fid};
    int context = 0;
    for (int round = 0; round < 20; ++round) {
        w.loop.receive(&context);
        BOOST_REQUIRE(fi_trywait(w.loop.fabric.get(), fids, 1) == 0);
        BOOST_TEST(!readable(fd));
        w.loop.send();
        BOOST_TEST((readable(fd) || fi_trywait(w.loop.fabric.get(), fids, 1) == -FI_EAGAIN));
        w.take();
    }
}

BOOST_AUTO_TEST_CASE(an_array_of_descriptors_is_given_with_its_length) {
    Loop loop{FI_WAIT_POLLFD, FI_CQ_FORMAT_CONTEXT};
    fi_wait_pollfd array{};
    BOOST_TEST(fi_control(&loop.cq->fid, FI_GETWAIT, &array) == -FI_ETOOSMALL);
    BOOST_REQUIRE(array.nfds == 1U);
    pollfd polled{};
    array.fd = &polled;
    BOOST_REQUIRE(fi_control(&loop.cq->fid, FI_GETWAIT, &array) == 0);
    fid* fids[] = {&loop.cq->fid};
    int context = 0;
    loop.receive(&context);
    BOOST_REQUIRE(fi_trywait(loop.fabric.get(), fids, 1) == 0);
    loop.send();
    BOOST_TEST((::poll(&polled, 1, 0) == 1 || fi_trywait(loop.fabric.get(), fids, 1) == -FI_EAGAIN));
}

BOOST_AUTO_TEST_CASE(a_read_with_a_threshold_waits_for_so_many_entries) {
    Loop loop;
    fi_cq_attr attr{};
    attr.wait_obj = FI_WAIT_UNSPEC;
    attr.wait_cond = FI_CQ_COND_THRESHOLD;
    fid_cq* cq = nullptr;
    check(fi_cq_open(loop.domain.get(), &attr, &cq, nullptr), "fi_cq_open");
    loop.open(FidPtr<fid_cq>{cq}, open_cntr(loop, FI_WAIT_NONE));
    int context = 0;
    for (int i = 0; i < 3; ++i) loop.receive(&context);
    const std::size_t three = 3, four = 4;
    for (int i = 0; i < 3; ++i) loop.send();
    fi_cq_entry entries[4];
    BOOST_TEST(fi_cq_sread(cq, entries, 4, &three, bound_ms) == 3);
    BOOST_TEST(fi_cq_sread(cq, entries, 4, &three, 0) == -FI_EAGAIN);
    loop.receive(&context);
    loop.send();
    BOOST_TEST(fi_cq_sread(cq, entries, 4, &four, 20) == 1); // Timed out: what is there.
    // An error is not waited past.
    loop.receive(&context);
    check(fi_cancel(&loop.ep->fid, &context), "fi_cancel");
    BOOST_TEST(fi_cq_sread(cq, entries, 4, &four, bound_ms) == -FI_EAVAIL);
    fi_cq_err_entry error{};
    BOOST_TEST(fi_cq_readerr(cq, &error, 0) == 1);
    BOOST_TEST(error.err == FI_ECANCELED);
}
