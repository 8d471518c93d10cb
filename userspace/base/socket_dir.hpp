// SPDX-License-Identifier: MIT OR GPL-2.0-only
// socket_dir.hpp - the directory in which fabrics are found, and the sockets in it.
//
// Whoever may put a socket into this directory may pose as a fabric, and whoever may enter it may use ours. So it is
// opened once, without following a link in its last component, checked through the descriptor, and from then on
// reached by that descriptor (/proc/self/fd/N/name): what was checked is what is used, whatever happens to the path, and
// a path longer than a socket's address holds is no problem.
//
// Two kinds of directory, two sets of rules:
//   implied  ($XDG_RUNTIME_DIR/nvlf, <temporary folder>/nvlf-<uid>)  nobody asked for it, so it must be ours, and closed:
//            no right for others, no right to write for the group
//   named    (an argument, NVLF_DIR)  somebody asked for it by name, so it may also be another user's or a group's
//            (0750, 0770): but never open to everybody
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace nvlf {

class SocketDir {
public:
    enum class Missing { is_error, is_created }; // Created with mode 0700; its parent must exist.

    // `named` is the caller's wish, "" for none: then NVLF_DIR, $XDG_RUNTIME_DIR/nvlf (where XDG_RUNTIME_DIR is an
    // absolute path to a directory of ours), <$TMPDIR or /tmp>/nvlf-<uid>. On failure `ret_why` is one sentence for people.
    //   ENOENT   it does not exist          ENOTDIR  it is something else       ELOOP  it is a symbolic link
    //   EACCES   it cannot be entered, or its owner or mode breaks the rules above
    [[nodiscard]] static Result<SocketDir> open(std::string_view named, Missing missing, std::string& ret_why);

    [[nodiscard]] int fd() const noexcept { return fd_.get(); } // For *at() calls only: it may be an O_PATH one.
    [[nodiscard]] const std::string& path() const noexcept { return path_; } // As given, for messages and children.

    // bind() and connect() for the socket of a fabric (a valid name). ENAMETOOLONG only where there is no /proc. The
    // message in `ret_why` is about the address alone: what an errno of bind or connect means is the caller's to say.
    [[nodiscard]] Errno bind(int socket, std::string_view fabric, std::string& ret_why) const;
    [[nodiscard]] Errno connect(int socket, std::string_view fabric, std::string& ret_why) const;

private:
    SocketDir(Fd fd, std::string path) noexcept : fd_{std::move(fd)}, path_{std::move(path)} {}
    Fd fd_;
    std::string path_;
};

// 1 to 31 characters of A-Z a-z 0-9 . _ -, so that a name is a file name, an argument and a label without quoting. Not
// "." or "..", and no leading dash: it would be an option somewhere.
[[nodiscard]] bool valid_fabric_name(std::string_view name) noexcept;

// The file in the directory: "<fabric>.sock".
[[nodiscard]] std::string socket_file(std::string_view fabric);

// The first of: `wanted` unless empty, NVLF_FABRIC unless empty, "default". Not validated.
[[nodiscard]] std::string fabric_name(std::string_view wanted);

} // namespace nvlf
