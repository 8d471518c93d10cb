// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE state_region
#include "bench.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace nvlf;
using namespace nvlf::test;
using daemon::StateRegion;

namespace {

StateRegion make(std::string_view topology = model::default_preset) {
    auto region = StateRegion::create(preset(topology), daemon::Uuid{1, 2, 3}, daemon::Placement{});
    BOOST_REQUIRE(region.ok());
    return std::move(*region);
}

} // namespace

BOOST_AUTO_TEST_CASE(the_header_describes_tables_that_lie_aligned_inside_the_region) {
    for (const std::string_view name : model::preset_names()) {
        const StateRegion region = make(name);
        const nvlf_state& h = region.header();
        BOOST_TEST(h.magic == NVLF_STATE_MAGIC);
        BOOST_TEST(h.abi == static_cast<unsigned>(NVLF_ABI_VERSION));
        BOOST_TEST(h.serving == 1U);
        BOOST_TEST(h.bytes == region.state_bytes());
        BOOST_TEST(h.endpoint_count == static_cast<unsigned>(NVLF_MAX_ENDPOINTS));
        for (const auto offset : {h.device_off, h.switch_off, h.link_off, h.endpoint_off})
            BOOST_TEST(offset % 64 == 0U);
        BOOST_TEST(h.switch_off >= h.device_off + h.device_count * sizeof(nvlf_device));
        BOOST_TEST(h.link_off >= h.switch_off + h.switch_count * sizeof(nvlf_switch));
        BOOST_TEST(h.endpoint_off >= h.link_off + h.link_count * sizeof(nvlf_link));
        BOOST_TEST(h.bytes >= h.endpoint_off + h.endpoint_count * sizeof(nvlf_state_endpoint));
        BOOST_TEST(region.shared_bytes() >= 2 * h.link_count * sizeof(nvlf_link_shared));
    }
}

BOOST_AUTO_TEST_CASE(the_default_topology_has_four_gpus_and_four_trainium_chips) {
    const StateRegion region = make();
    BOOST_REQUIRE_EQUAL(region.devices().size(), 8U);
    BOOST_TEST(region.devices()[0].name == "gpu0");
    BOOST_TEST(region.devices()[0].kind == static_cast<unsigned>(NVLF_DEVICE_NVIDIA));
    BOOST_TEST(region.devices()[7].name == "trn3");
    BOOST_TEST(region.devices()[7].kind == static_cast<unsigned>(NVLF_DEVICE_TRAINIUM));
    for (const nvlf_device& device : region.devices()) {
        BOOST_TEST(device.state == static_cast<unsigned>(NVLF_STATE_UP));
        BOOST_TEST(device.hbm_bytes > 0U);
        BOOST_TEST(device.rate > 0U);
        BOOST_TEST(device.numa_node == daemon::Placement::anywhere);
    }
}

BOOST_AUTO_TEST_CASE(no_holder_of_the_state_descriptor_can_write_to_it_in_any_way) {
    const StateRegion region = make();
    BOOST_TEST(maps(region.state_fd(), Mapping::Access::read));
    BOOST_TEST(!maps(region.state_fd(), Mapping::Access::read_write));
    BOOST_TEST(::pwrite(region.state_fd(), "x", 1, 0) == -1);
    BOOST_TEST(::ftruncate(region.state_fd(), 0) == -1);
    const std::string again = "/proc/self/fd/" + std::to_string(region.state_fd());
    const Fd reopened{::open(again.c_str(), O_RDWR | O_CLOEXEC)};
    if (reopened)
        BOOST_TEST(!maps(reopened.get(), Mapping::Access::read_write)); // root may open it, and gains nothing.
}

BOOST_AUTO_TEST_CASE(what_nvlfd_changes_is_seen_through_a_mapping_that_a_client_made) {
    const StateRegion region = make();
    const auto map = Mapping::map(region.state_fd(), region.state_bytes(), Mapping::Access::read);
    BOOST_REQUIRE(map.ok());
    daemon::live_store<__u32>(region.header().serving, 0);
    nvlf_state seen{};
    std::memcpy(&seen, map->data(), sizeof seen);
    BOOST_TEST(seen.serving == 0U);
}

BOOST_AUTO_TEST_CASE(an_endpoint_table_that_nobody_uses_costs_no_memory) {
    const StateRegion region = make();
    struct stat st {};
    BOOST_REQUIRE_EQUAL(::fstat(region.state_fd(), &st), 0);
    BOOST_TEST(static_cast<std::uint64_t>(st.st_size) > 512U * 1024);
    BOOST_TEST(st.st_blocks * 512 <= 16 * 1024);
}

BOOST_AUTO_TEST_CASE(the_file_image_serves_nobody_and_has_no_endpoints) {
    const std::vector<std::byte> image = daemon::state_file_image(preset(model::default_preset));
    nvlf_state h{};
    std::memcpy(&h, image.data(), sizeof h);
    BOOST_TEST(h.bytes == image.size());
    BOOST_TEST(h.serving == 0U);
    BOOST_TEST(h.endpoint_count == 0U);
    BOOST_TEST(h.device_count == 8U);
    BOOST_TEST(h.figures > h.assumed);
}

BOOST_AUTO_TEST_CASE(fabric_nodes_are_spread_over_the_numa_nodes_of_the_host_and_one_node_means_anywhere) {
    const daemon::Placement two{{0, 1}};
    BOOST_TEST(two.numa_node(0, 2) == 0U);
    BOOST_TEST(two.numa_node(1, 2) == 1U);
    BOOST_TEST(two.numa_node(1, 4) == 0U); // Neighbours stay together.
    BOOST_TEST(two.numa_node(3, 4) == 1U);
    BOOST_TEST(daemon::Placement{{5}}.numa_node(0, 2) == daemon::Placement::anywhere);
}
