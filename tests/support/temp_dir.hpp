// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A directory that exists as long as its object: for sockets, topology files, logs of children. It is made under
// $TMPDIR or /tmp and not in the build tree, because a UNIX socket's path must fit 108 bytes wherever the clone lies.
#pragma once

#include <string>
#include <string_view>

namespace nvlf::test {

class TempDir {
public:
    TempDir(); // Mode 0700. Throws std::system_error when it cannot be made.
    ~TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + '/' + std::string{name}; }

    // Writes a file in it and returns its path.
    std::string write(std::string_view name, std::string_view text) const;

private:
    std::string path_;
};

} // namespace nvlf::test
