// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See team.hpp. The other half of each exchange is in worker.cc.
#include "team.hpp"

#include "endpoint.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace nvlf::bench {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto answer_bound = 60s; // Whoever takes longer hangs: a run takes a fraction of a second.
constexpr std::uint64_t most = 2'000'000;

} // namespace

Team::~Team() {
    members_.clear(); // Which tells them to end; they leave nothing behind if they may do so by themselves.
    for (auto& process : processes_) (void)process.wait(5s);
}

Figures Team::measure(Job job) {
    std::uint64_t& count = counts_[fmt::format("{} {} {} {}", job.work, job.bytes, job.both, job.memory)];
    if (count == 0) count = fitting(job);
    job.count = count;
    return perform(job);
}

// Timed from outside: what the job takes in all, its checks included.
std::uint64_t Team::fitting(Job job) {
    const double budget = std::chrono::duration<double, std::nano>(ground_.budget).count();
    // Few on a busy machine too, where each wait for the other process may cost a time slice.
    const double trial = std::clamp(budget / 500'000, 2.0, 20.0);
    job.count = static_cast<std::uint64_t>(trial);
    (void)perform(job); // Meets whatever is made on first use.
    // Twice, because a trial of few is mostly its beginning and its end; once where that fills the budget already.
    for (int step = 0; step < 2; ++step) {
        const auto start = Clock::now();
        (void)perform(job);
        const double took = ns_between(start, Clock::now());
        if (took >= budget) break;
        job.count =
            static_cast<std::uint64_t>(std::clamp(budget / took * static_cast<double>(job.count), trial, 1.0 * most));
    }
    return job.count;
}

Figures Team::perform(const Job& job) try {
    if (members_.empty()) start();
    for (const Packets& member : members_) member.send(job);
    return answers().front().get<Figures>();
} catch (const NotOffered&) {
    throw;
} catch (...) {
    stop();
    throw;
}

void Team::start() try {
    dir_ = std::make_unique<test::TempDir>();
    const std::string path = *dir_ / "s";
    const Packets door = Packets::listen(path);
    std::vector<std::string> environment = ground_.environment;
    environment.push_back("FI_PROVIDER=" + options_.provider); // Others need not even be looked for.
    for (std::size_t rank = 0; rank < options_.size; ++rank)
        processes_.push_back(test::ChildProcess::spawn(
            {"/proc/self/exe", "--worker", path, "--rank", std::to_string(rank)}, {.environment = environment}));
    members_.resize(options_.size);
    for (std::size_t i = 0; i < options_.size; ++i) {
        Packets member = door.accept(answer_bound);
        const std::size_t rank = member.receive(answer_bound).at("rank");
        member.send({{"provider", options_.provider},
                     {"thread_safe", options_.thread_safe},
                     {"wait_fd", options_.wait_fd},
                     // With more processes than processors, who looks in vain holds up the one it waits for.
                     {"patience", options_.size > 2 ? 20 : 100'000},
                     {"processor", rank % 2 == 0 ? ground_.processors.first : ground_.processors.second},
                     {"daemon", ground_.daemon}});
        members_.at(rank) = std::move(member);
    }
    const json all = answers();
    for (const Packets& member : members_) member.send(all);
} catch (...) {
    stop();
    throw;
}

void Team::stop() noexcept {
    members_.clear();
    processes_.clear();
    dir_.reset();
}

std::vector<json> Team::answers() {
    std::vector<json> all;
    std::string gap;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
        all.push_back(members_[rank].receive(answer_bound));
        if (all.back().contains("error")) throw std::runtime_error{all.back().at("error").get<std::string>()};
        if (all.back().contains("not_offered")) gap = all.back().at("not_offered");
    }
    if (!gap.empty()) throw NotOffered{gap};
    return all;
}

} // namespace nvlf::bench
