// SPDX-License-Identifier: MIT OR GPL-2.0-only
// order_test - the orders of fi_endpoint(3) between messages and one-sided operations of all kinds.
//
// The same memory is registered twice here: once as one piece, which an initiator of this provider reaches by itself, and
// once as two, which go through the target's progress. Operations by either key are to be seen in the order in which they
// were started. Of another provider the tests ask nothing more than of this one.
#define BOOST_TEST_MODULE order
#include <rdma/fi_atomic.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <random>

#include "target_memory.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::uint64_t whole = 1, pieces = 2; // Keys.
constexpr std::array keys{whole, pieces};

struct Case {
    explicit Case(bool on_fabric, std::uint64_t order = 0)
        : target{on_fabric}, pair{{.caps = caps, .msg_order = order}, {.caps = caps, .msg_order = order}} {
        std::memset(target.data, 0, region_size);
        constexpr std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
        fid_mr* m = nullptr;
        check(fi_mr_reg(pair.b.domain.get(), target.data, region_size, access, 0, whole, 0, &m, nullptr), "fi_mr_reg");
        one.reset(m);
        const std::array<iovec, 2> list{{{target.data, 4096}, {target.data + 4096, region_size - 4096}}};
        check(fi_mr_regv(pair.b.domain.get(), list.data(), 2, access, 0, pieces, 0, &m, nullptr), "fi_mr_regv");
        two.reset(m);
        // First contact, so that nothing below depends on it.
        char byte = 0;
        write(&byte, 1, 0, whole);
        BOOST_TEST(pair.wait(pair.a, "first write").error == 0);
    }

    void write(const void* from, std::size_t bytes, std::uint64_t at, std::uint64_t key) {
        pair.post("write",
                  [&] { return fi_write(pair.a.ep.get(), from, bytes, nullptr, pair.to_b, at, key, nullptr); });
    }
    void read(void* to, std::size_t bytes, std::uint64_t at, std::uint64_t key) {
        pair.post("read", [&] { return fi_read(pair.a.ep.get(), to, bytes, nullptr, pair.to_b, at, key, nullptr); });
    }
    void add(const std::uint64_t* operand, std::uint64_t* result, std::size_t count, std::uint64_t at,
             std::uint64_t key) {
        pair.post("fetch_atomic", [&] {
            return fi_fetch_atomic(pair.a.ep.get(), operand, count, nullptr, result, nullptr, pair.to_b, at, key,
                                   FI_UINT64, FI_SUM, nullptr);
        });
    }
    void send(const void* from, std::size_t bytes) {
        pair.post("send", [&] { return fi_send(pair.a.ep.get(), from, bytes, nullptr, pair.to_b, nullptr); });
    }
    void finish(int operations) {
        for (int i = 0; i < operations; ++i) BOOST_REQUIRE_EQUAL(pair.wait(pair.a, "the end").error, 0);
    }

    static constexpr std::uint64_t caps = FI_MSG | FI_RMA | FI_ATOMIC;
    TargetMemory target;
    TwoEndpoints pair;
    FidPtr<fid_mr> one, two;
};

template <class F>
void on_both_kinds_of_memory(F&& f) {
    for (const bool on_fabric : {false, true})
        BOOST_TEST_CONTEXT((on_fabric ? "fabric" : "heap") << " memory") f(on_fabric);
}

InfoPtr info_with(std::uint64_t order, std::size_t war_size = 0) {
    const InfoPtr hints{fi_allocinfo()};
    hints->caps = Case::caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = order;
    hints->ep_attr->max_order_war_size = war_size;
    hints->fabric_attr->prov_name = ::strdup(provider_name());
    fi_info* found = nullptr;
    check(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo");
    return InfoPtr{found};
}

} // namespace

