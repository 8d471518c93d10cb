// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "driver/on_demand.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/fd.hpp"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace nvlf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* linger_seconds = "2"; // How long an on-demand fabric outlives its last client.

bool executable(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// clone() as fork(), but for the exit signal: none. Raw, because glibc's fork() would run the host's atfork handlers for a
// child that is none of its business. All-zero arguments mean the same in every architecture's argument order.
pid_t quiet_fork() noexcept { return static_cast<pid_t>(::syscall(SYS_clone, 0UL, 0UL, 0UL, 0UL, 0UL)); }

// Everything that the child needs, made before the clone: after it, in a copy of a process with threads, only system calls
// are safe.
struct ChildPlan {
    const char* program;
    char* const* argv;
    char* const* environment;
    int ready; // Above 2.
};

void close_all_but(int keep) noexcept {
    const auto close_range = [](unsigned first, unsigned last) {
        return ::syscall(SYS_close_range, first, last, 0U) == 0;
    };
    const auto kept = static_cast<unsigned>(keep);
    if ((kept == 3 || close_range(3, kept - 1)) && close_range(kept + 1, UINT_MAX)) return;
    // Before Linux 5.9, or refused by a sandbox.
    constexpr rlim_t most = 1U << 20;
    rlimit limit{};
    const rlim_t end = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::min(limit.rlim_cur, most) : most;
    for (int fd = 3; static_cast<rlim_t>(fd) < end; ++fd)
        if (fd != keep) ::close(fd);
}

// The host's ignored signals and its mask would outlive exec: nvlfd would not hear SIGTERM.
void default_signals() noexcept {
    // By the system call: glibc keeps 32 and 33 for itself and would leave them ignored. All zero is SIG_DFL in the
    // kernel's struct, which nowhere is longer than this. SIGKILL and SIGSTOP refuse.
    constexpr std::array<unsigned long, 8> action{};
    constexpr std::size_t mask_bytes = 8;
    for (int number = 1; number <= 64; ++number)
        ::syscall(SYS_rt_sigaction, number, action.data(), nullptr, mask_bytes);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become_daemon(const ChildPlan& plan) noexcept {
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd)
        if (null >= 0 && fd != null) ::dup2(null, fd);
    ::fcntl(plan.ready, F_SETFD, 0);
    close_all_but(plan.ready);
    default_signals();
    ::execve(plan.program, plan.argv, plan.environment);
    const int error = errno;
    constexpr std::string_view text{"it cannot be executed: "};
    [[maybe_unused]] auto written = ::write(plan.ready, text.data(), text.size());
    const char* reason = ::strerrordesc_np(error); // A table lookup.
    if (reason != nullptr) written = ::write(plan.ready, reason, std::strlen(reason));
    ::_exit(127);
}

[[noreturn]] void middle_process(const ChildPlan& plan) noexcept {
    ::setsid(); // Away from the host's terminal and its process group's signals.
    const pid_t daemon = quiet_fork();
    if (daemon == 0) become_daemon(plan);
    ::_exit(daemon < 0 ? 1 : 0);
}

// No handler of the host's may run in the child before exec: they know nothing of it.
class AllSignalsBlocked {
public:
    AllSignalsBlocked() noexcept {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    AllSignalsBlocked(const AllSignalsBlocked&) = delete;
    AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

private:
    sigset_t before_;
};

Errno launch(const ChildPlan& plan) {
    pid_t middle = -1;
    {
        const AllSignalsBlocked blocked;
        middle = quiet_fork();
        if (middle == 0) middle_process(plan);
    }
    if (middle < 0) return last_errno();
    int status = 0;
    // __WALL: a child without exit signal is not waited for otherwise. Works where SIGCHLD is ignored, too.
    while (::waitpid(middle, &status, __WALL) < 0)
        if (errno != EINTR) return last_errno();
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Errno{} : Errno{EAGAIN};
}

struct Pipe {
    Fd read;
    Fd write;
};

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return last_errno();
    Pipe pipe{Fd{ends[0]}, Fd{ends[1]}};
    // The child overwrites 0 to 2, which are these where the host closed its own.
    if (pipe.write.get() < 3) {
        const int moved = ::fcntl(pipe.write.get(), F_DUPFD_CLOEXEC, 3);
        if (moved < 0) return last_errno();
        pipe.write.reset(moved);
    }
    return pipe;
}

// Reads to the end of the pipe; nothing when the time is over first.
std::optional<std::string> read_verdict(int fd, Clock::time_point end) {
    constexpr std::size_t longest = 4096; // A daemon that says more than that is not listened to.
    std::string text;
    while (text.size() < longest) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
        if (left <= 0) return std::nullopt;
        pollfd waited{fd, POLLIN, 0};
        const int ready = ::poll(&waited, 1, static_cast<int>(left));
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        std::array<char, 512> chunk;
        const ssize_t got = ::read(fd, chunk.data(), chunk.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(chunk.data(), static_cast<std::size_t>(got));
        if (text == "ready\n") break; // Whether or not it has closed its end yet.
    }
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
}

} // namespace

