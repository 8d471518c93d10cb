// SPDX-License-Identifier: MIT OR GPL-2.0-only
// EP_*: publication, addresses, first contact from either side, and its end.
#define BOOST_TEST_MODULE carrier_channel
#include <boost/test/unit_test.hpp>

#include <poll.h>

#include <cstring>

#include "fabric.hpp"
#include "support/resources.hpp"

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {
struct World {
    FabricDaemon daemon;
    Fabric here = open_fabric(daemon);
    Fabric there = open_fabric(daemon); // Another client, in the same process.
};

nvlf_addr service_address(std::uint64_t service, std::uint32_t device = NVLF_DEVICE_ANY) {
    nvlf_addr addr{};
    addr.magic = NVLF_ADDR_MAGIC;
    addr.version = NVLF_ADDR_VERSION;
    addr.device = device;
    addr.service = service;
    return addr;
}

int connect_errno(const Ep& ep, const nvlf_addr& addr) {
    nvlf_channel* channel = nullptr;
    const int error = nvlf_ep_connect(ep.get(), &addr, &channel);
    nvlf_channel_put(channel);
    return error;
}

bool readable(const Ep& ep) {
    pollfd waited{nvlf_ep_wait_fd(ep.get()), POLLIN, 0};
    return ::poll(&waited, 1, 0) == 1;
}
} // namespace

BOOST_FIXTURE_TEST_SUITE(channel, World)

BOOST_AUTO_TEST_CASE(what_one_end_produces_the_other_consumes) {
    const Ep a = publish(here, 0);
    const Ep b = publish(there, 4);
    const std::uint32_t notices = nvlf_ep_notices(b.get());
    const Channel ab = connect(a, b);
    BOOST_TEST(nvlf_ep_notices(b.get()) != notices);
    BOOST_TEST(readable(b));
    const Channel ba = accept(b);
    BOOST_TEST(std::memcmp(nvlf_channel_peer(ab.get()), nvlf_ep_addr(b.get()), sizeof(nvlf_addr)) == 0);
    BOOST_TEST(std::memcmp(nvlf_channel_peer(ba.get()), nvlf_ep_addr(a.get()), sizeof(nvlf_addr)) == 0);
    nvlf_channel_tx(ab.get())->data[5] = 7;
    BOOST_TEST(nvlf_channel_rx(ba.get())->data[5] == 7);
    nvlf_channel_tx(ba.get())->data[6] = 8;
    BOOST_TEST(nvlf_channel_rx(ab.get())->data[6] == 8);
    nvlf_ep_disarm(b.get());
    BOOST_TEST(!readable(b));
}

// A lap of a lane of which each page is met by a fault costs as much as a hundred messages.
BOOST_AUTO_TEST_CASE(the_slots_of_a_new_channel_take_no_page_faults) {
    const Ep a = publish(here);
    const Ep b = publish(there);
    const Channel ab = connect(a, b);
    const Channel ba = accept(b);
    const std::uint64_t before = page_faults();
    for (nvlf_slot& slot : nvlf_channel_tx(ab.get())->slot) slot.tag = 1;
    std::uint64_t sum = 0;
    for (const nvlf_slot& slot : nvlf_channel_rx(ba.get())->slot) sum += slot.tag;
    const std::uint64_t taken = page_faults() - before;
    BOOST_TEST(sum == NVLF_LANE_SLOTS);
    BOOST_TEST(taken <= 1U); // One of the test's own there may be. The slots have 5 pages at either end.
}

BOOST_AUTO_TEST_CASE(a_peer_sees_the_region_of_the_other) {
    const Ep a = publish(here);
    const Ep b = publish(there);
    const Channel ab = connect(a, b);
    std::size_t bytes = 0;
    const nvlf_region* region = nvlf_channel_region(ab.get(), &bytes);
    BOOST_TEST(bytes >= 4096U);
    BOOST_TEST(region->magic == NVLF_REGION_MAGIC);
    nvlf_ep_region(b.get())->user_off = 2048;
    BOOST_TEST(region->user_off == 2048U);
}

BOOST_AUTO_TEST_CASE(two_that_connect_to_each_other_get_one_channel) {
    const Ep a = publish(here);
    const Ep b = publish(there);
    const Channel ab = connect(a, b);
    const Channel ba = connect(b, a);
    nvlf_channel_tx(ab.get())->data[0] = 1;
    BOOST_TEST(nvlf_channel_rx(ba.get())->data[0] == 1);
    BOOST_TEST(connect_errno(a, *nvlf_ep_addr(b.get())) == -EEXIST);
    nvlf_channel* none = nullptr;
    BOOST_TEST(nvlf_ep_accept(b.get(), &none) == -EAGAIN);
    BOOST_TEST(nvlf_ep_accept(a.get(), &none) == -EAGAIN);
}

BOOST_AUTO_TEST_CASE(an_endpoint_may_talk_to_itself_once) {
    const Ep a = publish(here);
    const Channel self = connect(a, a);
    BOOST_TEST(nvlf_channel_tx(self.get()) == nvlf_channel_rx(self.get()));
    BOOST_TEST(connect_errno(a, *nvlf_ep_addr(a.get())) == -EBUSY);
}

