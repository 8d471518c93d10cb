// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See table.hpp.
#include "table.hpp"

#include "endpoint.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

namespace nvlf::bench {
namespace {

constexpr std::array columns{"bare", "nvlf", "nvlf malloc", "shm", "tcp", "vader", "ucx"};

double median_of(const std::vector<Figures>& runs, double Figures::*which) {
    std::vector<double> values;
    for (const Figures& run : runs) values.push_back(run.*which);
    return median(std::move(values));
}

std::string unit_name(Unit unit) {
    switch (unit) {
    case Unit::microseconds: return "us";
    case Unit::million_per_s: return "million/s";
    case Unit::gb_per_s: return "GB/s";
    case Unit::bytes: return "bytes";
    }
    return {};
}

// Three digits, and never an exponent: columns of times are compared by eye.
std::string digits(double value) { return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value); }

double in_unit(const Row& row, double value) {
    switch (row.unit) {
    case Unit::microseconds: return value / 1e3;
    case Unit::million_per_s: return value > 0 ? 1e3 / value : 0;
    case Unit::gb_per_s: return value > 0 ? static_cast<double>(row.bytes) / value : 0;
    case Unit::bytes: return value;
    }
    return 0;
}

} // namespace

void Table::keep_rows(const std::string& containing) {
    std::erase_if(rows_, [&](const RowOfCells& one) { return one.row.title.find(containing) == std::string::npos; });
}

void Table::run(int rounds, const std::function<void(const std::string&)>& progress) {
    for (int round = 1; round <= rounds; ++round) {
        std::size_t at = 0;
        for (auto& [row, cells] : rows_) {
            progress(fmt::format("round {} of {}, {} of {}: {}", round, rounds, ++at, rows_.size(), row.title));
            for (Cell& cell : cells) measure(cell, row);
        }
    }
}

void Table::measure(Cell& cell, const Row& row) {
    if (!cell.gap.empty() || !cell.failure.empty()) return;
    try {
        cell.runs.push_back(cell.measure());
    } catch (const NotOffered& gap) {
        cell.gap = fmt::format("{}, {}: {}", cell.column, row.title, gap.what());
    } catch (const std::exception& error) {
        cell.failure = fmt::format("{}, {}: {}", cell.column, row.title, error.what());
    }
}

const Table::Cell* Table::find(const std::string& row, const std::string& column) const {
    for (const auto& [r, cells] : rows_)
        if (r.id == row)
            for (const Cell& cell : cells)
                if (cell.column == column) return &cell;
    return nullptr;
}

std::optional<double> Table::value(const std::string& row, const std::string& column) const {
    const Cell* cell = find(row, column);
    if (cell == nullptr || cell->runs.empty()) return std::nullopt;
    return median_of(cell->runs, &Figures::value);
}

std::optional<double> Table::ratio(const std::string& row, const std::string& column, const std::string& other_row,
                                   const std::string& other_column) const {
    const Cell* one = find(row, column);
    const Cell* other = find(other_row, other_column);
    if (one == nullptr || other == nullptr) return std::nullopt;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < std::min(one->runs.size(), other->runs.size()); ++i)
        if (other->runs[i].value > 0) ratios.push_back(one->runs[i].value / other->runs[i].value);
    if (ratios.empty()) return std::nullopt;
    return median(std::move(ratios));
}

std::string Table::show(const Row& row, const Cell& cell) {
    if (!cell.failure.empty()) return "failed";
    if (cell.runs.empty()) return "-";
    const double value = in_unit(row, median_of(cell.runs, &Figures::value));
    const double tail = in_unit(row, median_of(cell.runs, &Figures::p99));
    if (row.unit == Unit::bytes) return fmt::format("{:.0f}", value);
    return row.unit == Unit::microseconds && tail > 0 ? fmt::format("{} ({})", digits(value), digits(tail))
                                                      : digits(value);
}

std::string Table::text() const {
    std::set<std::string> used;
    for (const auto& [row, cells] : rows_)
        for (const Cell& cell : cells) used.insert(cell.column);
    std::string text = fmt::format("{:<52}{:<9}", "median of the runs; times: p50 (p99)", "");
    for (const char* column : columns)
        if (used.contains(column)) text += fmt::format("{:>18}", column);
    text += '\n';
    for (const auto& [row, cells] : rows_) {
        text += fmt::format("{:<52}{:<9}", row.title, unit_name(row.unit));
        for (const char* column : columns) {
            if (!used.contains(column)) continue;
            const Cell* cell = find(row.id, column);
            text += fmt::format("{:>18}", cell != nullptr ? show(row, *cell) : "");
        }
        text.erase(text.find_last_not_of(' ') + 1);
        text += '\n';
    }
    return text;
}

nlohmann::json Table::json() const {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& [row, cells] : rows_) {
        nlohmann::json one{{"id", row.id}, {"title", row.title}, {"unit", unit_name(row.unit)}};
        for (const Cell& cell : cells) {
            if (cell.runs.empty()) continue;
            nlohmann::json& figures = one["columns"][cell.column];
            figures["median"] = in_unit(row, median_of(cell.runs, &Figures::value));
            if (const double tail = median_of(cell.runs, &Figures::p99); tail > 0) figures["p99"] = in_unit(row, tail);
            for (const Figures& run : cell.runs) figures["runs"].push_back(in_unit(row, run.value));
        }
        all.push_back(std::move(one));
    }
    return all;
}

std::vector<std::string> Table::gaps() const {
    std::vector<std::string> all;
    for (const auto& [row, cells] : rows_)
        for (const Cell& cell : cells)
            if (!cell.gap.empty()) all.push_back(cell.gap);
    return all;
}

std::vector<std::string> Table::failures() const {
    std::vector<std::string> all;
    for (const auto& [row, cells] : rows_)
        for (const Cell& cell : cells)
            if (!cell.failure.empty()) all.push_back(cell.failure);
    return all;
}

} // namespace nvlf::bench
