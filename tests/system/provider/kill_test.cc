// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// kill -9 at random moments, again and again: of one end of a conversation, or of the daemon. Whoever survives ends by
// itself, soon, with an error and never by a signal; the daemon holds no more afterwards than before; and the next
// conversation works. NVLF_KILL_ROUNDS=100 makes a campaign of it.
//
// Each case comes twice. With the stock fi_pingpong, whose control channel over TCP also notices the end of its peer, and
// with pingpong_peer, which has nothing but the data path: there the delay is that of the error completion, from the
// instant before the kill.
#define BOOST_TEST_MODULE kill
#include <boost/test/unit_test.hpp>

#include "processes.hpp"
#include "support/fabric_daemon.hpp"
#include "support/resources.hpp"

#include <csignal>
#include <fstream>
#include <functional>

using namespace nvlf::test;

namespace {

// A survivor's end, process exit and all, on two processors that others use, too.
std::chrono::milliseconds survivor_bound() { return instrumented() ? 10s : 1s; }

// Of every kind that the provider treats differently: in the slot, in several, large.
const std::vector<std::string> sizes{"64", "1024", "16384", "262144", "1048576"};

bool is_an_error(const ExitStatus& status) { return status.kind == ExitStatus::Kind::Exited && status.value != 0; }

struct Campaign {
    explicit Campaign(const char* what) : name{what}, moments{what} {}

    // The survivor must end in time, and with an error.
    void expect_end(ChildProcess& survivor, Clock::time_point killed, const std::string& who) {
        const auto status = survivor.wait(plenty);
        const auto delay = Clock::now() - killed;
        // One that hangs would hang in each round.
        BOOST_TEST_REQUIRE(!status.running(), who << " does not end\n" << survivor.output());
        delays.add(delay);
        BOOST_TEST(is_an_error(status), who << ": " << status << '\n' << survivor.output());
        BOOST_TEST((delay < survivor_bound()), who << " took " << delay.count() / 1'000'000 << " ms to end");
    }

    // The same, and when it was that its data path said so.
    void expect_error_completion(ChildProcess& survivor, Clock::time_point killed, const std::string& who) {
        expect_end(survivor, killed, who);
        BOOST_TEST(survivor.wait(0ms).exited_with(3), who << '\n' << survivor.output()); // "Gone", nothing worse.
        if (const auto told = said_at(survivor, "gone")) completions.add(*told - killed);
    }

    void expect_what_was_before() {
        const auto same = [&] {
            return open_descriptors(daemon.process().pid()) == descriptors &&
                   resident_shared_kib(daemon.process().pid()) <= shared_kib;
        };
        BOOST_TEST(eventually(same, plenty), "nvlfd has " << open_descriptors(daemon.process().pid())
                                                          << " descriptors instead of " << descriptors << ", "
                                                          << resident_shared_kib(daemon.process().pid())
                                                          << " KiB shared instead of " << shared_kib);
        BOOST_TEST(shm_files() == shm, boost::test_tools::per_element());
    }

    // Warm: what the daemon makes once is no leak.
    void note_what_is() {
        BOOST_TEST_REQUIRE(
            eventually([&] { return open_descriptors(daemon.process().pid()) <= idle_descriptors; }, plenty));
        descriptors = open_descriptors(daemon.process().pid());
        shared_kib = resident_shared_kib(daemon.process().pid());
        shm = shm_files();
    }

    void print() {
        delays.print((name + ", end of the survivor").c_str());
        if (completions.percentile(100) > 0) completions.print((name + ", error completion").c_str());
        std::cout << name << ": nvlfd " << descriptors << " descriptors and " << shared_kib
                  << " KiB of shared memory, now " << open_descriptors(daemon.process().pid()) << " and "
                  << resident_shared_kib(daemon.process().pid()) << '\n';
    }

