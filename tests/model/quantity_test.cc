// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A figure in a file is the figure in the model, to the last picosecond, or it is refused.
#define BOOST_TEST_MODULE quantity
#include <boost/test/unit_test.hpp>

#include "model/quantity.hpp"

#include <string>

using namespace nvlf::model;

namespace {

std::uint64_t accepted(std::string_view text, Dimension dimension) {
    const Quantity read = parse_quantity(text, dimension);
    BOOST_TEST(read.problem == "", text);
    return read.value;
}

std::string problem(std::string_view text, Dimension dimension) { return parse_quantity(text, dimension).problem; }

} // namespace

BOOST_AUTO_TEST_CASE(quantities_are_exact) {
    BOOST_TEST(accepted("62.75 ns", Dimension::time) == 62'750U);
    BOOST_TEST(accepted("1300ns", Dimension::time) == 1'300'000U);
    BOOST_TEST(accepted("0 ps", Dimension::time) == 0U);
    BOOST_TEST(accepted("26.5625 GB/s", Dimension::rate) == 26'562'500'000U);
    BOOST_TEST(accepted("3.35 TB/s", Dimension::rate) == 3'350'000'000'000U);
    BOOST_TEST(accepted("96 GiB", Dimension::size) == 96ULL << 30);
    BOOST_TEST(accepted("1.5 KiB", Dimension::size) == 1536U);
    BOOST_TEST(accepted("2.500000 kB", Dimension::size) == 2500U);
}

BOOST_AUTO_TEST_CASE(decimal_and_binary_prefixes_differ) {
    BOOST_TEST(accepted("1 GB", Dimension::size) == 1'000'000'000U);
    BOOST_TEST(accepted("1 GiB", Dimension::size) == 1'073'741'824U);
}

BOOST_AUTO_TEST_CASE(what_is_not_a_quantity_is_refused) {
    BOOST_TEST(problem("", Dimension::rate) == "\"\" does not begin with a number of at most 15 digits");
    BOOST_TEST(problem("fast", Dimension::rate) == "\"fast\" does not begin with a number of at most 15 digits");
    BOOST_TEST(problem("1. GB/s", Dimension::rate) == "\"1. GB/s\" does not begin with a number of at most 15 digits");
    BOOST_TEST(problem("1.2.3 GB/s", Dimension::rate) == "\"1.2.3 GB/s\" has the wrong unit \".3 GB/s\"");
    BOOST_TEST(problem("-1 GB/s", Dimension::rate) == "\"-1 GB/s\" is negative");
    BOOST_TEST(problem("1", Dimension::rate) == "\"1\" has no unit");
    BOOST_TEST(problem("1 GB", Dimension::rate) == "\"1 GB\" has the wrong unit \"GB\"");
    BOOST_TEST(problem("1 GiB/s", Dimension::rate) == "\"1 GiB/s\" has the wrong unit \"GiB/s\"");
    BOOST_TEST(problem("200 Gbps", Dimension::rate) == "\"200 Gbps\" counts bits");
    BOOST_TEST(problem("0.5 ps", Dimension::time) == "\"0.5 ps\" is not a whole number of ps");
    BOOST_TEST(problem("99999999999 TB", Dimension::size) == "\"99999999999 TB\" is too large");
    BOOST_TEST(problem("1234567890123456 B", Dimension::size) ==
               "\"1234567890123456 B\" does not begin with a number of at most 15 digits");
}

BOOST_AUTO_TEST_CASE(formatting_is_exact_and_reads_back) {
    BOOST_TEST(format_quantity(62'750, Dimension::time) == "62.75 ns");
    BOOST_TEST(format_quantity(0, Dimension::time) == "0 ps");
    BOOST_TEST(format_quantity(96ULL << 30, Dimension::size) == "96 GiB");
    BOOST_TEST(format_quantity(25'000'000'000, Dimension::rate) == "25 GB/s");
    for (const std::uint64_t value :
         {1ULL, 999ULL, 1001ULL, 1536ULL, 62'751ULL, 26'562'500'000ULL, 1ULL << 50, 18'446'744'073'709'551ULL}) {
        const std::string text = format_quantity(value, Dimension::size);
        const Quantity read = parse_quantity(text, Dimension::size);
        if (read.problem.empty()) BOOST_TEST(read.value == value, text);
    }
}
