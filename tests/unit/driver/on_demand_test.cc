// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Where the daemon is looked for, and what starting it does to the host. Shell scripts play nvlfd.
#define BOOST_TEST_MODULE on_demand
#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "driver/on_demand.hpp"
#include "support/child_process.hpp"
#include "support/resources.hpp"
#include "support/temp_dir.hpp"

namespace {
using namespace nvlf;
using namespace std::chrono_literals;
using test::TempDir;

std::string script(const TempDir& dir, const std::string& body) {
    std::string path = dir.write("nvlfd", "#!/bin/sh\n" + body);
    BOOST_REQUIRE(::chmod(path.c_str(), 0700) == 0);
    return path;
}

// Says `text` on the ready descriptor. dash redirects only to single digits: the shell's own eval takes any number.
const std::string find_ready = "while [ \"$1\" != --ready-fd ]; do shift; done; ready=$2\n";
std::string say(const std::string& text) { return find_ready + "printf '" + text + "' >/proc/self/fd/$ready\n"; }

DaemonStart start_of(const TempDir& dir, const std::string& body) { return {script(dir, body), dir.path(), "t", ""}; }

std::string slurp(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream{path}.rdbuf();
    return text.str();
}
} // namespace

BOOST_AUTO_TEST_CASE(the_places_are_beside_the_library_then_the_absolute_parts_of_path) {
    const auto places = nvlfd_places("/p/lib", "/a:relative::/b");
    const std::vector<std::string> expected{"/p/lib/../bin/nvlfd",
                                            "/p/lib/../libexec/nvlf/nvlfd",
                                            "/p/lib/../../bin/nvlfd",
                                            "/p/lib/../../libexec/nvlf/nvlfd",
                                            "/a/nvlfd",
                                            "/b/nvlfd"};
    BOOST_TEST(places == expected, boost::test_tools::per_element());
    BOOST_TEST(nvlfd_places("", "").empty());
}

BOOST_AUTO_TEST_CASE(the_library_knows_its_own_folder) {
    struct stat st {};
    BOOST_TEST(::stat(library_dir().c_str(), &st) == 0);
    BOOST_TEST(S_ISDIR(st.st_mode));
}

BOOST_AUTO_TEST_CASE(a_variable_that_names_no_program_is_an_error_that_says_so) {
    const TempDir dir;
    ::setenv("NVLF_NVLFD", (dir / "missing").c_str(), 1);
    std::string why;
    BOOST_TEST(find_nvlfd(why).error().value() == ENOENT);
    BOOST_TEST(why.find(dir / "missing") != std::string::npos);
    const std::string program = script(dir, "");
    ::setenv("NVLF_NVLFD", program.c_str(), 1);
    BOOST_TEST(*find_nvlfd(why) == program);
    ::unsetenv("NVLF_NVLFD");
}

BOOST_AUTO_TEST_CASE(a_daemon_that_is_nowhere_is_an_error_that_lists_the_places) {
    const std::string path = ::getenv("PATH");
    ::setenv("PATH", "/nonexistent-a:/nonexistent-b", 1);
    std::string why;
    const auto found = find_nvlfd(why);
    ::setenv("PATH", path.c_str(), 1);
    BOOST_REQUIRE(!found.ok());
    for (const char* place : {"/../bin/nvlfd", "/nonexistent-a/nvlfd", "/nonexistent-b/nvlfd", "NVLF_NVLFD"})
        BOOST_TEST(why.find(place) != std::string::npos, place);
}

BOOST_AUTO_TEST_CASE(ready_is_success_and_all_arguments_arrive) {
    const TempDir dir;
    DaemonStart start = start_of(dir, "echo \"$@\" >" + (dir / "arguments") + '\n' + say("ready\\n"));
    start.topology = "some-preset";
    std::string why;
    BOOST_TEST(start_daemon(start, 10s, why).value() == 0, why);
    const std::string arguments = slurp(dir / "arguments");
    BOOST_TEST(arguments.find("--fabric t --dir " + dir.path() + " --on-demand 2 --ready-fd ") == 0U, arguments);
    BOOST_TEST(arguments.find(" --topology some-preset") != std::string::npos, arguments);
}

