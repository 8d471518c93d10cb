// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How nvlfd begins and ends: names, directories, leftovers, readiness, the background, idleness, other users.
#define BOOST_TEST_MODULE nvlfd_start
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon_process.hpp"

using namespace nvlf;
using namespace nvlf::test;

namespace {

const auto loops = boost::unit_test::data::make(event_loops());

// nvlfd that is expected not to come up.
Completed refused(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
    arguments.insert(arguments.begin(), program("nvlfd"));
    return run(std::move(arguments), patience, {std::move(environment), {}});
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::set<std::string> names_in(const TempDir& dir) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator{dir.path()}) names.insert(entry.path().filename());
    return names;
}

} // namespace

BOOST_DATA_TEST_CASE(a_signal_ends_it_with_0_and_nothing_but_the_directory_is_left, loops, loop) {
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
        DaemonProcess daemon{{"--event-loop", loop}};
        auto client = daemon.client();
        static_cast<void>(client.info());
        struct stat st {};
        BOOST_REQUIRE_EQUAL(::stat(daemon.socket().c_str(), &st), 0);
        BOOST_TEST((st.st_mode & 0777) == 0600);
        daemon.process().signal(number);
        BOOST_TEST(daemon.process().wait(patience).exited_with(0), daemon.process().output());
        BOOST_TEST(names_in(daemon.dir()).empty());
        char byte = 0;
        BOOST_TEST(::recv(client.fd(), &byte, 1, 0) == 0);
    }
}

BOOST_DATA_TEST_CASE(admin_down_is_answered_and_then_done, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    auto other = daemon.client();
    static_cast<void>(other.info());
    auto client = daemon.client();
    nvlf_ioc_admin_down down{};
    BOOST_TEST(client.ask(NVLF_CMD_ADMIN_DOWN, down) == EBUSY);
    down.flags = NVLF_DOWN_FORCE;
    BOOST_TEST(client.ask(NVLF_CMD_ADMIN_DOWN, down) == 0);
    BOOST_TEST(daemon.process().wait(patience).exited_with(0));
    BOOST_TEST(names_in(daemon.dir()).empty());
}

BOOST_AUTO_TEST_CASE(a_taken_name_is_refused_and_the_holder_is_named) {
    DaemonProcess daemon{{}, "red"};
    const auto second = refused({"--dir", daemon.dir().path(), "--fabric", "red"});
    BOOST_TEST(second.status.exited_with(1));
    BOOST_TEST(
        contains(second.output, "fabric 'red' is already running (pid " + std::to_string(daemon.process().pid()) + ")"),
        second.output);
    BOOST_TEST(daemon.client().info().clients == 1U); // It did not suffer.
}

BOOST_AUTO_TEST_CASE(fabrics_of_two_names_live_side_by_side) {
    DaemonProcess daemon{{}, "a"};
    auto second = ChildProcess::spawn({program("nvlfd")}, {{"NVLF_DIR=" + daemon.dir().path(), "NVLF_FABRIC=b"}, {}});
    BOOST_REQUIRE(second.wait_for_output("serves", patience));
    ContractClient b{daemon.dir() / "b.sock"};
    auto a = daemon.client();
    BOOST_TEST(std::string{a.info().fabric} == "a");
    BOOST_TEST(std::string{b.info().fabric} == "b");
    BOOST_TEST(std::memcmp(a.info().uuid, b.info().uuid, 16) != 0);
}

BOOST_DATA_TEST_CASE(the_socket_of_a_killed_nvlfd_is_in_nobodys_way, loops, loop) {
    DaemonProcess daemon{{"--event-loop", loop}};
    const std::uint64_t epoch = daemon.client().info().epoch;
    daemon.process().kill();
    BOOST_TEST(names_in(daemon.dir()).size() == 1U);
    auto next = ChildProcess::spawn({program("nvlfd"), "--dir", daemon.dir().path(), "--event-loop", loop});
    BOOST_REQUIRE_MESSAGE(next.wait_for_output("serves", patience), next.output());
    BOOST_TEST(daemon.client().info().epoch != epoch);
}

BOOST_AUTO_TEST_CASE(the_name_of_a_stopped_nvlfd_is_taken_although_it_does_not_answer) {
    DaemonProcess daemon;
    daemon.process().signal(SIGSTOP);
    const auto second = refused({"--dir", daemon.dir().path()});
    daemon.process().signal(SIGCONT);
    BOOST_TEST(second.status.exited_with(1));
    BOOST_TEST(contains(second.output, "does not answer"), second.output);
    BOOST_TEST(daemon.client().info().server_pid == static_cast<std::uint32_t>(daemon.process().pid()));
}

