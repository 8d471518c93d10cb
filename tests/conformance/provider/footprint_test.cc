// SPDX-License-Identifier: MIT OR GPL-2.0-only
// footprint_test - what an endpoint costs before it talks, and what a conversation adds.
//
// Counted is memory that is there: blocks of this process's memfds and those of its nvlfd, once each, as the kernel
// accounts them. (The size of a region says nothing: only what was touched costs.)
#define BOOST_TEST_MODULE footprint
#include <memory>
#include <vector>

#include <unistd.h>

#include "nvlf/lane.h"
#include "support/resources.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

OwnFabric* own_fabric = nullptr;
struct KnownFabric : OwnFabric {
    KnownFabric() { own_fabric = this; }
};
BOOST_TEST_GLOBAL_FIXTURE(KnownFabric);

std::uint64_t shared_bytes() { return memfd_bytes({::getpid(), own_fabric->daemon.process().pid()}); }

} // namespace

BOOST_AUTO_TEST_CASE(an_idle_endpoint_costs_less_than_a_megabyte_of_shared_memory) {
    const Side first; // The fabric's own regions are there now.
    const std::uint64_t before = shared_bytes();
    std::vector<std::unique_ptr<Side>> sides;
    constexpr std::size_t count = 16;
    for (std::size_t i = 0; i < count; ++i) sides.push_back(std::make_unique<Side>());
    const std::uint64_t each = (shared_bytes() - before) / count;
    BOOST_TEST_MESSAGE("idle endpoint: " << each << " bytes");
    BOOST_TEST(each > 0U); // Or nothing was counted.
    BOOST_TEST(each < 1u << 20);
}

BOOST_AUTO_TEST_CASE(a_conversation_costs_its_channel_and_gives_it_back) {
    if (::geteuid() != 0) { // Only root may look behind /proc/<pid>/map_files, and a channel has no descriptor.
        BOOST_TEST_MESSAGE("skipped: needs root to count what is mapped");
        return;
    }
    const Side first;
    const std::uint64_t before = shared_bytes();
    {
        TwoEndpoints pair;
        const std::uint64_t idle = shared_bytes();
        const auto out = pattern(3 << 20, 1);
        std::vector<char> in(out.size());
        check(fi_recv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        check(fi_send(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, nullptr), "send");
        (void)pair.wait(pair.b, "receive");
        const std::uint64_t talking = shared_bytes() - idle;
        BOOST_TEST_MESSAGE("one conversation: " << talking << " bytes");
        BOOST_TEST(talking > 0U);
        BOOST_TEST(talking <= NVLF_CHANNEL_BYTES + 4096);
    }
    BOOST_TEST(shared_bytes() <= before);
}
