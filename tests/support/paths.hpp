// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Where this build put what a test runs, loads or reads. A test asks here instead of guessing from its own location, so
// that it can be started from anywhere, under ctest or by hand.
#pragma once

#include <string>

namespace nvlf::test {

[[nodiscard]] std::string source_dir();                               // Root of the sources.
[[nodiscard]] std::string program(const std::string& name);           // build/bin/<name>: "nvlfd", "nvlf".
[[nodiscard]] std::string library_dir();                              // build/lib
[[nodiscard]] std::string provider_dir();                             // For FI_PROVIDER_PATH.
[[nodiscard]] std::string data_file(const std::string& path_in_data); // tests/data/<path>

} // namespace nvlf::test
