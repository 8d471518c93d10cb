// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Numbers as users type them into FI_NVLF_*.
#define BOOST_TEST_MODULE provider_params
#include <boost/test/unit_test.hpp>

#include "params.hpp"

using nvlf::ofi::parse_size;

namespace {
std::size_t parsed(const char* text) {
    std::size_t size = 0;
    BOOST_REQUIRE_MESSAGE(parse_size(text, size), text);
    return size;
}
} // namespace

BOOST_AUTO_TEST_CASE(numbers_may_have_a_binary_suffix) {
    BOOST_TEST(parsed("0") == 0U);
    BOOST_TEST(parsed("4096") == 4096U);
    BOOST_TEST(parsed("64k") == 65536U);
    BOOST_TEST(parsed("1M") == 1048576U);
    BOOST_TEST(parsed("2g") == std::size_t{2} << 30);
    BOOST_TEST(parsed("0x10") == 16U);
    BOOST_TEST(parsed("0x10k") == 16384U);
    BOOST_TEST(parsed("18446744073709551615") == ~std::size_t{0});
}

BOOST_AUTO_TEST_CASE(what_is_no_number_or_does_not_fit_is_refused_and_changes_nothing) {
    for (const char* text : {"", "k", "x", "-1", "+1", " 1", "1 ", "1kb", "1kk", "12abc", "0x", "0xg1", "1.5m",
                             "18446744073709551616", "18446744073709551615k", "17179869184g"}) {
        std::size_t size = 7;
        BOOST_TEST(!parse_size(text, size), text);
        BOOST_TEST(size == 7U);
    }
}
