// SPDX-License-Identifier: MIT OR GPL-2.0-only
// ADMIN_* and GET_CLIENT: what the owner of a fabric may do, at the limit and beyond it.
#define BOOST_TEST_MODULE carrier_admin
#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <vector>

#include "fabric.hpp"

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {
struct World {
    FabricDaemon daemon;
    Fabric fabric = open_fabric(daemon);
};
} // namespace

BOOST_FIXTURE_TEST_SUITE(admin, World)

BOOST_AUTO_TEST_CASE(a_device_that_is_down_serves_nobody_until_it_is_up) {
    BOOST_REQUIRE(nvlf_admin_state(fabric.get(), NVLF_OBJECT_DEVICE, 1, NVLF_STATE_DOWN, 0) == 0);
    nvlf_device device{};
    BOOST_TEST(nvlf_get_device(fabric.get(), 1, &device) == 0);
    BOOST_TEST(device.state == unsigned{NVLF_STATE_DOWN});
    nvlf_mem* mem = nullptr;
    nvlf_ep* ep = nullptr;
    BOOST_TEST(nvlf_attach(fabric.get(), 1, nullptr) == -EHOSTDOWN);
    BOOST_TEST(nvlf_mem_alloc(fabric.get(), 1, 1, 0, &mem) == -EHOSTDOWN);
    BOOST_TEST(nvlf_ep_publish(fabric.get(), 1, 0, 4096, &ep) == -EHOSTDOWN);
    BOOST_REQUIRE(nvlf_admin_state(fabric.get(), NVLF_OBJECT_DEVICE, 1, NVLF_STATE_UP, 0) == 0);
    BOOST_TEST(nvlf_attach(fabric.get(), 1, nullptr) == 0);
}

BOOST_AUTO_TEST_CASE(what_does_not_exist_cannot_be_taken_down) {
    BOOST_TEST(nvlf_admin_state(fabric.get(), NVLF_OBJECT_DEVICE, 4000, NVLF_STATE_DOWN, 0) == -ENODEV);
    BOOST_TEST(nvlf_admin_state(fabric.get(), NVLF_OBJECT_LINK, 60000, NVLF_STATE_DOWN, 0) == -ENODEV);
    BOOST_TEST(nvlf_admin_state(fabric.get(), 77, 0, NVLF_STATE_DOWN, 0) == -EINVAL);
    BOOST_TEST(nvlf_admin_state(fabric.get(), NVLF_OBJECT_DEVICE, 0, 77, 0) == -EINVAL);
}

BOOST_AUTO_TEST_CASE(the_clock_takes_what_the_capabilities_say) {
    nvlf_ioc_info info{};
    BOOST_REQUIRE(nvlf_get_info(fabric.get(), &info) == 0);
    BOOST_TEST(nvlf_admin_clock(fabric.get(), NVLF_CLOCK_OFF, 1'000'000) == 0);
    const int realtime = nvlf_admin_clock(fabric.get(), NVLF_CLOCK_REALTIME, 1'000'000);
    BOOST_TEST(realtime == ((info.caps & NVLF_CAP_CLOCK_REALTIME) != 0 ? 0 : -EOPNOTSUPP));
    BOOST_TEST(nvlf_admin_clock(fabric.get(), 77, 1'000'000) == -EINVAL);
}

BOOST_AUTO_TEST_CASE(endpoints_of_a_file_reach_the_limit_and_not_one_more) {
    BOOST_REQUIRE(nvlf_admin_limit(fabric.get(), NVLF_LIMIT_ENDPOINTS_PER_FILE, 3) == 0);
    std::vector<Ep> endpoints;
    for (int i = 0; i < 3; ++i) endpoints.push_back(publish(fabric));
    nvlf_ep* one_more = nullptr;
    BOOST_TEST(nvlf_ep_publish(fabric.get(), 0, 0, 4096, &one_more) == -EDQUOT);
    endpoints.pop_back();
    endpoints.push_back(publish(fabric));
}

BOOST_AUTO_TEST_CASE(clients_reach_the_limit_and_one_more_reads_why) {
    BOOST_REQUIRE(nvlf_admin_limit(fabric.get(), NVLF_LIMIT_CLIENTS, 2) == 0);
    const Fabric second = open_fabric(daemon);
    const nvlf_open_args args = args_for(daemon);
    nvlf_fabric* third = nullptr;
    BOOST_TEST(nvlf_open(&args, &third) == -EMFILE);
    BOOST_TEST(third == nullptr);
    const std::string words = nvlf_open_error();
    BOOST_TEST(words.find("as many clients as it may") != std::string::npos, words);
}

