// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What a team of processes is asked to do, and the packets in which it is asked: JSON over a local socket.
#pragma once

#include "figures.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace nvlf::bench {

struct Job {
    std::string work{}; // One of the names in worker.cc.
    std::size_t bytes = 0;
    bool both = false;    // Both ways at once.
    std::string memory{}; // Of the target of one-sided operations: "malloc" or "fabric".
    std::uint64_t count = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Job, work, bytes, both, memory, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Figures, value, p99)

} // namespace nvlf::bench
