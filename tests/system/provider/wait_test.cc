// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A process that sleeps on its completion queue, in poll() on the queue's descriptor or in fi_cq_sread: what wakes it, and
// that it costs no processor time until then.
#define BOOST_TEST_MODULE wait
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "processes.hpp"
#include "support/fabric_daemon.hpp"

#include <csignal>

using namespace nvlf::test;

namespace {

const std::vector<std::string> ways{"sleep-fd", "sleep-sread"};

// utime + stime, in ticks of 10 ms, and the number of times it gave the processor up.
struct Effort {
    long ticks = 0;
    long switches = 0;
};
Effort effort(pid_t pid) {
    Effort result;
    const auto process = "/proc/" + std::to_string(pid);
    std::ifstream stat{process + "/stat"};
    std::string text{std::istreambuf_iterator<char>{stat}, {}};
    std::istringstream fields{text.substr(text.rfind(')') + 1)}; // The name before may hold anything.
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    long user = 0, system = 0;
    fields >> user >> system;
    result.ticks = user + system;
    std::ifstream status{process + "/status"};
    for (std::string line; std::getline(status, line);)
        if (line.rfind("voluntary_ctxt_switches:", 0) == 0) result.switches = std::stol(line.substr(24));
    return result;
}

// Asleep by the kernel's own word, not on the way there.
bool sleeps(pid_t pid) {
    std::ifstream stat{"/proc/" + std::to_string(pid) + "/stat"};
    const std::string text{std::istreambuf_iterator<char>{stat}, {}};
    const auto at = text.rfind(") ");
    return at != std::string::npos && text.compare(at + 2, 1, "S") == 0;
}

struct Sleeper {
    Sleeper(const Place& place, const std::string& way, const std::vector<std::string>& more = {})
        : process{start(place, way, more)} {
        BOOST_TEST_REQUIRE(process.wait_for_output("sleeping", plenty), process.output());
        BOOST_TEST_REQUIRE(eventually([&] { return sleeps(process.pid()); }, plenty));
    }
    // When it said so; fails when it does not.
    Clock::time_point wakes(const char* words) {
        BOOST_TEST_REQUIRE(process.wait_for_output(words, plenty), process.output());
        const auto at = said_at(process, words);
        BOOST_TEST_REQUIRE(at.has_value());
        return *at;
    }
    ChildProcess process;

private:
    static ChildProcess start(const Place& place, const std::string& way, const std::vector<std::string>& more) {
        std::vector<std::string> arguments{way, "sleeper"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return start_peer(place, std::move(arguments));
    }
};

void print(const char* what, const std::string& way, Clock::duration delay) {
    std::cout << way << ": " << what << ": " << std::chrono::duration<double, std::milli>{delay}.count() << " ms\n";
}

struct Fixture {
    FabricDaemon daemon{};
    Place place{daemon.dir(), daemon.fabric()};
};

} // namespace

BOOST_DATA_TEST_CASE_F(Fixture, message_wakes_a_sleeper, boost::unit_test::data::make(ways), way) {
    Sleeper sleeper{place, way};
    // Its first message is a greeting, the second one the sleeper leaves without an answer: both wake.
    auto caller = start_peer(place, {"insist", "sleeper"});
    sleeper.wakes("woken");
    caller.kill();
    BOOST_TEST(sleeper.process.wait(plenty).exited_with(3), sleeper.process.output()); // And then that the caller died.
}

BOOST_DATA_TEST_CASE_F(Fixture, death_of_the_only_peer_wakes_a_sleeper, boost::unit_test::data::make(ways), way) {
    auto peer = start_peer(place, {"serve", "peer"});
    BOOST_TEST_REQUIRE(peer.wait_for_output("ready", plenty), peer.output());
    Sleeper sleeper{place, way, {"peer"}};
    const auto killed = Clock::now();
    peer.signal(SIGKILL);
    print("woken by the death of its peer", way, sleeper.wakes("gone") - killed);
    BOOST_TEST(sleeper.process.wait(plenty).exited_with(3), sleeper.process.output());
}

BOOST_DATA_TEST_CASE_F(Fixture, death_of_the_daemon_wakes_a_sleeper, boost::unit_test::data::make(ways), way) {
    Sleeper sleeper{place, way};
    const auto killed = Clock::now();
    daemon.kill();
    print("woken by the death of nvlfd", way, sleeper.wakes("gone") - killed);
    BOOST_TEST(sleeper.process.wait(plenty).exited_with(3), sleeper.process.output());
}

BOOST_DATA_TEST_CASE_F(Fixture, sleeper_costs_no_processor_time, boost::unit_test::data::make(ways), way) {
    auto peer = start_peer(place, {"serve", "peer"});
    BOOST_TEST_REQUIRE(peer.wait_for_output("ready", plenty), peer.output());
    Sleeper sleeper{place, way, {"peer"}};
    const auto before = effort(sleeper.process.pid());
    // Nothing is to happen for a while; an end of the process would be an early one.
    BOOST_TEST(sleeper.process.wait(1s).running(), sleeper.process.output());
    const auto after = effort(sleeper.process.pid());
    std::cout << way << ": asleep for 1 s: " << (after.ticks - before.ticks) * 10 << " ms of processor time, "
              << after.switches - before.switches << " wakes\n";
    BOOST_TEST(after.ticks - before.ticks <= 1);
    BOOST_TEST(after.switches - before.switches <= 2);
}
