// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A state image from a stranger: what passes the check can be walked to its end, by the accessors that everybody uses.
#include <cstdint>
#include <cstring>
#include <vector>

#include "driver/pick.hpp"
#include "driver/state_check.hpp"
#include "nvlf/nvlf.h"

namespace {
volatile std::uint64_t sink; // What was read must not be optimised away.

void walk(const nvlf_state* state) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < state->device_count; ++i)
        sum += std::strlen(nvlf_state_devices(state)[i].name) + nvlf_state_devices(state)[i].rate;
    for (std::uint32_t i = 0; i < state->switch_count; ++i) sum += std::strlen(nvlf_state_switches(state)[i].model);
    for (std::uint32_t i = 0; i < state->link_count; ++i)
        for (const nvlf_link_end& end : nvlf_state_links(state)[i].end)
            sum += end.object == NVLF_OBJECT_DEVICE ? nvlf_state_devices(state)[end.index].index
                                                    : nvlf_state_switches(state)[end.index].index;
    for (std::uint32_t i = 0; i < state->endpoint_count; ++i) sum += nvlf_state_endpoints(state)[i].epoch;
    std::uint32_t device = 0;
    if (nvlf_state_pick_device(state, &device) == 0) sum += nvlf_state_devices(state)[device].node;
    sink = sum;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    // Aligned as a mapping or an image is, and of exact size, so that a sanitizer sees the first byte too far.
    const std::vector<std::byte> image{reinterpret_cast<const std::byte*>(data),
                                       reinterpret_cast<const std::byte*>(data) + size};
    if (!nvlf::check_state(image).failed()) walk(reinterpret_cast<const nvlf_state*>(image.data()));
    return 0;
}