    std::string name;
    Moments moments;
    FabricDaemon daemon{};
    Place place{daemon.dir(), daemon.fabric()};
    std::size_t idle_descriptors = open_descriptors(daemon.process().pid());
    std::size_t descriptors = 0;
    std::uint64_t shared_kib = 0;
    std::set<std::string> shm{};
    Delays delays{};      // From the kill to the end of the process.
    Delays completions{}; // From the kill to the error completion.
};

void expect_good_pingpong(const Place& place) {
    StockPingpong pair{place, place, {"-c", "-S", "4096", "-I", "10"}};
    const auto client = pair.client.wait(plenty);
    const auto server = pair.server.wait(plenty);
    BOOST_TEST(client.exited_with(0), client << '\n' << pair.client.output());
    BOOST_TEST(server.exited_with(0), server << '\n' << pair.server.output());
}

void expect_good_call(const Place& place) {
    auto server = start_peer(place, {"serve", "good"});
    BOOST_TEST_REQUIRE(server.wait_for_output("ready", plenty), server.output());
    auto client = start_peer(place, {"call", "good", "4096", "10"});
    const auto status = client.wait(plenty);
    BOOST_TEST(status.exited_with(0), status << '\n' << client.output() << server.output());
}

// Whom nobody has spoken to yet, nobody misses: until its first message, the other end knows nothing of a client.
bool has_a_channel(const ChildProcess& process) {
    std::ifstream maps{"/proc/" + std::to_string(process.pid()) + "/maps"};
    for (std::string line; std::getline(maps, line);)
        if (line.find("memfd:nvlf-channel") != std::string::npos) return true;
    return false;
}

// A conversation without an end, and who of it is killed.
enum class Victim { Client, Server, Daemon };

void kill_in_stock_pingpongs(const char* name, Victim victim) {
    if (!have_fi_pingpong()) {
        BOOST_TEST_MESSAGE("skipped: fi_pingpong is missing; on Debian: apt-get install libfabric-bin");
        return;
    }
    Campaign campaign{name};
    expect_good_pingpong(campaign.place);
    campaign.note_what_is();
    for (int round = 0; round < kill_rounds(); ++round) {
        const auto& size = sizes[campaign.moments.below(static_cast<std::uint32_t>(sizes.size()))];
        BOOST_TEST_CONTEXT("round " << round << ", messages of " << size) {
            StockPingpong pair{campaign.place, campaign.place, {"-c", "-S", size, "-I", "1000000000"}};
            BOOST_TEST_REQUIRE(pair.connected(), pair.client.output() << pair.server.output());
            // In every other round from the opening of the fabric on, else well within the conversation.
            const bool within = round % 2 == 0;
            if (within) BOOST_TEST_REQUIRE(eventually([&] { return has_a_channel(pair.client); }, plenty));
            campaign.moments.run_for_a_while(pair.client, within ? 20ms : 500ms);
            const bool met = has_a_channel(pair.client); // If not by now, it may be by the time it dies.
            const auto killed = Clock::now();
            switch (victim) {
            case Victim::Client: pair.client.kill(); break;
            case Victim::Server: pair.server.kill(); break;
            case Victim::Daemon: campaign.daemon.kill(); break;
            }
            if (victim == Victim::Daemon || (victim == Victim::Client && met))
                campaign.expect_end(pair.server, killed, "server");
            if (victim != Victim::Client) campaign.expect_end(pair.client, killed, "client");
        }
        if (victim == Victim::Daemon) {
            campaign.daemon.start(); // Over what the killed one left in the directory.
            if (round == 0) expect_good_pingpong(campaign.place);
        }
    }
    expect_good_pingpong(campaign.place);
    campaign.expect_what_was_before();
    campaign.print();
}

void kill_in_bare_conversations(const char* name, Victim victim) {
    Campaign campaign{name};
    expect_good_call(campaign.place);
    campaign.note_what_is();
    for (int round = 0; round < kill_rounds(); ++round) {
        const auto& size = sizes[campaign.moments.below(static_cast<std::uint32_t>(sizes.size()))];
        BOOST_TEST_CONTEXT("round " << round << ", messages of " << size) {
            auto server = start_peer(campaign.place, {"serve", "s"});
            BOOST_TEST_REQUIRE(server.wait_for_output("ready", plenty), server.output());
            auto client = start_peer(campaign.place, {"call", "s", size, "0"});
            BOOST_TEST_REQUIRE(client.wait_for_output("running", plenty), client.output() << server.output());
            campaign.moments.run_for_a_while(client, 20ms);
            const auto killed = Clock::now();
            switch (victim) {
            case Victim::Client: client.signal(SIGKILL); break;
            case Victim::Server: server.signal(SIGKILL); break;
            case Victim::Daemon: campaign.daemon.kill(); break;
            }
            if (victim != Victim::Server) campaign.expect_error_completion(server, killed, "server");
            if (victim != Victim::Client) campaign.expect_error_completion(client, killed, "client");
        }
        if (victim == Victim::Daemon) campaign.daemon.start();
    }
    expect_good_call(campaign.place);
    campaign.expect_what_was_before();
    campaign.print();
    const auto expected = static_cast<std::size_t>(kill_rounds()) * (victim == Victim::Daemon ? 2 : 1);
    BOOST_TEST(campaign.completions.count() == expected); // Each by its data path, not by another way out.
}

} // namespace

