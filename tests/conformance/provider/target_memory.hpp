// SPDX-License-Identifier: MIT OR GPL-2.0-only
// target_memory.hpp - memory for the target of one-sided operations: of the heap, which the target's progress serves, or on
// a device of the fabric, which the initiator maps.
#pragma once

#include <vector>

#include "nvlf/nvlf.h"
#include "two_endpoints.hpp"

namespace nvlf::test {

constexpr std::size_t region_size = 2u << 20;

struct TargetMemory {
    explicit TargetMemory(bool on_fabric) {
        if (!on_fabric) {
            heap.resize(region_size);
            data = heap.data();
            return;
        }
        check(nvlf_open(nullptr, &fabric), nvlf_open_error());
        check(nvlf_mem_alloc(fabric, 4, region_size, 0, &memory), "nvlf_mem_alloc");
        void* pointer = nullptr;
        check(nvlf_mem_map(memory, &pointer), "nvlf_mem_map");
        data = static_cast<char*>(pointer);
    }
    ~TargetMemory() {
        if (memory != nullptr) (void)nvlf_mem_put(memory);
        if (fabric != nullptr) (void)nvlf_close(fabric);
    }
    TargetMemory(const TargetMemory&) = delete;
    TargetMemory& operator=(const TargetMemory&) = delete;

    std::vector<char> heap;
    nvlf_fabric* fabric = nullptr;
    nvlf_mem* memory = nullptr;
    char* data = nullptr;
};

} // namespace nvlf::test
