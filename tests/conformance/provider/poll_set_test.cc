// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Poll sets: which of several queues and counters has something, told by one call that drives them all.
#define BOOST_TEST_MODULE provider_poll_sets
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>

#include "conformance/provider/loop.hpp"

using namespace nvlf::test;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(RunningFabric);

FidPtr<fid_poll> open_set(Objects& o) {
    fi_poll_attr attr{};
    fid_poll* set = nullptr;
    check(fi_poll_open(o.domain.get(), &attr, &set), "fi_poll_open");
    return FidPtr<fid_poll>{set};
}

// Polls until something is told; how many.
int poll_until_news(fid_poll* set, void** contexts, int room) {
    int told = 0;
    for (int tries = 0; told == 0 && tries < 1'000'000; ++tries) told = fi_poll(set, contexts, room);
    return told;
}

// A loop whose queue and counter can be told apart by their contexts.
struct Polled : Loop {
    Polled() : Loop{FI_WAIT_NONE, FI_CQ_FORMAT_CONTEXT}, set{open_set(*this)} {
        cq->fid.context = &cq;
        cntr->fid.context = &cntr;
    }
    ~Polled() {
        (void)fi_poll_del(set.get(), &cq->fid, 0);
        (void)fi_poll_del(set.get(), &cntr->fid, 0);
        set.reset();
    }
    void add_both() {
        check(fi_poll_add(set.get(), &cq->fid, 0), "fi_poll_add");
        check(fi_poll_add(set.get(), &cntr->fid, 0), "fi_poll_add");
    }
    FidPtr<fid_poll> set;
    std::array<void*, 4> contexts{};
};
} // namespace

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_refused) {
    Objects o;
    fid_poll* none = nullptr;
    fi_poll_attr attr{};
    attr.flags = 1;
    BOOST_TEST(fi_poll_open(o.domain.get(), &attr, &none) == -FI_EBADFLAGS);
    BOOST_TEST(fi_poll_open(o.domain.get(), nullptr, &none) == -FI_EINVAL);
    const auto set = open_set(o);
    void* context = nullptr;
    BOOST_TEST(fi_poll(set.get(), &context, 1) == 0);
    BOOST_TEST(fi_poll(set.get(), &context, -1) == -FI_EINVAL);
    BOOST_TEST(fi_poll(set.get(), nullptr, 1) == -FI_EINVAL);
    BOOST_TEST(fi_poll_add(set.get(), nullptr, 0) == -FI_EINVAL);
    BOOST_TEST(fi_poll_add(set.get(), &o.domain->fid, 0) == -FI_EINVAL);
    const auto cq = open_cq(o, FI_WAIT_NONE);
    BOOST_TEST(fi_poll_add(set.get(), &cq->fid, 1) == -FI_EBADFLAGS);
    BOOST_TEST(fi_poll_del(set.get(), &cq->fid, 0) == -FI_ENOENT);
    Objects other;
    const auto foreign = open_cq(other, FI_WAIT_NONE);
    BOOST_TEST(fi_poll_add(set.get(), &foreign->fid, 0) == -FI_EINVAL);
}

BOOST_AUTO_TEST_CASE(a_set_and_its_members_do_not_close_before_they_are_parted) {
    Objects o;
    auto set = open_set(o);
    auto cq = open_cq(o, FI_WAIT_NONE);
    BOOST_TEST(fi_poll_add(set.get(), &cq->fid, 0) == 0);
    BOOST_TEST(fi_poll_add(set.get(), &cq->fid, 0) == -FI_EALREADY);
    BOOST_TEST(fi_close(&set->fid) == -FI_EBUSY);
    BOOST_TEST(fi_close(&cq->fid) == -FI_EBUSY);
    BOOST_TEST(fi_poll_del(set.get(), &cq->fid, 0) == 0);
    BOOST_TEST(fi_close(&cq.release()->fid) == 0);
    BOOST_TEST(fi_close(&o.domain->fid) == -FI_EBUSY);
    BOOST_TEST(fi_close(&set.release()->fid) == 0);
}

BOOST_AUTO_TEST_CASE(a_queue_is_told_of_until_it_is_empty_and_polling_alone_drives_it) {
    Polled p;
    p.add_both();
    check(fi_poll_del(p.set.get(), &p.cntr->fid, 0), "fi_poll_del");
    BOOST_TEST(fi_poll(p.set.get(), p.contexts.data(), 4) == 0);
    int context = 0;
    p.receive(&context);
    p.send();
    BOOST_REQUIRE(poll_until_news(p.set.get(), p.contexts.data(), 4) == 1);
    BOOST_TEST(p.contexts[0] == &p.cq);
    BOOST_TEST(fi_poll(p.set.get(), p.contexts.data(), 4) == 1);
    BOOST_TEST(fi_poll(p.set.get(), p.contexts.data(), 0) == 0);
    fi_cq_entry entry{};
    BOOST_TEST(fi_cq_read(p.cq.get(), &entry, 1) == 1);
    BOOST_TEST(entry.op_context == &context);
    BOOST_TEST(fi_poll(p.set.get(), p.contexts.data(), 4) == 0);
}

BOOST_AUTO_TEST_CASE(a_counter_is_told_of_when_it_changed_since_it_was_last_told_of) {
    Polled p;
    check(fi_poll_add(p.set.get(), &p.cntr->fid, 0), "fi_poll_add");
    int context = 0;
    p.receive(&context);
    p.send();
    BOOST_REQUIRE(poll_until_news(p.set.get(), p.contexts.data(), 4) == 1);
    BOOST_TEST(p.contexts[0] == &p.cntr);
    BOOST_TEST(fi_poll(p.set.get(), p.contexts.data(), 4) == 0);
    BOOST_TEST(fi_cntr_read(p.cntr.get()) == 1U);
    fi_cntr_adderr(p.cntr.get(), 1);
    fi_cntr_readerr(p.cntr.get());
    (void)fi_poll(p.set.get(), p.contexts.data(), 4); // What the application adds itself may be told, or not.
    BOOST_TEST(fi_poll(p.set.get(), p.contexts.data(), 4) == 0);
}

BOOST_AUTO_TEST_CASE(an_array_too_short_for_all_is_given_to_each_in_turn) {
    Polled p;
    p.add_both();
    int context = 0;
    p.receive(&context);
    p.send();
    std::array<void*, 2> told{};
    for (void*& one : told) BOOST_REQUIRE(poll_until_news(p.set.get(), &one, 1) == 1);
    BOOST_TEST(std::count(told.begin(), told.end(), &p.cq) == 1);
    BOOST_TEST(std::count(told.begin(), told.end(), &p.cntr) == 1);
}
