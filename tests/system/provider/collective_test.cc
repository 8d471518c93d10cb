// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Processes that form a group: collectives come out right, and the death of one ends them for all the others at once.
#define BOOST_TEST_MODULE collective
#include <boost/test/unit_test.hpp>

#include "processes.hpp"
#include "support/fabric_daemon.hpp"

#include <csignal>

using namespace nvlf::test;

namespace {

// As for the death of a peer to whom one talks.
std::chrono::milliseconds completion_bound() { return instrumented() ? 5s : 500ms; }

struct Fixture {
    FabricDaemon daemon{};
    Place place{daemon.dir(), daemon.fabric()};

    std::vector<ChildProcess> start(std::size_t count, std::size_t rounds, const std::vector<std::string>& more = {}) {
        std::vector<ChildProcess> members;
        for (std::size_t i = 0; i < count; ++i)
            members.push_back(start_peer(place, {"m", std::to_string(count), std::to_string(i), std::to_string(rounds)},
                                         more, peer_program("collective_peer")));
        return members;
    }

    // Members come when they come: each joins addresses that nobody may have yet.
    void come_out_right(std::size_t count, std::size_t rounds, const std::vector<std::string>& more = {}) {
        auto members = start(count, rounds, more);
        for (auto& member : members) {
            const auto status = member.wait(2 * plenty);
            BOOST_TEST(status.exited_with(0), status << '\n' << member.output());
        }
    }
};

} // namespace

BOOST_FIXTURE_TEST_CASE(collectives_of_four_processes_come_out_right, Fixture) { come_out_right(4, 20); }
BOOST_FIXTURE_TEST_CASE(collectives_of_seven_processes_come_out_right, Fixture) { come_out_right(7, 5); }
BOOST_FIXTURE_TEST_CASE(collectives_come_out_right_where_nobody_reads_anothers_memory, Fixture) {
    come_out_right(4, 5, {"FI_NVLF_CMA=off"});
}

BOOST_FIXTURE_TEST_CASE(the_death_of_a_member_ends_collectives_for_all_others_at_once, Fixture) {
    constexpr std::size_t count = 5;
    Delays delays;
    for (int round = 0; round < std::max(kill_rounds(), 5); ++round) {
        auto members = start(count, 0);
        for (auto& member : members) BOOST_TEST_REQUIRE(member.wait_for_output("running", plenty), member.output());
        const auto victim = static_cast<std::size_t>(round) % count;
        const auto killed = Clock::now();
        members[victim].signal(SIGKILL);
        for (std::size_t i = 0; i < count; ++i) {
            if (i == victim) continue;
            const auto status = members[i].wait(plenty);
            BOOST_TEST(status.exited_with(3), status << '\n' << members[i].output());
            const auto told = said_at(members[i], "gone");
            BOOST_TEST_REQUIRE(told.has_value(), members[i].output());
            delays.add(*told - killed);
        }
    }
    delays.print("kill of a member to the failed collective of each other one");
    BOOST_TEST(delays.percentile(50) < static_cast<double>(completion_bound().count()));
}
