// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Which tags a receive takes: those that are alike in all bits that it does not ignore.
#define BOOST_TEST_MODULE provider_match
#include <boost/test/unit_test.hpp>

#include "match.hpp"

using nvlf::ofi::tags_match;

namespace {
constexpr std::uint64_t all = ~std::uint64_t{0};
constexpr std::uint64_t tag = 0x8123'4567'89ab'cdef;
} // namespace

BOOST_AUTO_TEST_CASE(each_bit_counts_unless_it_is_ignored) {
    BOOST_TEST(tags_match(tag, 0, tag));
    for (int bit = 0; bit < 64; ++bit) {
        const std::uint64_t mask = std::uint64_t{1} << bit;
        BOOST_TEST(!tags_match(tag, 0, tag ^ mask), bit);
        BOOST_TEST(tags_match(tag, mask, tag ^ mask), bit);
        BOOST_TEST(!tags_match(tag, ~mask, tag ^ mask), bit);
        BOOST_TEST(tags_match(tag, ~mask, ~tag ^ mask), bit); // All but this one differ.
    }
}

BOOST_AUTO_TEST_CASE(ignoring_everything_takes_anything) {
    BOOST_TEST(tags_match(0, all, tag));
    BOOST_TEST(tags_match(all, all, 0));
}

BOOST_AUTO_TEST_CASE(ignored_bits_of_the_wanted_tag_say_nothing) {
    BOOST_TEST(tags_match(0xff05, 0xff00, 0x0005));
    BOOST_TEST(tags_match(0x0005, 0xff00, 0xab05));
    BOOST_TEST(!tags_match(0xff05, 0xff00, 0xff06));
}
