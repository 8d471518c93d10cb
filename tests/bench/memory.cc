// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See memory.hpp.
#include "memory.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "nvlf/nvlf.h"

namespace nvlf::bench {
namespace {

std::shared_ptr<std::byte> from_malloc() {
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, memory_bytes));
    if (memory == nullptr) throw std::bad_alloc{};
    std::memset(memory, 0, memory_bytes); // The pages are there before anything is timed.
    return {memory, [](std::byte* m) { std::free(m); }};
}

std::shared_ptr<std::byte> from_fabric() {
    const auto must = [](int result, const char* what) {
        if (result < 0) throw std::runtime_error{std::string{what} + ": " + std::strerror(-result)};
    };
    nvlf_fabric* opened = nullptr;
    if (nvlf_open(nullptr, &opened) < 0) throw std::runtime_error{nvlf_open_error()};
    const std::shared_ptr<nvlf_fabric> fabric{opened, [](nvlf_fabric* f) { nvlf_close(f); }};
    std::uint32_t device = 0;
    must(nvlf_attach(fabric.get(), NVLF_DEVICE_ANY, &device), "nvlf_attach");
    nvlf_mem* allocated = nullptr;
    must(nvlf_mem_alloc(fabric.get(), device, memory_bytes, 0, &allocated), "nvlf_mem_alloc");
    const std::shared_ptr<nvlf_mem> memory{allocated, [fabric](nvlf_mem* m) { nvlf_mem_put(m); }};
    void* pointer = nullptr;
    must(nvlf_mem_map(memory.get(), &pointer), "nvlf_mem_map");
    std::memset(pointer, 0, memory_bytes);
    return {static_cast<std::byte*>(pointer), [memory](std::byte*) {}};
}

} // namespace

Memory::Memory(const Endpoint& endpoint, const std::string& kind)
    : bytes_{kind == "fabric" ? from_fabric() : from_malloc()},
      by_address_{(endpoint.info().domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0} {
    // The key matters only to providers that leave it to us.
    const std::uint64_t wanted_key = kind == "fabric" ? 2 : 1;
    fid_mr* registration = nullptr;
    check(fi_mr_reg(endpoint.domain(), bytes_.get(), memory_bytes,
                    FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, wanted_key, 0, &registration, nullptr),
          "fi_mr_reg");
    registration_.reset(registration);
}

RemoteMemory Memory::remote() const {
    return {by_address_ ? reinterpret_cast<std::uintptr_t>(bytes_.get()) : 0, fi_mr_key(registration_.get())};
}

Memories register_memories(const Endpoint& endpoint, const std::string& provider) {
    Memories memories;
    memories.try_emplace("malloc", endpoint, "malloc");
    if (provider == "nvlf") memories.try_emplace("fabric", endpoint, "fabric");
    return memories;
}

} // namespace nvlf::bench
