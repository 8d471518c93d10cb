// SPDX-License-Identifier: MIT OR GPL-2.0-only
// What collectives can reduce: what the query offers, what each operation does, and in place.
#define BOOST_TEST_MODULE provider_collective_reduction
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "conformance/provider/crew.hpp"

using namespace nvlf::test;
namespace data = boost::unit_test::data;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

int query(Side& side, enum fi_collective_op which, enum fi_op op, enum fi_datatype type, fi_collective_attr& attr) {
    attr = {};
    attr.op = op;
    attr.datatype = type;
    return fi_query_collective(side.domain.get(), which, &attr, 0);
}

BOOST_AUTO_TEST_CASE(what_the_query_offers_is_what_a_call_takes) {
    Crew crew{1};
    Team team = Team::of_all(crew);
    alignas(32) std::byte from[32] = {}, to[32] = {};
    std::size_t offered = 0;
    for (int op = 0; op <= FI_MSWAP; ++op)
        for (int type = 0; type <= FI_UINT128 + 1; ++type) {
            fi_collective_attr attr;
            const int answer =
                query(*crew.sides[0], FI_ALLREDUCE, static_cast<fi_op>(op), static_cast<fi_datatype>(type), attr);
            const ssize_t done = fi_allreduce(team.ep(0), from, 1, nullptr, to, nullptr, team.address(0),
                                              static_cast<fi_datatype>(type), static_cast<fi_op>(op), 0, nullptr);
            BOOST_CHECK_MESSAGE(answer == done, "op " << op << " on type " << type << ": " << answer << ", " << done);
            BOOST_TEST((answer == 0 || answer == -FI_EOPNOTSUPP));
            if (done == 0) BOOST_TEST(crew.wait(0, "allreduce").error == 0);
            offered += answer == 0;
        }
    // Ten integer types with ten operations, three real ones with seven, three complex ones with five.
    BOOST_TEST(offered == 10 * 10U + 3 * 7U + 3 * 5U);
}

BOOST_AUTO_TEST_CASE(the_query_knows_its_limits) {
    Crew crew{1};
    Side& side = *crew.sides[0];
    fi_collective_attr attr;
    BOOST_TEST(query(side, FI_BARRIER, FI_NOOP, FI_VOID, attr) == 0);
    BOOST_TEST(attr.max_members > 1000U);
    for (const auto which : {FI_BROADCAST, FI_ALLTOALL, FI_ALLGATHER, FI_SCATTER, FI_GATHER}) {
        BOOST_TEST(query(side, which, FI_NOOP, FI_LONG_DOUBLE, attr) == 0);
        BOOST_TEST(attr.datatype_attr.size == sizeof(long double));
        BOOST_TEST(attr.datatype_attr.count > 1'000'000U);
        BOOST_TEST(query(side, which, FI_NOOP, FI_VOID, attr) == -FI_EOPNOTSUPP);
    }
    for (const auto which : {FI_ALLREDUCE, FI_REDUCE, FI_REDUCE_SCATTER})
        BOOST_TEST(query(side, which, FI_NOOP, FI_UINT8, attr) == -FI_EOPNOTSUPP);
    attr.mode = 1;
    BOOST_TEST(fi_query_collective(side.domain.get(), FI_BARRIER, &attr, 0) == -FI_EINVAL);
    attr.mode = 0;
    BOOST_TEST(fi_query_collective(side.domain.get(), FI_BARRIER, &attr, FI_PEEK) == -FI_EBADFLAGS);
    BOOST_TEST(fi_query_collective(side.domain.get(), FI_BARRIER, nullptr, 0) == -FI_EINVAL);
    BOOST_TEST(fi_query_collective(side.domain.get(), static_cast<fi_collective_op>(15), &attr, 0) == -FI_EINVAL);
}

template <class T>
void check_reduction(Team& team, enum fi_datatype type, enum fi_op op, std::vector<T> in, T expected) {
    std::vector<T> out(in.size());
    team.all("fi_allreduce", [&](std::size_t rank, void* context) {
        return fi_allreduce(team.ep(rank), &in[rank], 1, nullptr, &out[rank], nullptr, team.address(rank), type, op, 0,
                            context);
    });
    for (const T& got : out) BOOST_CHECK_MESSAGE(got == expected, "operation " << op << " on datatype " << type);
}

