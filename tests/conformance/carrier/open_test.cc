// SPDX-License-Identifier: MIT OR GPL-2.0-only
// nvlf_open: what it takes, what it refuses and in which words, and the fabric that comes up on demand.
#define BOOST_TEST_MODULE carrier_open
#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "fabric.hpp"
#include "support/paths.hpp"
#include "support/resources.hpp"

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {
int open_errno(nvlf_open_args args) {
    nvlf_fabric* fabric = nullptr;
    const int error = nvlf_open(&args, &fabric);
    if (error != 0) BOOST_TEST(fabric == nullptr);
    nvlf_close(fabric);
    return error;
}

nvlf_open_args in_dir(const std::string& dir, std::uint32_t flags = NVLF_OPEN_NO_START) {
    return {sizeof(nvlf_open_args), flags, "t", dir.c_str(), nullptr};
}

bool says(const std::string& text) { return std::string{nvlf_open_error()}.find(text) != std::string::npos; }

// Whatever a case starts on demand removes its socket when it ends, two seconds after its last client.
bool ends_by_itself(const std::string& dir) {
    return eventually([&] { return std::filesystem::is_empty(dir); }, 15s);
}
} // namespace

BOOST_AUTO_TEST_CASE(arguments_that_no_fabric_can_satisfy_are_refused) {
    const TempDir dir;
    nvlf_open_args args = in_dir(dir.path());
    args.size = 4;
    BOOST_TEST(open_errno(args) == -EINVAL);
    args = in_dir(dir.path(), 0x80);
    BOOST_TEST(open_errno(args) == -EINVAL);
    args = in_dir(dir.path());
    args.fabric = "a/b";
    BOOST_TEST(open_errno(args) == -EINVAL);
    BOOST_TEST(says("a/b"));
    args.fabric = "a-name-of-more-than-thirty-one-characters";
    BOOST_TEST(open_errno(args) == -ENAMETOOLONG);
    BOOST_TEST(nvlf_open(&args, nullptr) == -EINVAL);
}

BOOST_AUTO_TEST_CASE(a_newer_callers_struct_is_fine_as_long_as_its_new_part_is_zero) {
    const TempDir dir;
    struct {
        nvlf_open_args args;
        std::uint64_t later;
    } newer{in_dir(dir.path()), 0};
    newer.args.size = sizeof newer;
    nvlf_fabric* fabric = nullptr;
    BOOST_TEST(nvlf_open(&newer.args, &fabric) == -ENOENT);
    newer.later = 1;
    BOOST_TEST(nvlf_open(&newer.args, &fabric) == -E2BIG);
}

BOOST_AUTO_TEST_CASE(no_fabric_and_none_to_be_started_is_enoent_and_creates_nothing) {
    const TempDir dir;
    const std::string missing = dir / "missing";
    BOOST_TEST(open_errno(in_dir(missing)) == -ENOENT);
    BOOST_TEST(says(missing));
    BOOST_TEST(!std::filesystem::exists(missing));
    ::setenv("NVLF_ON_DEMAND", "0", 1);
    BOOST_TEST(open_errno(in_dir(missing, 0)) == -ENOENT);
    ::unsetenv("NVLF_ON_DEMAND");
    BOOST_TEST(!std::filesystem::exists(missing));
}

BOOST_AUTO_TEST_CASE(a_directory_that_lets_others_in_is_eacces) {
    const TempDir dir;
    BOOST_REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
    BOOST_TEST(open_errno(in_dir(dir.path())) == -EACCES);
    BOOST_TEST(says("0755"));
}

BOOST_AUTO_TEST_CASE(a_socket_that_nobody_listens_on_is_no_fabric) {
    FabricDaemon daemon;
    daemon.kill(); // Leaves its socket.
    BOOST_TEST(open_errno(args_for(daemon)) == -ENOENT);
    BOOST_TEST(says("not running"));
}