BOOST_AUTO_TEST_CASE(of_many_that_want_the_name_at_once_exactly_one_gets_it) {
    const TempDir dir;
    std::vector<ChildProcess> all;
    for (int i = 0; i < 8; ++i) all.push_back(ChildProcess::spawn({program("nvlfd"), "--dir", dir.path()}));
    const auto running = [&all] {
        std::size_t count = 0;
        for (auto& child : all) count += child.wait(0ms).running() ? 1 : 0;
        return count;
    };
    BOOST_TEST(eventually([&running] { return running() == 1; }, patience));
    ContractClient client{dir / "default.sock"};
    BOOST_TEST(client.info().clients == 1U);
    for (auto& child : all)
        if (!child.wait(0ms).running()) BOOST_TEST(contains(child.output(), "is already running"), child.output());
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_socket_is_not_removed) {
    const TempDir dir;
    dir.write("default.sock", "precious");
    const auto tried = refused({"--dir", dir.path()});
    BOOST_TEST(tried.status.exited_with(1));
    BOOST_TEST(contains(tried.output, "it is not a socket"), tried.output);
    BOOST_TEST(names_in(dir).size() == 1U);
}

BOOST_AUTO_TEST_CASE(wrong_usage_is_exit_code_2_and_says_what_is_wrong) {
    const TempDir dir;
    const std::string d = dir.path();
    const struct {
        std::vector<std::string> arguments;
        std::string says;
    } wrong[] = {
        {{"--dir", d, "--no-such-option"}, "--no-such-option"},
        {{"--dir", d, "--fabric", "a/b"}, "a/b"},
        {{"--dir", d, "--fabric", std::string(32, 'x')}, "is no name for a fabric"},
        {{"--dir", d, "--fabric", ".."}, "is no name for a fabric"},
        {{"--dir", d, "--topology", "fusion-mixed-9"}, "fusion-mixed-8"},
        {{"--dir", d, "--topology", "/nonexistent/x.toml"}, "/nonexistent/x.toml"},
        {{"--dir", d, "--topology", d}, "cannot be read"},
        {{"--dir", d, "--quota", "much"}, "--quota"},
        {{"--dir", d, "--ready-fd", "77"}, "77"},
        {{"--dir", d, "--event-loop", "select"}, "select"},
        {{"--dir", d, "--on-demand", "-1"}, "--on-demand"},
        {{"--dir", d, "--group", "no-such-group"}, "no-such-group"},
    };
    for (const auto& w : wrong) {
        const auto tried = refused(w.arguments);
        BOOST_TEST(tried.status.exited_with(2), w.says);
        BOOST_TEST(contains(tried.output, w.says), tried.output);
    }
    BOOST_TEST(names_in(dir).empty());
}

BOOST_AUTO_TEST_CASE(a_broken_topology_file_names_every_mistake_with_its_line) {
    const TempDir dir;
    const std::string file = dir.write("broken.toml", "name = 5\nnonsense = 1\n");
    const auto tried = refused({"--dir", dir.path(), "--topology", file});
    BOOST_TEST(tried.status.exited_with(2));
    BOOST_TEST(contains(tried.output, file + ":1:"), tried.output);
    BOOST_TEST(contains(tried.output, file + ":2:"), tried.output);
}

BOOST_AUTO_TEST_CASE(a_directory_that_is_not_safe_is_refused) {
    const TempDir dir;
    const std::string open = dir / "open";
    std::filesystem::create_directory(open);
    ::chmod(open.c_str(), 0777);
    const auto mode = refused({"--dir", open});
    BOOST_TEST(mode.status.exited_with(1));
    BOOST_TEST(contains(mode.output, "0777"), mode.output);
    const std::string link = dir / "link";
    std::filesystem::create_directory(dir / "real");
    ::chmod((dir / "real").c_str(), 0700);
    std::filesystem::create_directory_symlink(dir / "real", link);
    const auto linked = refused({"--dir", link});
    BOOST_TEST(linked.status.exited_with(1));
    BOOST_TEST(contains(linked.output, "symbolic link"), linked.output);
    const auto nowhere = refused({"--dir", dir / "no/such/parent"});
    BOOST_TEST(nowhere.status.exited_with(1));
    BOOST_TEST(contains(nowhere.output, "cannot be created"), nowhere.output);
}

