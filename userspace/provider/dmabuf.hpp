// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dmabuf.hpp - registrations by descriptor (FI_MR_DMABUF of libfabric 1.20 and later).
//
// Device memory that a driver exports comes as a dma-buf; on this fabric it comes as a memfd, and for whoever maps it
// there is no difference. The registration maps the descriptor by itself, so the application need not, and needs not
// keep the descriptor. Headers of 1.17 know neither flag nor struct: here are ours, which are those of 1.20.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvlf::ofi {

struct Mr;

inline constexpr std::uint64_t flag_mr_dmabuf = 1ULL << 40;

struct DmaBuf {
    int fd;
    std::uint64_t offset; // Of the memory to register,
    std::size_t len;      // and its length.
    void* base_addr;      // Where the whole of the buffer lies for the application; NULL: nowhere.
};

// Maps it and makes it the one piece of `mr`. Peers name it by base_addr + offset; or from 0, where there is no base_addr.
// 0 or -FI_E*.
[[nodiscard]] int take_dmabuf(Mr& mr, const DmaBuf& buffer, std::uint64_t access) noexcept;

} // namespace nvlf::ofi