BOOST_AUTO_TEST_CASE(orders_that_are_asked_for_are_granted_and_sizes_say_which_hold) {
    const InfoPtr plain = info_with(0);
    BOOST_TEST((plain->tx_attr->msg_order & FI_ORDER_SAS) != 0U);
    BOOST_TEST(plain->ep_attr->max_order_raw_size == SIZE_MAX);
    BOOST_TEST(plain->ep_attr->max_order_waw_size == SIZE_MAX);
    BOOST_TEST(plain->ep_attr->max_order_war_size == 0U);
    for (const std::uint64_t order :
         {FI_ORDER_RAR, FI_ORDER_RAW, FI_ORDER_RAS, FI_ORDER_WAR, FI_ORDER_WAW, FI_ORDER_WAS, FI_ORDER_SAR,
          FI_ORDER_SAW, FI_ORDER_SAS, FI_ORDER_RMA_RAR, FI_ORDER_RMA_RAW, FI_ORDER_RMA_WAR, FI_ORDER_RMA_WAW,
          FI_ORDER_ATOMIC_RAR, FI_ORDER_ATOMIC_RAW, FI_ORDER_ATOMIC_WAR, FI_ORDER_ATOMIC_WAW})
        BOOST_TEST((info_with(order)->tx_attr->msg_order & order) == order);
    BOOST_TEST(info_with(FI_ORDER_WAR)->ep_attr->max_order_war_size == SIZE_MAX);
    const InfoPtr sized = info_with(0, 100);
    BOOST_TEST((sized->tx_attr->msg_order & FI_ORDER_WAR) != 0U);
    BOOST_TEST(sized->ep_attr->max_order_war_size == 100U);
}

BOOST_AUTO_TEST_CASE(of_two_writes_the_later_stays_whichever_way_they_go) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, FI_ORDER_WAW};
        const auto first = pattern(1 << 20, 1), second = pattern(1 << 20, 2);
        for (const std::uint64_t early : keys)
            for (const std::uint64_t late : keys)
                for (const std::size_t bytes : {std::size_t{8}, std::size_t{40'000}, first.size()}) {
                    c.write(first.data(), first.size(), 64, early);
                    c.write(second.data(), bytes, 64, late);
                    c.finish(2);
                    BOOST_TEST(
                        std::equal(second.begin(), second.begin() + static_cast<long>(bytes), c.target.data + 64));
                    BOOST_TEST(
                        std::equal(first.begin() + static_cast<long>(bytes), first.end(), c.target.data + 64 + bytes));
                }
    });
}

BOOST_AUTO_TEST_CASE(reads_and_atomics_see_the_writes_before_them) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, FI_ORDER_RAW};
        std::vector<std::uint64_t> out(100'000), in(out.size());
        const std::uint64_t none = 0; // Added: an update, and the read before it was not promised the old value.
        for (std::uint64_t round = 1; round < 3; ++round)
            for (const std::uint64_t early : keys)
                for (const std::uint64_t late : keys) {
                    std::fill(out.begin(), out.end(), round * 10 + early * 3 + late);
                    std::uint64_t last = 0;
                    c.write(out.data(), out.size() * 8, 0, early);
                    c.read(in.data(), in.size() * 8, 0, late);
                    c.add(&none, &last, 1, (out.size() - 1) * 8, late);
                    c.finish(3);
                    BOOST_TEST(in == out);
                    BOOST_TEST(last == out.back());
                }
    });
}

BOOST_AUTO_TEST_CASE(a_message_is_not_received_before_the_writes_ahead_of_it) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, FI_ORDER_SAW};
        for (unsigned round = 1; round < 6; ++round)
            for (const std::uint64_t key : keys) {
                const auto out = pattern(1 << 20, round);
                char byte = 0;
                int context = 0;
                check(fi_recv(c.pair.b.ep.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, &context), "recv");
                c.write(out.data(), out.size(), 8, key);
                c.send("x", 1);
                BOOST_TEST(c.pair.wait(c.pair.b, "message").error == 0);
                BOOST_TEST(std::equal(out.begin(), out.end(), c.target.data + 8)); // At this moment.
                c.finish(2);
            }
    });
}

BOOST_AUTO_TEST_CASE(where_it_was_asked_for_a_read_brings_what_was_there_before_later_writes) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, FI_ORDER_WAR};
        const auto before = pattern(1 << 20, 1), after = pattern(1 << 20, 2);
        std::vector<char> in(before.size());
        for (const std::uint64_t early : keys)
            for (const std::uint64_t late : keys) {
                std::copy(before.begin(), before.end(), c.target.data);
                c.read(in.data(), in.size(), 0, early);
                c.write(after.data(), after.size(), 0, late);
                c.finish(2);
                BOOST_TEST(in == before);
                BOOST_TEST(std::equal(after.begin(), after.end(), c.target.data));
            }
    });
}

