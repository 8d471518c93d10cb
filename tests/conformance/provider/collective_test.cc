// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Collectives by fi_collective(3), against what a plain loop over all members' data computes.
#define BOOST_TEST_MODULE provider_collectives
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "conformance/provider/crew.hpp"

using namespace nvlf::test;
namespace data = boost::unit_test::data;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

using Words = std::vector<std::uint64_t>;
constexpr std::uint64_t untouched = 0xeeeeeeeeeeeeeeeeULL;

// Element `k` of what member `rank` brings.
std::uint64_t word(std::size_t rank, std::size_t k) {
    return (rank + 1) * 0x9e3779b97f4a7c15ULL + k * 0xbf58476d1ce4e5b9ULL;
}

std::vector<Words> contributions(std::size_t members, std::size_t words) {
    std::vector<Words> all(members, Words(words));
    for (std::size_t rank = 0; rank < members; ++rank)
        for (std::size_t k = 0; k < words; ++k) all[rank][k] = word(rank, k);
    return all;
}

// Buffers for results, with one word more than will be written.
std::vector<Words> results(std::size_t members, std::size_t words) {
    return std::vector<Words>(members, Words(words + 1, untouched));
}

void check_result(const Words& got, const Words& expected, std::size_t rank) {
    BOOST_REQUIRE_EQUAL(got.size(), expected.size() + 1);
    const auto differ = std::mismatch(expected.begin(), expected.end(), got.begin()).first - expected.begin();
    BOOST_CHECK_MESSAGE(differ == std::ssize(expected), "rank " << rank << " differs at element " << differ);
    BOOST_CHECK_MESSAGE(got.back() == untouched, "rank " << rank << " got more than its result");
}

// 0 B, 8 B, 4 KiB and 1 MiB; and what no group divides evenly, on either side of where algorithms change.
const auto sizes = data::make({std::size_t{0}, std::size_t{8}, std::size_t{24}, std::size_t{4096}, std::size_t{16392},
                               std::size_t{40008}, std::size_t{1u << 20}});
const auto groups = data::make({std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{5}, std::size_t{8}});

// ---- Each collective -------------------------------------------------------------------------------------------------

BOOST_DATA_TEST_CASE(a_barrier_ends_for_nobody_before_all_have_called_it, groups, members) {
    Crew crew{members};
    Team team = Team::of_all(crew);
    for (std::size_t late = 0; late < members; ++late) {
        int context = 0;
        for (std::size_t rank = 0; rank < members; ++rank)
            if (rank != late) check(fi_barrier(team.ep(rank), team.address(rank), &context), "fi_barrier");
        for (int i = 0; i < 50; ++i) crew.drive();
        for (std::size_t rank = 0; rank < members; ++rank) BOOST_CHECK(!poll(crew.sides[rank]->cq.get()));
        check(fi_barrier2(team.ep(late), team.address(late), FI_COMPLETION, &context), "fi_barrier2");
        for (std::size_t rank = 0; rank < members; ++rank) {
            const Event event = crew.wait(rank, "barrier");
            BOOST_CHECK_EQUAL(event.error, 0);
            BOOST_CHECK_EQUAL(event.entry.op_context, &context);
            BOOST_CHECK_EQUAL(event.entry.flags, FI_COLLECTIVE);
        }
    }
}

BOOST_DATA_TEST_CASE(a_broadcast_brings_the_roots_data_to_all, groups* sizes, members, bytes) {
    const std::size_t words = bytes / 8;
    Crew crew{members};
    Team team = Team::of_all(crew);
    for (const std::size_t root : {std::size_t{0}, members - 1}) {
        const Words sent = contributions(members, words)[root];
        std::vector<Words> buffers = results(members, words);
        std::copy(sent.begin(), sent.end(), buffers[root].begin());
        team.all("fi_broadcast", [&](std::size_t rank, void* context) {
            return fi_broadcast(team.ep(rank), buffers[rank].data(), words, nullptr, team.address(rank), root,
                                FI_UINT64, 0, context);
        });
        for (std::size_t rank = 0; rank < members; ++rank) check_result(buffers[rank], sent, rank);
    }
}

BOOST_DATA_TEST_CASE(an_allreduce_brings_the_sum_to_all, groups* sizes, members, bytes) {
    const std::size_t words = bytes / 8;
    Crew crew{members};
    Team team = Team::of_all(crew);
    const std::vector<Words> in = contributions(members, words);
    std::vector<Words> out = results(members, words);
    team.all("fi_allreduce", [&](std::size_t rank, void* context) {
        return fi_allreduce(team.ep(rank), in[rank].data(), words, nullptr, out[rank].data(), nullptr,
                            team.address(rank), FI_UINT64, FI_SUM, 0, context);
    });
    Words expected(words);
    for (std::size_t k = 0; k < words; ++k)
        for (std::size_t rank = 0; rank < members; ++rank) expected[k] += word(rank, k);
    for (std::size_t rank = 0; rank < members; ++rank) check_result(out[rank], expected, rank);
    BOOST_CHECK(in == contributions(members, words));
}

