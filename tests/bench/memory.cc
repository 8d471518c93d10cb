// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See memory.hpp.
#include "memory.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "nvlf/fi_nvlf.h"

namespace nvlf::bench {
namespace {

std::shared_ptr<std::byte> from_malloc() {
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, memory_bytes));
    if (memory == nullptr) throw std::bad_alloc{};
    std::memset(memory, 0, memory_bytes); // The pages are there before anything is timed.
    return {memory, [](std::byte* m) { std::free(m); }};
}

// As an application that knows only libfabric gets it.
std::shared_ptr<std::byte> from_fabric(fid_domain* domain) {
    nvlf_fi_ops_v1* ops = nullptr;
    if (fi_open_ops(&domain->fid, NVLF_FI_OPS_V1, 0, reinterpret_cast<void**>(&ops), nullptr) != 0)
        throw NotOffered{"no memory but malloc's"};
    nvlf_fi_mem* memory = nullptr;
    void* pointer = nullptr;
    check(ops->alloc(domain, NVLF_DEVICE_ANY, memory_bytes, &memory, &pointer), "alloc of " NVLF_FI_OPS_V1);
    std::memset(pointer, 0, memory_bytes);
    return {static_cast<std::byte*>(pointer), [=](std::byte*) { ops->free(memory); }};
}

} // namespace

Memory::Memory(const Endpoint& endpoint, const std::string& kind)
    : bytes_{kind == "fabric" ? from_fabric(endpoint.domain()) : from_malloc()},
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

Memories register_memories(const Endpoint& endpoint) {
    Memories memories;
    memories.try_emplace("malloc", endpoint, "malloc");
    try {
        memories.try_emplace("fabric", endpoint, "fabric");
    } catch (const NotOffered&) {} // NOLINT: then there is none.
    return memories;
}

} // namespace nvlf::bench