BOOST_AUTO_TEST_CASE(a_service_is_found_by_its_name) {
    const std::uint64_t service = nvlf_service("pingpong");
    const Ep a = publish(here);
    const Ep b = publish(there, 2, service);
    nvlf_addr addr = service_address(service);
    BOOST_TEST(nvlf_ep_lookup(here.get(), &addr) == 0);
    BOOST_TEST(std::memcmp(&addr, nvlf_ep_addr(b.get()), sizeof addr) == 0);
    BOOST_TEST(connect_errno(a, service_address(service)) == 0);
    BOOST_TEST(connect_errno(a, service_address(service + 1)) == -ENOENT);
    BOOST_TEST(connect_errno(a, service_address(service, 3)) == -ENOENT);
    nvlf_ep* second = nullptr;
    BOOST_TEST(nvlf_ep_publish(here.get(), 2, service, 4096, &second) == -EADDRINUSE);
}

BOOST_AUTO_TEST_CASE(services_are_numbers_or_hashes_that_never_meet) {
    BOOST_TEST(nvlf_service(nullptr) == 0U);
    BOOST_TEST(nvlf_service("") == 0U);
    BOOST_TEST(nvlf_service("47592") == 47592U);
    BOOST_TEST(nvlf_service("999999999999999999") == 999999999999999999U);
    for (const char* name : {"a", "0x10", "-1", "12345678901234567890", "nvlf"})
        BOOST_TEST(nvlf_service(name) >> 63 == 1U);
    BOOST_TEST(nvlf_service("a") != nvlf_service("b"));
}

BOOST_AUTO_TEST_CASE(addresses_of_the_dead_the_foreign_and_the_forged_are_told_apart) {
    const Ep a = publish(here);
    Ep b = publish(there);
    nvlf_addr addr = *nvlf_ep_addr(b.get());
    nvlf_addr foreign = addr;
    foreign.fabric ^= 1;
    BOOST_TEST(connect_errno(a, foreign) == -EXDEV);
    BOOST_TEST(nvlf_ep_lookup(here.get(), &foreign) == -EXDEV);
    nvlf_addr forged = addr;
    forged.magic = 0;
    BOOST_TEST(connect_errno(a, forged) == -EINVAL);
    b.reset();
    BOOST_TEST(connect_errno(a, addr) == -ESTALE);
    BOOST_TEST(nvlf_ep_lookup(here.get(), &addr) == -ESTALE);
    const Ep c = publish(there); // Takes the id over, with another epoch.
    BOOST_TEST(connect_errno(a, addr) == -ESTALE);
    BOOST_TEST(nvlf_alive(here.get()) == 1);
}

BOOST_AUTO_TEST_CASE(a_peer_that_withdraws_is_dead_to_its_peers) {
    const Ep a = publish(here);
    Ep b = publish(there);
    const Channel ab = connect(a, b);
    BOOST_TEST(nvlf_channel_alive(ab.get()) == 1);
    const std::uint32_t notices = nvlf_ep_notices(a.get());
    b.reset();
    BOOST_TEST(nvlf_channel_alive(ab.get()) == 0);
    BOOST_TEST(nvlf_ep_notices(a.get()) != notices);
    BOOST_TEST(readable(a));
    nvlf_channel_notify(ab.get()); // To nobody: harmless.
}

BOOST_AUTO_TEST_CASE(what_is_in_use_is_ebusy) {
    Ep a = publish(here);
    const Ep b = publish(there);
    {
        const Channel ab = connect(a, b);
        BOOST_TEST(nvlf_ep_put(a.get()) == -EBUSY);
        BOOST_TEST(nvlf_close(here.get()) == -EBUSY);
    }
    BOOST_TEST(nvlf_ep_put(a.release()) == 0);
    BOOST_TEST(nvlf_close(here.release()) == 0);
}

BOOST_AUTO_TEST_CASE(arguments_are_checked) {
    nvlf_ep* ep = nullptr;
    BOOST_TEST(nvlf_ep_publish(here.get(), 0, 0, sizeof(nvlf_region) - 1, &ep) == -EINVAL);
    BOOST_TEST(nvlf_ep_publish(here.get(), 4000, 0, 4096, &ep) == -ENODEV);
    BOOST_TEST(nvlf_ep_publish(nullptr, 0, 0, 4096, &ep) == -EINVAL);
    BOOST_TEST(nvlf_ep_connect(nullptr, nullptr, nullptr) == -EINVAL);
    BOOST_TEST(nvlf_ep_accept(nullptr, nullptr) == -EINVAL);
    nvlf_channel_put(nullptr);
    BOOST_TEST(nvlf_ep_put(nullptr) == 0);
    BOOST_TEST(ep == nullptr);
}

BOOST_AUTO_TEST_CASE(descriptors_and_memory_return_to_the_level_before) {
    nvlf_ioc_info before{};
    BOOST_REQUIRE(nvlf_get_info(here.get(), &before) == 0);
    const auto mine = open_descriptors();
    const auto daemons = open_descriptors(daemon.process().pid());
    for (int i = 0; i < 20; ++i) {
        const Ep a = publish(here);
        const Ep b = publish(there);
        const Channel ab = connect(a, b);
        if (i % 2 == 0) const Channel ba = accept(b); // The others are never taken.
    }
    nvlf_ioc_info after{};
    BOOST_REQUIRE(nvlf_get_info(here.get(), &after) == 0);
    BOOST_TEST(after.endpoints == before.endpoints);
    BOOST_TEST(after.allocated_bytes == before.allocated_bytes);
    BOOST_TEST(open_descriptors() == mine);
    // The carrier closes what it sent a moment after we have it.
    BOOST_TEST(eventually([&] { return open_descriptors(daemon.process().pid()) <= daemons; }, 10s));
}

BOOST_AUTO_TEST_SUITE_END()
