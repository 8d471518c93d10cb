// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Where this build put what a test runs, loads or reads. A test asks here instead of guessing from its own location, so
// that it can be started from anywhere, under ctest or by hand.
#pragma once

#include <string>
#include <vector>

namespace nvlf::test {

[[nodiscard]] std::string source_dir();                               // Root of the sources.
[[nodiscard]] std::string program(const std::string& name);           // build/bin/<name>: "nvlfd", "nvlf".
[[nodiscard]] std::string library_dir();                              // build/lib
[[nodiscard]] std::string provider_dir();                             // For FI_PROVIDER_PATH.
[[nodiscard]] std::string data_file(const std::string& path_in_data); // tests/data/<path>

// What fi_pingpong, fi_info and other programs that we did not build need in order to load our provider from this build:
// its folder and, when it is sanitized, the sanitizer's runtime, which must come first in the process. Leaks are not
// looked for in them: theirs would hide ours.
[[nodiscard]] std::vector<std::string> stock_program_environment();

// For what a sanitizer forbids or makes meaningless: fixed addresses under TSan, bounds on time under either.
[[nodiscard]] bool address_sanitizer();
[[nodiscard]] bool thread_sanitizer();

} // namespace nvlf::test
