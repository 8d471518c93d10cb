// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf run: what the program finds in its environment, and whose exit code comes back.
#define BOOST_TEST_MODULE cli_run_test
#include "cli.hpp"

#include <map>
#include <sstream>

using namespace nvlf::test;

namespace {

struct Fixture {
    TempDir dir;
    Cli cli{dir.path()};

    // The environment of a program under `nvlf run`.
    std::map<std::string, std::string> environment(std::vector<std::string> arguments,
                                                   std::vector<std::string> before = {}) {
        arguments.insert(arguments.begin(), "run");
        arguments.insert(arguments.end(), {"--", "env"});
        const auto done = cli.out(arguments, std::move(before));
        BOOST_TEST_REQUIRE(done.status.exited_with(0), done.output);
        std::map<std::string, std::string> found;
        std::istringstream lines{done.output};
        for (std::string line; std::getline(lines, line);)
            if (const auto equals = line.find('='); equals != std::string::npos)
                found[line.substr(0, equals)] = line.substr(equals + 1);
        return found;
    }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(cli_run, Fixture)

BOOST_AUTO_TEST_CASE(the_program_finds_provider_daemon_and_fabric) {
    auto found = environment({"-f", "x", "-d", dir.path(), "-t", "dgx-h100", "--device", "gpu3"});
    BOOST_TEST(found["FI_PROVIDER_PATH"].rfind(provider_dir(), 0) == 0U, found["FI_PROVIDER_PATH"]);
    BOOST_TEST(found["NVLF_NVLFD"] == program("nvlfd"));
    BOOST_TEST(found["NVLF_FABRIC"] == "x");
    BOOST_TEST(found["NVLF_DIR"] == dir.path());
    BOOST_TEST(found["NVLF_TOPOLOGY"] == "dgx-h100");
    BOOST_TEST(found["NVLF_DEVICE"] == "gpu3");
}

BOOST_AUTO_TEST_CASE(what_was_not_asked_for_stays_as_it_was) {
    auto found = environment({}, {"NVLF_FABRIC=mine", "NVLF_DEVICE=trn1"});
    BOOST_TEST(found["NVLF_FABRIC"] == "mine");
    BOOST_TEST(found["NVLF_DEVICE"] == "trn1");
    BOOST_TEST(found.count("NVLF_TOPOLOGY") == 0U);
}

BOOST_AUTO_TEST_CASE(provider_folders_of_the_user_stay_in_their_order) {
    BOOST_TEST(environment({}, {"FI_PROVIDER_PATH=/x:/y"})["FI_PROVIDER_PATH"] == provider_dir() + ":/x:/y");
    BOOST_TEST(environment({}, {"FI_PROVIDER_PATH=@/x"})["FI_PROVIDER_PATH"] == "@" + provider_dir() + ":/x");
    // Run within run adds nothing.
    BOOST_TEST(environment({}, {"FI_PROVIDER_PATH=" + provider_dir() + ":/x"})["FI_PROVIDER_PATH"] ==
               provider_dir() + ":/x");
}

BOOST_AUTO_TEST_CASE(a_topology_file_is_named_so_that_it_is_found_from_everywhere) {
    const auto file = dir.write("t.toml", "");
    const auto done = run({"sh", "-c", R"(cd "$1" && shift && exec "$@")", "sh", dir.path(), program("nvlf"), "run",
                           "-t", "t.toml", "--", "printenv", "NVLF_TOPOLOGY"},
                          cli_bound, cli.options({}));
    BOOST_TEST(done.output == file + "\n");
}

BOOST_AUTO_TEST_CASE(the_exit_code_is_the_programs_or_that_of_env) {
    BOOST_TEST(cli.run({"run", "--", "sh", "-c", "exit 7"}).status.exited_with(7));
    BOOST_TEST(cli.run({"run", "--", "sh", "-c", "kill -TERM $$"}).status.killed_by(15));
    const auto absent = cli.run({"run", "--", "no-such-program"});
    BOOST_TEST(absent.status.exited_with(127), absent.output);
    BOOST_TEST(has(absent.output, "no-such-program"), absent.output);
    const auto text = cli.run({"run", "--", dir.write("text", "no program")});
    BOOST_TEST(text.status.exited_with(126), text.output);
}

BOOST_AUTO_TEST_CASE(options_of_the_program_are_its_own) {
    const auto done = cli.run({"run", "-f", "x", "--", "echo", "-f", "y", "--", "--device"});
    BOOST_TEST(done.output == "-f y -- --device\n");
}

BOOST_AUTO_TEST_CASE(a_daemon_that_is_named_and_absent_is_told) {
    const auto done = cli.run({"up"}, {"NVLF_NVLFD=/nowhere/nvlfd"});
    BOOST_TEST(done.status.exited_with(1), done.output);
    BOOST_TEST(has(done.output, "/nowhere/nvlfd"), done.output);
    BOOST_TEST(cli.run({"run", "--", "true"}, {"NVLF_NVLFD=/nowhere/nvlfd"}).status.exited_with(1));
}

BOOST_AUTO_TEST_CASE(a_missing_provider_is_told_with_the_places_that_were_looked_at) {
    // A copy of the program alone, away from its build tree. Where one is installed in the configured folder, that is found.
    const std::string copy = dir / "nvlf";
    BOOST_TEST_REQUIRE(run({"cp", program("nvlf"), copy}, cli_bound).status.exited_with(0));
    const auto done = run({copy, "run", "--", "true"}, cli_bound, cli.options({"LD_LIBRARY_PATH=" + library_dir()}));
    if (done.status.exited_with(0)) return;
    BOOST_TEST(done.status.exited_with(1), done.output);
    BOOST_TEST(has(done.output, "libnvlf-fi.so"), done.output);
    BOOST_TEST(has(done.output, "/lib/libfabric"), done.output);
}

BOOST_AUTO_TEST_SUITE_END()
