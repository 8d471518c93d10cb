// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What is measured, in the order in which it is: every row of the table, and over what.
#pragma once

#include "processors.hpp"
#include "table.hpp"
#include "team.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace nvlf::bench {

inline constexpr std::array<std::size_t, 7> message_sizes{8, 64, 512, 4096, 65536, 1 << 20, 4 << 20};
inline constexpr std::array<std::size_t, 6> one_sided_sizes{8, 64, 512, 4096, 65536, 1 << 20};

[[nodiscard]] std::string row_id(const std::string& work, std::size_t bytes, bool both = false);
[[nodiscard]] std::string size_name(std::size_t bytes); // "8 B", "64 KiB"

// Two processes each, except crowds of eight.
struct Teams {
    explicit Teams(const Ground& ground);
    Team nvlf, nvlf_thread_safe, nvlf_asleep, shm, tcp, tcp_asleep, nvlf_crowd, shm_crowd, tcp_crowd;
};

struct PlanOptions {
    bool others = true; // Programs that are not ours, where they are installed.
};

// The teams and the ground must outlive the table.
[[nodiscard]] Table make_plan(Teams& teams, const Ground& ground, const PlanOptions& options);

} // namespace nvlf::bench
