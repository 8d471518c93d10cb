// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A look at a fabric that runs, or would: nothing is started, nobody is left behind.
#define BOOST_TEST_MODULE carrier_snapshot
#include <boost/test/unit_test.hpp>

#include <filesystem>

#include "fabric.hpp"
#include "support/paths.hpp"
#include "support/resources.hpp"

using namespace nvlf::test;

BOOST_AUTO_TEST_CASE(a_running_fabric_is_seen_live_and_without_becoming_its_client) {
    const FabricDaemon daemon;
    const Fabric fabric = open_fabric(daemon);
    const auto args = args_for(daemon);
    nvlf_snapshot* opened = nullptr;
    BOOST_REQUIRE(nvlf_snapshot_open(&args, &opened) == 0);
    const Snapshot snapshot{opened};
    const nvlf_state* state = nvlf_snapshot_state(snapshot.get(), nullptr);
    BOOST_TEST(state->serving == 1U);
    nvlf_ioc_info info{};
    BOOST_REQUIRE(nvlf_get_info(fabric.get(), &info) == 0);
    BOOST_TEST(info.clients == 1U);
    BOOST_REQUIRE(nvlf_admin_state(fabric.get(), NVLF_OBJECT_DEVICE, 0, NVLF_STATE_DOWN, 0) == 0);
    BOOST_TEST(nvlf_state_devices(state)[0].state == unsigned{NVLF_STATE_DOWN});
    std::uint32_t device = 0;
    BOOST_TEST(nvlf_state_pick_device(state, &device) == 0);
    BOOST_TEST(device != 0U);
}

BOOST_AUTO_TEST_CASE(without_a_fabric_the_presets_image_is_shown_and_nothing_is_started) {
    const TempDir dir;
    const auto descriptors = open_descriptors();
    nvlf_open_args args{sizeof args, 0, "t", dir.path().c_str(), "fusion-mixed-8"};
    nvlf_snapshot* opened = nullptr;
    const int error = nvlf_snapshot_open(&args, &opened);
    if (std::filesystem::exists(library_dir() + "/../share/nvlf/state/fusion-mixed-8.state")) {
        BOOST_REQUIRE(error == 0);
        const Snapshot snapshot{opened};
        std::size_t bytes = 0;
        const nvlf_state* state = nvlf_snapshot_state(snapshot.get(), &bytes);
        BOOST_TEST(state->serving == 0U);
        BOOST_TEST(state->device_count == 8U);
        BOOST_TEST(state->bytes <= bytes);
    } else {
        BOOST_TEST(error == -ENOENT);
        BOOST_TEST(std::string{nvlf_open_error()}.find("/share/nvlf/state/fusion-mixed-8.state") != std::string::npos);
    }
    BOOST_TEST(open_descriptors() == descriptors);
    BOOST_TEST(std::filesystem::is_empty(dir.path()));
}

BOOST_AUTO_TEST_CASE(a_topology_that_has_no_image_is_enoent) {
    const TempDir dir;
    for (const char* topology : {"/etc/passwd", "../../../etc/passwd", "no-such-preset", "file.toml", ".hidden"}) {
        nvlf_open_args args{sizeof args, 0, "t", dir.path().c_str(), topology};
        nvlf_snapshot* none = nullptr;
        BOOST_TEST(nvlf_snapshot_open(&args, &none) == -ENOENT, topology);
        BOOST_TEST(none == nullptr);
        BOOST_TEST(std::string{nvlf_open_error()}.find(topology) != std::string::npos, nvlf_open_error());
    }
    nvlf_snapshot_close(nullptr);
}
