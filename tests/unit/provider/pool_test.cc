// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Operations in flight: how many there may be, and which of the handles that a peer sends back still mean one.
#define BOOST_TEST_MODULE provider_pool
#include <boost/test/unit_test.hpp>

#include <new>
#include <set>
#include <vector>

#include "pool.hpp"

using namespace nvlf::ofi;

namespace {

struct Op : Pooled {
    int value = 0;
};

std::vector<Op*> take_all(Pool<Op>& pool) {
    std::vector<Op*> taken;
    while (Op* op = pool.take()) taken.push_back(op);
    return taken;
}

// Without memory as often as `failures` says.
struct Scarce : Pooled {
    inline static int failures = 0;
    static void* operator new[](std::size_t bytes) {
        if (failures-- > 0) throw std::bad_alloc{};
        return ::operator new[](bytes);
    }
    static void operator delete[](void* ptr) { ::operator delete[](ptr); }
};

} // namespace

BOOST_AUTO_TEST_CASE(there_are_as_many_as_the_limit_and_not_one_more) {
    Pool<Op> pool{128};
    const auto taken = take_all(pool);
    BOOST_TEST(taken.size() == 128U);
    BOOST_TEST((std::set<Op*>{taken.begin(), taken.end()}.size()) == 128U);
    BOOST_TEST(pool.used() == 128U);
    BOOST_TEST(pool.take() == nullptr);
    pool.give(taken[77]);
    BOOST_TEST(pool.used() == 127U);
    BOOST_TEST(pool.take() == taken[77]);
    BOOST_TEST(pool.take() == nullptr);
}

BOOST_AUTO_TEST_CASE(a_limit_between_blocks_is_kept) {
    for (const std::size_t limit : {0U, 63U, 64U, 65U, 127U}) {
        Pool<Op> pool{limit};
        BOOST_TEST(take_all(pool).size() == limit / 64 * 64);
    }
}

BOOST_AUTO_TEST_CASE(a_handle_finds_its_operation_and_addresses_stay_while_the_pool_grows) {
    Pool<Op> pool{256};
    const auto taken = take_all(pool);
    std::set<std::uint64_t> handles;
    for (Op* op : taken) {
        handles.insert(op->handle());
        BOOST_TEST(pool.find(op->handle()) == op);
    }
    BOOST_TEST(handles.size() == taken.size());
}

BOOST_AUTO_TEST_CASE(a_handle_that_outlived_its_operation_finds_nothing) {
    Pool<Op> pool{64};
    Op* op = pool.take();
    const std::uint64_t first = op->handle();
    pool.give(op);
    BOOST_TEST(pool.find(first) == nullptr);
    BOOST_TEST(pool.find(op->handle()) == nullptr); // The generation of one that is not in use.
    BOOST_REQUIRE(pool.take() == op);               // Reused,
    BOOST_TEST(op->handle() != first);              // under another name.
    BOOST_TEST(pool.find(first) == nullptr);
    BOOST_TEST(pool.find(op->handle()) == op);
}

BOOST_AUTO_TEST_CASE(a_handle_that_was_made_up_finds_nothing) {
    Pool<Op> pool{128};
    for (const std::uint64_t handle : {std::uint64_t{0}, std::uint64_t{1} << 32, ~std::uint64_t{0}})
        BOOST_TEST(pool.find(handle) == nullptr); // In an empty pool, too.
    const std::uint64_t real = pool.take()->handle();
    BOOST_TEST(pool.find(0) == nullptr);
    BOOST_TEST(pool.find(real + 1) == nullptr);                        // A neighbour that nobody took.
    BOOST_TEST(pool.find(real + 64) == nullptr);                       // One past the last.
    BOOST_TEST(pool.find(real | 0xffffffff) == nullptr);               // Far past it.
    BOOST_TEST(pool.find(real + (std::uint64_t{2} << 32)) == nullptr); // Its next life.
    BOOST_TEST(pool.find(real - (std::uint64_t{1} << 32)) == nullptr);
}

BOOST_AUTO_TEST_CASE(a_generation_wraps_around) {
    Pool<Op> pool{64};
    Op* op = pool.take();
    op->pool_generation = ~std::uint32_t{0}; // Odd: two thousand million lives later.
    const std::uint64_t last = op->handle();
    BOOST_TEST(pool.find(last) == op);
    pool.give(op);
    BOOST_TEST(pool.find(last) == nullptr);
    BOOST_REQUIRE(pool.take() == op);
    BOOST_TEST(pool.find(op->handle()) == op);
}

BOOST_AUTO_TEST_CASE(an_operation_is_reused_as_it_was_left) {
    Pool<Op> pool{64};
    Op* op = pool.take();
    op->value = 7;
    pool.give(op);
    BOOST_TEST(pool.take()->value == 7);
}

BOOST_AUTO_TEST_CASE(only_those_in_use_are_walked) {
    Pool<Op> pool{128};
    const auto taken = take_all(pool);
    for (std::size_t i = 0; i < taken.size(); ++i)
        if (i % 3 != 0) pool.give(taken[i]);
    std::set<Op*> walked;
    pool.for_each_used([&](Op& op) { walked.insert(&op); });
    BOOST_TEST(walked.size() == pool.used());
    for (std::size_t i = 0; i < taken.size(); ++i) BOOST_TEST(walked.count(taken[i]) == (i % 3 == 0 ? 1U : 0U));
}

BOOST_AUTO_TEST_CASE(without_memory_there_is_none_and_later_there_is) {
    Pool<Scarce> pool{128};
    Scarce::failures = 1;
    BOOST_TEST(pool.take() == nullptr);
    BOOST_TEST(pool.used() == 0U);
    for (int i = 0; i < 64; ++i) BOOST_REQUIRE(pool.take() != nullptr);
    Scarce::failures = 1;
    BOOST_TEST(pool.take() == nullptr);
    BOOST_TEST(pool.used() == 64U);
    BOOST_TEST(pool.take() != nullptr);
}
