// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Collectives of which a member dies, leaves, or disagrees: all others hear, and nobody waits on.
#define BOOST_TEST_MODULE provider_collective_failure
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>

#include "conformance/provider/crew.hpp"

using namespace nvlf::test;
namespace data = boost::unit_test::data;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

enum class How { endpoint_closed, group_closed };

using Words = std::vector<std::uint64_t>;
using Call = std::function<ssize_t(Team&, std::size_t rank, Words& in, Words& out)>;

// Of each kind in which everybody waits for everybody.
const std::vector<std::pair<const char*, Call>> waiting_for_all{
    {"barrier",
     [](Team& t, std::size_t rank, Words&, Words&) { return fi_barrier(t.ep(rank), t.address(rank), nullptr); }},
    {"allreduce",
     [](Team& t, std::size_t rank, Words& in, Words& out) {
         return fi_allreduce(t.ep(rank), in.data(), in.size(), nullptr, out.data(), nullptr, t.address(rank), FI_UINT64,
                             FI_SUM, 0, nullptr);
     }},
    {"allgather",
     [](Team& t, std::size_t rank, Words& in, Words& out) {
         return fi_allgather(t.ep(rank), in.data(), in.size(), nullptr, out.data(), nullptr, t.address(rank), FI_UINT64,
                             0, nullptr);
     }},
    {"alltoall",
     [](Team& t, std::size_t rank, Words& in, Words& out) {
         return fi_alltoall(t.ep(rank), in.data(), in.size() / t.size(), nullptr, out.data(), nullptr, t.address(rank),
                            FI_UINT64, 0, nullptr);
     }},
    {"reduce_scatter",
     [](Team& t, std::size_t rank, Words& in, Words& out) {
         return fi_reduce_scatter(t.ep(rank), in.data(), in.size() / t.size(), nullptr, out.data(), nullptr,
                                  t.address(rank), FI_UINT64, FI_SUM, 0, nullptr);
     }},
};

// All but the last call, the last goes: everybody hears, in every collective, also who has nothing to do with it directly.
void all_others_fail_when_one_goes(How how, std::size_t size, std::size_t words) {
    for (const auto& [name, call] : waiting_for_all) {
        Crew crew{size};
        Team team = Team::of_all(crew);
        std::vector<std::vector<std::uint64_t>> in(size, std::vector<std::uint64_t>(words));
        std::vector<std::vector<std::uint64_t>> out(size, std::vector<std::uint64_t>(words * size));
        for (std::size_t rank = 0; rank + 1 < size; ++rank) check(call(team, rank, in[rank], out[rank]), name);
        for (int i = 0; i < 20; ++i) crew.drive();
        team.mcs.back().reset();
        if (how == How::endpoint_closed) crew.sides.back().reset();
        for (std::size_t rank = 0; rank + 1 < size; ++rank) {
            const Event event = crew.wait(rank, name);
            BOOST_CHECK_MESSAGE(event.error == FI_ECONNRESET || event.error == FI_ECONNABORTED,
                                name << " at rank " << rank << ": " << fi_strerror(event.error));
            BOOST_TEST(event.entry.flags == FI_COLLECTIVE);
        }
        // What comes afterwards fails as well, at once and everywhere.
        for (std::size_t rank = 0; rank + 1 < size; ++rank) {
            check(call(team, rank, in[rank], out[rank]), name);
            BOOST_TEST(crew.wait(rank, name).error != 0);
        }
    }
}

