// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How a command fails. A command runs once and then the process ends, so the short way out is an exception which main()
// prints: "nvlf: " and one sentence that names the object, the operation, the cause, and what to do where that is known.
#pragma once

#include <stdexcept>
#include <string>

namespace nvlf::cli {

// Exit codes of every command; `run` adds those of env(1): 126 cannot be executed, 127 not found.
inline constexpr int kFine = 0;
inline constexpr int kFailed = 1; // Right question, bad answer: no such fabric, refused, died.
inline constexpr int kUsage = 2;  // Wrong question: unknown option, unknown topology, malformed file.
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

class Failure : public std::runtime_error {
public:
    Failure(int exit_code, const std::string& text) : std::runtime_error{text}, exit_code_{exit_code} {}
    [[nodiscard]] int exit_code() const noexcept { return exit_code_; }

private:
    int exit_code_;
};

// "Permission denied" for EACCES; `error` positive or negative.
[[nodiscard]] std::string cause(int error);

} // namespace nvlf::cli
