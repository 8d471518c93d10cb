// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "console.hpp"

#include "failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

namespace nvlf::cli {

namespace {

bool may_colour() {
    static const bool answer = [] { // Asked for every cell; the answer cannot change.
        const char* no_color = std::getenv("NO_COLOR");
        const char* term = std::getenv("TERM");
        return ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') &&
               (term == nullptr || std::string_view{term} != "dumb");
    }();
    return answer;
}

const char* escape(Style style) {
    switch (style) {
    case Style::plain: return "";
    case Style::heading: return "\033[1m";
    case Style::good: return "\033[32m";
    case Style::warning: return "\033[33m";
    case Style::bad: return "\033[31m";
    case Style::faint: return "\033[2m";
    }
    return "";
}

} // namespace

std::string cause(int error) {
    const char* text = ::strerrordesc_np(error < 0 ? -error : error);
    return text != nullptr ? text : fmt::format("error {}", error);
}

std::string styled(std::string_view text, Style style) {
    if (style == Style::plain || !may_colour()) return std::string{text};
    return fmt::format("{}{}\033[0m", escape(style), text);
}

std::size_t terminal_columns() {
    if (const char* columns = std::getenv("COLUMNS"); columns != nullptr)
        if (const long value = std::strtol(columns, nullptr, 10); value > 0) return static_cast<std::size_t>(value);
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
    return size.ws_col;
}

std::string printable(std::string_view text) {
    std::string safe{text};
    std::replace_if(
        safe.begin(), safe.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\177'; }, '?');
    return safe;
}

std::size_t columns_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string padded(std::string_view text, std::size_t columns, Table::Align align) {
    const std::size_t used = columns_of(text);
    const std::string space(columns > used ? columns - used : 0, ' ');
    return align == Table::Align::left ? std::string{text} + space : space + std::string{text};
}

std::string Table::text() const {
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        std::size_t width = columns_of(columns_[c].title);
        for (const auto& row : rows_) width = std::max(width, columns_of(row[c].text));
        widths.push_back(width);
    }
    std::string out;
    const auto line = [&](const std::vector<Cell>& cells) {
        for (std::size_t c = 0; c < cells.size(); ++c) {
            const bool last = c + 1 == cells.size();
            // No blanks at the end of a line: they make copies of the output needlessly different.
            const bool fill = !last || columns_[c].align == Align::right;
            out += styled(fill ? padded(cells[c].text, widths[c], columns_[c].align) : cells[c].text, cells[c].style);
            out += last ? "\n" : "  ";
        }
    };
    std::vector<Cell> titles;
    for (const Column& column : columns_) titles.emplace_back(column.title, Style::heading);
    line(titles);
    for (const auto& row : rows_) line(row);
    return out;
}

void print(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
        throw Failure{kFailed, "standard output: cannot write: " + cause(errno)};
}

void flush() {
    if (std::fflush(stdout) != 0) throw Failure{kFailed, "standard output: cannot write: " + cause(errno)};
}

void note(std::string_view text) { fmt::print(stderr, "nvlf: {}\n", text); }

} // namespace nvlf::cli
