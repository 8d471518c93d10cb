// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// From the text of a topology file (docs/TOPOLOGY.md) to a Topology, or to every mistake in it. Pure: it is told the
// text, it opens nothing. Any text is safe to give it: sizes and counts are bounded before they cost memory.

#pragma once

#include "model/diagnostic.hpp"
#include "model/topology.hpp"

#include <cstddef>
#include <string_view>
#include <variant>
#include <vector>

namespace nvlf::model {

inline constexpr std::size_t max_file_bytes = 256 * 1024;
/// Of a line. Bounds how deep dotted keys nest, which the TOML parser does not.
inline constexpr std::size_t max_line_bytes = 1024;

using LoadResult = std::variant<Topology, std::vector<Diagnostic>>;

/// Reads and validates. `file` is only used in messages. On failure the diagnostics are sorted by position and at least
/// one. Does not block; throws nothing but std::bad_alloc.
[[nodiscard]] LoadResult load_topology(std::string_view text, std::string_view file);

} // namespace nvlf::model
