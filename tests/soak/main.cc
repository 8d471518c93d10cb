// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// usage: soak [--seconds 60] [--seed N] [--processes 5] [--kill-nvlfd-every 20]
//
// Random libfabric calls from several processes at once, some with several threads, for as long as one likes. Processes
// are killed, stopped for a while, end without a word and come again; so, now and then, does nvlfd. Every byte that
// arrives is checked, every failure must have an excuse, nothing may hang, and under a sanitizer nothing may be reported
// (see traffic.hpp for the judge). Prints a line every ten seconds, and the seed: the same seed makes the same plan, but
// the processes' scheduling is the machine's.
//
// Exit code: 0 no finding, 1 findings, 2 wrong arguments.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>

#include "soak/board.hpp"
#include "soak/errand.hpp"
#include "soak/traffic.hpp"
#include "soak/worker.hpp"
#include "support/fabric_daemon.hpp"
#include "support/paths.hpp"

using namespace nvlf::soak;
using nvlf::test::FabricDaemon;
using std::chrono::milliseconds;

namespace {

constexpr auto fabric_excuse = std::chrono::seconds{15}; // Since nvlfd was killed.

Board& share_board() {
    void* at = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::system_error{errno, std::generic_category(), "mmap"};
    return *new (at) Board;
}

// A worker, as its parent sees it.
struct Worker {
    pid_t pid = -1;
    int pidfd = -1;
    bool killed = false;
    bool stopped = false;
};

class Soak {
public:
    Soak(std::uint64_t seed, unsigned processes, std::chrono::seconds nvlfd_every)
        : random_{seed}, nvlfd_every_{nvlfd_every}, workers_(processes), board_{share_board()} {
        ::setenv("FI_PROVIDER_PATH", nvlf::test::provider_dir().c_str(), 1);
        ::setenv("NVLF_DIR", daemon_.dir().c_str(), 1);
        ::setenv("NVLF_FABRIC", daemon_.fabric().c_str(), 1);
        ::setenv("NVLF_ON_DEMAND", "0", 1);
    }
    ~Soak() {
        for (Worker& worker : workers_) {
            if (worker.pid < 0) continue;
            (void)::kill(worker.pid, SIGKILL);
            (void)::waitpid(worker.pid, nullptr, 0);
            (void)::close(worker.pidfd);
        }
    }
    Soak(const Soak&) = delete;
    Soak& operator=(const Soak&) = delete;

    [[nodiscard]] bool run(std::chrono::seconds time) {
        begin_ = Clock::now();
        end_ = begin_ + time;
        next_report_ = begin_ + std::chrono::seconds{10};
        next_nvlfd_ = begin_ + nvlfd_every_;
        while (!found_ && Clock::now() < end_) {
            for (unsigned i = 0; i < workers_.size(); ++i)
                if (workers_[i].pid < 0) spawn(i);
            reap(milliseconds{20 + draw(random_, 600)});
            disturb();
            if (Clock::now() >= next_report_) report();
        }
        for (Worker& worker : workers_) resume(worker);
        const auto patience = Clock::now() + std::chrono::seconds{30};
        while (!found_ && anybody() && Clock::now() < patience) reap(milliseconds{100});
        if (!found_ && anybody()) finding("a process does not end");
        report();
        report_errands(time);
        return !found_;
    }

private:
    void spawn(unsigned index) {
        Worker& worker = workers_[index];
        const WorkerOptions options{index, random_(), milliseconds{1000 + draw(random_, 15000)}};
        std::fflush(nullptr);
        const pid_t pid = ::fork(); // This process has no threads, and has not touched libfabric.
        if (pid < 0) return finding("fork fails");
        if (pid == 0) std::exit(work(board_, options));
        worker = {};
        worker.pid = pid;
        worker.pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    }

