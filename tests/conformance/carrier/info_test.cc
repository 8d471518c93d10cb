// SPDX-License-Identifier: MIT OR GPL-2.0-only
// What a fabric tells about itself: GET_INFO, GET_DEVICE, GET_SWITCH, GET_LINK, GET_PATH, GET_STATE, ATTACH.
#define BOOST_TEST_MODULE carrier_info
#include <boost/test/unit_test.hpp>

#include <stdlib.h>

#include <cstring>

#include "fabric.hpp"

using namespace nvlf::test;

namespace {
struct World {
    FabricDaemon daemon;
    Fabric fabric = open_fabric(daemon);
    const nvlf_state* state = nvlf_state_region(fabric.get(), nullptr);
};

struct CleanEnvironment {
    CleanEnvironment() {
        for (const char* name :
             {"NVLF_DEVICE", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PMI_LOCAL_RANK"})
            ::unsetenv(name);
    }
};
} // namespace

BOOST_TEST_GLOBAL_FIXTURE(CleanEnvironment);
BOOST_FIXTURE_TEST_SUITE(info, World)

BOOST_AUTO_TEST_CASE(info_and_state_tell_the_same) {
    nvlf_ioc_info a{};
    BOOST_REQUIRE(nvlf_get_info(fabric.get(), &a) == 0);
    BOOST_TEST(a.fabric == daemon.fabric());
    BOOST_TEST(a.abi >> 16 == unsigned{NVLF_ABI_MAJOR});
    BOOST_TEST(a.devices == state->device_count);
    BOOST_TEST(a.switches == state->switch_count);
    BOOST_TEST(a.links == state->link_count);
    BOOST_TEST(a.nodes == state->nodes);
    BOOST_TEST(a.page_bytes == NVLF_PAGE_SIZE);
    BOOST_TEST(a.clients == 1U);
    BOOST_TEST(std::memcmp(a.uuid, state->uuid, sizeof a.uuid) == 0);
    BOOST_TEST(state->serving == 1U);
    BOOST_TEST(nvlf_alive(fabric.get()) == 1);
    BOOST_TEST(nvlf_poll_alive(fabric.get()) == 1);
}

BOOST_AUTO_TEST_CASE(objects_by_command_are_those_of_the_state_region) {
    for (std::uint32_t i = 0; i < state->device_count; ++i) {
        nvlf_device device{};
        BOOST_REQUIRE(nvlf_get_device(fabric.get(), i, &device) == 0);
        BOOST_TEST(std::memcmp(&device, nvlf_state_devices(state) + i, sizeof device) == 0);
        std::uint32_t found = ~0U;
        BOOST_TEST(nvlf_find_device(fabric.get(), device.name, &found) == 0);
        BOOST_TEST(found == i);
    }
    for (std::uint32_t i = 0; i < state->switch_count; ++i) {
        nvlf_switch sw{};
        BOOST_REQUIRE(nvlf_get_switch(fabric.get(), i, &sw) == 0);
        BOOST_TEST(std::memcmp(&sw, nvlf_state_switches(state) + i, sizeof sw) == 0);
    }
    for (std::uint32_t i = 0; i < state->link_count; ++i) {
        nvlf_link link{};
        BOOST_REQUIRE(nvlf_get_link(fabric.get(), i, &link) == 0);
        BOOST_TEST(std::memcmp(&link, nvlf_state_links(state) + i, sizeof link) == 0);
    }
}

BOOST_AUTO_TEST_CASE(an_index_past_the_end_is_enodev_and_the_output_untouched) {
    nvlf_device device{};
    device.index = 77;
    BOOST_TEST(nvlf_get_device(fabric.get(), state->device_count, &device) == -ENODEV);
    BOOST_TEST(device.index == 77U);
    nvlf_switch sw{};
    BOOST_TEST(nvlf_get_switch(fabric.get(), state->switch_count, &sw) == -ENODEV);
    nvlf_link link{};
    BOOST_TEST(nvlf_get_link(fabric.get(), state->link_count, &link) == -ENODEV);
    nvlf_ioc_path path{};
    BOOST_TEST(nvlf_get_path(fabric.get(), 0, state->device_count, &path) == -ENODEV);
    std::uint32_t index = 77;
    BOOST_TEST(nvlf_find_device(fabric.get(), "nosuch", &index) == -ENODEV);
    BOOST_TEST(index == 77U);
    BOOST_TEST(nvlf_attach(fabric.get(), state->device_count, &index) == -ENODEV);
    BOOST_TEST(nvlf_alive(fabric.get()) == 1); // None of it cost the connection.
}

BOOST_AUTO_TEST_CASE(paths_lead_over_links_that_exist) {
    nvlf_ioc_path path{};
    BOOST_REQUIRE(nvlf_get_path(fabric.get(), 0, state->device_count - 1, &path) == 0);
    BOOST_TEST(path.hops > 0U);
    BOOST_TEST(path.rate > 0U);
    for (std::uint32_t i = 0; i < path.hops; ++i) BOOST_TEST(path.hop[i] / 2 < state->link_count);
    BOOST_REQUIRE(nvlf_get_path(fabric.get(), 0, 0, &path) == 0);
    BOOST_TEST(path.hops == 0U);
    BOOST_TEST(path.rate == 0U);
}

BOOST_AUTO_TEST_CASE(the_shared_region_has_a_writable_entry_for_each_directed_link) {
    std::size_t count = 0;
    nvlf_link_shared* shared = nvlf_shared_region(fabric.get(), &count);
    BOOST_REQUIRE(count == 2 * std::size_t{state->link_count});
    __atomic_fetch_add(&shared[count - 1].bytes, 5, __ATOMIC_RELAXED);
    const Fabric other = open_fabric(daemon);
    BOOST_TEST(nvlf_shared_region(other.get(), nullptr)[count - 1].bytes == 5U);
}

BOOST_AUTO_TEST_CASE(attach_takes_the_device_that_pick_announces) {
    for (int client = 0; client < 3; ++client) {
        const Fabric other = open_fabric(daemon);
        std::uint32_t announced = ~0U;
        std::uint32_t taken = ~1U;
        BOOST_TEST(nvlf_state_pick_device(nvlf_state_region(other.get(), nullptr), &announced) == 0);
        BOOST_TEST(nvlf_attach(other.get(), NVLF_DEVICE_ANY, &taken) == 0);
        BOOST_TEST(announced == taken);
        BOOST_TEST(nvlf_state_devices(state)[taken].clients == 1U);
    }
    ::setenv("NVLF_DEVICE", "1", 1);
    std::uint32_t taken = ~0U;
    BOOST_TEST(nvlf_attach(fabric.get(), NVLF_DEVICE_ANY, &taken) == 0);
    BOOST_TEST(taken == 1U);
    ::setenv("NVLF_DEVICE", "nosuch", 1);
    BOOST_TEST(nvlf_attach(fabric.get(), NVLF_DEVICE_ANY, &taken) == -EINVAL);
    CleanEnvironment{};
}

BOOST_AUTO_TEST_CASE(null_arguments_are_einval) {
    BOOST_TEST(nvlf_get_info(nullptr, nullptr) == -EINVAL);
    BOOST_TEST(nvlf_get_info(fabric.get(), nullptr) == -EINVAL);
    BOOST_TEST(nvlf_get_device(fabric.get(), 0, nullptr) == -EINVAL);
    BOOST_TEST(nvlf_find_device(fabric.get(), nullptr, nullptr) == -EINVAL);
    BOOST_TEST(nvlf_get_path(fabric.get(), 0, 0, nullptr) == -EINVAL);
    BOOST_TEST(nvlf_attach(nullptr, 0, nullptr) == -EINVAL);
    BOOST_TEST(nvlf_alive(nullptr) == -EINVAL);
    BOOST_TEST(nvlf_state_region(nullptr, nullptr) == nullptr);
    BOOST_TEST(nvlf_close(nullptr) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
