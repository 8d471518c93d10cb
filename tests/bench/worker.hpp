// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A process of a team: this same program, started anew, which opens an endpoint and does what it is told until the other
// end of the socket closes. It is a process of its own, exec and all, because that is what providers are made for: memory
// is shared by their means or not at all.
#pragma once

#include <cstddef>
#include <string>

namespace nvlf::bench {

// Returns the exit code.
int serve(const std::string& socket, std::size_t rank);

} // namespace nvlf::bench
