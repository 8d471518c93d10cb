// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The only file that is compiled with the paths of the build; see CMakeLists.txt beside it.
#include "support/paths.hpp"

namespace nvlf::test {

std::string source_dir() { return NVLF_TEST_SOURCE_DIR; }
std::string program(const std::string& name) { return std::string{NVLF_TEST_BUILD_DIR "/bin/"} + name; }
std::string library_dir() { return NVLF_TEST_BUILD_DIR "/lib"; }
std::string provider_dir() { return NVLF_TEST_BUILD_DIR "/lib/libfabric"; }
std::string data_file(const std::string& path_in_data) {
    return std::string{NVLF_TEST_SOURCE_DIR "/tests/data/"} + path_in_data;
}

} // namespace nvlf::test
