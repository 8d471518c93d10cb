// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the machine itself costs, with no fabric on it: the yardsticks. Machines drift, and one machine is not like
// another; the ratio of a message to the cache line that it must move is worth keeping, the message's time is not.
#pragma once

#include "figures.hpp"
#include "processors.hpp"

#include <cstddef>
#include <cstdint>

namespace nvlf::bench {

// One word, there and back between two processors: half a round trip.
[[nodiscard]] Figures cache_line(const Processors& processors, std::uint64_t trips);

// Copies of `bytes` between two buffers, again and again the same.
[[nodiscard]] Figures memory_copy(const Processors& processors, std::size_t bytes, std::uint64_t copies);

// An eventfd rung for a thread that sleeps on it in poll(), and its answer by a cache line to one that is awake.
[[nodiscard]] Figures eventfd_wake(const Processors& processors, std::uint64_t trips);

} // namespace nvlf::bench