BOOST_AUTO_TEST_CASE(a_directory_that_was_not_there_is_made_for_its_owner_alone) {
    const TempDir dir;
    const std::string fresh = dir / "fresh";
    auto child = ChildProcess::spawn({program("nvlfd"), "--dir", fresh});
    BOOST_REQUIRE(child.wait_for_output("serves", patience));
    struct stat st {};
    BOOST_REQUIRE_EQUAL(::stat(fresh.c_str(), &st), 0);
    BOOST_TEST((st.st_mode & 07777) == 0700);
}

BOOST_AUTO_TEST_CASE(the_ready_descriptor_gets_ready_or_the_reason) {
    DaemonProcess daemon;
    for (const bool good : {true, false}) {
        int ends[2];
        BOOST_REQUIRE_EQUAL(::pipe2(ends, 0), 0);
        Fd reader{ends[0]};
        Fd writer{ends[1]};
        auto child = ChildProcess::spawn({program("nvlfd"), "--dir", daemon.dir().path(), "--fabric",
                                          good ? "other" : "default", "--ready-fd", std::to_string(writer.get())});
        writer.reset();
        std::string text;
        char part[256];
        while (becomes_readable(reader.get())) {
            const ssize_t got = ::read(reader.get(), part, sizeof part);
            if (got <= 0) break;
            text.append(part, static_cast<std::size_t>(got));
        }
        if (good) BOOST_TEST(text == "ready\n");
        else BOOST_TEST(contains(text, "is already running"), text);
        BOOST_TEST(text.find('\n') == text.size() - 1); // One line.
    }
}

BOOST_DATA_TEST_CASE(in_the_background_it_serves_before_its_starter_is_told, loops, loop) {
    const TempDir dir;
    const auto started = run({program("nvlfd"), "--dir", dir.path(), "--daemonize", "--on-demand", "0", "--event-loop",
                              loop, "--log-file", dir / "log"},
                             patience);
    BOOST_TEST(started.status.exited_with(0), started.output);
    ContractClient client{dir / "default.sock"};
    BOOST_REQUIRE_EQUAL(client.error(), 0);
    const auto info = client.info();
    BOOST_TEST((info.caps & NVLF_CAP_ON_DEMAND) != 0U);
    const auto again = refused({"--dir", dir.path(), "--daemonize"});
    BOOST_TEST(again.status.exited_with(1));
    BOOST_TEST(contains(again.output, "is already running"), again.output);
    client.close(); // And ends with its last client.
    BOOST_TEST(eventually([&info] { return ::kill(static_cast<pid_t>(info.server_pid), 0) != 0; }, patience));
    BOOST_TEST((names_in(dir) == std::set<std::string>{"log"}));
}

BOOST_DATA_TEST_CASE(on_demand_it_ends_after_its_last_client_and_not_before, loops, loop) {
    DaemonProcess daemon{{"--on-demand", "1", "--event-loop", loop}};
    auto one = daemon.client();
    auto two = daemon.client();
    static_cast<void>(one.info());
    static_cast<void>(two.info());
    one.close();
    BOOST_TEST(daemon.process().wait(1500ms).running()); // Longer than its patience: two is still there.
    two.close();
    BOOST_TEST(daemon.process().wait(patience).exited_with(0));
    BOOST_TEST(names_in(daemon.dir()).empty());
}

BOOST_AUTO_TEST_CASE(a_background_nvlfd_keeps_nothing_open_of_its_starters) {
    const TempDir dir;
    int ends[2];
    BOOST_REQUIRE_EQUAL(::pipe2(ends, 0), 0); // Inherited by what we start.
    Fd reader{ends[0]};
    Fd writer{ends[1]};
    const auto started = run({program("nvlfd"), "--dir", dir.path(), "--daemonize", "--on-demand", "0"}, patience);
    BOOST_REQUIRE(started.status.exited_with(0));
    writer.reset();
    char byte = 0;
    BOOST_TEST(becomes_readable(reader.get()));
    BOOST_TEST(::read(reader.get(), &byte, 1) == 0); // Nobody else has the other end.
    ContractClient client{dir / "default.sock"};
    const auto pid = static_cast<pid_t>(client.info().server_pid);
    client.close();
    BOOST_TEST(eventually([pid] { return ::kill(pid, 0) != 0; }, patience));
}