BOOST_AUTO_TEST_CASE(each_operation_does_what_its_name_says) {
    Crew crew{3};
    Team team = Team::of_all(crew);
    check_reduction<std::int8_t>(team, FI_INT8, FI_MIN, {5, -7, 3}, -7);
    check_reduction<std::uint8_t>(team, FI_UINT8, FI_MAX, {5, 249, 3}, 249);
    check_reduction<std::uint8_t>(team, FI_UINT8, FI_SUM, {200, 100, 3}, 47); // Wraps.
    check_reduction<std::int16_t>(team, FI_INT16, FI_PROD, {-2, 3, 7}, -42);
    check_reduction<std::int32_t>(team, FI_INT32, FI_LOR, {0, 4, 0}, 1);
    check_reduction<std::int32_t>(team, FI_INT32, FI_LAND, {8, 4, 1}, 1);
    check_reduction<std::int32_t>(team, FI_INT32, FI_LXOR, {8, 4, 1}, 1);
    check_reduction<std::uint16_t>(team, FI_UINT16, FI_BOR, {1, 2, 4}, 7);
    check_reduction<std::uint32_t>(team, FI_UINT32, FI_BAND, {7, 6, 12}, 4);
    check_reduction<std::uint64_t>(team, FI_UINT64, FI_BXOR, {7, 6, 12}, 13);
    check_reduction<std::int64_t>(team, FI_INT64, FI_MAX, {-7, -6, -12}, -6);
    check_reduction<float>(team, FI_FLOAT, FI_SUM, {0.5F, 0.25F, 4}, 4.75F);
    check_reduction<double>(team, FI_DOUBLE, FI_MIN, {0.5, -0.25, 4}, -0.25);
    check_reduction<long double>(team, FI_LONG_DOUBLE, FI_PROD, {0.5L, 4, 4}, 8);
    struct Complex {
        double real, imaginary;
        bool operator==(const Complex&) const = default;
    };
    check_reduction<Complex>(team, FI_DOUBLE_COMPLEX, FI_PROD, {{0, 1}, {0, 1}, {2, 0}}, {-2, 0});
    struct Wide {
        std::uint64_t low, high;
        bool operator==(const Wide&) const = default;
    };
    check_reduction<Wide>(team, FI_UINT128, FI_SUM, {{~std::uint64_t{0}, 0}, {1, 0}, {5, 1}}, {5, 2});
}

// A caller may give one buffer for both.
BOOST_DATA_TEST_CASE(a_collective_may_work_in_place, data::make({std::size_t{3}, std::size_t{20'000}}), words) {
    constexpr std::size_t size = 3;
    Crew crew{size};
    Team team = Team::of_all(crew);
    using Words = std::vector<std::uint64_t>;
    std::vector<Words> buffers(size);
    const auto fill = [&] {
        for (std::size_t rank = 0; rank < size; ++rank) {
            buffers[rank].resize(words * size);
            std::iota(buffers[rank].begin(), buffers[rank].end(), rank * 1'000'000);
        }
    };
    fill();
    team.all("fi_allreduce", [&](std::size_t rank, void* context) {
        return fi_allreduce(team.ep(rank), buffers[rank].data(), words * size, nullptr, buffers[rank].data(), nullptr,
                            team.address(rank), FI_UINT64, FI_SUM, 0, context);
    });
    for (const Words& got : buffers)
        for (std::size_t k = 0; k < got.size(); ++k) BOOST_REQUIRE_EQUAL(got[k], 3 * k + 3'000'000);
    fill();
    team.all("fi_alltoall", [&](std::size_t rank, void* context) {
        return fi_alltoall(team.ep(rank), buffers[rank].data(), words, nullptr, buffers[rank].data(), nullptr,
                           team.address(rank), FI_UINT64, 0, context);
    });
    for (std::size_t rank = 0; rank < size; ++rank)
        for (std::size_t k = 0; k < words * size; ++k)
            BOOST_REQUIRE_EQUAL(buffers[rank][k], k / words * 1'000'000 + rank * words + k % words);
    fill();
    team.all("fi_reduce_scatter", [&](std::size_t rank, void* context) {
        return fi_reduce_scatter(team.ep(rank), buffers[rank].data(), words, nullptr, buffers[rank].data(), nullptr,
                                 team.address(rank), FI_UINT64, FI_SUM, 0, context);
    });
    for (std::size_t rank = 0; rank < size; ++rank)
        for (std::size_t k = 0; k < words; ++k)
            BOOST_REQUIRE_EQUAL(buffers[rank][k], 3 * (rank * words + k) + 3'000'000);
}

} // namespace
