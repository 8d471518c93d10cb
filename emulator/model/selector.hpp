// SPDX-License-Identifier: MIT OR GPL-2.0-only
// selector.hpp - the names of devices and switches as a topology file writes them: prefixes, and selectors of members.
#pragma once

#include "model/plan.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace nvlf::model {

inline constexpr std::uint32_t max_member_number = 999'999;
inline constexpr std::size_t max_prefix_bytes = 16; // With six digits well below max_name_bytes.
static_assert(max_prefix_bytes + 6 <= max_name_bytes);

// Letters, digits, '-' and '_', beginning with a letter and not ending in a digit: "gpu1" and "2" would make "gpu12",
// which is also "gpu" and "12".
[[nodiscard]] bool is_prefix(std::string_view text);

// gpu3, gpu3:5, gpu[0-7], gpu[*]; nothing if it is none of these. Its position is the caller's to fill in.
[[nodiscard]] std::optional<Selector> parse_selector(std::string_view text);

} // namespace nvlf::model
