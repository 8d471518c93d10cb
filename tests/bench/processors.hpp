// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The two processors that everything runs on. Where a process runs decides what a message costs, so nothing is left to
// the scheduler: each thread and each process of a measurement is pinned.
#pragma once

#include <utility>
#include <vector>

#include <sched.h>

namespace nvlf::bench {

// Those that this process may use. To be asked before anything is pinned: threads and children inherit a pin.
[[nodiscard]] inline std::vector<int> allowed_processors() {
    std::vector<int> result;
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return result;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &allowed)) result.push_back(cpu);
    return result;
}

// The calling thread; false where the kernel refuses.
[[nodiscard]] inline bool pin(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return ::sched_setaffinity(0, sizeof one, &one) == 0;
}

using Processors = std::pair<int, int>;

} // namespace nvlf::bench