std::vector<std::string> nvlfd_places(std::string_view library_dir, std::string_view path) {
    std::vector<std::string> places;
    if (!library_dir.empty())
        // lib/libnvlf.so and the build tree; then Debian's lib/<multiarch>/libnvlf.so.
        for (const char* relative : {"/../bin", "/../libexec/nvlf", "/../../bin", "/../../libexec/nvlf"})
            places.push_back(std::string{library_dir} + relative + "/nvlfd");
    while (!path.empty()) {
        const auto folder = path.substr(0, path.find(':'));
        path.remove_prefix(std::min(path.size(), folder.size() + 1));
        // Not relative ones: a daemon must not come from whatever directory the host happens to stand in.
        if (!folder.empty() && folder.front() == '/') places.push_back(std::string{folder} + "/nvlfd");
    }
    return places;
}

std::string library_dir() {
    Dl_info info{};
    // Any object of ours tells where we are; a function's address would need a cast that is only conditionally supported.
    if (::dladdr(&linger_seconds, &info) == 0 || info.dli_fname == nullptr) return {};
    const std::unique_ptr<char, void (*)(void*)> resolved{::realpath(info.dli_fname, nullptr), ::free};
    if (!resolved) return {};
    const std::string_view file{resolved.get()};
    return std::string{file.substr(0, file.rfind('/'))};
}

Result<std::string> find_nvlfd(std::string& ret_why) {
    if (const char* named = ::secure_getenv("NVLF_NVLFD"); named != nullptr && *named != '\0') {
        if (executable(named)) return std::string{named};
        ret_why = std::string{"NVLF_NVLFD names "} + named + ", which is no executable file";
        return Errno{ENOENT};
    }
    const char* path = ::secure_getenv("PATH");
    const auto places = nvlfd_places(library_dir(), path != nullptr ? path : "");
    for (const std::string& place : places) {
        if (!executable(place)) continue;
        // As the process list will show it: without the dots.
        const std::unique_ptr<char, void (*)(void*)> resolved{::realpath(place.c_str(), nullptr), ::free};
        return resolved ? std::string{resolved.get()} : place;
    }
    ret_why = "the daemon nvlfd was not found; looked for";
    for (const std::string& place : places) ret_why += ' ' + place;
    ret_why += "; NVLF_NVLFD can name it";
    return Errno{ENOENT};
}

Errno start_daemon(const DaemonStart& start, std::chrono::milliseconds bound, std::string& ret_why) {
    const auto end = Clock::now() + bound;
    Result<Pipe> pipe = make_pipe();
    if (!pipe) {
        ret_why = std::string{"no pipe to the daemon: "} + ::strerrordesc_np(pipe.error().value());
        return pipe.error();
    }
    std::vector<std::string> arguments{start.program,  "--fabric",   start.fabric,
                                       "--dir",        start.dir,    "--on-demand",
                                       linger_seconds, "--ready-fd", std::to_string(pipe->write.get())};
    if (!start.topology.empty()) arguments.insert(arguments.end(), {"--topology", start.topology});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);

    const Errno error = launch({start.program.c_str(), argv.data(), ::environ, pipe->write.get()});
    if (error.failed()) {
        ret_why = std::string{"no process for "} + start.program + ": " + ::strerrordesc_np(error.value());
        return error;
    }
    pipe->write.reset(); // The daemon's copy is the last: its death is the end of the pipe.
    const std::optional<std::string> verdict = read_verdict(pipe->read.get(), end);
    if (verdict == "ready") return Errno{};
    ret_why =
        start.program + (verdict ? " did not come up: " + (verdict->empty() ? "it ended without a word" : *verdict)
                                 : " did not come up in " + std::to_string(bound.count() / 1000) + " s");
    return Errno{verdict ? EAGAIN : ETIMEDOUT};
}

} // namespace nvlf