    // Takes in whoever ends within the time.
    void reap(milliseconds time) {
        std::vector<pollfd> fds;
        for (const Worker& worker : workers_)
            if (worker.pid >= 0) fds.push_back({worker.pidfd, POLLIN, 0});
        (void)::poll(fds.data(), fds.size(), static_cast<int>(time.count()));
        for (unsigned i = 0; i < workers_.size(); ++i) {
            Worker& worker = workers_[i];
            int status = 0;
            if (worker.pid < 0 || ::waitpid(worker.pid, &status, WNOHANG) != worker.pid) continue;
            (void)::close(worker.pidfd);
            board_.cards[i].turn();
            const bool excused = Clock::now() - nvlfd_killed_ < fabric_excuse;
            if (WIFSIGNALED(status) && !(worker.killed && WTERMSIG(status) == SIGKILL))
                finding(fmt::format("process {} was ended by signal {}", i, WTERMSIG(status)));
            if (WIFEXITED(status) && WEXITSTATUS(status) != exit_well &&
                !(WEXITSTATUS(status) == exit_fabric_gone && excused))
                finding(fmt::format("process {} ended with {}", i, WEXITSTATUS(status)));
            worker.pid = -1;
        }
    }

    void disturb() {
        Worker& worker = workers_[draw(random_, workers_.size())];
        const std::uint64_t lot = draw(random_, 100);
        if (worker.pid >= 0 && lot < 20) {
            worker.killed = true;
            (void)::kill(worker.pid, SIGKILL);
        } else if (worker.pid >= 0 && lot < 35) {
            worker.stopped = true;
            (void)::kill(worker.pid, SIGSTOP);
        } else {
            for (Worker& other : workers_) resume(other);
        }
        if (nvlfd_every_.count() == 0 || Clock::now() < next_nvlfd_) return;
        next_nvlfd_ = Clock::now() + nvlfd_every_;
        nvlfd_killed_ = Clock::now();
        daemon_.kill();
        daemon_.start();
    }

    void resume(Worker& worker) {
        if (worker.pid >= 0 && worker.stopped) (void)::kill(worker.pid, SIGCONT);
        worker.stopped = false;
    }

    [[nodiscard]] bool anybody() const {
        return std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.pid >= 0; });
    }

    void finding(const std::string& what) {
        fmt::print(stderr, "soak: FINDING: {}\n", what);
        found_ = true;
    }

    void report() {
        next_report_ = Clock::now() + std::chrono::seconds{10};
        const auto at = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin_).count();
        const auto n = [&](Count what) { return board_.get(what); };
        fmt::print("{:6} s  lives {}  sent {}  received {} (+{} cut off)  written {}  read {}  atomics {}  peeked {}  "
                   "cancelled {}  peer gone {}\n",
                   at, n(Count::lives), n(Count::sent), n(Count::received), n(Count::truncated), n(Count::written),
                   n(Count::read), n(Count::atomics), n(Count::peeked), n(Count::cancelled), n(Count::peer_gone));
        std::fflush(stdout);
    }

    // In a minute all of them have their turn, or something keeps them from it.
    void report_errands(std::chrono::seconds time) {
        for (std::size_t i = 0; i < errands().size(); ++i) {
            const std::uint64_t times = board_.errands[i].load(std::memory_order_relaxed);
            fmt::print("{:>9} x {}\n", times, errands()[i].name);
            if (times == 0 && time >= std::chrono::minutes{1} && !found_)
                finding(fmt::format("errand '{}' never came to its end", errands()[i].name));
        }
        std::fflush(stdout);
    }

    Random random_;
    std::chrono::seconds nvlfd_every_;
    std::vector<Worker> workers_;
    Board& board_;
    FabricDaemon daemon_;
    Clock::time_point begin_, end_, next_report_, next_nvlfd_;
    Clock::time_point nvlfd_killed_ = Clock::now() - std::chrono::hours{1};
    bool found_ = false;
};

} // namespace

int main(int argc, char** argv) try {
    std::uint64_t seconds = 60, nvlfd_every = 20, seed = std::random_device{}();
    unsigned processes = 5;
    CLI::App app{"Random libfabric calls, checked, from processes that come, are killed and come again"};
    app.add_option("--seconds", seconds, "How long")->capture_default_str();
    app.add_option("--seed", seed, "Of the plan; random when not given");
    app.add_option("--processes", processes, "At a time")->check(CLI::Range(1U, max_processes))->capture_default_str();
    app.add_option("--kill-nvlfd-every", nvlfd_every, "Seconds; 0: never")->capture_default_str();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const int code = app.exit(error);
        return code == 0 ? 0 : 2;
    }
    fmt::print("soak: seed {}, {} processes, {} s\n", seed, processes, seconds);
    std::fflush(stdout);
    Soak soak{seed, processes, std::chrono::seconds{nvlfd_every}};
    return soak.run(std::chrono::seconds{seconds}) ? 0 : 1;
} catch (const std::exception& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
}
