// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A child that cannot outlive the test or hang it. Every wait has a bound; the destructor kills and reaps; the kernel
// kills the child if the test itself dies (PR_SET_PDEATHSIG). Output goes to files in a TempDir rather than pipes: nobody
// has to drain them, and a failed test can print them.
//
//     auto child = ChildProcess::spawn({program("nvlfd"), "--fabric", "t"}, {.environment = {"NVLF_DIR=" + dir.path()}});
//     BOOST_REQUIRE(child.wait_for_output("ready", 5s));
//     child.signal(SIGTERM);
//     BOOST_TEST(child.wait(5s).exited_with(0), child.output());
#pragma once

#include "support/temp_dir.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace nvlf::test {

// What became of a child. Printable, so that BOOST_TEST can say it.
struct ExitStatus {
    enum class Kind { Running, Exited, Signaled };
    Kind kind = Kind::Running;
    int value = 0; // Exit code, or signal number.

    [[nodiscard]] bool running() const noexcept { return kind == Kind::Running; }
    [[nodiscard]] bool exited_with(int code) const noexcept { return kind == Kind::Exited && value == code; }
    [[nodiscard]] bool killed_by(int signal) const noexcept { return kind == Kind::Signaled && value == signal; }
    [[nodiscard]] std::string text() const;
    bool operator==(const ExitStatus&) const = default;
};
std::ostream& operator<<(std::ostream& out, const ExitStatus& status);

class ChildProcess {
public:
    struct Options {
        std::vector<std::string> environment{}; // "NAME=value": added to the test's own; "NAME" alone removes.
        std::string directory{};                // Working directory; empty: the test's.
    };

    // Starts argv[0], looked up in PATH. Throws std::system_error if it cannot even be executed.
    static ChildProcess spawn(std::vector<std::string> argv, Options options);
    static ChildProcess spawn(std::vector<std::string> argv) { return spawn(std::move(argv), Options{}); }

    // Forks and runs `body` in the child, whose return value is the exit code. Only for tests with one thread.
    static ChildProcess fork(const std::function<int()>& body);

    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&& other) noexcept;
    ~ChildProcess();

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }

    // Waits until the child ends or the bound is over, and says which. May be called again; the status is kept.
    ExitStatus wait(std::chrono::milliseconds bound);

    // Waits until standard output and error together contain `text`; false when the bound passes or the child ends
    // without it.
    bool wait_for_output(std::string_view text, std::chrono::milliseconds bound);

    // Sends a signal; harmless if the child has been reaped.
    void signal(int number) noexcept;

    // SIGKILL, and reaps.
    void kill() noexcept;

    [[nodiscard]] std::string output() const; // Everything on stdout and stderr so far, as it came.

private:
    ChildProcess() = default;

    std::unique_ptr<TempDir> dir_{};
    pid_t pid_ = -1;
    int pidfd_ = -1;
    ExitStatus status_{};
};

// Runs to the end and returns what it printed; kills at the bound. For commands of the `nvlf topo` kind.
struct Completed {
    ExitStatus status;
    std::string output;
};
Completed run(std::vector<std::string> argv, std::chrono::milliseconds bound, ChildProcess::Options options);
Completed run(std::vector<std::string> argv, std::chrono::milliseconds bound);

// Polls `condition` until it holds or the bound is over. For states that have no descriptor to wait on, such as "no
// process is left"; where there is one, poll that.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds bound);

} // namespace nvlf::test
