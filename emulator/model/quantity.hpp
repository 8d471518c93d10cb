// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Physical quantities as people write them ("62.75 ns", "25 GB/s", "96 GiB") into the integers that the model counts
// in: picoseconds, bytes, bytes a second. The arithmetic is exact: what is not a whole number of the base unit, or does
// not fit, is refused rather than rounded, so that a figure in a report is the figure in the file.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nvlf::model {

using Picoseconds = std::uint64_t;
using Bytes = std::uint64_t;
using BytesPerSecond = std::uint64_t;

enum class Dimension : std::uint8_t { time, size, rate };

/// `value` is meaningful only when `problem` is empty. `problem` says what is wrong, `fix` what would be right, both
/// in the words of a Diagnostic.
struct Quantity {
    std::uint64_t value = 0;
    std::string problem;
    std::string fix;
};

/// Reads a decimal number, a space (optional) and a unit: ps ns us ms for time; B kB MB GB TB (powers of 1000) and
/// KiB MiB GiB TiB (powers of 1024) for sizes; the same followed by /s for rates. Bits are not accepted anywhere.
[[nodiscard]] Quantity parse_quantity(std::string_view text, Dimension dimension);

/// The shortest exact way to write a value back: "62.75 ns", "96 GiB", "25 GB/s".
[[nodiscard]] std::string format_quantity(std::uint64_t value, Dimension dimension);

} // namespace nvlf::model
