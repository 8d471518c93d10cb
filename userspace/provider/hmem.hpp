// SPDX-License-Identifier: MIT OR GPL-2.0-only
// hmem.hpp - device memory (FI_HMEM): which memory an application may register as that of which device.
//
// The fabric's devices are GPUs and Trainium chips, and their memory is the fabric's. To libfabric the first are
// FI_HMEM_CUDA and the second FI_HMEM_NEURON, numbered as their runtimes would: from 0, each kind by itself, in the order
// of the fabric's devices. Such memory lies at the same address in each process and every processor reaches it, so data
// moves from device to device by one copy, and a registration is only held to be what it says.
//
// Memory of a real GPU is not ours to touch: a processor that does so faults. It is refused when it is registered, in
// words, rather than later by a signal.
#pragma once

#include <rdma/fi_domain.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "nvlf/nvlf.h"

namespace nvlf::ofi {

struct Domain;

struct HmemDevice {
    enum fi_hmem_iface iface = FI_HMEM_SYSTEM;
    int ordinal = 0; // Among the devices of its kind.
};

// 0 when these pieces may be registered as memory of that device. -FI_ENOSYS: an interface of no device of a fabric;
// -FI_EOPNOTSUPP: not the fabric's memory; -FI_EINVAL: another device's, or flags that contradict each other. What is wrong
// is logged as a warning.
[[nodiscard]] int check_hmem(const Domain& domain, HmemDevice device, std::uint64_t flags,
                             std::span<const iovec> pieces) noexcept;

// What libfabric calls the device with this index.
[[nodiscard]] HmemDevice hmem_device(const Domain& domain, std::uint32_t index) noexcept;

// Is it memory of the domain's fabric, be it through another open?
[[nodiscard]] bool same_fabric(const Domain& domain, const nvlf_mem& memory) noexcept;

} // namespace nvlf::ofi