BOOST_AUTO_TEST_CASE(a_full_fabric_is_administered_by_a_guest) {
    BOOST_REQUIRE(nvlf_admin_limit(fabric.get(), NVLF_LIMIT_CLIENTS, 1) == 0);
    nvlf_open_args args = args_for(daemon);
    args.flags |= NVLF_OPEN_GUEST;
    nvlf_fabric* raw = nullptr;
    BOOST_REQUIRE(nvlf_open(&args, &raw) == 0);
    const Fabric guest{raw};
    nvlf_ioc_info info{};
    BOOST_REQUIRE(nvlf_get_info(guest.get(), &info) == 0);
    BOOST_TEST((info.caps & NVLF_CAP_GUEST) != 0U);
    BOOST_TEST(info.clients == 1U);
    nvlf_ioc_client client{};
    BOOST_TEST(nvlf_get_client(guest.get(), 0, &client) == 0);
    BOOST_TEST(nvlf_get_client(guest.get(), 1, &client) < 0); // Guests do not count.
    nvlf_mem* mem = nullptr;
    BOOST_TEST(nvlf_mem_alloc(guest.get(), 0, NVLF_PAGE_SIZE, 0, &mem) == -EMFILE);
    BOOST_TEST(nvlf_admin_state(guest.get(), NVLF_OBJECT_DEVICE, 1, NVLF_STATE_DOWN, 0) == 0);
    BOOST_TEST(nvlf_admin_down(guest.get(), 0) == -EBUSY); // The client is one more than the guest.
    BOOST_TEST(nvlf_admin_limit(guest.get(), NVLF_LIMIT_CLIENTS, 2) == 0);
    const Fabric second = open_fabric(daemon); // There is room again, and its guest stays one.
    BOOST_TEST(nvlf_mem_alloc(guest.get(), 0, NVLF_PAGE_SIZE, 0, &mem) == -EMFILE);
    BOOST_TEST(nvlf_admin_down(guest.get(), NVLF_DOWN_FORCE) == 0);
    BOOST_TEST(daemon.process().wait(10s).exited_with(0));
}

BOOST_AUTO_TEST_CASE(limits_are_bounded_by_those_of_the_contract) {
    BOOST_TEST(nvlf_admin_limit(fabric.get(), NVLF_LIMIT_ENDPOINTS_PER_FILE, NVLF_MAX_ENDPOINTS_PER_FILE) == 0);
    BOOST_TEST(nvlf_admin_limit(fabric.get(), NVLF_LIMIT_ENDPOINTS_PER_FILE, NVLF_MAX_ENDPOINTS_PER_FILE + 1) ==
               -EINVAL);
    BOOST_TEST(nvlf_admin_limit(fabric.get(), 77, 1) == -EINVAL);
}

BOOST_AUTO_TEST_CASE(clients_are_listed_with_what_they_hold) {
    BOOST_REQUIRE(nvlf_attach(fabric.get(), 2, nullptr) == 0);
    const Mem mem = alloc(fabric, 2);
    nvlf_ioc_client client{};
    BOOST_REQUIRE(nvlf_get_client(fabric.get(), 0, &client) == 0);
    BOOST_TEST(client.pid == static_cast<std::uint32_t>(::getpid()));
    BOOST_TEST(client.uid == ::getuid());
    BOOST_TEST(client.device == 2U);
    BOOST_TEST(client.allocations == 1U);
    BOOST_TEST(client.bytes == NVLF_PAGE_SIZE);
    BOOST_TEST(nvlf_get_client(fabric.get(), 1, &client) < 0);
}

BOOST_AUTO_TEST_CASE(down_is_ebusy_with_others_there_unless_forced) {
    Fabric other = open_fabric(daemon);
    BOOST_TEST(nvlf_admin_down(fabric.get(), 2) == -EINVAL);
    BOOST_TEST(nvlf_admin_down(fabric.get(), 0) == -EBUSY);
    BOOST_TEST(nvlf_admin_down(fabric.get(), NVLF_DOWN_FORCE) == 0);
    BOOST_TEST(daemon.process().wait(10s).exited_with(0));
    BOOST_TEST(nvlf_alive(other.get()) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
