// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Where the other parts of NVLF are: beside this program in its build tree, across from it in an installed tree, or where
// the build was told to install. A part that is missing is a Failure that names every place which was looked at.
#pragma once

#include <string>

namespace nvlf::cli {

// nvlfd: NVLF_NVLFD, else beside this program, else the configured folder.
[[nodiscard]] std::string daemon_path();

// The folder that holds libnvlf-fi.so.
[[nodiscard]] std::string provider_dir();

// A value for FI_PROVIDER_PATH that adds our folder and takes nothing away. When the variable is set, libfabric looks
// nowhere else: so the user's folders stay, and where he had none, the folder in which libfabric would have looked by
// itself stands in for it. (Built-in providers do not depend on the variable.) A leading '@' of the user's, which turns the
// order of precedence, keeps its place and its effect.
[[nodiscard]] std::string provider_path(const std::string& ours);

// The socket directory by the documented rules, for messages and for `ls fabrics`. `dir` is the user's wish, or empty.
[[nodiscard]] std::string socket_dir(const std::string& dir);

} // namespace nvlf::cli
