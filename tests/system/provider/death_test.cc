// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A peer that dies, goes on being sent to, and comes back under its name.
#define BOOST_TEST_MODULE death
#include <boost/test/unit_test.hpp>

#include "processes.hpp"
#include "support/fabric_daemon.hpp"

#include <csignal>

using namespace nvlf::test;

namespace {

// Aimed at from the instant that the daemon sees a death; here from the kill, on a machine that does other things, too.
std::chrono::milliseconds completion_bound() { return instrumented() ? 5s : 500ms; }

struct Fixture {
    FabricDaemon daemon{};
    Place place{daemon.dir(), daemon.fabric()};

    ChildProcess server(const std::string& name) {
        auto process = start_peer(place, {"serve", name});
        BOOST_TEST_REQUIRE(process.wait_for_output("ready", plenty), process.output());
        return process;
    }
};

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
    return found;
}

} // namespace

BOOST_FIXTURE_TEST_CASE(death_of_a_peer_is_an_error_completion_at_once, Fixture) {
    Delays delays;
    const int rounds = std::max(kill_rounds(), 10);
    for (int i = 0; i < rounds; ++i) {
        auto peer = server("peer");
        auto sleeper = start_peer(place, {"sleep-sread", "me", "peer"});
        BOOST_TEST_REQUIRE(sleeper.wait_for_output("sleeping", plenty), sleeper.output());
        const auto killed = Clock::now();
        peer.signal(SIGKILL);
        BOOST_TEST(sleeper.wait(plenty).exited_with(3), sleeper.output());
        const auto told = said_at(sleeper, "gone");
        BOOST_TEST_REQUIRE(told.has_value(), sleeper.output());
        delays.add(*told - killed);
    }
    delays.print("kill of the only peer to the error completion of a sleeper");
    BOOST_TEST(delays.percentile(50) < static_cast<double>(completion_bound().count()));
}

BOOST_FIXTURE_TEST_CASE(sender_to_a_dead_peer_gets_errors_not_eagain_for_ever, Fixture) {
    auto peer = server("peer");
    auto sender = start_peer(place, {"insist", "peer"}, {"FI_NVLF_CONNECT_TIMEOUT_MS=300"});
    BOOST_TEST_REQUIRE(sender.wait_for_output("delivered", plenty), sender.output());
    peer.kill();
    // Nobody has the name now: after the time that one may take to come, that is an error, too.
    BOOST_TEST(sender.wait_for_output(std::string{"refused: "}, plenty), sender.output());
    BOOST_TEST(eventually([&] { return count(sender.output(), "No route to host") > 0; }, plenty), sender.output());
    BOOST_TEST(sender.wait(0ms).running(), sender.output());
}

BOOST_FIXTURE_TEST_CASE(peer_that_comes_back_under_its_name_is_reached_by_the_same_address, Fixture) {
    auto first = server("peer");
    auto sender = start_peer(place, {"insist", "peer"});
    BOOST_TEST_REQUIRE(sender.wait_for_output("delivered", plenty), sender.output());
    for (int i = 1; i <= 3; ++i) {
        first.kill();
        BOOST_TEST_REQUIRE(
            eventually([&] { return count(sender.output(), "refused") >= static_cast<std::size_t>(i); }, plenty),
            sender.output());
        const auto before = count(sender.output(), "delivered");
        first = server("peer");
        BOOST_TEST_REQUIRE(eventually([&] { return count(sender.output(), "delivered") > before; }, plenty),
                           sender.output());
    }
}

BOOST_FIXTURE_TEST_CASE(death_of_one_peer_leaves_the_conversations_with_others_alone, Fixture) {
    auto one = server("one"), other = server("other");
    auto to_one = start_peer(place, {"call", "one", "4096", "0"});
    auto to_other = start_peer(place, {"call", "other", "4096", "2000"});
    BOOST_TEST_REQUIRE(to_one.wait_for_output("running", plenty), to_one.output());
    one.kill();
    BOOST_TEST(to_one.wait(plenty).exited_with(3), to_one.output());
    BOOST_TEST(to_other.wait(plenty).exited_with(0), to_other.output());
}
