// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// One process of a team, as the work sees it: an endpoint, a rank among its peers, memory that they can reach.
#pragma once

#include "endpoint.hpp"
#include "memory.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace nvlf::bench {

struct Member {
    Endpoint endpoint;
    Memories memories;
    std::size_t rank = 0;
    std::size_t size = 0;
    std::vector<std::map<std::string, RemoteMemory>> remote{}; // By rank, then by kind of memory.
    EndpointOptions options{};                                 // For more endpoints of the same kind.
    pid_t daemon = 0;                                          // nvlfd, which holds a part of what an endpoint costs.
    std::vector<std::byte> buffer = std::vector<std::byte>(memory_bytes);   // What the work sends from.
    std::vector<std::byte> arrivals = std::vector<std::byte>(memory_bytes); // What it receives into.
    std::uint64_t meetings = 0;

    [[nodiscard]] bool first() const noexcept { return rank == 0; }
    [[nodiscard]] fi_addr_t other() const { return endpoint.peer(1 - rank); } // In a team of two.

    // Nobody returns before everybody called it. What was posted before is there when the first one returns.
    void meet();

    // Something to recognise: bytes of the buffer that follow from the job's own numbers.
    void fill(std::size_t bytes, std::uint64_t seed);
    // Throws when `arrived` is not what another member's fill() made.
    void verify(const std::byte* arrived, std::size_t bytes, std::uint64_t seed) const;
};

} // namespace nvlf::bench
