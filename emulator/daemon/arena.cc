// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/arena.hpp"

#include <cassert>
#include <iterator>

namespace nvlf::daemon {

std::optional<std::uint64_t> Arena::take(std::uint64_t bytes) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
        const auto [address, length] = *it;
        if (length < bytes) continue;
        if (length == bytes) {
            free_.erase(it);
        } else { // The node is kept: taking memory must not need memory.
            auto node = free_.extract(it);
            node.key() = address + bytes;
            node.mapped() = length - bytes;
            free_.insert(std::move(node));
        }
        return address;
    }
    return std::nullopt;
}

void Arena::give_back(std::uint64_t address, std::uint64_t bytes) {
    assert(bytes > 0 && address >= base_ && address - base_ <= bytes_ - bytes);
    auto next = free_.lower_bound(address);
    assert(next == free_.end() || next->first >= address + bytes);
    const bool joins_next = next != free_.end() && next->first == address + bytes;
    if (next != free_.begin()) {
        const auto previous = std::prev(next);
        assert(previous->first + previous->second <= address);
        if (previous->first + previous->second == address) {
            previous->second += bytes;
            if (joins_next) {
                previous->second += next->second;
                free_.erase(next);
            }
            return;
        }
    }
    if (joins_next) {
        auto node = free_.extract(next);
        node.key() = address;
        node.mapped() += bytes;
        free_.insert(std::move(node));
        return;
    }
    free_.emplace_hint(next, address, bytes);
}

} // namespace nvlf::daemon