BOOST_AUTO_TEST_CASE(server_of_a_killed_fi_pingpong_client_ends_with_an_error) {
    kill_in_stock_pingpongs("fi_pingpong, client killed", Victim::Client);
}

BOOST_AUTO_TEST_CASE(client_of_a_killed_fi_pingpong_server_ends_with_an_error) {
    kill_in_stock_pingpongs("fi_pingpong, server killed", Victim::Server);
}

BOOST_AUTO_TEST_CASE(both_ends_of_fi_pingpong_end_with_an_error_when_the_daemon_is_killed) {
    kill_in_stock_pingpongs("fi_pingpong, nvlfd killed", Victim::Daemon);
}

BOOST_AUTO_TEST_CASE(server_of_a_killed_client_gets_an_error_completion) {
    kill_in_bare_conversations("data path, client killed", Victim::Client);
}

BOOST_AUTO_TEST_CASE(client_of_a_killed_server_gets_an_error_completion) {
    kill_in_bare_conversations("data path, server killed", Victim::Server);
}

BOOST_AUTO_TEST_CASE(both_ends_get_an_error_completion_when_the_daemon_is_killed) {
    kill_in_bare_conversations("data path, nvlfd killed", Victim::Daemon);
}

BOOST_AUTO_TEST_CASE(nvlf_up_works_over_what_a_killed_daemon_left) {
    const TempDir dir;
    const Place place{dir.path(), "again"};
    for (int round = 0; round < 3; ++round) {
        const auto up = place.nvlf({"up"});
        BOOST_TEST_REQUIRE(up.status.exited_with(0), up.output);
        expect_good_call(place);
        const auto at = up.output.find("nvlfd ");
        BOOST_TEST_REQUIRE(at != std::string::npos, up.output);
        const auto pid = static_cast<pid_t>(std::atoi(up.output.c_str() + at + 6));
        BOOST_TEST_REQUIRE(pid > 1, up.output);
        BOOST_TEST(::kill(pid, SIGKILL) == 0); // Not our child: `nvlf up` left it in the background.
        BOOST_TEST_REQUIRE(eventually([&] { return processes_named("nvlfd").count(pid) == 0; }, plenty));
        BOOST_TEST(!place.nvlf({"status"}).status.exited_with(0));
    }
    const auto up = place.nvlf({"up"});
    BOOST_TEST(up.status.exited_with(0), up.output);
    const auto down = place.nvlf({"down"});
    BOOST_TEST(down.status.exited_with(0), down.output);
    BOOST_TEST(std::filesystem::is_empty(dir.path()));
}
