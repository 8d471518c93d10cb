// SPDX-License-Identifier: MIT OR GPL-2.0-only
// table.hpp - one table of a TOML file while it is read against a schema.
//
// It remembers which keys were asked for, so that whatever is left over is an unknown key, and the closest key asked for is
// what was probably meant. A wrong value never stops the reading; it is reported and leaves its default behind.
#pragma once

#include "model/diagnostic.hpp"
#include "model/quantity.hpp"
#include "model/toml.hpp"
#include "model/topology.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nvlf::model {

inline constexpr std::size_t max_list_entries = max_devices;

template <class T>
struct Bounds {
    T least;
    T most;
};

template <class E>
struct Choice {
    std::string_view name;
    E value;
};

inline constexpr std::array<Choice<Standing>, 4> standings{{{"published", Standing::published},
                                                            {"measured", Standing::measured},
                                                            {"derived", Standing::derived},
                                                            {"assumed", Standing::assumed}}};
enum class Need : bool { optional, required };

// One table of the file, and the keys that its reader has asked for.
class Table {
public:
    Table(const toml::table& table, std::string title, Position where, Diagnostics& diagnostics)
        : table_{table}, title_{std::move(title)}, at_{where}, diagnostics_{diagnostics} {}

    [[nodiscard]] Position position() const noexcept { return at_; }
    [[nodiscard]] const std::string& title() const noexcept { return title_; }

    void wrong(Position where, std::string what, std::string fix) {
        diagnostics_.add(where, std::move(what), std::move(fix));
    }

    // The value, or null when it is not there (which is reported if it is needed).
    const toml::node* get(std::string_view key, Need need, std::string_view example = {}) {
        if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.push_back(key);
        const toml::node* node = table_.get(key);
        if (!node && need == Need::required) {
            std::string fix = "add " + std::string{key};
            if (!example.empty()) fix += " = " + std::string{example};
            wrong(at_, title_ + " has no " + std::string{key}, std::move(fix));
        }
        return node;
    }

    // True if the node is of that kind; otherwise reports.
    bool expect(const toml::node& node, bool is, std::string_view key, std::string_view wanted) {
        if (!is) {
            wrong(at(node.source()), std::string{key} + " is " + std::string{type_name(node)},
                  "it must be " + std::string{wanted});
        }
        return is;
    }

    std::optional<std::string> text(std::string_view key, Need need, std::size_t most, std::string_view example = {}) {
        const toml::node* node = get(key, need, example);
        if (!node || !expect(*node, node->is_string(), key, "a string")) return std::nullopt;
        const std::string& value = node->as_string()->get();
        if (value.empty() || value.size() > most) {
            wrong(at(node->source()), std::string{key} + " is " + std::to_string(value.size()) + " bytes long",
                  "it must be 1 to " + std::to_string(most));
            return std::nullopt;
        }
        const bool control = std::any_of(value.begin(), value.end(), [](char c) {
            return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7F;
        });
        if (control) {
            wrong(at(node->source()), std::string{key} + " contains a control character",
                  "write printable text on one line");
            return std::nullopt;
        }
        return value;
    }

    std::optional<std::uint32_t> integer(std::string_view key, Need need, Bounds<std::uint32_t> bounds) {
        const toml::node* node = get(key, need, std::to_string(std::max(bounds.least, 1U)));
        if (!node) return std::nullopt;
        return integer_of(*node, key, bounds);
    }

    std::optional<std::uint32_t> integer_of(const toml::node& node, std::string_view key,
                                            Bounds<std::uint32_t> bounds) {
        if (!expect(node, node.is_integer(), key, "an integer")) return std::nullopt;
        const std::int64_t value = node.as_integer()->get();
        if (value < bounds.least || value > bounds.most) {
            wrong(at(node.source()), std::string{key} + " is " + std::to_string(value),
                  "it must be " + std::to_string(bounds.least) +
                      (bounds.least == bounds.most ? "" : " to " + std::to_string(bounds.most)));
            return std::nullopt;
        }
        return static_cast<std::uint32_t>(value);
    }

    // One integer or a list of them.
    std::vector<std::uint32_t> integers(std::string_view key, Need need, Bounds<std::uint32_t> bounds) {
        std::vector<std::uint32_t> values;
        const toml::node* node = get(key, need, "[1]");
        if (!node) return values;
        if (const toml::array* list = node->as_array()) {
            if (!length_fits(*list, key)) return values;
            for (const toml::node& entry : *list)
                if (const auto value = integer_of(entry, key, bounds)) values.push_back(*value);
            if (values.size() != list->size()) values.clear();
        } else if (expect(*node, node->is_integer(), key, "an integer or a list of integers")) {
            if (const auto value = integer_of(*node, key, bounds)) values.push_back(*value);
        }
        return values;
    }

    bool length_fits(const toml::array& list, std::string_view key) {
        if (!list.empty() && list.size() <= max_list_entries) return true;
        wrong(at(list.source()), std::string{key} + " lists " + std::to_string(list.size()) + " entries",
              "it must list 1 to " + std::to_string(max_list_entries));
        return false;
    }

