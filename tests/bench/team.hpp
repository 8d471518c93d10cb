// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Processes of one provider, started once and kept: they sleep while others are measured. So runs over different providers
// can take turns within milliseconds, and what the machine does meanwhile befalls them alike.
#pragma once

#include "figures.hpp"
#include "job.hpp"
#include "packets.hpp"
#include "processors.hpp"
#include "support/child_process.hpp"
#include "support/temp_dir.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace nvlf::bench {

struct TeamOptions {
    std::string provider{};
    std::size_t size = 2; // The even ones on the first processor, the odd ones on the second.
    bool thread_safe = false;
    bool wait_fd = false;
};

// What all teams have in common.
struct Ground {
    Processors processors{};
    std::vector<std::string> environment{}; // In which the fabric and the provider are found.
    pid_t daemon = 0;
    std::chrono::nanoseconds budget{}; // That a run of a job is to take.
};

class Team {
public:
    Team(TeamOptions options, const Ground& ground) : options_{std::move(options)}, ground_{ground} {}

    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // Does the job as often as fits the budget: how often that is, the first time tells. Starts the processes if there are
    // none. Throws NotOffered, or what went wrong; the processes are gone then.
    Figures measure(Job job);
    // The job as it is.
    Figures perform(const Job& job);

private:
    [[nodiscard]] std::uint64_t fitting(Job job); // How often it fits the budget.
    void start();
    void stop() noexcept;
    std::vector<nlohmann::json> answers();

    TeamOptions options_;
    const Ground& ground_;
    std::unique_ptr<test::TempDir> dir_{};
    std::vector<test::ChildProcess> processes_{};
    std::vector<Packets> members_{}; // By rank.
    std::map<std::string, std::uint64_t> counts_{};
};

} // namespace nvlf::bench
