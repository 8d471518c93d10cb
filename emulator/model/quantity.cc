// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "model/quantity.hpp"

#include "model/diagnostic.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

namespace nvlf::model {

namespace {

struct Unit {
    std::string_view name;
    std::uint64_t factor;
};

constexpr std::uint64_t kilo = 1000;
constexpr std::uint64_t kibi = 1024;

constexpr std::array<Unit, 4> time_units{{{"ps", 1}, {"ns", kilo}, {"us", kilo* kilo}, {"ms", kilo* kilo* kilo}}};
constexpr std::array<Unit, 9> size_units{{{"B", 1},
                                          {"kB", kilo},
                                          {"MB", kilo* kilo},
                                          {"GB", kilo* kilo* kilo},
                                          {"TB", kilo* kilo* kilo* kilo},
                                          {"KiB", kibi},
                                          {"MiB", kibi* kibi},
                                          {"GiB", kibi* kibi* kibi},
                                          {"TiB", kibi* kibi* kibi* kibi}}};
constexpr std::array<Unit, 5> rate_units{
    {{"B/s", 1}, {"kB/s", kilo}, {"MB/s", kilo* kilo}, {"GB/s", kilo* kilo* kilo}, {"TB/s", kilo* kilo* kilo* kilo}}};

std::span<const Unit> units_of(Dimension dimension) {
    switch (dimension) {
    case Dimension::time: return time_units;
    case Dimension::size: return size_units;
    case Dimension::rate: return rate_units;
    }
    return {};
}

std::string_view example_of(Dimension dimension) {
    switch (dimension) {
    case Dimension::time: return "write a time such as \"62.75 ns\" (ps, ns, us, ms)";
    case Dimension::size: return "write a size such as \"96 GiB\" (B, kB to TB, KiB to TiB)";
    case Dimension::rate: return "write a rate in bytes a second such as \"25 GB/s\" (B/s, kB/s to TB/s)";
    }
    return {};
}

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// The number without its point, and how many of its digits stood behind it.
struct Decimal {
    std::uint64_t digits = 0;
    std::uint64_t scale = 1;
    std::size_t length = 0;
};

std::optional<Decimal> read_decimal(std::string_view text) {
    constexpr int max_digits = 15; // 10^15 times a factor of up to 10^12 is checked for overflow below.
    Decimal number;
    int count = 0;
    bool behind_point = false;
    for (const char c : text) {
        if (c == '.' && !behind_point && count > 0) {
            behind_point = true;
        } else if (is_digit(c)) {
            if (++count > max_digits) return std::nullopt;
            number.digits = number.digits * 10 + static_cast<std::uint64_t>(c - '0');
            if (behind_point) number.scale *= 10;
        } else {
            break;
        }
        ++number.length;
    }
    const bool ends_in_point = number.length > 0 && text[number.length - 1] == '.';
    if (count == 0 || ends_in_point) return std::nullopt;
    return number;
}

Quantity refused(std::string problem, Dimension dimension) {
    return {0, std::move(problem), std::string{example_of(dimension)}};
}

} // namespace

Quantity parse_quantity(std::string_view text, Dimension dimension) {
    if (!text.empty() && text.front() == '-') return refused(quoted(text) + " is negative", dimension);
    const auto number = read_decimal(text);
    if (!number) return refused(quoted(text) + " does not begin with a number of at most 15 digits", dimension);

    std::string_view unit = text.substr(number->length);
    while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
    if (unit.empty()) return refused(quoted(text) + " has no unit", dimension);

    const auto units = units_of(dimension);
    const auto found = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == unit; });
    if (found == units.end()) {
        const bool bits = unit.size() > 1 && unit.find('b') != std::string_view::npos;
        return refused(quoted(text) + (bits ? " counts bits" : " has the wrong unit " + quoted(unit)), dimension);
    }

    std::uint64_t product = 0;
    if (__builtin_mul_overflow(number->digits, found->factor, &product))
        return refused(quoted(text) + " is too large", dimension);
    if (product % number->scale != 0)
        return refused(quoted(text) + " is not a whole number of " + std::string{units.front().name}, dimension);
    return {product / number->scale, {}, {}};
}

std::string format_quantity(std::uint64_t value, Dimension dimension) {
    const auto units = units_of(dimension);
    // The largest unit that divides the value, or of which at most three decimals remain.
    const Unit* best = &units.front();
    for (const Unit& unit : units) {
        const bool whole = value % unit.factor == 0;
        const bool short_fraction =
            unit.factor >= kilo && unit.factor % kilo == 0 && value >= unit.factor && value % (unit.factor / kilo) == 0;
        const bool fits = value >= unit.factor && (whole || short_fraction);
        if (fits && unit.factor > best->factor) best = &unit;
    }
    std::string text = std::to_string(value / best->factor);
    const std::uint64_t rest = value % best->factor;
    if (rest != 0) {
        std::string fraction = std::to_string(rest / (best->factor / kilo) + kilo).substr(1);
        while (fraction.back() == '0') fraction.pop_back();
        text += '.' + fraction;
    }
    return text + ' ' + std::string{best->name};
}

} // namespace nvlf::model
