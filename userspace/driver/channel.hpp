// SPDX-License-Identifier: MIT OR GPL-2.0-only
// channel.hpp - what an endpoint shares with one peer: two lanes, a look at the peer's region, and its doorbell.
#pragma once

#include <cstdint>

#include "base/fd.hpp"
#include "base/mapping.hpp"
#include "driver/endpoint.hpp"

struct nvlf_channel {
    nvlf_ep* ep = nullptr;
    ::nvlf_addr peer{};
    const nvlf_state_endpoint* life = nullptr; // The peer's entry in the state region.
    nvlf::Mapping lanes;
    nvlf::Mapping region; // The peer's, read-only.
    nvlf::Fd doorbell;    // The peer's.
    nvlf_lane* tx = nullptr;
    nvlf_lane* rx = nullptr;
    const __u32* armed = nullptr; // In `region`.
    bool fence = false;           // Between publishing and looking at `armed`; see wait.cc.
    std::uint32_t rung = 0;       // The value of `armed` for which the doorbell was rung last; even: none yet.
};
