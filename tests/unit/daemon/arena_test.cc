// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE arena
#include <boost/test/unit_test.hpp>

#include <random>
#include <vector>

#include "daemon/arena.hpp"

using nvlf::daemon::Arena;

BOOST_AUTO_TEST_CASE(the_lowest_fit_is_taken_and_a_full_arena_gives_nothing) {
    Arena arena{1000, 100};
    BOOST_TEST(arena.take(40).value() == 1000U);
    BOOST_TEST(arena.take(60).value() == 1040U);
    BOOST_TEST(!arena.take(1).has_value());
    arena.give_back(1000, 40);
    BOOST_TEST(!arena.take(41).has_value());
    BOOST_TEST(arena.take(40).value() == 1000U);
}

BOOST_AUTO_TEST_CASE(an_empty_arena_gives_nothing) { BOOST_TEST(!Arena(1000, 0).take(1).has_value()); }

BOOST_AUTO_TEST_CASE(neighbours_that_are_given_back_in_any_order_become_one_extent) {
    constexpr int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (const auto& order : orders) {
        Arena arena{1000, 30};
        std::uint64_t at[3];
        for (auto& a : at) a = arena.take(10).value();
        for (const int i : order) arena.give_back(at[i], 10);
        BOOST_TEST(arena.take(30).value() == 1000U);
    }
}

BOOST_AUTO_TEST_CASE(no_address_is_ever_given_twice) {
    std::mt19937_64 random{1};
    Arena arena{0, 4096};
    std::vector<char> used(4096);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> held;
    for (int i = 0; i < 20000; ++i) {
        if (random() % 2 == 0) {
            const std::uint64_t bytes = 1 + random() % 64;
            const auto at = arena.take(bytes);
            if (!at) continue;
            for (std::uint64_t b = *at; b < *at + bytes; ++b) BOOST_REQUIRE_EQUAL(std::exchange(used[b], 1), 0);
            held.emplace_back(*at, bytes);
        } else if (!held.empty()) {
            std::swap(held[random() % held.size()], held.back());
            const auto [at, bytes] = held.back();
            held.pop_back();
            for (std::uint64_t b = at; b < at + bytes; ++b) used[b] = 0;
            arena.give_back(at, bytes);
        }
    }
    for (const auto& [at, bytes] : held) arena.give_back(at, bytes);
    BOOST_TEST(arena.take(4096).value() == 0U);
}