BOOST_DATA_TEST_CASE(a_member_that_is_closed_fails_the_collective_for_all,
                     data::make({std::size_t{2}, std::size_t{3}, std::size_t{5}, std::size_t{8}}) *
                         data::make({std::size_t{1}, std::size_t{40'000}}),
                     size, words) {
    all_others_fail_when_one_goes(How::endpoint_closed, size, words);
}

BOOST_DATA_TEST_CASE(a_member_that_leaves_the_group_fails_the_collective_for_all,
                     data::make({std::size_t{2}, std::size_t{5}}) * data::make({std::size_t{1}, std::size_t{40'000}}),
                     size, words) {
    all_others_fail_when_one_goes(How::group_closed, size, words);
}

BOOST_AUTO_TEST_CASE(a_member_that_leaves_in_the_middle_cancels_its_own_and_fails_the_others) {
    Crew crew{3};
    Team team = Team::of_all(crew);
    for (std::size_t rank = 0; rank < 2; ++rank)
        check(fi_barrier(team.ep(rank), team.address(rank), nullptr), "fi_barrier");
    team.mcs[0].reset();
    BOOST_TEST(crew.wait(0, "own").error == FI_ECANCELED);
    BOOST_TEST(crew.wait(1, "other").error == FI_ECANCELED);
    check(fi_barrier(team.ep(2), team.address(2), nullptr), "fi_barrier");
    BOOST_TEST(crew.wait(2, "late").error == FI_ECANCELED);
}

// Whoever has done its part may go: the others end well.
BOOST_AUTO_TEST_CASE(a_member_may_close_when_its_part_is_done) {
    for (int round = 0; round < 20; ++round) {
        Crew crew{3};
        Team team = Team::of_all(crew);
        for (std::size_t rank = 0; rank < 3; ++rank)
            check(fi_barrier(team.ep(rank), team.address(rank), nullptr), "fi_barrier");
        const auto first = static_cast<std::size_t>(round % 3);
        std::optional<Event> event;
        crew.until("barrier", [&] { return (event = poll(crew.sides[first]->cq.get())).has_value(); });
        BOOST_TEST(event->error == 0);
        team.mcs[first].reset();
        crew.sides[first].reset();
        for (std::size_t rank = 0; rank < 3; ++rank)
            if (rank != first) BOOST_TEST(crew.wait(rank, "barrier").error == 0);
    }
}

// Large data is fetched from where it lies, and the caller may change it once it heard of the failure.
BOOST_AUTO_TEST_CASE(a_failure_is_reported_when_nobody_reads_the_buffer_any_more) {
    constexpr std::size_t words = 100'000;
    Crew crew{3};
    Team team = Team::of_all(crew);
    std::vector<std::uint64_t> sent(3 * words, 7), got(words);
    check(fi_scatter(team.ep(0), sent.data(), words, nullptr, got.data(), nullptr, team.address(0), 0, FI_UINT64, 0,
                     nullptr),
          "fi_scatter");
    for (int i = 0; i < 20; ++i) crew.drive();
    team.mcs[2].reset();
    crew.sides[2].reset();
    // Rank 1 has not called, and may call as long as it does not know.
    for (int i = 0; i < 100; ++i) BOOST_TEST(!poll(crew.sides[0]->cq.get()).has_value());
    BOOST_TEST(crew.wait(0, "root").error == FI_ECONNRESET); // Which drives rank 1.
    std::fill(sent.begin(), sent.end(), 8);
    check(
        fi_scatter(team.ep(1), nullptr, words, nullptr, got.data(), nullptr, team.address(1), 0, FI_UINT64, 0, nullptr),
        "fi_scatter");
    BOOST_TEST(crew.wait(1, "late").error == FI_ECONNRESET);
}

BOOST_AUTO_TEST_CASE(a_join_fails_for_all_when_a_member_is_gone) {
    Crew crew{4};
    std::vector<McPtr> groups(3);
    for (std::size_t i = 0; i < 3; ++i) {
        AvSetPtr set;
        check(open_set(*crew.sides[i], set, {3, 2, 1, 0}), "fi_av_set");
        check(join(*crew.sides[i], set, groups[i]), "fi_join_collective");
    }
    crew.sides[3].reset();
    for (std::size_t i = 0; i < 3; ++i) {
        std::optional<JoinEvent> event;
        crew.until("failed join", [&] { return (event = poll_join(*crew.sides[i])).has_value(); });
        BOOST_TEST(event->error != 0);
        BOOST_TEST(event->group == &groups[i]->fid);
        BOOST_TEST(fi_barrier(crew.sides[i]->ep.get(), fi_mc_addr(groups[i].get()), nullptr) == -FI_EOPBADSTATE);
    }
}

BOOST_AUTO_TEST_CASE(members_that_disagree_about_the_size_fail) {
    Crew crew{2};
    Team team = Team::of_all(crew);
    std::vector<std::uint64_t> in(100'000), out(100'000);
    check(fi_allreduce(team.ep(0), in.data(), 100'000, nullptr, out.data(), nullptr, team.address(0), FI_UINT64, FI_SUM,
                       0, nullptr),
          "fi_allreduce");
    check(fi_allreduce(team.ep(1), in.data(), 1, nullptr, out.data(), nullptr, team.address(1), FI_UINT64, FI_SUM, 0,
                       nullptr),
          "fi_allreduce");
    BOOST_TEST(crew.wait(0, "larger").error == FI_ETRUNC);
    BOOST_TEST(crew.wait(1, "smaller").error == FI_ETRUNC);
}

// What a failed collective had announced is no operation that a fence would wait for.
BOOST_AUTO_TEST_CASE(a_fence_does_not_wait_for_a_collective_that_has_failed) {
    Crew crew{2, {.caps = FI_MSG | FI_COLLECTIVE | FI_FENCE}};
    Team team = Team::of_all(crew);
    std::vector<std::uint64_t> in(100'000), out(100'000);
    check(fi_allreduce(team.ep(0), in.data(), 100'000, nullptr, out.data(), nullptr, team.address(0), FI_UINT64, FI_SUM,
                       0, nullptr),
          "fi_allreduce");
    check(fi_allreduce(team.ep(1), in.data(), 100'000, nullptr, out.data(), nullptr, team.address(1), FI_UINT64, FI_SUM,
                       0, nullptr),
          "fi_allreduce");
    team.mcs[1].reset(); // It takes back what it wanted of the other, who has announced it.
    BOOST_TEST(crew.wait(0, "the collective of one who has left").error == FI_ECANCELED);
    BOOST_TEST(crew.wait(1, "its own").error == FI_ECANCELED);
    std::uint64_t word = 42, got = 0;
    check(fi_recv(team.ep(1), &got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    iovec iov{&word, sizeof word};
    const fi_msg msg{&iov, nullptr, 1, 1, nullptr, 0};
    check(fi_sendmsg(team.ep(0), &msg, FI_FENCE), "fi_sendmsg");
    BOOST_TEST(crew.wait(1, "what comes after the fence").error == 0);
    BOOST_TEST(got == 42U);
}

BOOST_AUTO_TEST_CASE(an_endpoint_outlives_the_groups_that_it_is_in) {
    Crew crew{1};
    Team team = Team::of_all(crew);
    BOOST_TEST(fi_close(&crew.sides[0]->ep->fid) == -FI_EBUSY);
    team.mcs.clear();
    BOOST_TEST(fi_close(&crew.sides[0]->ep.release()->fid) == 0);
}

} // namespace
