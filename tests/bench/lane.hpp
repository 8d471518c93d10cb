// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What a lane costs by itself, beneath the provider: the difference between these rows and the provider's is what
// matching, completion queues and libfabric's own calls add.
#pragma once

#include "figures.hpp"
#include "processors.hpp"

#include <cstdint>

namespace nvlf::bench {

inline constexpr std::uint32_t lane_piece = 32768; // What the provider streams large messages in.

[[nodiscard]] Figures lane_trip(const Processors& processors, std::uint64_t trips);   // One slot, half a round trip.
[[nodiscard]] Figures lane_stream(const Processors& processors, std::uint64_t slots); // Slots, one after the other.
[[nodiscard]] Figures lane_pieces(const Processors& processors,
                                  std::uint64_t pieces); // lane_piece bytes, copied in and out.

} // namespace nvlf::bench
