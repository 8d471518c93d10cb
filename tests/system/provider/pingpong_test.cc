// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The stock fi_pingpong, which knows nothing of us, on fabrics that are there, that come by themselves, that lie side by
// side, and that belong to different users.
#define BOOST_TEST_MODULE pingpong
#include <boost/test/unit_test.hpp>

#include "processes.hpp"
#include "support/fabric_daemon.hpp"
#include "support/resources.hpp"

#include <set>

#include <sys/stat.h>

using namespace nvlf::test;

namespace {

// Sizes of every kind, each byte checked.
const std::vector<std::string> everything{"-c", "-S", "all", "-I", "5"};

boost::test_tools::assertion_result fi_pingpong_is_installed(boost::unit_test::test_unit_id) {
    boost::test_tools::assertion_result result{have_fi_pingpong()};
    result.message() << "fi_pingpong is missing; on Debian: apt-get install libfabric-bin";
    return result;
}

// Not in a chroot, nor in most containers.
boost::test_tools::assertion_result we_may_unshare(boost::unit_test::test_unit_id) {
    const auto tried = run({"unshare", "--user", "--map-root-user", "--pid", "--fork", "--ipc", "true"}, plenty);
    boost::test_tools::assertion_result result{tried.status.exited_with(0)};
    result.message() << "namespaces of one's own are not permitted here: " << tried.output;
    return result;
}

boost::test_tools::assertion_result we_are_root(boost::unit_test::test_unit_id) {
    boost::test_tools::assertion_result result{::geteuid() == 0};
    result.message() << "only root can be two users";
    return result;
}

void expect_success(StockPingpong& pair) {
    const auto client = pair.client.wait(plenty);
    const auto server = pair.server.wait(plenty);
    BOOST_TEST(client.exited_with(0), "client: " << client << '\n' << pair.client.output());
    BOOST_TEST(server.exited_with(0), "server: " << server << '\n' << pair.server.output());
    // Its table has a line a size: 0 bytes to 4 MiB and beyond.
    BOOST_TEST(pair.client.output().find("4m") != std::string::npos, pair.client.output());
}

bool is_empty(const std::string& dir) { return std::filesystem::is_empty(dir); }

} // namespace

BOOST_TEST_DECORATOR(*boost::unit_test::precondition(fi_pingpong_is_installed))
BOOST_AUTO_TEST_SUITE(pingpong)

BOOST_AUTO_TEST_CASE(gpu_and_trainium_exchange_messages_of_every_size_intact) {
    const FabricDaemon daemon;
    StockPingpong pair{{daemon.dir(), daemon.fabric(), "gpu0"}, {daemon.dir(), daemon.fabric(), "trn0"}, everything};
    expect_success(pair);
}

BOOST_AUTO_TEST_CASE(tagged_messages_arrive_intact_too) {
    const FabricDaemon daemon;
    auto options = everything;
    options.insert(options.end(), {"-m", "tagged"});
    StockPingpong pair{{daemon.dir(), daemon.fabric()}, {daemon.dir(), daemon.fabric()}, options};
    expect_success(pair);
}

