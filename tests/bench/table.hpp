// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// All measurements of a run: rows are what is done, columns over what. The cells of a row are measured one after the other,
// all rows in turn, and then all again: so whatever drifts meanwhile drifts under all columns, and a ratio is taken within
// a round before the median is taken over rounds.
#pragma once

#include "figures.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace nvlf::bench {

enum class Unit { microseconds, million_per_s, gb_per_s, bytes };

struct Row {
    std::string id;
    std::string title;
    Unit unit = Unit::microseconds;
    std::size_t bytes = 0; // That one operation moves, both ways counted; for gb_per_s.
};

class Table {
public:
    using Measure = std::function<Figures()>;

    void row(Row row) { rows_.push_back({std::move(row), {}}); }
    // A cell of the last row.
    void cell(std::string column, Measure measure) {
        rows_.back().cells.push_back({std::move(column), std::move(measure)});
    }
    void keep_rows(const std::string& containing); // In their title.

    void run(int rounds, const std::function<void(const std::string&)>& progress);

    // Median over rounds of the time of one over that of the other; nothing where either was not measured.
    [[nodiscard]] std::optional<double> ratio(const std::string& row, const std::string& column,
                                              const std::string& other_row, const std::string& other_column) const;
    [[nodiscard]] std::optional<double> value(const std::string& row, const std::string& column) const;

    [[nodiscard]] std::string text() const;
    [[nodiscard]] nlohmann::json json() const;
    // What is missing and why; and what went wrong, which is another matter.
    [[nodiscard]] std::vector<std::string> gaps() const;
    [[nodiscard]] std::vector<std::string> failures() const;

private:
    struct Cell {
        std::string column;
        Measure measure;
        std::vector<Figures> runs{};
        std::string gap{};
        std::string failure{};
    };
    struct RowOfCells {
        Row row;
        std::vector<Cell> cells;
    };
    void measure(Cell& cell, const Row& row);
    [[nodiscard]] const Cell* find(const std::string& row, const std::string& column) const;
    [[nodiscard]] static std::string show(const Row& row, const Cell& cell);

    std::vector<RowOfCells> rows_{};
};

} // namespace nvlf::bench
