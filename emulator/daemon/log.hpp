// SPDX-License-Identifier: MIT OR GPL-2.0-only
// log.hpp - one line an event: what happened, to whom, why.
//
// Nothing is logged for each message: a client could fill the disk. A line is written by one write(), so that lines of
// several fabrics in one file do not mix, and a log that cannot be written (disk full, reader gone) is no reason to stop.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.hpp"

namespace nvlf::daemon {

enum class Level { error, warning, info, debug };

class Log {
public:
    // `fd` stays the caller's.
    Log(int fd, Level level, std::string fabric) : fd_{fd}, level_{level}, fabric_{std::move(fabric)} {}

    void error(std::string_view text) { write(Level::error, text); }
    void warning(std::string_view text) { write(Level::warning, text); }
    void info(std::string_view text) { write(Level::info, text); }
    void debug(std::string_view text) { write(Level::debug, text); }
    [[nodiscard]] bool wants(Level level) const noexcept { return fd_ >= 0 && level <= level_; }

private:
    void write(Level level, std::string_view text);

    int fd_; // -1: nowhere.
    Level level_;
    std::string fabric_;
};

} // namespace nvlf::daemon