BOOST_DATA_TEST_CASE(a_reduce_brings_the_maximum_to_the_root_alone, groups* sizes, members, bytes) {
    const std::size_t words = bytes / 8;
    Crew crew{members};
    Team team = Team::of_all(crew);
    const std::vector<Words> in = contributions(members, words);
    for (const std::size_t root : {std::size_t{0}, members - 1}) {
        std::vector<Words> out = results(members, words);
        team.all("fi_reduce", [&](std::size_t rank, void* context) {
            return fi_reduce(team.ep(rank), in[rank].data(), words, nullptr, rank == root ? out[rank].data() : nullptr,
                             nullptr, team.address(rank), root, FI_UINT64, FI_MAX, 0, context);
        });
        Words expected(words);
        for (std::size_t k = 0; k < words; ++k)
            for (std::size_t rank = 0; rank < members; ++rank) expected[k] = std::max(expected[k], word(rank, k));
        check_result(out[root], expected, root);
    }
}

BOOST_DATA_TEST_CASE(a_reduce_scatter_brings_each_its_part_of_the_result, groups* sizes, members, bytes) {
    const std::size_t words = bytes / 8;
    Crew crew{members};
    Team team = Team::of_all(crew);
    const std::vector<Words> in = contributions(members, words * members);
    std::vector<Words> out = results(members, words);
    team.all("fi_reduce_scatter", [&](std::size_t rank, void* context) {
        return fi_reduce_scatter(team.ep(rank), in[rank].data(), words, nullptr, out[rank].data(), nullptr,
                                 team.address(rank), FI_UINT64, FI_BXOR, 0, context);
    });
    for (std::size_t rank = 0; rank < members; ++rank) {
        Words expected(words);
        for (std::size_t k = 0; k < words; ++k)
            for (std::size_t from = 0; from < members; ++from) expected[k] ^= word(from, rank * words + k);
        check_result(out[rank], expected, rank);
    }
}

BOOST_DATA_TEST_CASE(an_allgather_brings_everything_to_all_in_the_order_of_ranks, groups* sizes, members, bytes) {
    const std::size_t words = bytes / 8;
    Crew crew{members};
    Team team = Team::of_all(crew);
    const std::vector<Words> in = contributions(members, words);
    std::vector<Words> out = results(members, words * members);
    team.all("fi_allgather", [&](std::size_t rank, void* context) {
        return fi_allgather(team.ep(rank), in[rank].data(), words, nullptr, out[rank].data(), nullptr,
                            team.address(rank), FI_UINT64, 0, context);
    });
    Words expected;
    for (std::size_t rank = 0; rank < members; ++rank)
        for (std::size_t k = 0; k < words; ++k) expected.push_back(word(rank, k));
    for (std::size_t rank = 0; rank < members; ++rank) check_result(out[rank], expected, rank);
}

BOOST_DATA_TEST_CASE(an_alltoall_brings_each_its_part_of_everybodys_data, groups* sizes, members, bytes) {
    const std::size_t words = bytes / 8;
    Crew crew{members};
    Team team = Team::of_all(crew);
    const std::vector<Words> in = contributions(members, words * members);
    std::vector<Words> out = results(members, words * members);
    team.all("fi_alltoall", [&](std::size_t rank, void* context) {
        return fi_alltoall(team.ep(rank), in[rank].data(), words, nullptr, out[rank].data(), nullptr,
                           team.address(rank), FI_UINT64, 0, context);
    });
    for (std::size_t rank = 0; rank < members; ++rank) {
        Words expected;
        for (std::size_t from = 0; from < members; ++from)
            for (std::size_t k = 0; k < words; ++k) expected.push_back(word(from, rank * words + k));
        check_result(out[rank], expected, rank);
    }
}

BOOST_DATA_TEST_CASE(a_scatter_brings_each_its_part_of_the_roots_data, groups* sizes, members, bytes) {
    const std::size_t words = bytes / 8;
    Crew crew{members};
    Team team = Team::of_all(crew);
    for (const std::size_t root : {std::size_t{0}, members - 1}) {
        const Words in = contributions(members, words * members)[root];
        std::vector<Words> out = results(members, words);
        team.all("fi_scatter", [&](std::size_t rank, void* context) {
            return fi_scatter(team.ep(rank), rank == root ? in.data() : nullptr, words, nullptr, out[rank].data(),
                              nullptr, team.address(rank), root, FI_UINT64, 0, context);
        });
        for (std::size_t rank = 0; rank < members; ++rank)
            check_result(out[rank],
                         Words(in.begin() + static_cast<std::ptrdiff_t>(rank * words),
                               in.begin() + static_cast<std::ptrdiff_t>((rank + 1) * words)),
                         rank);
    }
}

BOOST_DATA_TEST_CASE(a_gather_brings_everything_to_the_root_in_the_order_of_ranks, groups* sizes, members, bytes) {
    const std::size_t words = bytes / 8;
    Crew crew{members};
    Team team = Team::of_all(crew);
    const std::vector<Words> in = contributions(members, words);
    for (const std::size_t root : {std::size_t{0}, members - 1}) {
        Words out = results(1, words * members)[0];
        team.all("fi_gather", [&](std::size_t rank, void* context) {
            return fi_gather(team.ep(rank), in[rank].data(), words, nullptr, rank == root ? out.data() : nullptr,
                             nullptr, team.address(rank), root, FI_UINT64, 0, context);
        });
        Words expected;
        for (const Words& part : in) expected.insert(expected.end(), part.begin(), part.end());
        check_result(out, expected, root);
    }
}

} // namespace
