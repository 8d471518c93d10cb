// SPDX-License-Identifier: MIT OR GPL-2.0-only
// pick.hpp - which device a process gets that did not say.
//
// Everybody who must know it (attach, the provider's getinfo, the command line) asks the same function, with the same
// environment and the same state: so what is announced is what is then taken.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "nvlf/device.h"

namespace nvlf {

struct PickWish {
    std::string_view device;                 // NVLF_DEVICE; "" for none.
    std::optional<std::uint32_t> local_rank; // As the launcher numbered the processes of this host.
};

// By name, else by decimal index. ENODEV when there is none.
[[nodiscard]] Result<std::uint32_t> find_device(std::span<const nvlf_device> devices, std::string_view name) noexcept;

// EINVAL: `wish.device` is none of them. EHOSTDOWN: it is down, or all are. ENODEV: there are no devices.
[[nodiscard]] Result<std::uint32_t> pick_device(std::span<const nvlf_device> devices, const PickWish& wish) noexcept;

// NVLF_DEVICE, and the first of the launchers' variables that holds a number.
[[nodiscard]] PickWish wish_of_environment() noexcept;

// The whole of `text` as a decimal number.
[[nodiscard]] std::optional<std::uint32_t> decimal(std::string_view text) noexcept;

} // namespace nvlf
