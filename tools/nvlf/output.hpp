// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The fabric's values in words for people, and as JSON for programs. JSON keys are a promise (docs/man/nvlf.1 lists
// them): they carry their unit, words are lower case, what does not apply is null, and keys are only ever added.
#pragma once

#include "console.hpp"

#include <nvlf/nvlf.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace nvlf::cli {

using Json = nlohmann::ordered_json; // Keys in the order in which a reader wants them.

// "288 GiB", "1.50 MiB"; "1.80 TB/s"; "450 ns", "1.30 us".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
[[nodiscard]] std::string rate_text(std::uint64_t bytes_per_second);
[[nodiscard]] std::string time_text(std::uint64_t picoseconds);
[[nodiscard]] std::string duration_text(std::uint64_t seconds); // "2 d 3 h", "4 min 5 s"

// "1 device", "8 devices".
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun, std::string_view plural = {});

// Words of the contract's numbers; "unknown (7)" for one that is newer than this program.
[[nodiscard]] std::string kind_word(std::uint32_t kind);
[[nodiscard]] std::string state_word(std::uint32_t state);
[[nodiscard]] std::string protocol_word(std::uint32_t protocol);
[[nodiscard]] std::string clock_word(std::uint32_t clock);
[[nodiscard]] Table::Cell state_cell(std::uint32_t state);

// A zero-padded array of the contract, whether or not whoever wrote it remembered the NUL.
template <std::size_t N>
[[nodiscard]] std::string text_of(const char (&array)[N]) {
    const std::string_view all{array, N};
    return printable(all.substr(0, all.find('\0')));
}
[[nodiscard]] std::string uuid_text(const __u8 (&uuid)[16]);
[[nodiscard]] bool uuid_given(const __u8 (&uuid)[16]); // Images have none.

[[nodiscard]] Json to_json(const nvlf_device& device);
[[nodiscard]] Json to_json(const nvlf_switch& sw);

void print_json(const Json& json);

} // namespace nvlf::cli
