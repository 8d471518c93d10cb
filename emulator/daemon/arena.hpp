// SPDX-License-Identifier: MIT OR GPL-2.0-only
// arena.hpp - fabric addresses: who has which pages of the one address space.
//
// The base is a range that Linux on x86-64 and arm64 leaves free in ordinary processes and under AddressSanitizer, so
// that libnvlf can reserve it everywhere. Free extents are kept by address and merged; the lowest fit wins, which keeps
// the arena dense. At most one extent more than there are allocations, so the allocation limit bounds this, too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace nvlf::daemon {

inline constexpr std::uint64_t arena_base = 0x2000'0000'0000;
inline constexpr std::uint64_t arena_max_bytes = 0x2000'0000'0000; // 32 TiB: ends where other things begin.

class Arena {
public:
    // Both in whole pages of NVLF_PAGE_SIZE, as all sizes below.
    Arena(std::uint64_t base, std::uint64_t bytes) : base_{base}, bytes_{bytes} {
        if (bytes > 0) free_.emplace(base, bytes);
    }

    [[nodiscard]] std::uint64_t base() const noexcept { return base_; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

    [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t bytes);
    // `address` and `bytes` as they were taken.
    void give_back(std::uint64_t address, std::uint64_t bytes);

private:
    std::uint64_t base_;
    std::uint64_t bytes_;
    std::map<std::uint64_t, std::uint64_t> free_; // Address to length.
};

} // namespace nvlf::daemon
