// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "model/diagnostic.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace nvlf::model {

namespace {

constexpr std::size_t longest_compared_name = 64;

// Edits (insert, delete, replace, swap of neighbours) between two short names. Two rows back are kept for the swap.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    using Row = std::array<std::size_t, longest_compared_name + 1>;
    Row before_last{};
    Row last{};
    Row current{};
    for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        current[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
            current[j] = std::min({replace, last[j] + 1, current[j - 1] + 1});
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) current[j] = std::min(current[j], before_last[j - 2] + 1);
        }
        before_last = last;
        last = current;
    }
    return last[b.size()];
}

} // namespace

std::string Diagnostic::to_string() const {
    return file + ':' + std::to_string(line) + ':' + std::to_string(column) + ": " + what + ", " + fix;
}

void Diagnostics::add(Position at, std::string what, std::string fix) {
    if (full()) {
        more_ = true;
        return;
    }
    found_.push_back({file_, std::max(at.line, 1U), std::max(at.column, 1U), std::move(what), std::move(fix)});
}

std::vector<Diagnostic> Diagnostics::take() && {
    std::stable_sort(found_.begin(), found_.end(), [](const Diagnostic& a, const Diagnostic& b) {
        return std::tie(a.line, a.column) < std::tie(b.line, b.column);
    });
    if (more_ && !found_.empty()) {
        const Diagnostic& last = found_.back();
        found_.push_back({file_, last.line, last.column,
                          "more than " + std::to_string(max_diagnostics) + " mistakes, the others are not shown",
                          "mend these first"});
    }
    return std::move(found_);
}

std::string_view closest_name(std::string_view name, std::span<const std::string_view> candidates) {
    std::string_view best;
    if (name.size() > longest_compared_name) return best;
    std::size_t best_distance = longest_compared_name;
    for (const std::string_view candidate : candidates) {
        if (candidate.size() > longest_compared_name) continue;
        const std::size_t distance = edit_distance(name, candidate);
        // A third of the letters: "rat" may mean "rate", but "mode" must not be offered for "node count".
        if (distance * 3 <= std::max(name.size(), candidate.size()) && distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

std::string list_names(std::span<const std::string_view> names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
        text += '"';
        text += names[i];
        text += '"';
    }
    return text;
}

std::string quoted(std::string_view text) {
    constexpr std::size_t shown_bytes = 64;
    std::string shown;
    for (const char c : text.substr(0, shown_bytes)) {
        const auto byte = static_cast<unsigned char>(c);
        shown += byte < 0x20 || byte == 0x7F ? '?' : c;
    }
    if (text.size() > shown_bytes) shown += "...";
    return '"' + shown + '"';
}

} // namespace nvlf::model
