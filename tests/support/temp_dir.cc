// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// mkdtemp and its undoing.
#include "support/temp_dir.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace nvlf::test {

TempDir::TempDir() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string{base != nullptr && *base != '\0' ? base : "/tmp"} + "/nvlf-test-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr)
        throw std::system_error{errno, std::generic_category(), "cannot make temporary directory " + path_};
}

TempDir::~TempDir() {
    std::error_code ignored; // A leftover is not worth the loss of the test's own verdict.
    std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::write(std::string_view name, std::string_view text) const {
    auto file = *this / name;
    std::ofstream out{file, std::ios::binary};
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    if (!out.flush()) throw std::runtime_error{"cannot write " + file};
    return file;
}

} // namespace nvlf::test
