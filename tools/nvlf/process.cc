// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "process.hpp"

#include "failure.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nvlf::cli {

namespace {

class Descriptor {
public:
    explicit Descriptor(int fd = -1) noexcept : fd_{fd} {}
    Descriptor(Descriptor&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Descriptor() { close(); }
    [[nodiscard]] int get() const noexcept { return fd_; }
    void close() noexcept {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }

private:
    int fd_;
};

struct Pipe {
    Descriptor read;
    Descriptor write;
};

Pipe make_pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) throw Failure{kFailed, "pipe: cannot make one: " + cause(errno)};
    return {Descriptor{fds[0]}, Descriptor{fds[1]}};
}

std::vector<char*> pointers(const std::vector<std::string>& argv) {
    std::vector<char*> result;
    for (const std::string& argument : argv) result.push_back(const_cast<char*>(argument.c_str())); // exec's idiom.
    result.push_back(nullptr);
    return result;
}

class Actions {
public:
    Actions() { ::posix_spawn_file_actions_init(&actions_); }
    ~Actions() { ::posix_spawn_file_actions_destroy(&actions_); }
    Actions(const Actions&) = delete;
    Actions& operator=(const Actions&) = delete;
    // Also with fd == as: it then only loses its close-on-exec flag.
    void give(int fd, int as) { ::posix_spawn_file_actions_adddup2(&actions_, fd, as); }
    void give_null_input() { ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0); }
    [[nodiscard]] const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

private:
    posix_spawn_file_actions_t actions_{};
};

pid_t start(const std::vector<std::string>& argv, const Actions& actions) {
    // No signal blocked: HeldSignals is our own business.
    posix_spawnattr_t attributes;
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = -1;
    const auto arguments = pointers(argv);
    const int error = ::posix_spawn(&pid, argv.front().c_str(), actions.get(), &attributes, arguments.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    if (error != 0) throw Failure{kFailed, fmt::format("{}: cannot be executed: {}", argv.front(), cause(error))};
    return pid;
}

int wait_for(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) throw Failure{kFailed, "child process: cannot wait for it: " + cause(errno)};
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Reads what is there; false at the end.
bool drain(int fd, std::string& into) {
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && errno == EINTR);
}

constexpr int kReadyFd = 3; // Its number in the daemon.

// Its words go on as our own: its name before each line would only puzzle.
std::string without_name(const std::string& text) {
    constexpr std::string_view name{"nvlfd: "};
    std::string out;
    std::istringstream lines{text};
    for (std::string line; std::getline(lines, line);)
        out += (out.empty() ? "" : "\n") + (line.rfind(name, 0) == 0 ? line.substr(name.size()) : line);
    return out;
}

} // namespace

void open_standard_streams() {
    int fd = ::open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
    if (fd >= 0) ::close(fd); // The first above the streams.
}

Finished run_and_read(const std::vector<std::string>& argv) {
    Pipe out = make_pipe();
    Pipe err = make_pipe();
    Actions actions;
    actions.give_null_input();
    actions.give(out.write.get(), STDOUT_FILENO);
    actions.give(err.write.get(), STDERR_FILENO);
    const pid_t pid = start(argv, actions);
    out.write.close();
    err.write.close();

    Finished finished;
    std::array<pollfd, 2> polled{{{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) break;
        if (polled[0].revents != 0 && !drain(polled[0].fd, finished.out)) polled[0].fd = -1;
        if (polled[1].revents != 0 && !drain(polled[1].fd, finished.err)) polled[1].fd = -1;
    }
    finished.exit_code = wait_for(pid);
    finished.err = without_name(finished.err);
    return finished;
}

HeldSignals::HeldSignals() {
    sigset_t held;
    ::sigemptyset(&held);
    for (const int number : {SIGHUP, SIGINT, SIGTERM}) ::sigaddset(&held, number);
    ::sigprocmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

bool HeldSignals::any() const {
    sigset_t waiting;
    if (::sigpending(&waiting) != 0) return false;
    for (const int number : {SIGHUP, SIGINT, SIGTERM})
        if (::sigismember(&waiting, number) == 1 && ::sigismember(&before_, number) == 0) return true;
    return false;
}

Started start_daemon(std::vector<std::string> argv) {
    Pipe ready = make_pipe();
    // What it says before it has let go of our terminal: the mistakes in a topology file are many lines. A file in memory
    // and not a pipe: the daemon may keep its end for good, and nobody would read it.
    const Descriptor said{::memfd_create("nvlfd-stderr", MFD_CLOEXEC)};
    Actions actions;
    actions.give_null_input();
    if (said.get() >= 0) actions.give(said.get(), STDERR_FILENO);
    actions.give(ready.write.get(), kReadyFd); // Last: another of ours may have the number.
    argv.insert(argv.end(), {"--ready-fd", std::to_string(kReadyFd)});
    const pid_t pid = start(argv, actions);
    ready.write.close();

    std::string verdict;
    while (verdict != "ready\n" && drain(ready.read.get(), verdict)) {}
    Started started;
    started.exit_code = wait_for(pid);
    started.ready = verdict == "ready\n";
    if (started.ready) return started;
    std::string lines;
    if (said.get() >= 0 && ::lseek(said.get(), 0, SEEK_SET) == 0)
        while (drain(said.get(), lines)) {}
    started.words =
        without_name(lines.empty() ? verdict : lines); // The lines hold the verdict, and what else there is.
    if (started.words.empty())
        started.words = fmt::format("{} ended without a word (exit code {})", argv.front(), started.exit_code);
    return started;
}

int replace_by(const std::vector<std::string>& argv, bool search) {
    const auto arguments = pointers(argv);
    if (search) ::execvp(argv.front().c_str(), arguments.data());
    else ::execv(argv.front().c_str(), arguments.data());
    return errno;
}

} // namespace nvlf::cli
