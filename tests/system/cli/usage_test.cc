// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf where nothing runs: help, wrong usage, and what can be seen of topologies without a fabric.
#define BOOST_TEST_MODULE cli_usage_test
#include "cli.hpp"

#include <filesystem>

using namespace nvlf::test;

namespace {

struct Fixture {
    TempDir dir;
    Cli cli{dir.path()};

    void is_wrong(const std::vector<std::string>& arguments, const std::vector<std::string>& names) {
        const auto done = cli.run(arguments);
        const std::string command = arguments.empty() ? "" : arguments.front();
        BOOST_TEST(done.status.exited_with(2), command << ": " << done.status << ": " << done.output);
        for (const auto& name : names) BOOST_TEST(has(done.output, name), name << " is not in: " << done.output);
        BOOST_TEST(cli.out(arguments).output == "", "an error belongs to standard error");
    }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(usage, Fixture)

BOOST_AUTO_TEST_CASE(every_command_explains_itself_with_an_example) {
    for (const std::string command : {"up", "down", "status", "ls", "topo", "run", "check"}) {
        const auto done = cli.run({command, "--help"});
        BOOST_TEST(done.status.exited_with(0), command << ": " << done.output);
        BOOST_TEST(has(done.output, "xample"), command << ": " << done.output);
        BOOST_TEST(has(done.output, "nvlf " + command), command << ": " << done.output);
    }
    BOOST_TEST(has(cli.run({"--help"}).output, "Exit codes"));
    BOOST_TEST(has(cli.run({"--version"}).output, "nvlf 0."));
}

BOOST_AUTO_TEST_CASE(wrong_usage_is_exit_2_and_says_what_would_be_right) {
    is_wrong({}, {"up", "down", "topo"});
    is_wrong({"tpo"}, {"tpo", "topo"});
    is_wrong({"up", "--frobnicate"}, {"--frobnicate", "nvlf up --help"});
    is_wrong({"up", "--fabric"}, {"--fabric"});
    is_wrong({"ls", "doors"}, {"doors", "devices", "topologies"});
    is_wrong({"check"}, {"TOPOLOGY"});
    is_wrong({"run"}, {"--"});
    is_wrong({"run", "--"}, {"--"});
    is_wrong({"topo", "--devices", "gpu9"}, {"gpu9", "nvlf ls devices"});
    is_wrong({"run", "--device", "gpu9", "--", "true"}, {"gpu9"});
    is_wrong({"run", "--device", "gpu[0-1]", "--", "true"}, {"one device"});
}

BOOST_AUTO_TEST_CASE(an_unknown_topology_is_exit_2_with_the_presets_and_the_nearest_one) {
    for (const std::string command : {"up", "topo", "ls"})
        is_wrong({command, "-t", "fusion-mixd-8"}, {"fusion-mixed-8", "dgx-h100"});
    is_wrong({"check", "fusion-mixd-8"}, {"fusion-mixed-8", "dgx-h100"});
    is_wrong({"up", "-t", "./absent.toml"}, {"absent.toml", "No such file"});
    is_wrong({"up", "-f", "a/b"}, {"a/b"});
    BOOST_TEST(std::filesystem::is_empty(dir.path()), "something was left behind");
}

BOOST_AUTO_TEST_CASE(where_nothing_runs_readers_say_so_and_fail) {
    for (const auto& arguments : {std::vector<std::string>{"status"}, {"down"}, {"ls", "clients"}}) {
        const auto done = cli.run(arguments);
        BOOST_TEST(done.status.exited_with(1), arguments.front() << ": " << done.output);
        BOOST_TEST(has(done.output, "default"), done.output);
        BOOST_TEST(has(done.output, dir.path()), done.output);
        BOOST_TEST(has(done.output, "nvlf up"), done.output);
    }
    const auto status = cli.json({"status", "--json"}, 1);
    BOOST_TEST(status["running"] == false);
    BOOST_TEST(status["fabric"] == "default");
    BOOST_TEST(cli.json({"ls", "fabrics", "--json"})["fabrics"].empty());
}

BOOST_AUTO_TEST_CASE(without_a_fabric_topo_and_ls_show_what_would_start) {
    const auto topo = cli.run({"topo"});
    BOOST_TEST(topo.status.exited_with(0), topo.output);
    BOOST_TEST(has(topo.output, "not running; this is what would start"), topo.output);
    const auto devices = cli.json({"ls", "--json"});
    BOOST_TEST(devices["running"] == false);
    BOOST_TEST(devices["devices"].size() == 8U);
    BOOST_TEST(cli.json({"ls", "--json", "-t", "dgx-h100"})["devices"].size() == 8U);
}

BOOST_AUTO_TEST_CASE(check_passes_on_every_mistake_with_its_place) {
    const auto file = dir.write("bad.toml", "name = 3\nfrob = 1\n");
    const auto words = cli.run({"check", file});
    BOOST_TEST(words.status.exited_with(2), words.output);
    BOOST_TEST(words.output.rfind(file + ":", 0) == 0U, words.output);
    const auto json = cli.json({"check", file, "--json"}, 2);
    BOOST_TEST(json["valid"] == false);
    BOOST_TEST_REQUIRE(json["diagnostics"].size() >= 2U);
    for (const auto& diagnostic : json["diagnostics"]) {
        BOOST_TEST(diagnostic["file"] == file);
        BOOST_TEST(diagnostic["line"].is_number());
        BOOST_TEST(diagnostic["column"].is_number());
        BOOST_TEST(diagnostic["message"].is_string());
    }
    const auto up = cli.run({"up", "-t", file});
    BOOST_TEST(up.status.exited_with(2), up.output);
    BOOST_TEST(has(up.output, "\n" + file + ":"), up.output);
}

BOOST_AUTO_TEST_CASE(every_preset_that_is_listed_is_valid) {
    const auto list = cli.json({"ls", "topologies", "--json"})["topologies"];
    BOOST_TEST(list.size() >= 10U);
    for (const auto& preset : list) {
        const auto json = cli.json({"check", preset["name"], "--json"});
        BOOST_TEST(json["valid"] == true);
        require_keys(
            json, {"topology", "nodes", "devices", "switches", "links", "figures", "assumed_figures", "diagnostics"});
        BOOST_TEST(preset["description"] != "");
    }
}

BOOST_AUTO_TEST_CASE(a_report_that_cannot_be_written_is_a_failure) {
    for (const char* what : {"ls", "--help", "--version"}) {
        const auto done =
            run({"sh", "-c", R"(exec "$@" >/dev/full)", "sh", program("nvlf"), what}, cli_bound, cli.options({}));
        BOOST_TEST(done.status.exited_with(1), done.output);
        BOOST_TEST(has(done.output, "No space left"), done.output);
    }
}

BOOST_AUTO_TEST_CASE(closed_standard_streams_do_no_harm) {
    const auto done = run({"sh", "-c", R"(exec "$@" <&- >&- 2>&-)", "sh", program("nvlf"), "check", "fusion-mixed-8"},
                          cli_bound, cli.options({}));
    BOOST_TEST(done.status.exited_with(0), done.status);
}

BOOST_AUTO_TEST_SUITE_END()
