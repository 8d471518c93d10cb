// SPDX-License-Identifier: MIT OR GPL-2.0-only
// memory.hpp - memory of the fabric, allocated here or imported.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/fd.hpp"
#include "driver/address_space.hpp"
#include "driver/fabric.hpp"

struct nvlf_mem {
    explicit nvlf_mem(nvlf_fabric& of) noexcept : fabric{of} {}

    // References: one for the caller of alloc or import, one for each successful nvlf_mem_find.
    std::atomic<std::uint32_t> references{1};
    nvlf::FabricUse fabric; // Keeps nvlf_close away.
    std::shared_ptr<nvlf::Arena> arena;
    nvlf::Fd fd;
    std::uint64_t fla = 0;
    std::uint64_t bytes = 0;
    std::uint32_t handle = 0;
    std::uint32_t device = 0;
    std::uint32_t access = 0;
    bool imported = false;
    std::uintptr_t mapped = 0; // Under the address space's lock; 0: not mapped.

    [[nodiscard]] bool writable() const noexcept { return (access & (NVLF_ACCESS_WRITE | NVLF_ACCESS_ATOMIC)) != 0; }

    // A further reference, unless the last one is gone already.
    [[nodiscard]] bool try_get() noexcept {
        auto seen = references.load(std::memory_order_relaxed);
        while (seen != 0)
            // relaxed: whoever holds the address space's lock and sees the object listed sees it whole.
            if (references.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) return true;
        return false;
    }
};
