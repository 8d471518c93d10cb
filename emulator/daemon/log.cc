// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/log.hpp"

#include <unistd.h>

namespace nvlf::daemon {
namespace {

const char* word(Level level) {
    switch (level) {
    case Level::error: return "error";
    case Level::warning: return "warning";
    case Level::info: return "info";
    case Level::debug: break;
    }
    return "debug";
}

} // namespace

void Log::write(Level level, std::string_view text) {
    if (!wants(level)) return;
    std::string line = "nvlfd[" + fabric_ + "] " + word(level) + ": ";
    // The name of a program is its owner's choice: it must not be able to forge a line.
    for (const char c : text) line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    line += '\n';
    [[maybe_unused]] const ssize_t written = ::write(fd_, line.data(), line.size());
}

} // namespace nvlf::daemon
