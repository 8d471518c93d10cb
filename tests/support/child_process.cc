// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// fork and exec with a pidfd: the wait is a poll with a time-out, so a bound costs neither a signal handler nor a nap, and
// a recycled pid cannot be hit by mistake.
#include "support/child_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <ostream>
#include <sstream>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nvlf::test {
namespace {

using Clock = std::chrono::steady_clock;

// How often a state without a descriptor is looked at: fine enough for bounds of tens of milliseconds, and a thousand
// looks a second cost nothing.
constexpr std::chrono::milliseconds poll_interval{1};

[[noreturn]] void fail(const std::string& what) { throw std::system_error{errno, std::generic_category(), what}; }

int remaining_ms(Clock::time_point end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    return left > 0 ? static_cast<int>(left) : 0;
}

// Nothing to wait on but time itself: poll() with no descriptors.
void pause_briefly() { ::poll(nullptr, 0, static_cast<int>(poll_interval.count())); }

ExitStatus from_wait_status(int status) {
    if (WIFSIGNALED(status)) return {ExitStatus::Kind::Signaled, WTERMSIG(status)};
    return {ExitStatus::Kind::Exited, WEXITSTATUS(status)};
}

// In the child, between fork and exec: nothing here may throw.
void become_child(pid_t parent, const std::string& log) noexcept {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(125); // The parent died before the line above.
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (null < 0 || out < 0 || ::dup2(null, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(out, 2) < 0) ::_exit(125);
}

} // namespace

std::string ExitStatus::text() const {
    switch (kind) {
    case Kind::Running: return "still running";
    case Kind::Exited: return "exit code " + std::to_string(value);
    case Kind::Signaled: return std::string{"killed by "} + ::strsignal(value);
    }
    return "unknown";
}

std::ostream& operator<<(std::ostream& out, const ExitStatus& status) { return out << status.text(); }

ChildProcess ChildProcess::spawn(std::vector<std::string> argv, Options options) {
    // The child reports a failed exec through a pipe that a successful one closes.
    std::array<int, 2> report{};
    if (::pipe2(report.data(), O_CLOEXEC) != 0) fail("pipe2");

    std::vector<char*> pointers;
    for (auto& arg : argv) pointers.push_back(arg.data());
    pointers.push_back(nullptr);

    ChildProcess child;
    child.dir_ = std::make_unique<TempDir>();
    const auto log = *child.dir_ / "output";
    const pid_t parent = ::getpid();
    child.pid_ = ::fork();
    if (child.pid_ < 0) fail("fork");
    if (child.pid_ == 0) {
        become_child(parent, log);
        for (auto& variable : options.environment) {
            const auto equals = variable.find('=');
            if (equals == std::string::npos) ::unsetenv(variable.c_str());
            else ::putenv(variable.data());
        }
        if (options.directory.empty() || ::chdir(options.directory.c_str()) == 0)
            ::execvp(pointers[0], pointers.data());
        const int error = errno;
        [[maybe_unused]] const auto written = ::write(report[1], &error, sizeof error);
        ::_exit(127);
    }
    ::close(report[1]);
    int error = 0;
    const auto got = ::read(report[0], &error, sizeof error);
    ::close(report[0]);
    child.pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0));
    if (child.pidfd_ < 0) fail("pidfd_open");
    if (got > 0) throw std::system_error{error, std::generic_category(), "cannot run " + argv.at(0)};
    return child;
}

ChildProcess ChildProcess::fork(const std::function<int()>& body) {
    ChildProcess child;
    child.dir_ = std::make_unique<TempDir>();
    const auto log = *child.dir_ / "output";
    const pid_t parent = ::getpid();
    child.pid_ = ::fork();
    if (child.pid_ < 0) fail("fork");
    if (child.pid_ == 0) {
        become_child(parent, log);
        int code = 124; // An exception is not a verdict of `body`.
        try {
            code = body();
        } catch (const std::exception& error) {
            ::dprintf(2, "exception in child: %s\n", error.what());
        } catch (...) {
            ::dprintf(2, "exception in child\n");
        }
        ::_exit(code); // Not exit(): the parent's atexit handlers and Boost.Test's report are not ours.
    }
    child.pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0));
    if (child.pidfd_ < 0) fail("pidfd_open");
    return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : dir_{std::move(other.dir_)},
      pid_{std::exchange(other.pid_, -1)},
      pidfd_{std::exchange(other.pidfd_, -1)},
      status_{other.status_} {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
    std::swap(dir_, other.dir_);
    std::swap(pid_, other.pid_);
    std::swap(pidfd_, other.pidfd_);
    std::swap(status_, other.status_);
    return *this;
}

ChildProcess::~ChildProcess() {
    kill();
    if (pidfd_ >= 0) ::close(pidfd_);
}

ExitStatus ChildProcess::wait(std::chrono::milliseconds bound) {
    if (pid_ < 0 || !status_.running()) return status_;
    const auto end = Clock::now() + bound;
    for (;;) {
        pollfd waited{.fd = pidfd_, .events = POLLIN, .revents = 0};
        const int ready = ::poll(&waited, 1, remaining_ms(end));
        if (ready == 0) return status_;
        if (ready < 0 && errno == EINTR) continue;
        int status = 0;
        if (ready < 0 || ::waitpid(pid_, &status, 0) != pid_) fail("wait for child");
        status_ = from_wait_status(status);
        return status_;
    }
}

bool ChildProcess::wait_for_output(std::string_view text, std::chrono::milliseconds bound) {
    const auto end = Clock::now() + bound;
    for (;;) {
        // In this order: what a child printed before it ended is there when its end is seen.
        const bool ended = !wait(std::chrono::milliseconds{0}).running();
        if (output().find(text) != std::string::npos) return true;
        if (ended || Clock::now() >= end) return false;
        pause_briefly();
    }
}

void ChildProcess::signal(int number) noexcept {
    if (pidfd_ >= 0 && status_.running()) ::syscall(SYS_pidfd_send_signal, pidfd_, number, nullptr, 0);
}

void ChildProcess::kill() noexcept {
    if (pid_ < 0 || !status_.running()) return;
    signal(SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
    status_ = from_wait_status(status);
}

std::string ChildProcess::output() const {
    if (!dir_) return {};
    std::ifstream file{*dir_ / "output", std::ios::binary};
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

Completed run(std::vector<std::string> argv, std::chrono::milliseconds bound, ChildProcess::Options options) {
    auto child = ChildProcess::spawn(std::move(argv), std::move(options));
    const auto status = child.wait(bound);
    child.kill(); // Before its output is read, so that no more can come.
    return {status, child.output()};
}

Completed run(std::vector<std::string> argv, std::chrono::milliseconds bound) {
    return run(std::move(argv), bound, ChildProcess::Options{});
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds bound) {
    const auto end = Clock::now() + bound;
    while (!condition()) {
        if (Clock::now() >= end) return false;
        pause_briefly();
    }
    return true;
}

} // namespace nvlf::test