BOOST_AUTO_TEST_CASE(systemd_is_told) {
    const TempDir dir;
    const Fd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = dir / "notify";
    std::memcpy(address.sun_path, path.data(), path.size());
    BOOST_REQUIRE_EQUAL(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    auto child = ChildProcess::spawn({program("nvlfd"), "--dir", dir.path()}, {{"NOTIFY_SOCKET=" + path}, {}});
    BOOST_REQUIRE(becomes_readable(socket.get()));
    char text[256]{};
    BOOST_TEST(::recv(socket.get(), text, sizeof text - 1, 0) > 0);
    BOOST_TEST(contains(text, "READY=1"));
}

BOOST_AUTO_TEST_CASE(the_dumped_state_is_the_image_of_the_topology) {
    const TempDir dir;
    const std::string file = dir / "x.state";
    const auto dumped = run({"/bin/sh", "-c", program("nvlfd") + " --dump-state trn2-16 > " + file}, patience);
    BOOST_REQUIRE(dumped.status.exited_with(0));
    std::ifstream in{file, std::ios::binary};
    const std::string image{std::istreambuf_iterator<char>{in}, {}};
    BOOST_REQUIRE_GE(image.size(), 8U);
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, image.data() + 8, sizeof bytes);
    BOOST_TEST(bytes == image.size());
}

// Root can be anybody; others cannot, and skip what needs a second user.
BOOST_AUTO_TEST_CASE(another_user_has_no_access_to_the_fabric_unless_in_its_group) {
    if (::geteuid() != 0) {
        BOOST_TEST_MESSAGE("needs root, to act as two users");
        return;
    }
    constexpr uid_t nobody = 65534;
    constexpr gid_t nogroup = 65534;
    const auto as_nobody = [](const std::function<int()>& body) {
        auto child = ChildProcess::fork([&body] {
            if (::setresgid(nogroup, nogroup, nogroup) != 0 || ::setresuid(nobody, nobody, nobody) != 0) return 99;
            return body();
        });
        return child.wait(patience);
    };
    DaemonProcess closed;
    BOOST_TEST(as_nobody([&closed] { return ContractClient{closed.socket()}.error(); }).exited_with(EACCES));

    DaemonProcess shared{{"--group", "nogroup"}};
    BOOST_TEST(as_nobody([&shared] {
                   ContractClient client{shared.socket()};
                   if (client.error() != 0) return client.error();
                   if (client.info().clients != 1) return 1;
                   nvlf_ioc_mem_alloc m{};
                   m.bytes = 1;
                   if (client.ask(NVLF_CMD_MEM_ALLOC, m) != 0) return 2;
                   nvlf_ioc_mem_export x{};
                   x.handle = m.handle;
                   x.access = NVLF_ACCESS_READ;
                   if (client.ask(NVLF_CMD_MEM_EXPORT, x) != 0) return 3;
                   nvlf_ioc_mem_import i{};
                   std::memcpy(i.token, x.token, sizeof i.token);
                   if (client.ask(NVLF_CMD_MEM_IMPORT, i) != 0) return 4;
                   // What was granted for reading cannot be traded for more.
                   const std::string path = "/proc/self/fd/" + std::to_string(client.reply.fds[i.mem_fd].get());
                   if (::open(path.c_str(), O_RDWR | O_CLOEXEC) >= 0 || errno != EACCES) return 5;
                   nvlf_ioc_admin_down down{};
                   if (client.ask(NVLF_CMD_ADMIN_DOWN, down) != EPERM) return 6;
                   nvlf_ioc_client who{};
                   return client.ask(NVLF_CMD_GET_CLIENT, who) == EPERM ? 0 : 7;
               }).exited_with(0));

    // Two users' implied directories do not meet either.
    const TempDir tmp;
    ::chmod(tmp.path().c_str(), 01777);
    std::filesystem::create_directory(tmp / "nvlf-0");
    BOOST_REQUIRE_EQUAL(::chown((tmp / "nvlf-0").c_str(), nobody, nogroup), 0);
    const auto foreign = refused({}, {"TMPDIR=" + tmp.path(), "NVLF_DIR", "XDG_RUNTIME_DIR"});
    BOOST_TEST(foreign.status.exited_with(1));
    BOOST_TEST(contains(foreign.output, "belongs to uid 65534"), foreign.output);
}
