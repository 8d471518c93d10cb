// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "soak/worker.hpp"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "soak/errand.hpp"
#include "soak/traffic.hpp"

namespace nvlf::soak {
namespace {

// A child that inherited the endpoint must be refused, and must not disturb its parent.
void fork_once(Station& station) {
    const pid_t child = ::fork();
    if (child < 0) return; // Too many processes: not what is tested.
    if (child == 0) {
        char byte = 0;
        ::_exit(fi_recv(station.ep.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr) == -FI_EOPBADSTATE ? 0 : 1);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0)
        throw Finding{"a forked child may use the endpoint, or crashed: status " + std::to_string(status)};
}

void run_errand(Board& board, Random& random) {
    const std::size_t which = draw(random, errands().size());
    try {
        errands()[which].run(random);
    } catch (const Finding& finding) {
        throw Finding{std::string{"errand "} + errands()[which].name + ": " + finding.what()};
    } catch (const test::FabricError& error) {
        // Of what goes wrong in a corner of one's own, the fabric's end is the only excuse.
        throw FabricGone{std::string{"errand "} + errands()[which].name + ": " + error.what()};
    }
    board.errands[which].fetch_add(1, std::memory_order_relaxed);
}

class Life {
public:
    Life(Board& board, const WorkerOptions& options, Random& random, std::uint64_t life)
        : board_{board},
          threads_{chance(random, 50) ? 2U : 1U},
          station_{random, threads_},
          traffic_{board, station_, options.me, life} {
        board.cards[options.me].show(station_.presence(life));
        board.count(Count::lives);
    }

    void run(Random& random, Clock::time_point until) {
        std::vector<std::thread> threads;
        for (unsigned i = 1; i < threads_; ++i)
            threads.emplace_back([this, until, seed = random()] { drive(Random{seed}, until, false); });
        drive(Random{random()}, until, threads_ == 1);
        for (auto& thread : threads) thread.join();
        if (trouble_) std::rethrow_exception(trouble_);
    }

private:
    void drive(Random random, Clock::time_point until, bool forks) noexcept try {
        while (!stop_.load(std::memory_order_relaxed) && Clock::now() < until) {
            for (int i = 0; i < 500; ++i) traffic_.act(random);
            traffic_.review();
            if (chance(random, 30)) run_errand(board_, random);
            if (forks && chance(random, 1)) fork_once(station_);
        }
    } catch (...) {
        if (!stop_.exchange(true)) trouble_ = std::current_exception(); // The first; others may follow from it.
    }

    Board& board_;
    unsigned threads_;
    Station station_;
    Traffic traffic_; // Its buffers outlive no endpoint: closed first, see ~Life.
    std::atomic<bool> stop_{false};
    std::exception_ptr trouble_;

public:
    // What is under way may still touch the book's buffers.
    ~Life() { station_.ep.reset(); }
    Life(const Life&) = delete;
    Life& operator=(const Life&) = delete;
};

} // namespace

int work(Board& board, const WorkerOptions& options) try {
    Random random{options.seed};
    const auto end = Clock::now() + options.time;
    for (std::uint64_t life = options.seed; Clock::now() < end; ++life) {
        const auto until = std::min(end, Clock::now() + std::chrono::milliseconds{200 + draw(random, 4000)});
        Life now{board, options, random, life};
        now.run(random, until);
        board.cards[options.me].turn();             // Before it is gone: nobody may think that it should be there.
        if (chance(random, 10)) ::_exit(exit_well); // Without a word.
    }
    return exit_well;
} catch (const FabricGone& gone) {
    fmt::print(stderr, "soak: process {}: the fabric is gone: {}\n", options.me, gone.what());
    return exit_fabric_gone;
} catch (const test::FabricError& error) {
    // Opening fails like this while nvlfd is being replaced.
    fmt::print(stderr, "soak: process {}: {}\n", options.me, error.what());
    return exit_fabric_gone;
} catch (const std::exception& finding) {
    fmt::print(stderr, "soak: process {}, seed {}: FINDING: {}\n", options.me, options.seed, finding.what());
    return exit_finding;
}

} // namespace nvlf::soak
