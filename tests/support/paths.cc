// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The only file that is compiled with the paths of the build; see CMakeLists.txt beside it.
#include "support/paths.hpp"

#include <string_view>

namespace nvlf::test {

std::string source_dir() { return NVLF_TEST_SOURCE_DIR; }
std::string program(const std::string& name) { return std::string{NVLF_TEST_BUILD_DIR "/bin/"} + name; }
std::string library_dir() { return NVLF_TEST_BUILD_DIR "/lib"; }
std::string provider_dir() { return NVLF_TEST_BUILD_DIR "/lib/libfabric"; }
std::string data_file(const std::string& path_in_data) {
    return std::string{NVLF_TEST_SOURCE_DIR "/tests/data/"} + path_in_data;
}

std::vector<std::string> stock_program_environment() {
    std::vector<std::string> environment{"FI_PROVIDER_PATH=" + provider_dir()};
    if (const std::string runtime{NVLF_TEST_SANITIZER_RUNTIME}; !runtime.empty()) {
        environment.push_back("LD_PRELOAD=" + runtime);
        environment.emplace_back("ASAN_OPTIONS=detect_leaks=0");
    }
    return environment;
}

bool address_sanitizer() { return std::string_view{NVLF_TEST_SANITIZE}.find("address") != std::string_view::npos; }
bool thread_sanitizer() { return std::string_view{NVLF_TEST_SANITIZE}.find("thread") != std::string_view::npos; }

} // namespace nvlf::test
