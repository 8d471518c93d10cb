// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What is wrong with a text that a user wrote, and what would be right.
//
// A topology file is written by hand, so one run must find every mistake, each where it stands. Diagnostics collects
// them in whatever order the checks run, keeps at most max_diagnostics, and hands them out sorted by position. Nothing
// here prints: the caller owns the terminal.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nvlf::model {

/// Where in a text, counted from 1. {0, 0} means the text as a whole and is printed as 1:1.
struct Position {
    std::uint32_t line = 0;
    std::uint32_t column = 0;
};

/// One mistake. `what` says what is wrong, `fix` what would be right; neither ends in a full stop.
struct Diagnostic {
    std::string file;
    std::uint32_t line = 1;
    std::uint32_t column = 1;
    std::string what;
    std::string fix;

    /// `file:line:column: what is wrong, what would be right`, without a newline.
    [[nodiscard]] std::string to_string() const;
};

/// Past this many mistakes the rest says little: the last entry then tells that there are more.
inline constexpr std::size_t max_diagnostics = 100;

class Diagnostics {
public:
    explicit Diagnostics(std::string_view file) : file_{file} {}

    void add(Position at, std::string what, std::string fix);

    [[nodiscard]] bool empty() const noexcept { return found_.empty(); }
    /// True once another mistake would no longer be kept; expensive checks stop here.
    [[nodiscard]] bool full() const noexcept { return found_.size() >= max_diagnostics; }
    [[nodiscard]] std::size_t size() const noexcept { return found_.size(); }

    /// Sorted by position; mistakes at one position stay in the order in which they were found.
    [[nodiscard]] std::vector<Diagnostic> take() &&;

private:
    std::string file_;
    std::vector<Diagnostic> found_;
    bool more_ = false;
};

/// The candidate that `name` is most likely a misspelling of, or an empty view when none is near (more than a third of
/// the letters differ). Among equals the first wins. Bounded: names over 64 bytes are near nothing.
[[nodiscard]] std::string_view closest_name(std::string_view name, std::span<const std::string_view> candidates);

/// `"a", "b" and "c"`, for the message that tells what may stand in a place.
[[nodiscard]] std::string list_names(std::span<const std::string_view> names);

/// `text` as it may be shown in a message: control bytes replaced by '?', cut to 64 bytes.
[[nodiscard]] std::string quoted(std::string_view text);

} // namespace nvlf::model
