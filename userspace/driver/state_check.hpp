// SPDX-License-Identifier: MIT OR GPL-2.0-only
// state_check.hpp - whether a state region (nvlf/state.h) may be used at all.
//
// It comes from a file or from a descriptor that somebody passed us. After this check each array that the header tells of
// lies within the region, so that the accessors of nvlf/nvlf.h need not ask again.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.hpp"
#include "nvlf/state.h"

namespace nvlf {

// EPROTO: not a state region, or one that contradicts itself. EPROTONOSUPPORT: of another major version.
[[nodiscard]] Errno check_state(std::span<const std::byte> region) noexcept;

} // namespace nvlf
