// SPDX-License-Identifier: MIT OR GPL-2.0-only
// buffers.hpp - the application's scatter/gather list, copied out of its array so that it may reuse that at once.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace nvlf::ofi {

inline constexpr std::size_t iov_limit = 4;

struct Buffers {
    std::size_t count = 0;
    std::size_t total = 0;
    // The first `count`, and the first one always: most lists have one entry, and to clear or copy the others of each
    // request takes longer than to move eight bytes.
    std::array<iovec, iov_limit> iov;

    Buffers() noexcept { iov[0] = {}; }
    Buffers(const Buffers& other) noexcept { *this = other; }
    Buffers& operator=(const Buffers& other) noexcept {
        count = other.count;
        total = other.total;
        iov[0] = other.iov[0];
        for (std::size_t i = 1; i < other.count; ++i) iov[i] = other.iov[i];
        return *this;
    }
    ~Buffers() = default;

    void set(const iovec* from, std::size_t entries) noexcept {
        count = entries;
        total = 0;
        iov[0] = {};
        for (std::size_t i = 0; i < entries; ++i) {
            iov[i] = from[i];
            total += from[i].iov_len;
        }
    }
    void set(const void* buffer, std::size_t bytes) noexcept {
        iov[0] = {const_cast<void*>(buffer), bytes};
        count = 1;
        total = bytes;
    }

    // Calls f(pointer, bytes) for each contiguous part of [offset, offset + bytes).
    template <class F>
    void each(std::size_t offset, std::size_t bytes, F&& f) const noexcept {
        for (std::size_t i = 0; i < count && bytes > 0; ++i) {
            if (offset >= iov[i].iov_len) {
                offset -= iov[i].iov_len;
                continue;
            }
            const std::size_t part = std::min(bytes, iov[i].iov_len - offset);
            f(static_cast<std::byte*>(iov[i].iov_base) + offset, part);
            bytes -= part;
            offset = 0;
        }
    }

    // Copies into the buffers from `offset` on; what does not fit is left out. Answers how much was copied.
    std::size_t scatter(std::size_t offset, std::span<const std::byte> from) const noexcept {
        const std::size_t bytes = offset >= total ? 0 : std::min(from.size(), total - offset);
        const std::byte* at = from.data();
        each(offset, bytes, [&](std::byte* to, std::size_t part) {
            std::memcpy(to, at, part);
            at += part;
        });
        return bytes;
    }

    // Copies [offset, offset + bytes), which must lie within the buffers, to `to`.
    void gather(std::size_t offset, std::byte* to, std::size_t bytes) const noexcept {
        each(offset, bytes, [&](const std::byte* from, std::size_t part) {
            std::memcpy(to, from, part);
            to += part;
        });
    }
};

} // namespace nvlf::ofi
