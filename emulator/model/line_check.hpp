// SPDX-License-Identifier: MIT OR GPL-2.0-only
// line_check.hpp - looks at a TOML file's lines before the parser does.
//
// What toml++ 3.3 cannot be given:
//  - lines without end: a dotted key nests a level a dot, unbounded, and needs stack for each;
//  - letters beyond ASCII outside of strings and comments, or in a multi-line string: its test for exotic blanks runs into
//    __builtin_unreachable() for most of them. The schema has no use for either.
#pragma once

#include "model/diagnostic.hpp"

#include <string_view>

namespace nvlf::model {

// True if the text may be parsed; otherwise says what is wrong, and where.
[[nodiscard]] bool check_lines(std::string_view text, Diagnostics& diagnostics);

} // namespace nvlf::model
