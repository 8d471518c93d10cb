// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE share
#include "share.hpp"

#include <boost/test/unit_test.hpp>

#include <memory>
#include <thread>
#include <vector>

using namespace nvlf::ofi;

namespace {

struct Fixture {
    std::unique_ptr<nvlf_lane> lane = std::make_unique<nvlf_lane>();
    ShareWord owner{*lane};
    ShareWord helper{*lane};
};

} // namespace

BOOST_FIXTURE_TEST_CASE(each_chunk_is_taken_once_whoever_takes_it, Fixture) {
    constexpr std::uint32_t chunks = 20'000;
    for (std::uint16_t ticket = 1; ticket < 6; ++ticket) {
        std::vector<int> taken(chunks);
        owner.open(ticket, chunks);
        std::thread other{[&] {
            while (const auto chunk = helper.take_back(ticket)) {
                ++taken[*chunk];
                helper.let_go(ticket, true);
            }
        }};
        std::uint32_t mine = 0;
        while (owner.take_front(ticket)) ++taken[mine++];
        other.join();
        BOOST_TEST(!owner.rest(ticket).busy);
        BOOST_TEST(owner.rest(ticket).copied);
        BOOST_TEST((taken == std::vector<int>(chunks, 1)));
    }
}

BOOST_FIXTURE_TEST_CASE(nothing_is_given_out_of_a_closed_copy_nor_to_a_late_helper, Fixture) {
    owner.open(1, 4);
    BOOST_TEST(!owner.close());
    BOOST_TEST(!helper.take_back(1).has_value());
    owner.open(2, 4);
    BOOST_TEST(!helper.take_back(1).has_value());
    BOOST_TEST(helper.take_back(2).value() == 3U);
}

BOOST_FIXTURE_TEST_CASE(who_closes_sees_the_helper_at_work_until_it_lets_go, Fixture) {
    owner.open(1, 4);
    BOOST_REQUIRE(helper.take_back(1).has_value());
    BOOST_TEST(owner.rest(1).busy);
    BOOST_TEST(owner.close());
    BOOST_TEST(owner.busy());
    helper.let_go(1, true);
    BOOST_TEST(!owner.busy());
}

BOOST_FIXTURE_TEST_CASE(a_helper_that_failed_and_a_word_that_was_garbled_are_not_believed, Fixture) {
    owner.open(1, 4);
    BOOST_REQUIRE(helper.take_back(1).has_value());
    helper.let_go(1, false);
    BOOST_TEST(!owner.rest(1).copied);
    owner.open(2, 4);
    lane->credit.user[0] = ~__u64{0} >> 1;
    BOOST_TEST(!owner.take_front(2));
    BOOST_TEST(!owner.rest(2).copied);
}
