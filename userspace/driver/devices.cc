// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Devices, switches, links and paths, and what the owner of a fabric may do to them: each function is one command.
#include <span>

#include "driver/fabric.hpp"
#include "driver/pick.hpp"

using namespace nvlf;

namespace {

// A command whose answer is one member of its struct.
template <class Body, class Object>
int get_object(nvlf_fabric* fabric, std::uint32_t cmd, std::uint32_t index, Object Body::*member,
               Object* ret) noexcept {
    if (fabric == nullptr || ret == nullptr) return -EINVAL;
    Body body{};
    body.index = index;
    const Errno error = fabric->carrier->ask(cmd, body);
    if (!error.failed()) *ret = body.*member;
    return error.negative();
}

template <class Body>
int ask(nvlf_fabric* fabric, std::uint32_t cmd, Body body) noexcept {
    return fabric != nullptr ? fabric->carrier->ask(cmd, body).negative() : -EINVAL;
}

std::span<const nvlf_device> devices_of(const nvlf_fabric& fabric) noexcept {
    return {nvlf_state_devices(&fabric.region()), fabric.region().device_count};
}

} // namespace

int nvlf_get_device(nvlf_fabric* fabric, uint32_t index, nvlf_device* ret_device) noexcept {
    return get_object(fabric, NVLF_CMD_GET_DEVICE, index, &nvlf_ioc_device::device, ret_device);
}

int nvlf_get_switch(nvlf_fabric* fabric, uint32_t index, nvlf_switch* ret_switch) noexcept {
    return get_object(fabric, NVLF_CMD_GET_SWITCH, index, &nvlf_ioc_switch::sw, ret_switch);
}

int nvlf_get_link(nvlf_fabric* fabric, uint32_t index, nvlf_link* ret_link) noexcept {
    return get_object(fabric, NVLF_CMD_GET_LINK, index, &nvlf_ioc_link::link, ret_link);
}

int nvlf_find_device(nvlf_fabric* fabric, const char* name, uint32_t* ret_index) noexcept {
    if (fabric == nullptr || name == nullptr || ret_index == nullptr) return -EINVAL;
    const auto found = find_device(devices_of(*fabric), name);
    if (found) *ret_index = *found;
    return found.error().negative();
}

int nvlf_get_path(nvlf_fabric* fabric, uint32_t src, uint32_t dst, nvlf_ioc_path* ret_path) noexcept {
    if (fabric == nullptr || ret_path == nullptr) return -EINVAL;
    nvlf_ioc_path body{};
    body.src = src;
    body.dst = dst;
    const Errno error = fabric->carrier->ask(NVLF_CMD_GET_PATH, body);
    if (error.failed()) return error.negative();
    if (body.hops > NVLF_MAX_HOPS) return nonsense(*fabric); // Callers walk hop[] by it.
    *ret_path = body;
    return 0;
}

int nvlf_attach(nvlf_fabric* fabric, uint32_t device, uint32_t* ret_device) noexcept {
    if (fabric == nullptr) return -EINVAL;
    nvlf_ioc_attach body{};
    body.device = device;
    if (device == NVLF_DEVICE_ANY) {
        const PickWish wish = wish_of_environment();
        // "The least used" is left to the carrier, which sees all who ask at this moment.
        if (!wish.device.empty() || wish.local_rank) {
            const auto picked = pick_device(devices_of(*fabric), wish);
            if (!picked) return picked.error().negative();
            body.device = *picked;
        }
    }
    const Errno error = fabric->carrier->ask(NVLF_CMD_ATTACH, body);
    if (error.failed()) return error.negative();
    if (body.device >= fabric->region().device_count) return nonsense(*fabric);
    if (ret_device != nullptr) *ret_device = body.device;
    return 0;
}

int nvlf_get_client(nvlf_fabric* fabric, uint32_t index, nvlf_ioc_client* ret_client) noexcept {
    if (fabric == nullptr || ret_client == nullptr) return -EINVAL;
    nvlf_ioc_client body{};
    body.index = index;
    const Errno error = fabric->carrier->ask(NVLF_CMD_GET_CLIENT, body);
    if (error.failed()) return error.negative();
    body.command[sizeof body.command - 1] = '\0'; // It is a stranger's name, and will be printed.
    *ret_client = body;
    return 0;
}

int nvlf_admin_state(nvlf_fabric* fabric, uint32_t object, uint32_t index, uint32_t state, uint32_t width_up) noexcept {
    return ask(fabric, NVLF_CMD_ADMIN_STATE, nvlf_ioc_admin_state{0, object, index, state, width_up, 0});
}

int nvlf_admin_clock(nvlf_fabric* fabric, uint32_t clock, uint64_t dilation_ppm) noexcept {
    return ask(fabric, NVLF_CMD_ADMIN_CLOCK, nvlf_ioc_admin_clock{0, clock, dilation_ppm});
}

int nvlf_admin_limit(nvlf_fabric* fabric, uint32_t limit, uint64_t value) noexcept {
    return ask(fabric, NVLF_CMD_ADMIN_LIMIT, nvlf_ioc_admin_limit{0, limit, value});
}

int nvlf_admin_down(nvlf_fabric* fabric, uint32_t flags) noexcept {
    return ask(fabric, NVLF_CMD_ADMIN_DOWN, nvlf_ioc_admin_down{0, flags});
}