BOOST_AUTO_TEST_CASE(where_it_was_asked_for_a_message_follows_the_reads_ahead_of_it) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, FI_ORDER_SAR};
        const auto there = pattern(1 << 20, 1);
        for (const std::uint64_t key : keys) {
            std::copy(there.begin(), there.end(), c.target.data);
            std::vector<char> in(there.size());
            char byte = 0;
            check(fi_recv(c.pair.b.ep.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
            c.read(in.data(), in.size(), 0, key);
            c.send("x", 1);
            BOOST_TEST(c.pair.wait(c.pair.b, "message").error == 0);
            std::memset(c.target.data, 0, there.size()); // "You may have it back."
            c.finish(2);
            BOOST_TEST(in == there);
        }
    });
}

BOOST_AUTO_TEST_CASE(where_it_was_asked_for_nothing_one_sided_overtakes_a_message) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, FI_ORDER_WAS | FI_ORDER_RAS};
        for (const std::uint64_t key : keys)
            for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}}) {
                const auto message = pattern(bytes, 5), later = pattern(bytes, 6);
                // Received into the memory that is then read and written. The target does nothing in between.
                check(fi_recv(c.pair.b.ep.get(), c.target.data + 512, bytes, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
                std::vector<char> in(bytes);
                c.send(message.data(), bytes);
                c.read(in.data(), bytes, 512, key);
                c.finish(1); // The message, for its sender.
                c.finish(1);
                BOOST_TEST(in == message);
                BOOST_TEST(c.pair.wait(c.pair.b, "message").error == 0);
                check(fi_recv(c.pair.b.ep.get(), c.target.data + 512, bytes, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
                c.send(message.data(), bytes);
                c.write(later.data(), bytes, 512, key);
                c.finish(2);
                BOOST_TEST(c.pair.wait(c.pair.b, "message").error == 0);
                BOOST_TEST(std::equal(later.begin(), later.end(), c.target.data + 512));
            }
    });
}

BOOST_AUTO_TEST_CASE(a_random_mixture_leaves_what_it_would_have_left_one_by_one) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_RAR};
        std::mt19937_64 random{7};
        constexpr std::size_t words = 20'000;
        std::vector<std::uint64_t> wanted(words, 0);
        std::memset(c.target.data, 0, words * 8);
        struct Result {
            std::vector<std::uint64_t> got, wanted;
        };
        for (int round = 0; round < 30; ++round) {
            std::list<std::vector<std::uint64_t>> sources;
            std::list<Result> results;
            for (int i = 0; i < 40; ++i) {
                const std::uint64_t key = keys[random() % 2];
                const bool small = random() % 2 == 0;
                const std::size_t at = random() % words;
                const std::size_t count = std::min(small ? 1 + random() % 8 : 1 + random() % words, words - at);
                const auto here = wanted.begin() + static_cast<long>(at);
                const std::size_t kind = random() % 3;
                if (kind == 0) {
                    auto& source = sources.emplace_back(count);
                    for (auto& word : source) word = random();
                    std::copy(source.begin(), source.end(), here);
                    c.write(source.data(), count * 8, at * 8, key);
                } else if (kind == 1) {
                    auto& result = results.emplace_back();
                    result.got.resize(count);
                    result.wanted.assign(here, here + static_cast<long>(count));
                    c.read(result.got.data(), count * 8, at * 8, key);
                } else {
                    const std::size_t elements = std::min<std::size_t>(count, 1000);
                    auto& source = sources.emplace_back(elements, random());
                    auto& result = results.emplace_back();
                    result.got.resize(elements);
                    result.wanted.assign(here, here + static_cast<long>(elements));
                    for (std::size_t k = 0; k < elements; ++k) here[static_cast<long>(k)] += source[k];
                    c.add(source.data(), result.got.data(), elements, at * 8, key);
                }
            }
            c.finish(40);
            for (const Result& result : results) BOOST_REQUIRE(result.got == result.wanted);
            BOOST_REQUIRE(std::memcmp(wanted.data(), c.target.data, words * 8) == 0);
        }
    });
}
