// SPDX-License-Identifier: MIT OR GPL-2.0-only
// selector.cc - see selector.hpp.
#include "model/selector.hpp"

#include <algorithm>
#include <charconv>

namespace nvlf::model {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes a number off the front; nothing when there is none or it exceeds `most`.
std::optional<std::uint32_t> take_number(std::string_view& text, std::uint32_t most) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value > most) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

bool take(std::string_view& text, std::string_view token) {
    if (text.substr(0, token.size()) != token) return false;
    text.remove_prefix(token.size());
    return true;
}

} // namespace

bool is_prefix(std::string_view text) {
    return !text.empty() && text.size() <= max_prefix_bytes && is_letter(text.front()) && !is_digit(text.back()) &&
           std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '-'; });
}

std::optional<Selector> parse_selector(std::string_view text) {
    Selector selector;
    selector.text = text;
    // A name without a bracket ends in its number; the prefix is what is left before it.
    std::size_t prefix_end = text.find('[');
    if (prefix_end == std::string_view::npos) {
        prefix_end = std::min(text.find(':'), text.size());
        while (prefix_end > 0 && is_digit(text[prefix_end - 1])) --prefix_end;
    }
    if (!is_prefix(text.substr(0, prefix_end))) return std::nullopt;
    selector.prefix = text.substr(0, prefix_end);
    text.remove_prefix(prefix_end);

    const bool range = take(text, "[");
    if (range && take(text, "*]")) {
        selector.all = true;
        return text.empty() ? std::optional{selector} : std::nullopt;
    }
    const auto first = take_number(text, max_member_number);
    if (!first) return std::nullopt;
    selector.first = selector.last = *first;
    if (range) {
        if (take(text, "-")) {
            const auto last = take_number(text, max_member_number);
            if (!last || *last < *first) return std::nullopt;
            selector.last = *last;
        }
        if (!take(text, "]")) return std::nullopt;
    } else if (take(text, ":")) {
        selector.port = take_number(text, max_ports);
        if (!selector.port) return std::nullopt;
    }
    return text.empty() ? std::optional{selector} : std::nullopt;
}

} // namespace nvlf::model
