// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "driver/state_check.hpp"

#include <cstdint>
#include <cstring>

#include "nvlf/nvlf.h"

namespace nvlf {
namespace {

constexpr std::size_t array_alignment = 64; // As state.h says.

bool array_fits(std::uint64_t offset, std::uint64_t count, std::uint64_t each, std::uint64_t bytes) noexcept {
    if (count == 0) return offset <= bytes; // One past the end is a fair place for nothing.
    // count and each are small (checked, resp. sizeof), so that their product cannot overflow.
    return offset % array_alignment == 0 && offset >= sizeof(nvlf_state) && offset <= bytes &&
           count * each <= bytes - offset;
}

template <std::size_t n>
bool terminated(const char (&text)[n]) noexcept {
    return std::memchr(text, 0, n) != nullptr;
}

bool counts_in_range(const nvlf_state& head) noexcept {
    return head.device_count <= NVLF_MAX_DEVICES && head.switch_count <= NVLF_MAX_SWITCHES &&
           head.link_count <= NVLF_MAX_LINKS && head.endpoint_count <= NVLF_MAX_ENDPOINTS &&
           head.nodes <= NVLF_MAX_DEVICES && head.assumed <= head.figures;
}

bool arrays_fit(const nvlf_state& head) noexcept {
    return array_fits(head.device_off, head.device_count, sizeof(nvlf_device), head.bytes) &&
           array_fits(head.switch_off, head.switch_count, sizeof(nvlf_switch), head.bytes) &&
           array_fits(head.link_off, head.link_count, sizeof(nvlf_link), head.bytes) &&
           array_fits(head.endpoint_off, head.endpoint_count, sizeof(nvlf_state_endpoint), head.bytes);
}

// What callers index or print without a look: indices that must be the position, and names that must end.
bool entries_sound(const nvlf_state& head, const std::byte* base) noexcept {
    for (std::uint32_t i = 0; i < head.device_count; ++i) {
        nvlf_device device;
        std::memcpy(&device, base + head.device_off + i * sizeof device, sizeof device);
        if (device.index != i || device.node >= head.nodes || !terminated(device.name) || !terminated(device.model))
            return false;
    }
    for (std::uint32_t i = 0; i < head.switch_count; ++i) {
        nvlf_switch sw;
        std::memcpy(&sw, base + head.switch_off + i * sizeof sw, sizeof sw);
        if (sw.index != i || !terminated(sw.name) || !terminated(sw.model)) return false;
    }
    for (std::uint32_t i = 0; i < head.link_count; ++i) {
        nvlf_link link;
        std::memcpy(&link, base + head.link_off + i * sizeof link, sizeof link);
        if (link.index != i) return false;
        for (const nvlf_link_end& end : link.end) {
            const bool device = end.object == NVLF_OBJECT_DEVICE && end.index < head.device_count;
            const bool sw = end.object == NVLF_OBJECT_SWITCH && end.index < head.switch_count;
            if (!device && !sw) return false;
        }
    }
    return true;
}

} // namespace

Errno check_state(std::span<const std::byte> region) noexcept {
    nvlf_state head;
    if (region.size() < sizeof head) return Errno{EPROTO};
    std::memcpy(&head, region.data(), sizeof head); // Once; what follows believes this copy only.
    if (head.magic != NVLF_STATE_MAGIC) return Errno{EPROTO};
    if (head.abi >> 16 != NVLF_ABI_MAJOR) return Errno{EPROTONOSUPPORT};
    if (head.bytes < sizeof head || head.bytes > region.size()) return Errno{EPROTO};
    if (!counts_in_range(head) || !arrays_fit(head) || !terminated(head.topology)) return Errno{EPROTO};
    return entries_sound(head, region.data()) ? Errno{} : Errno{EPROTO};
}

} // namespace nvlf

namespace {
template <class T>
const T* array_at(const nvlf_state* state, std::uint64_t offset) noexcept {
    // The region is an object of bytes laid out by state.h; its arrays are aligned there (see check_state).
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(state) + offset);
}
} // namespace

const nvlf_device* nvlf_state_devices(const nvlf_state* state) noexcept {
    return state == nullptr ? nullptr : array_at<nvlf_device>(state, state->device_off);
}
const nvlf_switch* nvlf_state_switches(const nvlf_state* state) noexcept {
    return state == nullptr ? nullptr : array_at<nvlf_switch>(state, state->switch_off);
}
const nvlf_link* nvlf_state_links(const nvlf_state* state) noexcept {
    return state == nullptr ? nullptr : array_at<nvlf_link>(state, state->link_off);
}
const nvlf_state_endpoint* nvlf_state_endpoints(const nvlf_state* state) noexcept {
    return state == nullptr ? nullptr : array_at<nvlf_state_endpoint>(state, state->endpoint_off);
}
