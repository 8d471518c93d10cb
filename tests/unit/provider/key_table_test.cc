// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The table of imports, with keys that collide and keys that come and go.
#define BOOST_TEST_MODULE provider_key_table
#include "key_table.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <map>
#include <random>

using namespace nvlf::ofi;

namespace {

struct Value {
    std::uint64_t key = 0;
    int number = 0;
};

void add(KeyTable<Value>& table, std::uint64_t key, int number) {
    table.reserve_one();
    table.insert({key, number});
}

} // namespace

BOOST_AUTO_TEST_CASE(an_empty_table_finds_nothing) {
    KeyTable<Value> table;
    BOOST_TEST(table.find(0) == nullptr);
    table.reserve_one();
    BOOST_TEST(table.find(0) == nullptr); // Cells that were never used hold key 0, too.
}

BOOST_AUTO_TEST_CASE(it_agrees_with_a_map_whatever_is_added_and_removed) {
    KeyTable<Value> table;
    std::map<std::uint64_t, int> model;
    std::mt19937_64 random{7};
    for (int round = 0; round < 20'000; ++round) {
        const std::uint64_t key = random() % 300; // Few enough to be used again and again.
        if (random() % 3 != 0) {
            if (model.emplace(key, round).second) add(table, key, round);
        } else {
            table.erase_if([&](const Value& value) { return value.key == key; });
            model.erase(key);
        }
        const std::uint64_t probe = random() % 300;
        const Value* found = table.find(probe);
        const auto expected = model.find(probe);
        BOOST_TEST_REQUIRE((found != nullptr) == (expected != model.end()));
        if (found != nullptr) BOOST_TEST_REQUIRE(found->number == expected->second);
    }
}

BOOST_AUTO_TEST_CASE(of_two_values_with_one_key_the_other_is_found_when_one_is_removed) {
    KeyTable<Value> table;
    add(table, 5, 1);
    add(table, 5, 2);
    const int first = table.find(5)->number;
    table.erase_if([&](const Value& value) { return value.number == first; });
    BOOST_REQUIRE(table.find(5) != nullptr);
    BOOST_TEST(table.find(5)->number == 3 - first);
}
