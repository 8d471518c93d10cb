// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See member.hpp.
#include "member.hpp"

#include <algorithm>
#include <stdexcept>

namespace nvlf::bench {
namespace {

constexpr std::uint64_t meeting_tag = std::uint64_t{1} << 40; // And upwards: no work uses those.

std::byte pattern(std::size_t at, std::uint64_t seed) {
    return static_cast<std::byte>((at * 31 + seed * 7 + at / 4096) & 0xff);
}

} // namespace

void Member::meet() {
    // Told by the tag, so that one who is early at the next meeting is not taken for one who is late at this one.
    const std::uint64_t tag = meeting_tag + 2 * ++meetings;
    const std::uint64_t before = endpoint.count(Endpoint::Kind::control);
    char word = 0;
    if (first()) {
        for (std::size_t i = 1; i < size; ++i) endpoint.receive(&word, sizeof word, tag, Endpoint::Kind::control);
        endpoint.wait_for(Endpoint::Kind::control, before + size - 1);
        for (std::size_t i = 1; i < size; ++i) endpoint.send(endpoint.peer(i), &word, sizeof word, tag + 1);
    } else {
        endpoint.receive(&word, sizeof word, tag + 1, Endpoint::Kind::control);
        endpoint.send(endpoint.peer(0), &word, sizeof word, tag);
        endpoint.wait_for(Endpoint::Kind::control, before + 1);
    }
}

void Member::fill(std::size_t bytes, std::uint64_t seed) {
    for (std::size_t i = 0; i < bytes; ++i) buffer[i] = pattern(i, seed);
}

void Member::verify(const std::byte* arrived, std::size_t bytes, std::uint64_t seed) const {
    for (std::size_t i = 0; i < bytes; ++i)
        if (arrived[i] != pattern(i, seed))
            throw std::runtime_error{"byte " + std::to_string(i) + " of " + std::to_string(bytes) + " arrived garbled"};
}

} // namespace nvlf::bench
