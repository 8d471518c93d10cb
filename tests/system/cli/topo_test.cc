// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf topo: the matrix, its summary, and that its paths are those of the fabric.
#define BOOST_TEST_MODULE cli_topo_test
#include "cli.hpp"
#include "support/fabric_daemon.hpp"

#include <nvlf/nvlf.h>

#include <memory>
#include <sstream>

using namespace nvlf::test;

namespace {

struct Close {
    void operator()(nvlf_fabric* fabric) const noexcept { ::nvlf_close(fabric); }
};
using Client = std::unique_ptr<nvlf_fabric, Close>;

Client open(const FabricDaemon& daemon) {
    nvlf_open_args args{};
    args.size = sizeof args;
    args.flags = NVLF_OPEN_NO_START;
    args.fabric = daemon.fabric().c_str();
    args.dir = daemon.dir().c_str();
    nvlf_fabric* fabric = nullptr;
    BOOST_TEST_REQUIRE(::nvlf_open(&args, &fabric) == 0, ::nvlf_open_error());
    return Client{fabric};
}

// Compares up to about a thousand pairs, spread evenly: a large preset has ten times as many, all alike.
void compare_with_the_fabric(FabricDaemon& daemon, nvlf_fabric& fabric) {
    const auto json = Cli{daemon.dir()}.json({"topo", "--json", "-f", daemon.fabric()});
    const std::size_t stride = json["paths"].size() / 1000 + 1;
    for (std::size_t i = 0; i < json["paths"].size(); i += stride) {
        const auto& path = json["paths"][i];
        std::uint32_t a = 0;
        std::uint32_t b = 0;
        BOOST_TEST_REQUIRE(::nvlf_find_device(&fabric, path["a"].get<std::string>().c_str(), &a) == 0);
        BOOST_TEST_REQUIRE(::nvlf_find_device(&fabric, path["b"].get<std::string>().c_str(), &b) == 0);
        nvlf_ioc_path truth{};
        const int error = ::nvlf_get_path(&fabric, a, b, &truth);
        BOOST_TEST_CONTEXT(path.dump()) {
            BOOST_TEST(path["label"].is_null() == (error == -ENOENT));
            BOOST_TEST(path["hops"] == truth.hops);
            BOOST_TEST(path["switches"] == truth.switches);
            BOOST_TEST(path["width"] == truth.width);
            BOOST_TEST(path["rate_bytes_per_s"] == truth.rate);
        }
    }
}

std::size_t count_lines(const std::string& text, std::string_view start) {
    std::istringstream lines{text};
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);) count += line.rfind(start, 0) == 0 ? 1 : 0;
    return count;
}

} // namespace

BOOST_AUTO_TEST_CASE(paths_are_those_of_the_fabric_on_every_preset) {
    const TempDir dir;
    const auto listed = Cli{dir.path()}.json({"ls", "topologies", "--json"}); // Named: a for keeps no temporary's part.
    for (const auto& preset : listed["topologies"]) {
        BOOST_TEST_CONTEXT(preset["name"]) {
            FabricDaemon daemon{{.fabric = "t", .topology = preset["name"]}};
            const Client client = open(daemon);
            compare_with_the_fabric(daemon, *client);
        }
    }
}

BOOST_AUTO_TEST_CASE(paths_are_those_of_the_fabric_when_parts_are_down) {
    FabricDaemon daemon{{.fabric = "t", .topology = "dgx-h100"}};
    const Client client = open(daemon);
    BOOST_TEST_REQUIRE(::nvlf_admin_state(client.get(), NVLF_OBJECT_LINK, 0, NVLF_STATE_DOWN, 0) == 0);
    BOOST_TEST_REQUIRE(::nvlf_admin_state(client.get(), NVLF_OBJECT_LINK, 5, NVLF_STATE_DEGRADED, 1) == 0);
    compare_with_the_fabric(daemon, *client);
    BOOST_TEST_REQUIRE(::nvlf_admin_state(client.get(), NVLF_OBJECT_SWITCH, 1, NVLF_STATE_DOWN, 0) == 0);
    BOOST_TEST_REQUIRE(::nvlf_admin_state(client.get(), NVLF_OBJECT_DEVICE, 2, NVLF_STATE_DOWN, 0) == 0);
    compare_with_the_fabric(daemon, *client);
    const Cli cli{daemon.dir()};
    BOOST_TEST(has(cli.run({"topo", "-f", "t"}).output, "no way left"));
    BOOST_TEST(cli.json({"status", "-f", "t", "--json"})["not_up"] == 4);
}

BOOST_AUTO_TEST_CASE(a_small_fabric_is_a_matrix_with_a_legend) {
    const TempDir dir;
    const auto done = Cli{dir.path()}.run({"topo", "-t", "fusion-mixed-8"});
    BOOST_TEST(done.status.exited_with(0), done.output);
    for (const std::string part : {"gpu0  X ", "NV36/1", "NODE", "NUMA", "Legend:", "boundary of a node", "assumed"})
        BOOST_TEST(has(done.output, part), part << " is not in:\n" << done.output);
    for (const std::string device : {"gpu0", "gpu3", "trn0", "trn3"})
        BOOST_TEST(count_lines(done.output, device) == 1U, done.output);
}

BOOST_AUTO_TEST_CASE(a_torus_tells_direct_neighbours_from_others) {
    const TempDir dir;
    const auto json = Cli{dir.path()}.json({"topo", "-t", "trn2-16", "--json"});
    BOOST_TEST(json["paths"].size() == 120U);
    bool direct = false;
    bool far = false;
    for (const auto& path : json["paths"]) {
        require_keys(path, {"a", "b", "same_node", "label", "protocol", "width", "hops", "switches", "rate_bytes_per_s",
                            "latency_ps"});
        const auto label = path["label"].get<std::string>();
        BOOST_TEST(label.rfind("NL", 0) == 0U, label);
        BOOST_TEST((path["hops"] == 1) == (label.find('/') == std::string::npos));
        direct = direct || path["hops"] == 1;
        far = far || path["hops"] == 4;
    }
    BOOST_TEST(direct);
    BOOST_TEST(far);
}

BOOST_AUTO_TEST_CASE(a_large_fabric_is_summed_up_unless_some_devices_are_chosen) {
    const TempDir dir;
    const Cli cli{dir.path()};
    const auto summary = cli.run({"topo", "-t", "gb200-nvl72"});
    BOOST_TEST(has(summary.output, "gpu[0-71]"), summary.output);
    BOOST_TEST(has(summary.output, "--devices"), summary.output);
    BOOST_TEST(count_lines(summary.output, "gpu3") == 0U);
    const auto some = cli.run({"topo", "-t", "gb200-nvl72", "--devices", "gpu[2-3],70"});
    for (const std::string device : {"gpu2", "gpu3", "gpu70"})
        BOOST_TEST(count_lines(some.output, device + " ") == 1U, some.output);
    BOOST_TEST(count_lines(some.output, "gpu4") == 0U);
    BOOST_TEST(count_lines(cli.run({"topo", "-t", "gb200-nvl72", "--full"}).output, "gpu") == 72U);
    BOOST_TEST(has(cli.run({"topo"}, {"COLUMNS=60"}).output, "gpu[0-3]"), "too wide for the terminal");
}

BOOST_AUTO_TEST_CASE(output_that_is_no_terminal_has_no_colour) {
    const TempDir dir;
    BOOST_TEST(!has(Cli{dir.path()}.run({"topo"}).output, "\033"));
}
