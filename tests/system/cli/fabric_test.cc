// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf with fabrics that run: coming and going, side by side, and closed to others.
#define BOOST_TEST_MODULE cli_fabric_test
#include "cli.hpp"
#include "support/fabric_daemon.hpp"
#include "support/resources.hpp"

#include <nvlf/nvlf.h>

#include <filesystem>

#include <signal.h>
#include <unistd.h>

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {

// Takes down what a failing test leaves up.
struct Fixture {
    TempDir dir;
    Cli cli{dir.path()};
    ~Fixture() {
        for (const std::string fabric : {"default", "a", "b"}) (void)cli.run({"down", "--force", "-f", fabric});
    }
};

void is_fine(const Completed& done) {
    BOOST_TEST_REQUIRE(done.status.exited_with(0), done.status << ": " << done.output);
}

} // namespace

BOOST_AUTO_TEST_CASE(up_status_down_and_nothing_is_left) {
    Fixture f;
    const auto up = f.cli.json({"up", "--json"});
    require_keys(up, {"fabric", "socket", "uuid", "server_pid", "topology", "devices", "figures", "assumed_figures"});
    BOOST_TEST(up["topology"] == "fusion-mixed-8");
    BOOST_TEST(std::filesystem::is_socket(up["socket"].get<std::string>()));
    const auto pid = up["server_pid"].get<pid_t>();

    const auto status = f.cli.json({"status", "--json"});
    require_keys(status, {"fabric",
                          "running",
                          "socket",
                          "uuid",
                          "server_pid",
                          "uptime_s",
                          "on_demand",
                          "topology",
                          "figures",
                          "assumed_figures",
                          "clock",
                          "dilation_ppm",
                          "nodes",
                          "devices",
                          "switches",
                          "links",
                          "not_up",
                          "clients",
                          "endpoints",
                          "allocations",
                          "allocated_bytes",
                          "arena_bytes",
                          "max_clients",
                          "max_endpoints",
                          "max_endpoints_per_client",
                          "max_allocations",
                          "max_imports_per_client",
                          "quota_bytes"});
    BOOST_TEST(status["running"] == true);
    BOOST_TEST(status["uuid"] == up["uuid"]);
    BOOST_TEST(status["clients"] == 0);
    BOOST_TEST(status["uptime_s"].is_number());
    BOOST_TEST(has(f.cli.run({"status"}).output, "fusion-mixed-8"));

    is_fine(f.cli.run({"down"}));
    BOOST_TEST(std::filesystem::is_empty(f.dir.path()));
    // A zombie of a parent that reaps nobody has ended as well, and answers to no signal but 0.
    const bool gone = !processes_named("nvlfd").contains(pid) || open_descriptors(pid) == 0;
    BOOST_TEST(gone, "nvlfd " << pid << " is still there");
    BOOST_TEST(f.cli.run({"down"}).status.exited_with(1));
}

BOOST_AUTO_TEST_CASE(a_taken_name_is_refused_and_does_not_disturb) {
    Fixture f;
    const auto first = f.cli.json({"up", "--json"});
    const auto again = f.cli.run({"up"});
    BOOST_TEST(again.status.exited_with(1), again.output);
    BOOST_TEST(has(again.output, "default"), again.output);
    BOOST_TEST(has(again.output, "running"), again.output);
    BOOST_TEST(f.cli.json({"status", "--json"})["uuid"] == first["uuid"]);
}

BOOST_AUTO_TEST_CASE(an_interrupted_up_leaves_no_fabric_of_which_nobody_knows) {
    Fixture f;
    // The instants spread over the some 30 ms that it takes; the rest find it done.
    for (int ms = 0; ms < 60; ms += 4) {
        auto up = ChildProcess::spawn(Cli::command({"up"}), f.cli.options({}));
        (void)up.wait(std::chrono::milliseconds{ms});
        up.signal(SIGTERM);
        const auto status = up.wait(cli_bound);
        BOOST_TEST_REQUIRE(!status.running());
        if (has(up.output(), "is up")) { // Told, and so it stays, whether or not the signal came before the end.
            is_fine(f.cli.run({"down"}));
        } else {
            BOOST_TEST(status.killed_by(SIGTERM), status << ": " << up.output());
            BOOST_TEST(eventually([&] { return f.cli.run({"status"}).status.exited_with(1); }, 10s),
                       "after " << ms << " ms");
        }
    }
}

BOOST_AUTO_TEST_CASE(two_fabrics_side_by_side_know_nothing_of_each_other) {
    Fixture f;
    is_fine(f.cli.run({"up", "-f", "a"}));
    is_fine(f.cli.run({"up", "-f", "b", "-t", "dgx-h100"}));
    const auto list = f.cli.json({"ls", "fabrics", "--json"});
    BOOST_TEST(list["dir"] == f.dir.path());
    BOOST_TEST_REQUIRE(list["fabrics"].size() == 2U);
    for (const auto& fabric : list["fabrics"])
        require_keys(fabric, {"fabric", "topology", "devices", "clients", "server_pid", "clock"});
    BOOST_TEST(list["fabrics"][0]["topology"] == "fusion-mixed-8");
    BOOST_TEST(list["fabrics"][1]["topology"] == "dgx-h100");
    BOOST_TEST(has(f.cli.run({"topo"}, {"NVLF_FABRIC=b"}).output, "fabric b (running): dgx-h100"));
    is_fine(f.cli.run({"down", "-f", "a"}));
    BOOST_TEST(f.cli.run({"status", "-f", "a"}).status.exited_with(1));
    BOOST_TEST(f.cli.run({"status", "-f", "b"}).status.exited_with(0));
}

