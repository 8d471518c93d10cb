// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// One process of a soak: lives one after the other, each with an endpoint of its own, until its time is over or somebody
// kills it.
#pragma once

#include <chrono>
#include <cstdint>

#include "soak/board.hpp"

namespace nvlf::soak {

struct WorkerOptions {
    unsigned me = 0;
    std::uint64_t seed = 0;
    std::chrono::milliseconds time{0};
};

// Exit codes of a worker; any other is a finding, too.
inline constexpr int exit_well = 0, exit_finding = 1, exit_fabric_gone = 3;

[[nodiscard]] int work(Board& board, const WorkerOptions& options);

} // namespace nvlf::soak
