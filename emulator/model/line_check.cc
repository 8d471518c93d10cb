// SPDX-License-Identifier: MIT OR GPL-2.0-only
// line_check.cc - see line_check.hpp.
#include "model/line_check.hpp"

#include "model/topology_loader.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace nvlf::model {

namespace {

// The column of the fault and what to say of it; column 0 when there is none.
struct LineFault {
    std::size_t column = 0;
    std::string_view what;
    std::string_view fix;
};

LineFault fault_of_line(std::string_view line) {
    if (line.size() > max_line_bytes) return {max_line_bytes + 1, "the line is longer than 1024 bytes", "break it up"};
    static_assert(max_line_bytes == 1024);
    char quote = '\0'; // Of the string that we are in.
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quote != '\0') {
            if (c == '\\' && quote == '"') ++i; // Whatever is escaped does not end the string.
            if (c == quote) quote = '\0';
        } else if (c == '#') {
            break;
        } else if (c == '"' || c == '\'') {
            if (i + 2 < line.size() && line[i + 1] == c && line[i + 2] == c)
                return {i + 1, "a multi-line string", "write it on one line, between single marks"};
            quote = c;
        } else if (static_cast<unsigned char>(c) >= 0x80) {
            return {i + 1, "a letter beyond ASCII outside of strings and comments", "put it in quotation marks"};
        }
    }
    return {};
}

} // namespace

bool check_lines(std::string_view text, Diagnostics& diagnostics) {
    if (text.size() > max_file_bytes) {
        diagnostics.add({1, 1}, "the file has " + std::to_string(text.size()) + " bytes",
                        "at most " + std::to_string(max_file_bytes) + " are supported");
        return false;
    }
    for (std::uint32_t number = 1; !text.empty(); ++number) {
        const std::size_t length = std::min(text.find('\n'), text.size());
        const LineFault fault = fault_of_line(text.substr(0, length));
        if (fault.column > 0) {
            diagnostics.add({number, static_cast<std::uint32_t>(fault.column)}, std::string{fault.what},
                            std::string{fault.fix});
        }
        text.remove_prefix(std::min(length + 1, text.size()));
    }
    return diagnostics.empty();
}

} // namespace nvlf::model