BOOST_AUTO_TEST_CASE(a_fabric_in_use_goes_down_by_force_only) {
    FabricDaemon daemon;
    const Cli cli{daemon.dir()};
    nvlf_open_args args{};
    args.size = sizeof args;
    args.flags = NVLF_OPEN_NO_START;
    args.fabric = daemon.fabric().c_str();
    args.dir = daemon.dir().c_str();
    nvlf_fabric* fabric = nullptr;
    BOOST_TEST_REQUIRE(::nvlf_open(&args, &fabric) == 0, ::nvlf_open_error());
    std::uint32_t device = 0;
    BOOST_TEST(::nvlf_attach(fabric, 1, &device) == 0);

    const auto clients = cli.json({"ls", "clients", "-f", "t", "--json"})["clients"];
    BOOST_TEST_REQUIRE(clients.size() == 1U); // We, and not the command that asks.
    require_keys(clients[0],
                 {"pid", "uid", "command", "device", "endpoints", "allocations", "imports", "allocated_bytes"});
    BOOST_TEST(clients[0]["pid"] == ::getpid());
    BOOST_TEST(clients[0]["device"] == "gpu1");
    BOOST_TEST(cli.json({"status", "-f", "t", "--json"})["clients"] == 1);

    const auto refused = cli.run({"down", "-f", "t"});
    BOOST_TEST(refused.status.exited_with(1), refused.output);
    BOOST_TEST(has(refused.output, "1 client"), refused.output);
    BOOST_TEST(has(refused.output, "--force"), refused.output);
    BOOST_TEST(::nvlf_poll_alive(fabric) == 1);
    is_fine(cli.run({"down", "-f", "t", "--force"}));
    BOOST_TEST(::nvlf_poll_alive(fabric) == 0);
    BOOST_TEST(daemon.process().wait(10s).exited_with(0), daemon.process().output());
    ::nvlf_close(fabric);
}

BOOST_AUTO_TEST_CASE(ls_describes_devices_switches_and_links) {
    FabricDaemon daemon;
    const Cli cli{daemon.dir()};
    const auto devices = cli.json({"ls", "devices", "-f", "t", "--json"});
    BOOST_TEST(devices["running"] == true);
    BOOST_TEST_REQUIRE(devices["devices"].size() == 8U);
    for (const auto& device : devices["devices"])
        require_keys(device, {"index", "name", "kind", "model", "node", "numa_node", "state", "ports", "hbm_bytes",
                              "hbm_used_bytes", "rate_bytes_per_s", "clients"});
    BOOST_TEST(devices["devices"][0]["name"] == "gpu0");
    BOOST_TEST(devices["devices"][4]["kind"] == "trainium");
    const auto switches = cli.json({"ls", "switches", "-f", "t", "--json"})["switches"];
    BOOST_TEST_REQUIRE(!switches.empty());
    require_keys(switches[0], {"index", "name", "model", "plane", "ports", "state", "latency_ps"});
    const auto links = cli.json({"ls", "links", "-f", "t", "--json"})["links"];
    BOOST_TEST_REQUIRE(!links.empty());
    require_keys(links[0], {"index", "a", "a_port", "b", "b_port", "protocol", "generation", "width", "width_up",
                            "state", "rate_bytes_per_s", "raw_rate_bytes_per_s", "latency_ps"});
    BOOST_TEST(links[0]["protocol"] == "nvlink");
    for (const std::string what : {"devices", "switches", "links", "clients"})
        is_fine(cli.run({"ls", what, "-f", "t"}));
}

BOOST_AUTO_TEST_CASE(a_killed_daemon_leaves_a_name_that_can_be_used_again) {
    FabricDaemon daemon;
    const Cli cli{daemon.dir()};
    daemon.kill();
    BOOST_TEST(cli.run({"status", "-f", "t"}).status.exited_with(1));
    BOOST_TEST(cli.json({"ls", "fabrics", "--json"})["fabrics"].empty());
    is_fine(cli.run({"up", "-f", "t"}));
    is_fine(cli.run({"down", "-f", "t"}));
}

BOOST_AUTO_TEST_CASE(another_user_is_refused_with_words) {
    if (::geteuid() != 0) {
        BOOST_TEST_MESSAGE("skipped: only root can become somebody else");
        return;
    }
    FabricDaemon daemon;
    const Cli cli{daemon.dir()};
    constexpr uid_t nobody = 65534;
    if (!run({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x", program("nvlf")}, cli_bound)
             .status.exited_with(0)) {
        BOOST_TEST_MESSAGE("skipped: uid " << nobody << " cannot enter the build folder");
        return;
    }
    for (const std::string command : {"status", "topo", "down"}) {
        const auto done =
            run({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program("nvlf"), command, "-f", "t"},
                cli_bound, cli.options({}));
        BOOST_TEST(done.status.exited_with(1), command << ": " << done.status << ": " << done.output);
        BOOST_TEST(has(done.output, daemon.dir()), done.output);
    }
}