BOOST_AUTO_TEST_CASE(fabric_that_nobody_started_comes_by_itself_and_leaves_nothing) {
    const TempDir dir;
    const auto shm = shm_files();
    const auto daemons = processes_named("nvlfd");
    const Place place{dir.path(), "demand", {}, true};
    {
        StockPingpong pair{place, place, everything};
        expect_success(pair);
    }
    // It stays for a moment in case that somebody comes back.
    BOOST_TEST(eventually([&] { return is_empty(dir.path()); }, plenty));
    const auto ours = [&] {
        for (const pid_t pid : processes_named("nvlfd")) {
            std::ifstream file{"/proc/" + std::to_string(pid) + "/cmdline"};
            std::ostringstream words;
            words << file.rdbuf();
            if (daemons.count(pid) == 0 && words.str().find(dir.path()) != std::string::npos) return true;
        }
        return false;
    };
    BOOST_TEST(eventually([&] { return !ours(); }, plenty));
    BOOST_TEST(shm_files() == shm, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(daemon_holds_no_more_after_a_pingpong_than_before) {
    FabricDaemon daemon;
    const pid_t pid = daemon.process().pid();
    const Place place{daemon.dir(), daemon.fabric()};
    const auto descriptors = open_descriptors(pid);
    const auto shm = shm_files();
    for (int i = 0; i < 3; ++i) {
        StockPingpong pair{place, place, {"-S", "1048576", "-I", "10"}};
        BOOST_TEST(pair.client.wait(plenty).exited_with(0), pair.client.output());
        BOOST_TEST(pair.server.wait(plenty).exited_with(0), pair.server.output());
    }
    BOOST_TEST(eventually([&] { return open_descriptors(pid) == descriptors; }, plenty),
               open_descriptors(pid) << " descriptors instead of " << descriptors);
    BOOST_TEST(shm_files() == shm, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(two_fabrics_of_one_directory_live_side_by_side) {
    const TempDir dir;
    const Place a{dir.path(), "a"}, b{dir.path(), "b"};
    const auto up_a = a.nvlf({"up"});
    const auto up_b = b.nvlf({"up"});
    BOOST_TEST(up_a.status.exited_with(0), up_a.output);
    BOOST_TEST(up_b.status.exited_with(0), up_b.output);
    {
        StockPingpong in_a{a, a, everything}, in_b{b, b, everything};
        expect_success(in_a);
        expect_success(in_b);
    }
    // The end of the one is nothing to the other.
    BOOST_TEST(a.nvlf({"down"}).status.exited_with(0));
    StockPingpong again{b, b, everything};
    expect_success(again);
    BOOST_TEST(b.nvlf({"down"}).status.exited_with(0));
    BOOST_TEST(eventually([&] { return is_empty(dir.path()); }, plenty));
}

BOOST_AUTO_TEST_CASE(peers_of_different_fabrics_do_not_reach_each_other_and_do_not_wait_for_ever) {
    const FabricDaemon a{{.fabric = "a", .topology = {}, .arguments = {}}};
    const FabricDaemon b{{.fabric = "b", .topology = {}, .arguments = {}}};
    StockPingpong pair{{a.dir(), "a"}, {b.dir(), "b"}, {"-I", "10"}};
    const auto client = pair.client.wait(plenty);
    const auto server = pair.server.wait(plenty);
    BOOST_TEST((client.kind == ExitStatus::Kind::Exited && client.value != 0), client << '\n' << pair.client.output());
    BOOST_TEST((server.kind == ExitStatus::Kind::Exited && server.value != 0), server << '\n' << pair.server.output());
}

BOOST_AUTO_TEST_CASE(another_user_has_a_fabric_of_its_own_and_is_told_that_ours_is_not_his,
                     *boost::unit_test::precondition(we_are_root)) {
    const FabricDaemon ours;
    const Place our_place{ours.dir(), ours.fabric()};
    StockPingpong pair{our_place, our_place, everything};

    // The same programs as uid 65534 ("nobody"), with a directory of its own.
    const TempDir home;
    const auto his_dir = home / "fabrics";
    ::chmod(home.path().c_str(), 0755);
    std::filesystem::create_directory(his_dir);
    BOOST_TEST_REQUIRE(::chown(his_dir.c_str(), 65534, 65534) == 0);
    ::chmod(his_dir.c_str(), 0700);
    const Place his_place{his_dir, "his", {}, true};
    const auto as_nobody = [&](const Place& place, const std::string& options) {
        std::vector<std::string> argv{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
        for (auto& word : place.run({"sh", "-c", options})) argv.push_back(std::move(word));
        return run(std::move(argv), plenty, {.environment = place.environment(), .directory = "/"});
    };
    if (const auto reach = as_nobody(his_place, "true"); !reach.status.exited_with(0)) {
        BOOST_TEST_MESSAGE("skipped: another user cannot reach this build: " << reach.output);
        return;
    }
    const auto port = std::to_string(free_port());
    const auto his = as_nobody(his_place, "timeout 20 fi_pingpong -e rdm -p nvlf -c -I 10 -B " + port +
                                              " & i=0; until fi_pingpong -e rdm -p nvlf -c -I 10 -P " + port +
                                              " 127.0.0.1 || [ $((i+=1)) = 100 ]; do :; done; wait $!");
    BOOST_TEST(his.status.exited_with(0), his.output);
    expect_success(pair);

    // Ours is not his: each way in says so, and names the fabric.
    const auto refused = run({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program("nvlf"), "status",
                              "--fabric", ours.fabric(), "--dir", ours.dir()},
                             plenty, {.environment = our_place.environment(), .directory = "/"});
    BOOST_TEST((refused.status.kind == ExitStatus::Kind::Exited && refused.status.value != 0), refused.status);
    BOOST_TEST(refused.output.find(ours.dir()) != std::string::npos, refused.output);
    BOOST_TEST(refused.output.find("another user") != std::string::npos, refused.output);
    const auto message = as_nobody(our_place, "FI_LOG_LEVEL=warn fi_info -p nvlf");
    BOOST_TEST((message.status.kind == ExitStatus::Kind::Exited && message.status.value != 0), message.output);
    BOOST_TEST(message.output.find(ours.dir()) != std::string::npos, message.output);
    BOOST_TEST(message.output.find("another user") != std::string::npos, message.output);

    BOOST_TEST(eventually([&] { return is_empty(his_dir); }, plenty)); // His went with its last client.
}

BOOST_AUTO_TEST_CASE(clients_in_private_pid_and_ipc_namespaces_use_the_same_fabric,
                     *boost::unit_test::precondition(we_may_unshare)) {
    const FabricDaemon daemon;
    const Place place{daemon.dir(), daemon.fabric()};
    const auto port = std::to_string(free_port());
    const auto apart = [&](std::vector<std::string> options, const std::vector<std::string>& command) {
        std::vector<std::string> argv{"unshare", "--pid", "--fork", "--kill-child", "--ipc"};
        argv.insert(argv.end(), options.begin(), options.end());
        for (auto& word : place.run(command)) argv.push_back(std::move(word));
        return ChildProcess::spawn(std::move(argv), {.environment = place.environment(), .directory = {}});
    };
    auto server =
        apart({"--user", "--map-root-user"}, {"fi_pingpong", "-e", "rdm", "-p", "nvlf", "-c", "-S", "all", "-B", port});
    BOOST_TEST_REQUIRE(eventually(
        [&] { return tcp_port_is(static_cast<std::uint16_t>(std::stoi(port)), "0A") || !server.wait(0ms).running(); },
        plenty));
    auto client = apart({}, {"fi_pingpong", "-e", "rdm", "-p", "nvlf", "-c", "-S", "all", "-P", port, "127.0.0.1"});
    BOOST_TEST(client.wait(plenty).exited_with(0), client.output());
    BOOST_TEST(server.wait(plenty).exited_with(0), server.output());
}

BOOST_AUTO_TEST_SUITE_END()
