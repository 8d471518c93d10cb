// SPDX-License-Identifier: MIT OR GPL-2.0-only
// hmem.cc - see hmem.hpp.
#include "hmem.hpp"

#include <rdma/fi_errno.h>

#include <cstring>
#include <optional>

#include "domain.hpp"
#include "fabric_memory.hpp"
#include "nvlf/nvlf.h"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

constexpr std::uint64_t alloc_flags = FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC;

struct Kind {
    std::uint32_t kind; // NVLF_DEVICE_*
    const char* name;
};

std::optional<Kind> kind_of(enum fi_hmem_iface iface) noexcept {
    switch (iface) {
    case FI_HMEM_CUDA: return Kind{NVLF_DEVICE_NVIDIA, "CUDA"};
    case FI_HMEM_NEURON: return Kind{NVLF_DEVICE_TRAINIUM, "Neuron"};
    default: return std::nullopt;
    }
}

enum fi_hmem_iface iface_of(std::uint32_t kind) noexcept {
    return kind == NVLF_DEVICE_TRAINIUM ? FI_HMEM_NEURON : FI_HMEM_CUDA;
}

// The device with that number among those of its kind; nullptr: the fabric has not so many.
const nvlf_device* find_device(const nvlf_state& state, std::uint32_t kind, int ordinal) noexcept {
    const nvlf_device* devices = nvlf_state_devices(&state);
    for (std::uint32_t i = 0; i < state.device_count; ++i)
        if (devices[i].kind == kind && ordinal-- == 0) return &devices[i];
    return nullptr;
}

int check_piece(const Domain& domain, const nvlf_device& device, const Kind& kind, const iovec& piece) noexcept {
    nvlf_mem* found = nullptr;
    if (nvlf_mem_find(piece.iov_base, piece.iov_len, &found) != 0) {
        FI_WARN(
            &provider, FI_LOG_MR,
            "%s memory at %p (%zu bytes) is not the fabric's: only memory of its own devices can be registered, which "
            "nvlf_mem_alloc or fi_open_ops(\"nvlf ops v1\") allocates\n",
            kind.name, piece.iov_base, piece.iov_len);
        return -FI_EOPNOTSUPP;
    }
    const MemRef memory{found};
    if (!same_fabric(domain, *found)) {
        FI_WARN(&provider, FI_LOG_MR, "memory at %p belongs to another fabric than the domain\n", piece.iov_base);
        return -FI_EINVAL;
    }
    const std::uint32_t index = nvlf_mem_device(found);
    if (index != device.index) {
        FI_WARN(&provider, FI_LOG_MR, "memory at %p lies on device '%s', not on '%.*s'\n", piece.iov_base,
                nvlf_state_devices(nvlf_state_region(domain.nvlf, nullptr))[index].name,
                static_cast<int>(sizeof device.name), device.name);
        return -FI_EINVAL;
    }
    return 0;
}

} // namespace

int check_hmem(const Domain& domain, HmemDevice device, std::uint64_t flags, std::span<const iovec> pieces) noexcept {
    if ((flags & alloc_flags) == alloc_flags) return -FI_EINVAL;
    if (device.iface == FI_HMEM_SYSTEM) return (flags & alloc_flags) == 0 ? 0 : -FI_EINVAL;
    const auto kind = kind_of(device.iface);
    if (!kind) {
        FI_WARN(&provider, FI_LOG_MR, "no device of a fabric has memory of interface %d; CUDA and Neuron are known\n",
                static_cast<int>(device.iface));
        return -FI_ENOSYS;
    }
    if ((flags & FI_HMEM_HOST_ALLOC) != 0)
        return 0; // The host's memory, whoever allocated it; the device is not looked at.
    const nvlf_state* state = nvlf_state_region(domain.nvlf, nullptr);
    const nvlf_device* found = find_device(*state, kind->kind, device.ordinal);
    if (found == nullptr) {
        FI_WARN(&provider, FI_LOG_MR, "the fabric has no %s device %d\n", kind->name, device.ordinal);
        return -FI_EINVAL;
    }
    for (const iovec& piece : pieces)
        if (const int ret = check_piece(domain, *found, *kind, piece); ret != 0) return ret;
    return 0;
}

HmemDevice hmem_device(const Domain& domain, std::uint32_t index) noexcept {
    const nvlf_device* devices = nvlf_state_devices(nvlf_state_region(domain.nvlf, nullptr));
    HmemDevice device{.iface = iface_of(devices[index].kind), .ordinal = 0};
    for (std::uint32_t i = 0; i < index; ++i)
        if (devices[i].kind == devices[index].kind) ++device.ordinal;
    return device;
}

bool same_fabric(const Domain& domain, const nvlf_mem& memory) noexcept {
    const nvlf_state* ours = nvlf_state_region(domain.nvlf, nullptr);
    const nvlf_state* theirs = nvlf_state_region(nvlf_mem_fabric(&memory), nullptr);
    return std::memcmp(ours->uuid, theirs->uuid, sizeof ours->uuid) == 0;
}

} // namespace nvlf::ofi