BOOST_AUTO_TEST_CASE(a_library_without_its_daemon_says_where_it_looked) {
    const TempDir dir;
    ::setenv("NVLF_NVLFD", (dir / "nvlfd").c_str(), 1);
    BOOST_TEST(open_errno(in_dir(dir.path(), 0)) == -ENOENT);
    BOOST_TEST(says(dir / "nvlfd"));
    ::unsetenv("NVLF_NVLFD");
}

BOOST_AUTO_TEST_CASE(a_daemon_that_refuses_its_topology_is_quoted) {
    const TempDir dir;
    auto args = in_dir(dir.path(), 0);
    args.topology = "no-such-preset";
    BOOST_TEST(open_errno(args) == -ENOENT);
    BOOST_TEST(says("no-such-preset"), nvlf_open_error());
}

BOOST_AUTO_TEST_CASE(a_fabric_comes_up_on_demand_and_ends_after_its_last_client) {
    const TempDir dir;
    const auto descriptors = open_descriptors();
    static volatile sig_atomic_t sigchld = 0;
    ::signal(SIGCHLD, [](int) { sigchld = 1; });
    nvlf_fabric* opened = nullptr;
    auto args = in_dir(dir / "made-on-demand", 0);
    const std::string path = dir / "made-on-demand";
    args.dir = path.c_str();
    BOOST_REQUIRE(nvlf_open(&args, &opened) == 0);
    ::signal(SIGCHLD, SIG_DFL);
    BOOST_TEST(sigchld == 0);
    BOOST_TEST((::waitpid(-1, nullptr, WNOHANG | __WALL) == -1 && errno == ECHILD));
    Fabric fabric{opened};
    nvlf_ioc_info info{};
    BOOST_REQUIRE(nvlf_get_info(fabric.get(), &info) == 0);
    BOOST_TEST((info.caps & NVLF_CAP_ON_DEMAND) != 0U);
    const auto pid = static_cast<pid_t>(info.server_pid);
    BOOST_TEST(open_errno(in_dir(path)) == 0); // Others find it.
    fabric.reset();
    BOOST_TEST(open_descriptors() == descriptors);
    BOOST_TEST(eventually([&] { return ::kill(pid, 0) != 0; }, 15s));
    BOOST_TEST(ends_by_itself(path));
}

BOOST_AUTO_TEST_CASE(many_that_start_at_once_get_one_daemon) {
    const TempDir dir;
    std::vector<ChildProcess> processes;
    for (int i = 0; i < 6; ++i)
        processes.push_back(ChildProcess::fork([&] {
            nvlf_open_args args = in_dir(dir.path(), 0);
            nvlf_fabric* opened = nullptr;
            if (nvlf_open(&args, &opened) != 0) {
                ::dprintf(2, "%s\n", nvlf_open_error());
                return 1;
            }
            const Fabric fabric{opened};
            nvlf_ioc_info info{};
            // All stay until all are there, which they can only be in one fabric.
            return eventually([&] { return nvlf_get_info(fabric.get(), &info) == 0 && info.clients == 6; }, 20s) ? 0
                                                                                                                 : 2;
        }));
    // The last to see all six may find some gone already: what counts is that each saw them once.
    int saw_all = 0;
    for (auto& process : processes) {
        const auto status = process.wait(30s);
        BOOST_TEST(!status.exited_with(1), process.output());
        saw_all += status.exited_with(0) ? 1 : 0;
    }
    BOOST_TEST(saw_all >= 1);
    BOOST_TEST(ends_by_itself(dir.path()));
}

BOOST_AUTO_TEST_CASE(threads_may_open_and_fail_at_once_each_with_its_own_words) {
    const FabricDaemon daemon;
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            const std::string missing = "/nonexistent-" + std::to_string(t);
            for (int i = 0; i < 20; ++i) {
                nvlf_open_args good = args_for(daemon);
                nvlf_open_args bad = in_dir(missing);
                nvlf_fabric* fabric = nullptr;
                if (nvlf_open(&good, &fabric) != 0 || nvlf_close(fabric) != 0) ++wrong;
                if (nvlf_open(&bad, &fabric) != -ENOENT || !says(missing)) ++wrong;
            }
        });
    for (auto& thread : threads) thread.join();
    BOOST_TEST(wrong == 0);
}