    std::optional<bool> boolean(std::string_view key) {
        const toml::node* node = get(key, Need::optional);
        if (!node || !expect(*node, node->is_boolean(), key, "true or false")) return std::nullopt;
        return node->as_boolean()->get();
    }

    static std::string joined(std::span<const std::string_view> names) {
        std::string text;
        for (const std::string_view name : names) text += (text.empty() ? "" : "|") + std::string{name};
        return text;
    }

    template <class E, std::size_t N>
    std::optional<E> choice(std::string_view key, const std::array<Choice<E>, N>& choices) {
        std::array<std::string_view, N> names;
        std::transform(choices.begin(), choices.end(), names.begin(), [](const Choice<E>& c) { return c.name; });
        const toml::node* node = get(key, Need::required, '"' + joined(names) + '"');
        if (!node || !expect(*node, node->is_string(), key, "a string")) return std::nullopt;
        const std::string& value = node->as_string()->get();
        for (const Choice<E>& c : choices)
            if (c.name == value) return c.value;
        const auto near = likely(value, names);
        wrong(at(node->source()), "unknown " + std::string{key} + ' ' + quoted(value),
              near.empty() ? "choose from " + list_names(names) : "did you mean " + quoted(near));
        return std::nullopt;
    }

    // A hardware figure: { value = ..., source = ..., ref = ... }. `read` turns the value node into the figure.
    template <class T, class Read>
    std::optional<T> figure(std::string_view key, Need need, std::string_view example, Sourced<T>& out, Read read) {
        const std::string whole =
            "{ value = " + std::string{example} + R"(, source = "published|measured|derived|assumed", ref = "..." })";
        const toml::node* node = get(key, need, whole);
        if (!node) return std::nullopt;
        if (!node->is_table()) {
            wrong(at(node->source()), std::string{key} + " has no source and no ref", "write " + whole);
            return std::nullopt;
        }
        Table inner{*node->as_table(), std::string{key}, at(node->source()), diagnostics_};
        std::optional<T> result;
        if (const toml::node* value = inner.get("value", Need::required, example)) result = read(inner, *value);
        if (const auto standing = inner.choice("source", standings)) out.standing = *standing;
        if (auto reference = inner.text("ref", Need::required, max_text_bytes, R"("who says so, or the formula")"))
            out.reference = std::move(*reference);
        inner.finish();
        if (result) out.value = *result;
        return result;
    }

    void quantity(std::string_view key, Need need, Dimension dimension, Bounds<std::uint64_t> bounds,
                  Sourced<std::uint64_t>& out) {
        const std::string example = '"' + format_quantity(example_of(dimension), dimension) + '"';
        figure(key, need, example, out, [&](Table& inner, const toml::node& node) -> std::optional<std::uint64_t> {
            if (!node.is_string()) {
                inner.wrong(at(node.source()), std::string{key} + " is " + std::string{type_name(node)},
                            "write a number with its unit such as " + example);
                return std::nullopt;
            }
            Quantity read = parse_quantity(node.as_string()->get(), dimension);
            if (!read.problem.empty()) {
                inner.wrong(at(node.source()), std::string{key} + ' ' + read.problem, read.fix);
                return std::nullopt;
            }
            if (read.value < bounds.least || read.value > bounds.most) {
                inner.wrong(at(node.source()), std::string{key} + " is " + format_quantity(read.value, dimension),
                            "it must be " + format_quantity(bounds.least, dimension) + " to " +
                                format_quantity(bounds.most, dimension));
                return std::nullopt;
            }
            return read.value;
        });
    }

    void count(std::string_view key, Need need, Bounds<std::uint32_t> bounds, Sourced<std::uint32_t>& out) {
        figure(key, need, "18", out,
               [&](Table& inner, const toml::node& node) { return inner.integer_of(node, key, bounds); });
    }

    // What was probably meant; nothing once the answer would not be shown, so that a file of a hundred thousand wrong
    // words costs no hundred thousand comparisons.
    [[nodiscard]] std::string_view likely(std::string_view name, std::span<const std::string_view> names) const {
        return diagnostics_.full() ? std::string_view{} : closest_name(name, names);
    }

    // Whatever nobody asked for is unknown.
    void finish() {
        for (const auto& [key, node] : table_) {
            if (std::find(asked_.begin(), asked_.end(), key.str()) != asked_.end()) continue;
            const auto near = likely(key.str(), asked_);
            wrong(at(key.source()), "unknown key " + quoted(key.str()) + " in " + title_,
                  near.empty() ? "known are " + list_names(asked_) : "did you mean " + quoted(near));
        }
    }

private:
    static std::uint64_t example_of(Dimension dimension) {
        switch (dimension) {
        case Dimension::time: return 100'000;
        case Dimension::size: return 256;
        case Dimension::rate: return 25'000'000'000;
        }
        return 1;
    }

    const toml::table& table_;
    std::string title_;
    Position at_;
    Diagnostics& diagnostics_;
    std::vector<std::string_view> asked_;
};

} // namespace nvlf::model
