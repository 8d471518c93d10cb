// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What endpoints cost that nobody talks to: pages that are there, in memfds and in files of /dev/shm.
#include "support/resources.hpp"
#include "work.hpp"

#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

namespace nvlf::bench {

Figures footprint(Member& member, const Job& job) {
    if (!member.first()) return {};
    const auto there = [&] { return test::memfd_bytes({::getpid(), member.daemon}) + test::shm_file_bytes(); };
    const std::uint64_t before = there();
    std::vector<std::unique_ptr<Endpoint>> idle;
    EndpointOptions options = member.options;
    for (std::uint64_t i = 0; i < job.count; ++i) {
        options.service = member.options.service + "-" + std::to_string(i);
        idle.push_back(std::make_unique<Endpoint>(options));
    }
    return {static_cast<double>(there() - before) / static_cast<double>(job.count), 0};
}

} // namespace nvlf::bench
