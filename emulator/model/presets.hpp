// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The topologies that come with NVLF (emulator/topologies/*.toml), compiled in so that a fabric can be brought up where
// nothing is installed.

#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace nvlf::model {

/// What a fabric gets when nobody asked for anything else.
inline constexpr std::string_view default_preset = "fusion-mixed-8";

/// In alphabetical order.
[[nodiscard]] std::span<const std::string_view> preset_names() noexcept;

/// The TOML text, or nothing when there is no such preset; closest_name(name, preset_names()) may then help the user.
[[nodiscard]] std::optional<std::string_view> preset_text(std::string_view name) noexcept;

} // namespace nvlf::model
