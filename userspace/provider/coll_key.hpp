// SPDX-License-Identifier: MIT OR GPL-2.0-only
// coll_key.hpp - how a collective's messages are told apart: two words, equal at both ends and at no other exchange.
//
// The `tag` says whose group it is: the endpoint of its first member (rank 0), who counts the groups that it leads. The key
// says which of these, which of the group's collectives, and which message of that. A group that is still being formed
// has no number yet: then the tag is a hash of its members, the key carries a mark, and counts how often these joined.
//
// Collectives are counted modulo 2^23 and groups modulo 2^24: what is told apart exists at the same time.
#pragma once

#include <cstdint>

#include "nvlf/device.h"

namespace nvlf::ofi::coll {

inline constexpr std::uint64_t key_join = std::uint64_t{1} << 63;
inline constexpr unsigned key_count_shift = 39;
inline constexpr std::uint64_t key_count_mask = (std::uint64_t{1} << 24) - 1;
inline constexpr unsigned key_sequence_shift = 16;
inline constexpr std::uint64_t key_sequence_mask = (std::uint64_t{1} << 23) - 1;
inline constexpr std::uint64_t key_number_mask = 0xffff;
// In place of a message's number: this collective has failed, and the payload says how.
inline constexpr std::uint16_t number_abort = 0xffff;

[[nodiscard]] constexpr std::uint64_t key_of_group(std::uint64_t count) noexcept {
    return (count & key_count_mask) << key_count_shift;
}
[[nodiscard]] constexpr std::uint64_t key_of_join(std::uint64_t count) noexcept {
    return key_join | key_of_group(count);
}
[[nodiscard]] constexpr std::uint64_t with_sequence(std::uint64_t key, std::uint32_t sequence) noexcept {
    return key | (sequence & key_sequence_mask) << key_sequence_shift;
}

[[nodiscard]] constexpr bool is_join(std::uint64_t key) noexcept { return (key & key_join) != 0; }
[[nodiscard]] constexpr std::uint64_t counted(std::uint64_t key) noexcept {
    return key >> key_count_shift & key_count_mask;
}
[[nodiscard]] constexpr std::uint32_t sequence_of(std::uint64_t key) noexcept {
    return static_cast<std::uint32_t>(key >> key_sequence_shift & key_sequence_mask);
}
[[nodiscard]] constexpr std::uint16_t number_of(std::uint64_t key) noexcept {
    return static_cast<std::uint16_t>(key & key_number_mask);
}
// Whether the first of two counts of collectives is the second or comes after it.
[[nodiscard]] constexpr bool not_before(std::uint32_t sequence, std::uint32_t other) noexcept {
    return ((sequence - other) & key_sequence_mask) < (key_sequence_mask + 1) / 2;
}

// Which endpoint, in its time.
[[nodiscard]] constexpr std::uint64_t identity(const nvlf_addr& address) noexcept {
    return std::uint64_t{address.epoch} << 32 | address.endpoint;
}

} // namespace nvlf::ofi::coll
