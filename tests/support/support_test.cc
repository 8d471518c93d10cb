// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The helpers' promises: a child never outlives or hangs a test, and what it said is kept.
#define BOOST_TEST_MODULE support
#include <boost/test/unit_test.hpp>

#include "support/child_process.hpp"
#include "support/paths.hpp"
#include "support/resources.hpp"

#include <csignal>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {

constexpr auto plenty = 10s; // For what takes milliseconds, on a machine that is busy with other tests.

} // namespace

BOOST_AUTO_TEST_CASE(exit_code_and_output_of_a_child_are_known) {
    const auto done = run({"sh", "-c", "echo out; echo err >&2; exit 3"}, plenty);
    BOOST_TEST(done.status.exited_with(3), done.status);
    BOOST_TEST(done.output == "out\nerr\n");
}

BOOST_AUTO_TEST_CASE(child_that_does_not_end_is_killed_at_the_bound) {
    const auto done = run({"tail", "-f", "/dev/null"}, 20ms);
    BOOST_TEST(done.status.running(), done.status);
}

BOOST_AUTO_TEST_CASE(destructor_kills_and_reaps) {
    pid_t pid = 0;
    {
        const auto child = ChildProcess::fork([] { return ::pause(); });
        pid = child.pid();
        BOOST_TEST(::kill(pid, 0) == 0);
    }
    BOOST_TEST(::kill(pid, 0) == -1);
    BOOST_TEST(errno == ESRCH);
}

BOOST_AUTO_TEST_CASE(signal_ends_a_child_and_is_told_from_an_exit_code) {
    auto child = ChildProcess::fork([] { return ::pause(); });
    child.signal(SIGTERM);
    const auto status = child.wait(plenty);
    BOOST_TEST(status.killed_by(SIGTERM), status);
    BOOST_TEST(child.wait(0ms) == status); // Asked again, the same answer.
}

BOOST_AUTO_TEST_CASE(output_is_awaited_but_not_from_the_dead) {
    auto child = ChildProcess::spawn({"sh", "-c", "echo ready; kill -STOP $$"});
    BOOST_TEST(child.wait_for_output("ready", plenty));
    auto dead = ChildProcess::spawn({"true"});
    BOOST_TEST(!dead.wait_for_output("ready", plenty));
}

BOOST_AUTO_TEST_CASE(environment_is_added_to_and_taken_from) {
    const auto done = run({"sh", "-c", "echo $NVLF_A-${HOME-none}"}, plenty, {.environment = {"NVLF_A=1", "HOME"}});
    BOOST_TEST(done.output == "1-none\n");
}

BOOST_AUTO_TEST_CASE(program_that_is_not_there_is_an_error_at_once) {
    BOOST_CHECK_EXCEPTION(ChildProcess::spawn({"no-such-program-anywhere"}), std::system_error,
                          [](const std::system_error& error) { return error.code().value() == ENOENT; });
}

BOOST_AUTO_TEST_CASE(exception_in_a_forked_child_is_not_success) {
    auto child = ChildProcess::fork([]() -> int { throw std::runtime_error{"cause"}; });
    BOOST_TEST(child.wait(plenty).exited_with(124));
    BOOST_TEST(child.output().find("cause") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(descriptors_are_counted_here_and_in_a_child) {
    const auto before = open_descriptors();
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    BOOST_TEST(open_descriptors() == before + 1);
    ::close(fd);
    BOOST_TEST(open_descriptors() == before);
    // Compared with one that opens nothing: whoever started us may have left us descriptors, which children inherit.
    auto plain = ChildProcess::spawn({"sh", "-c", "echo ready; kill -STOP $$"});
    auto child = ChildProcess::spawn({"sh", "-c", "exec 9</dev/null; echo ready; kill -STOP $$"});
    BOOST_REQUIRE(plain.wait_for_output("ready", plenty));
    BOOST_REQUIRE(child.wait_for_output("ready", plenty));
    BOOST_TEST(open_descriptors(child.pid()) == open_descriptors(plain.pid()) + 1);
    BOOST_TEST(processes_named("sh").count(child.pid()) == 1U);
}

BOOST_AUTO_TEST_CASE(process_that_has_ended_is_not_counted_though_nobody_has_reaped_it) {
    auto child = ChildProcess::spawn({"sh", "-c", "exit 0"});
    const auto gone = [&] { return processes_named("sh").count(child.pid()) == 0; };
    BOOST_TEST(eventually(gone, plenty));
    BOOST_TEST(child.wait(plenty).exited_with(0)); // It was there to be reaped until now.
}

BOOST_AUTO_TEST_CASE(child_leaves_no_descriptor_behind) {
    const auto before = open_descriptors();
    for (int i = 0; i < 10; ++i) run({"true"}, plenty);
    BOOST_TEST(open_descriptors() == before);
}

BOOST_AUTO_TEST_CASE(temporary_directory_is_private_and_goes_with_its_object) {
    std::string path;
    {
        const TempDir dir;
        path = dir.path();
        dir.write("file", "text");
        BOOST_TEST((std::filesystem::status(path).permissions() == std::filesystem::perms::owner_all));
    }
    BOOST_TEST(!std::filesystem::exists(path));
}

BOOST_AUTO_TEST_CASE(eventually_gives_up) {
    BOOST_TEST(!eventually([] { return false; }, 5ms));
    int calls = 0;
    BOOST_TEST(eventually([&] { return ++calls == 3; }, plenty));
}

BOOST_AUTO_TEST_CASE(paths_are_of_this_source_tree) {
    BOOST_TEST(std::filesystem::exists(source_dir() + "/CMakeLists.txt"));
}
