// SPDX-License-Identifier: MIT OR GPL-2.0-only
// av_set.hpp - fi_av_set(3): an ordered choice of the addresses of a vector, from which collective groups are made.
//
// A set is local and plain: joining copies it, so that it may change or go while the groups made of it live on.
#pragma once

#include <rdma/fi_collective.h>

#include <vector>

#include "av.hpp"

namespace nvlf::ofi {

// Members of a group. The messages of a collective are numbered in 16 bits, and the longest takes two rounds a member.
inline constexpr std::size_t group_limit = 16384;

struct AvSet {
    explicit AvSet(Av& from) noexcept : av{from} {}

    fid_av_set fid{};
    Av& av;
    std::uint64_t collectives = 0;  // FI_BARRIER_SET, ...: those wanted; 0: all.
    fi_addr_t address = 0;          // fi_av_set_addr
    std::vector<fi_addr_t> members; // Each once.

    [[nodiscard]] bool has(fi_addr_t member) const noexcept;
};

inline AvSet& av_set_of(fid_av_set* fid) noexcept { return *reinterpret_cast<AvSet*>(fid); }
inline const AvSet& av_set_of(const fid_av_set* fid) noexcept { return *reinterpret_cast<const AvSet*>(fid); }

// The address of a set is no address in its vector: it only ever tells fi_join_collective that there is such a set.
inline constexpr fi_addr_t av_set_address = fi_addr_t{1} << 61;
[[nodiscard]] constexpr bool is_av_set_address(fi_addr_t address) noexcept { return (address >> 61) == 1; }

int av_set_open(fid_av* av, fi_av_set_attr* attr, fid_av_set** ret_set, void* context) noexcept;

} // namespace nvlf::ofi