BOOST_AUTO_TEST_CASE(what_a_failing_daemon_says_reaches_the_caller) {
    const TempDir dir;
    std::string why;
    BOOST_TEST(start_daemon(start_of(dir, say("nvlfd: no such topology\\n")), 10s, why).value() == EAGAIN);
    BOOST_TEST(why.find("no such topology") != std::string::npos, why);
    BOOST_TEST(start_daemon(start_of(dir, "exit 1\n"), 10s, why).value() == EAGAIN);
    BOOST_TEST(why.find("without a word") != std::string::npos, why);
}

BOOST_AUTO_TEST_CASE(a_program_that_cannot_be_executed_says_why) {
    const TempDir dir;
    std::string why;
    BOOST_TEST(start_daemon({dir / "missing", dir.path(), "t", ""}, 10s, why).value() == EAGAIN);
    BOOST_TEST(why.find("No such file") != std::string::npos, why);
}

BOOST_AUTO_TEST_CASE(a_daemon_that_says_nothing_is_given_up) {
    const TempDir dir;
    std::string why;
    // It waits on a fifo that the test opens afterwards, so that nothing is left behind.
    BOOST_REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
    BOOST_TEST(start_daemon(start_of(dir, "read line <" + (dir / "fifo") + '\n'), 50ms, why).value() == ETIMEDOUT);
    std::ofstream{dir / "fifo"} << "go\n";
}

BOOST_AUTO_TEST_CASE(the_daemon_inherits_nothing_but_the_pipe) {
    const TempDir dir;
    ::signal(SIGUSR1, SIG_IGN);
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGUSR2);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    const int stray = ::dup2(1, 77); // No close-on-exec.
    const std::string report = dir / "report";
    // Builtins only for the signals: a shell that waits for a child has blocked them itself.
    const std::string signals =
        "while read -r l; do case $l in SigBlk*|SigIgn*) echo \"$l\";; esac; done </proc/$$/status >";
    const auto start = start_of(dir, "ls -l /proc/$$/fd >" + report + ".fds\n" + signals + report + ".signals\n" +
                                         "cut -d' ' -f4,5,6 /proc/$$/stat >" + report + ".ids\n" + say("ready\\n"));
    std::string why;
    BOOST_TEST(start_daemon(start, 10s, why).value() == 0, why);
    ::close(stray);
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    ::signal(SIGUSR1, SIG_DFL);
    const std::string fds = slurp(report + ".fds");
    BOOST_TEST(fds.find(" 77 ->") == std::string::npos, fds);
    BOOST_TEST(fds.find(" 0 -> /dev/null") != std::string::npos, fds);
    BOOST_TEST(slurp(report + ".signals") == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    // Another session, and a parent that is not us.
    std::istringstream ids{slurp(report + ".ids")};
    pid_t parent = 0, group = 0, session = 0;
    ids >> parent >> group >> session;
    BOOST_TEST(parent != ::getpid());
    BOOST_TEST(session != ::getsid(0));
}

BOOST_AUTO_TEST_CASE(the_host_sees_no_child_and_no_sigchld) {
    const TempDir dir;
    static volatile sig_atomic_t received = 0;
    ::signal(SIGCHLD, [](int) { received = 1; });
    const auto before = test::open_descriptors();
    std::string why;
    BOOST_TEST(start_daemon(start_of(dir, say("ready\\n")), 10s, why).value() == 0, why);
    BOOST_TEST(received == 0);
    errno = 0;
    BOOST_TEST(::waitpid(-1, nullptr, WNOHANG | __WALL) == -1);
    BOOST_TEST(errno == ECHILD);
    BOOST_TEST(test::open_descriptors() == before);
    ::signal(SIGCHLD, SIG_DFL);
}

BOOST_AUTO_TEST_CASE(a_host_without_standard_streams_that_ignores_its_children_can_start_one) {
    const TempDir dir;
    const auto start = start_of(dir, "ls -l /proc/$$/fd >" + (dir / "fds") + '\n' + say("ready\\n"));
    auto host = test::ChildProcess::fork([&] {
        for (const int fd : {0, 1, 2}) ::close(fd);
        ::signal(SIGCHLD, SIG_IGN);
        std::string why;
        return start_daemon(start, 10s, why).value();
    });
    BOOST_TEST(host.wait(20s).exited_with(0));
    const std::string fds = slurp(dir / "fds");
    for (const char* standard : {" 0 -> /dev/null", " 1 -> ", " 2 -> /dev/null"})
        BOOST_TEST(fds.find(standard) != std::string::npos, fds);
}
