// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What NVLF promises, as ratios of two measurements of the same run. A missed target is a result, not a failure: the table
// says so and the program goes on.
#pragma once

#include "table.hpp"

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace nvlf::bench {

struct Ratio {
    std::string key;
    std::string meaning;
    std::string comparison; // "<=", ">=" or "<".
    double target = 0;
    std::optional<double> value{}; // Nothing: one of the two was not measured.

    [[nodiscard]] std::optional<bool> holds() const;
};

[[nodiscard]] std::vector<Ratio> ratios(const Table& table);
[[nodiscard]] std::string text(const std::vector<Ratio>& ratios);
[[nodiscard]] nlohmann::json json(const std::vector<Ratio>& ratios);

} // namespace nvlf::bench
