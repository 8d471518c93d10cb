// SPDX-License-Identifier: MIT OR GPL-2.0-only
// endpoint.hpp - a published endpoint: its region, its doorbell, and what it sleeps on.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/fd.hpp"
#include "driver/fabric.hpp"
#include "driver/memory.hpp"

struct nvlf_ep {
    explicit nvlf_ep(nvlf_fabric& of) noexcept : fabric{of} {}

    nvlf::FabricUse fabric;
    nvlf_mem* memory = nullptr; // Of the region; ours.
    nvlf_region* region = nullptr;
    const nvlf_state_endpoint* life = nullptr; // Our entry in the state region.
    ::nvlf_addr address{};
    nvlf::Fd doorbell; // An eventfd that peers write to.
    nvlf::Fd notice;   // From the carrier; hangs up with it.
    nvlf::Fd wait;     // An epoll of the two, and of the fabric's events when there are.
    std::atomic<std::uint32_t> channels{0};
};

namespace nvlf {

// Makes `ep` wake for the fabric's events, if it has asked for any. Under events_lock.
[[nodiscard]] Errno watch_events(nvlf_ep& ep, int events) noexcept;

} // namespace nvlf
