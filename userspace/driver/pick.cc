// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "driver/pick.hpp"

#include <stdlib.h>

#include <charconv>
#include <cstring>

#include "driver/api.hpp"

namespace nvlf {
namespace {

bool up(const nvlf_device& device) noexcept { return load_relaxed(device.state) != NVLF_STATE_DOWN; }

Result<std::uint32_t> if_up(std::span<const nvlf_device> devices, std::uint32_t index) noexcept {
    return up(devices[index]) ? Result<std::uint32_t>{index} : Errno{EHOSTDOWN};
}

// The lowest index among equals, so that all who look at the same state see the same device.
Result<std::uint32_t> least_used(std::span<const nvlf_device> devices) noexcept {
    std::optional<std::uint32_t> best;
    std::uint32_t fewest = 0;
    for (std::uint32_t i = 0; i < devices.size(); ++i) {
        if (!up(devices[i])) continue;
        const std::uint32_t clients = load_relaxed(devices[i].clients);
        if (best && clients >= fewest) continue;
        best = i;
        fewest = clients;
    }
    return best ? Result<std::uint32_t>{*best} : Errno{EHOSTDOWN};
}

} // namespace

std::optional<std::uint32_t> decimal(std::string_view text) noexcept {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional{value} : std::nullopt;
}

Result<std::uint32_t> find_device(std::span<const nvlf_device> devices, std::string_view name) noexcept {
    for (std::uint32_t i = 0; i < devices.size(); ++i)
        if (name == std::string_view{devices[i].name, ::strnlen(devices[i].name, sizeof devices[i].name)}) return i;
    const auto index = decimal(name);
    return index && *index < devices.size() ? Result<std::uint32_t>{*index} : Errno{ENODEV};
}

Result<std::uint32_t> pick_device(std::span<const nvlf_device> devices, const PickWish& wish) noexcept {
    if (devices.empty()) return Errno{ENODEV};
    if (!wish.device.empty()) {
        const Result<std::uint32_t> found = find_device(devices, wish.device);
        return found ? if_up(devices, *found) : Errno{EINVAL};
    }
    if (wish.local_rank) return if_up(devices, *wish.local_rank % static_cast<std::uint32_t>(devices.size()));
    return least_used(devices);
}

PickWish wish_of_environment() noexcept {
    PickWish wish;
    if (const char* device = ::getenv("NVLF_DEVICE"); device != nullptr) wish.device = device;
    for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PMI_LOCAL_RANK"}) {
        const char* value = ::getenv(name);
        if (value != nullptr && !wish.local_rank) wish.local_rank = decimal(value);
    }
    return wish;
}

} // namespace nvlf

int nvlf_state_pick_device(const nvlf_state* state, uint32_t* ret_device) noexcept {
    if (state == nullptr || ret_device == nullptr) return -EINVAL;
    const std::span devices{nvlf_state_devices(state), state->device_count};
    const auto picked = nvlf::pick_device(devices, nvlf::wish_of_environment());
    if (!picked) return picked.error().negative();
    *ret_device = *picked;
    return 0;
}
