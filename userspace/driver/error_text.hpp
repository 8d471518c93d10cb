// SPDX-License-Identifier: MIT OR GPL-2.0-only
// error_text.hpp - what nvlf_open_error() answers.
#pragma once

#include <string>

#include "base/result.hpp"

namespace nvlf {

// Keeps the words for nvlf_open_error() in this thread and returns the errno as the C API does. A thread's own: two
// threads that open at once must not read each other's failure.
[[nodiscard]] int explain(Errno error, std::string words) noexcept;

} // namespace nvlf
