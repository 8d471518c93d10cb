// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Which device a process gets that did not say.
#define BOOST_TEST_MODULE pick
#include <boost/test/unit_test.hpp>

#include <stdlib.h>

#include <cstring>
#include <initializer_list>
#include <vector>

#include "driver/pick.hpp"

namespace {
using namespace nvlf;

std::vector<nvlf_device> devices(std::initializer_list<std::uint32_t> clients) {
    std::vector<nvlf_device> all;
    for (const auto count : clients) {
        nvlf_device device{};
        device.index = static_cast<std::uint32_t>(all.size());
        std::strcpy(device.name, ("gpu" + std::to_string(all.size())).c_str());
        device.state = NVLF_STATE_UP;
        device.clients = count;
        all.push_back(device);
    }
    return all;
}

int picked(const std::vector<nvlf_device>& all, const PickWish& wish) {
    const auto device = pick_device(all, wish);
    return device ? static_cast<int>(*device) : device.error().negative();
}

struct CleanEnvironment {
    CleanEnvironment() {
        for (const char* name :
             {"NVLF_DEVICE", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PMI_LOCAL_RANK"})
            ::unsetenv(name);
    }
};
} // namespace

BOOST_TEST_GLOBAL_FIXTURE(CleanEnvironment);

BOOST_AUTO_TEST_CASE(a_name_or_an_index_is_taken_as_it_is) {
    const auto all = devices({5, 0, 0});
    BOOST_TEST(picked(all, {"gpu0", {}}) == 0);
    BOOST_TEST(picked(all, {"2", {}}) == 2);
    BOOST_TEST(picked(all, {"gpu0", 1}) == 0); // It beats the rank.
}

BOOST_AUTO_TEST_CASE(a_name_that_is_none_is_einval) {
    const auto all = devices({0, 0});
    for (const char* bad : {"gpu2", "2", "-1", "gpu", "0x1", " 1", "4294967296"})
        BOOST_TEST(picked(all, {bad, {}}) == -EINVAL, bad);
}

BOOST_AUTO_TEST_CASE(a_device_named_like_a_number_goes_before_the_index) {
    auto all = devices({0, 0});
    std::strcpy(all[1].name, "0");
    BOOST_TEST(picked(all, {"0", {}}) == 1);
}

BOOST_AUTO_TEST_CASE(local_ranks_go_round) {
    const auto all = devices({9, 0, 0});
    BOOST_TEST(picked(all, {"", 0}) == 0);
    BOOST_TEST(picked(all, {"", 4}) == 1);
    BOOST_TEST(picked(all, {"", 0xffffffff}) == 0);
}

BOOST_AUTO_TEST_CASE(the_least_used_is_taken_and_the_first_among_equals) {
    BOOST_TEST(picked(devices({2, 1, 1}), {}) == 1);
    BOOST_TEST(picked(devices({0, 0, 0}), {}) == 0);
}

BOOST_AUTO_TEST_CASE(a_device_that_is_down_is_skipped_when_free_to_choose_and_ehostdown_when_not) {
    auto all = devices({0, 1});
    all[0].state = NVLF_STATE_DOWN;
    BOOST_TEST(picked(all, {}) == 1);
    BOOST_TEST(picked(all, {"gpu0", {}}) == -EHOSTDOWN);
    BOOST_TEST(picked(all, {"", 0}) == -EHOSTDOWN);
    all[1].state = NVLF_STATE_DOWN;
    BOOST_TEST(picked(all, {}) == -EHOSTDOWN);
    all[1].state = NVLF_STATE_DEGRADED;
    BOOST_TEST(picked(all, {}) == 1);
}

BOOST_AUTO_TEST_CASE(a_fabric_without_devices_has_none_to_give) {
    BOOST_TEST(picked({}, {}) == -ENODEV);
    BOOST_TEST(picked({}, {"gpu0", {}}) == -ENODEV);
    BOOST_TEST(picked({}, {"", 3}) == -ENODEV);
}

BOOST_AUTO_TEST_CASE(the_environment_is_read_in_order_and_nonsense_is_passed_over) {
    BOOST_TEST(wish_of_environment().device.empty());
    BOOST_TEST(!wish_of_environment().local_rank);
    ::setenv("PMI_LOCAL_RANK", "3", 1);
    BOOST_TEST(wish_of_environment().local_rank.value() == 3U);
    ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    BOOST_TEST(wish_of_environment().local_rank.value() == 1U);
    ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", "x1", 1);
    BOOST_TEST(wish_of_environment().local_rank.value() == 3U);
    ::setenv("NVLF_DEVICE", "trn0", 1);
    BOOST_TEST(wish_of_environment().device == "trn0");
    CleanEnvironment{};
}
