// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The ring behind a completion queue: order, growth, errors, and what happens when it cannot grow.
#define BOOST_TEST_MODULE provider_cq
#include <boost/test/unit_test.hpp>

#include "cq.hpp"

using namespace nvlf::ofi;

namespace {

Completion numbered(std::uint64_t n) {
    Completion c;
    c.tag = n;
    return c;
}

Failure failed(std::uint64_t n, int err) {
    Failure f;
    f.c = numbered(n);
    f.err = err;
    return f;
}

std::uint64_t take(CompletionRing& ring) {
    BOOST_REQUIRE(!ring.empty());
    BOOST_REQUIRE(!ring.error_next());
    const std::uint64_t tag = ring.front().tag;
    ring.pop();
    return tag;
}

} // namespace

BOOST_AUTO_TEST_CASE(completions_come_out_in_the_order_in_which_they_went_in) {
    CompletionRing ring{4, 4};
    for (std::uint64_t round = 0; round < 10; ++round) { // Wraps several times.
        for (std::uint64_t i = 0; i < 3; ++i) ring.push(numbered(round * 3 + i));
        for (std::uint64_t i = 0; i < 3; ++i) BOOST_TEST(take(ring) == round * 3 + i);
        BOOST_TEST(ring.empty());
    }
}

BOOST_AUTO_TEST_CASE(a_full_ring_grows_wherever_its_cursors_stand) {
    for (std::uint64_t start = 0; start < 9; ++start) {
        CompletionRing ring{4, 1024};
        for (std::uint64_t i = 0; i < start; ++i) {
            ring.push(numbered(i));
            BOOST_TEST(take(ring) == i);
        }
        for (std::uint64_t i = 0; i < 1000; ++i) ring.push(numbered(i));
        for (std::uint64_t i = 0; i < 1000; ++i) BOOST_REQUIRE(take(ring) == i);
        BOOST_TEST(ring.empty());
    }
}

BOOST_AUTO_TEST_CASE(errors_keep_their_place_among_completions) {
    CompletionRing ring{4, 64};
    ring.push(numbered(1));
    ring.push_error(failed(2, FI_ETRUNC));
    ring.push(numbered(3));
    BOOST_TEST(take(ring) == 1U);
    BOOST_TEST(ring.error_next());
    const Failure failure = ring.pop_error();
    BOOST_TEST(failure.err == FI_ETRUNC);
    BOOST_TEST(failure.c.tag == 2U);
    BOOST_TEST(take(ring) == 3U);
}

BOOST_AUTO_TEST_CASE(at_the_limit_nothing_is_lost_and_at_limit_plus_one_the_overrun_is_reported) {
    constexpr std::uint64_t limit = 8; // Of which one entry is kept for the report.
    CompletionRing fits{4, limit};
    for (std::uint64_t i = 0; i < limit - 1; ++i) fits.push(numbered(i));
    for (std::uint64_t i = 0; i < limit - 1; ++i) BOOST_TEST(take(fits) == i);
    BOOST_TEST(fits.empty());

    CompletionRing overrun{4, limit};
    for (std::uint64_t i = 0; i < limit; ++i) overrun.push(numbered(i));
    for (std::uint64_t i = 0; i < limit - 1; ++i) BOOST_TEST(take(overrun) == i);
    BOOST_REQUIRE(overrun.error_next());
    BOOST_TEST(overrun.pop_error().err == FI_EOVERRUN);
    BOOST_TEST(overrun.empty());
}

BOOST_AUTO_TEST_CASE(an_overrun_is_reported_once_however_many_completions_it_cost_and_again_when_it_happens_again) {
    CompletionRing ring{4, 4};
    for (int again = 0; again < 3; ++again) {
        for (std::uint64_t i = 0; i < 100; ++i) {
            ring.push(numbered(i));
            ring.push_error(failed(i, FI_EIO));
        }
        std::size_t overruns = 0;
        while (!ring.empty()) {
            if (!ring.error_next()) ring.pop();
            else if (ring.pop_error().err == FI_EOVERRUN) ++overruns;
        }
        BOOST_TEST(overruns == 1U);
    }
    ring.push(numbered(5));
    BOOST_TEST(take(ring) == 5U);
}

BOOST_AUTO_TEST_CASE(what_follows_a_read_overrun_comes_after_its_report) {
    CompletionRing ring{4, 4};
    for (std::uint64_t i = 0; i < 4; ++i) ring.push(numbered(i)); // The fourth is lost.
    BOOST_TEST(take(ring) == 0U);
    ring.push(numbered(9));
    BOOST_TEST(take(ring) == 1U);
    BOOST_TEST(take(ring) == 2U);
    BOOST_TEST(ring.pop_error().err == FI_EOVERRUN);
}

BOOST_AUTO_TEST_CASE(a_ring_that_is_thrown_away_with_errors_in_it_leaks_nothing) {
    CompletionRing ring{4, 8}; // LeakSanitizer judges.
    for (std::uint64_t i = 0; i < 20; ++i) ring.push_error(failed(i, FI_EIO));
    BOOST_TEST(ring.error_next());
}

BOOST_AUTO_TEST_CASE(a_ring_that_is_thrown_away_frees_each_error_once_however_many_there_are) {
    for (std::uint64_t errors = 1; errors < 8; ++errors) {
        CompletionRing errors_only{4, 16};
        CompletionRing mixed{4, 16};
        for (std::uint64_t i = 0; i < errors; ++i) {
            errors_only.push_error(failed(i, FI_EIO));
            mixed.push_error(failed(i, FI_EIO));
        }
        mixed.push(numbered(errors));
        BOOST_TEST(!mixed.empty());
    }
}
