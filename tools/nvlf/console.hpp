// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The terminal: is it one, how wide, may it be coloured, and tables for it. Whatever goes through here is safe to print:
// names come from a fabric that may belong to somebody else, so control bytes become '?'.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nvlf::cli {

enum class Style { plain, heading, good, warning, bad, faint };

// `text` in this style where stdout is a terminal that may be coloured (NO_COLOR is not set, TERM is not dumb); else as
// it is.
[[nodiscard]] std::string styled(std::string_view text, Style style);

// Columns of the terminal behind stdout; 0 when it is not one. COLUMNS overrides.
[[nodiscard]] std::size_t terminal_columns();

[[nodiscard]] std::string printable(std::string_view text);

// Columns as wide as their widest cell, two spaces between. Numbers are best read at the right edge.
class Table {
public:
    enum class Align { left, right };
    struct Column {
        std::string title;
        Align align = Align::left;
    };
    struct Cell {
        std::string text;
        Style style = Style::plain;
        Cell(std::string t, Style s = Style::plain)
            : text{std::move(t)}, style{s} {} // Implicit: rows are lists of text.
        Cell(const char* t) : text{t} {}
    };

    explicit Table(std::vector<Column> columns) : columns_{std::move(columns)} {}
    void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); } // One cell a column.
    [[nodiscard]] std::string text() const;

private:
    std::vector<Column> columns_;
    std::vector<std::vector<Cell>> rows_;
};

// `text` followed by spaces up to `columns`; a byte that continues a UTF-8 sequence takes no column.
[[nodiscard]] std::size_t columns_of(std::string_view text);
[[nodiscard]] std::string padded(std::string_view text, std::size_t columns, Table::Align align = Table::Align::left);

// Writes to stdout. Failure when it cannot be written: a report cut short must not look like a whole one.
void print(std::string_view text);
void flush();

// A line on stderr which is no error: "nvlf: ...".
void note(std::string_view text);

} // namespace nvlf::cli
