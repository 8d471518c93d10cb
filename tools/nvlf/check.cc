// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf check: is a topology file right? nvlfd reads it as it would to bring it up; here its mistakes are passed on.
#include "commands.hpp"
#include "console.hpp"
#include "failure.hpp"
#include "image.hpp"
#include "output.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <sstream>

namespace nvlf::cli {

namespace {

std::optional<unsigned> number(std::string_view text) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

// "file:line:column: words"; a line of another form is all words. The file's own name may hold colons, so the numbers
// are looked for from every ": " on.
Json diagnostic(const std::string& line) {
    for (auto words = line.find(": "); words != std::string::npos; words = line.find(": ", words + 1)) {
        const auto column = line.rfind(':', words - 1);
        if (words == 0 || column == std::string::npos || column == 0) continue;
        const auto row = line.rfind(':', column - 1);
        if (row == std::string::npos) continue;
        const auto row_number = number(std::string_view{line}.substr(row + 1, column - row - 1));
        const auto column_number = number(std::string_view{line}.substr(column + 1, words - column - 1));
        if (!row_number || !column_number) continue;
        return {{"file", line.substr(0, row)},
                {"line", *row_number},
                {"column", *column_number},
                {"message", line.substr(words + 2)}};
    }
    return {{"file", nullptr}, {"line", nullptr}, {"column", nullptr}, {"message", line}};
}

int report_mistakes(const CheckOptions& options, const Image& image) {
    if (!options.json) {
        // file:line:column at the head of the line, where editors look for it; our name only before what has no place.
        const bool placed = !diagnostic(image.mistakes.substr(0, image.mistakes.find('\n')))["file"].is_null();
        fmt::print(stderr, "{}{}\n", placed ? "" : "nvlf: ", image.mistakes);
        return kUsage;
    }
    Json json{{"topology", options.topology}, {"valid", false}, {"diagnostics", Json::array()}};
    std::istringstream lines{image.mistakes};
    for (std::string line; std::getline(lines, line);)
        if (!line.empty()) json["diagnostics"].push_back(diagnostic(line));
    print_json(json);
    return kUsage;
}

} // namespace

int check(const CheckOptions& options) {
    const Image image = read_image(options.topology);
    if (!image.mistakes.empty()) return report_mistakes(options, image);
    const View& seen = image.view;
    if (options.json) {
        print_json({{"topology", seen.topology},
                    {"valid", true},
                    {"nodes", seen.nodes},
                    {"devices", seen.devices.size()},
                    {"switches", seen.switches.size()},
                    {"links", seen.links.size()},
                    {"figures", seen.figures},
                    {"assumed_figures", seen.assumed},
                    {"diagnostics", Json::array()}});
        return kFine;
    }
    print(fmt::format("{}: fine: {} on {}, {}, {}; {} of {} hardware figures are assumed\n", seen.topology,
                      counted(seen.devices.size(), "device"), counted(seen.nodes, "node"),
                      counted(seen.switches.size(), "switch", "switches"), counted(seen.links.size(), "link"),
                      seen.assumed, seen.figures));
    return kFine;
}

} // namespace nvlf::cli
