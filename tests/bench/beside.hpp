// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Two threads of this process, one on each of the two processors, for what needs no provider: the machine and the lane.
#pragma once

#include "processors.hpp"

#include <atomic>
#include <thread>
#include <utility>

namespace nvlf::bench {

// Runs `mine` on the first processor while `other` runs on the second, and answers what `mine` does.
template <class Mine, class Other>
auto beside(const Processors& processors, Mine&& mine, Other&& other) {
    std::atomic<bool> go{false};
    std::thread second{[&] {
        (void)pin(processors.second);
        while (!go.load()) {}
        other();
    }};
    decltype(mine()) result{};
    std::thread first{[&] {
        (void)pin(processors.first);
        go.store(true);
        result = mine();
    }};
    first.join();
    second.join();
    return result;
}

} // namespace nvlf::bench
