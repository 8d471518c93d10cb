// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE diagnostic
#include <boost/test/unit_test.hpp>

#include "model/diagnostic.hpp"

#include <array>
#include <string>

using namespace nvlf::model;

BOOST_AUTO_TEST_CASE(diagnostics_come_sorted_by_position) {
    Diagnostics diagnostics{"f.toml"};
    diagnostics.add({9, 1}, "c", "x");
    diagnostics.add({2, 7}, "b", "x");
    diagnostics.add({2, 3}, "a1", "x");
    diagnostics.add({2, 3}, "a2", "x");
    diagnostics.add({0, 0}, "whole", "x");
    std::string order;
    for (const Diagnostic& d : std::move(diagnostics).take()) order += d.to_string() + '\n';
    BOOST_TEST(order ==
               "f.toml:1:1: whole, x\nf.toml:2:3: a1, x\nf.toml:2:3: a2, x\nf.toml:2:7: b, x\nf.toml:9:1: c, x\n");
}

BOOST_AUTO_TEST_CASE(mistakes_at_the_limit_are_all_kept) {
    Diagnostics diagnostics{"f"};
    for (std::size_t i = 0; i < max_diagnostics; ++i) diagnostics.add({1, 1}, "w", "f");
    BOOST_TEST(diagnostics.full());
    BOOST_TEST(std::move(diagnostics).take().size() == max_diagnostics);
}

BOOST_AUTO_TEST_CASE(mistake_past_the_limit_is_told_of_and_not_kept) {
    Diagnostics diagnostics{"f"};
    for (std::size_t i = 0; i <= max_diagnostics; ++i) diagnostics.add({1, 1}, "w", "f");
    const auto found = std::move(diagnostics).take();
    BOOST_TEST(found.size() == max_diagnostics + 1);
    BOOST_TEST(found.back().what == "more than 100 mistakes, the others are not shown");
}

BOOST_AUTO_TEST_CASE(misspelling_finds_the_nearest_name) {
    constexpr std::array<std::string_view, 4> names{"rate", "raw_rate", "latency", "generation"};
    BOOST_TEST(closest_name("latncy", names) == "latency");
    BOOST_TEST(closest_name("rtae", names) == "rate"); // Two letters swapped are one slip.
    BOOST_TEST(closest_name("rawrate", names) == "raw_rate");
    BOOST_TEST(closest_name("colour", names) == "");
    BOOST_TEST(closest_name("", names) == "");
    BOOST_TEST(closest_name(std::string(65, 'a'), names) == "");
}

BOOST_AUTO_TEST_CASE(shown_text_cannot_drive_a_terminal) {
    BOOST_TEST(quoted("a\x1b[31m\n") == "\"a?[31m?\"");
    BOOST_TEST(quoted(std::string(100, 'x')) == '"' + std::string(64, 'x') + "...\"");
}
