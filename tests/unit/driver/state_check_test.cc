// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A state region comes from a file or a stranger: each lie in it is told before anything is read by it.
#define BOOST_TEST_MODULE state_check
#include <boost/test/unit_test.hpp>

#include <limits>

#include "driver/state_check.hpp"
#include "nvlf/nvlf.h"
#include "state_image.hpp"

namespace {
using nvlf::test::StateImage;

int check(const StateImage& image) { return nvlf::check_state(image.bytes).value(); }

template <class Change>
int check_with(Change change) {
    return check(StateImage{}.with(change));
}

constexpr auto huge = std::numeric_limits<std::uint64_t>::max();
} // namespace

BOOST_AUTO_TEST_CASE(an_honest_image_passes) { BOOST_TEST(check(StateImage{}) == 0); }

BOOST_AUTO_TEST_CASE(an_image_cut_anywhere_is_eproto) {
    const StateImage image;
    for (std::size_t length = 0; length < image.bytes.size(); ++length) {
        // A copy of exact size, so that a sanitizer sees the first byte read too far.
        const std::vector<std::byte> cut(image.bytes.begin(),
                                         image.bytes.begin() + static_cast<std::ptrdiff_t>(length));
        BOOST_REQUIRE(nvlf::check_state(cut).value() == EPROTO);
    }
}

BOOST_AUTO_TEST_CASE(another_version_is_told_from_nonsense) {
    BOOST_TEST(check_with([](auto& h) { h.abi = (NVLF_ABI_MAJOR + 1) << 16; }) == EPROTONOSUPPORT);
    BOOST_TEST(check_with([](auto& h) { h.abi = NVLF_ABI_VERSION + 1; }) == 0); // Minor versions only grow.
    BOOST_TEST(check_with([](auto& h) { ++h.magic; }) == EPROTO);
}

BOOST_AUTO_TEST_CASE(offsets_outside_the_region_are_eproto) {
    for (const auto member :
         {&nvlf_state::device_off, &nvlf_state::switch_off, &nvlf_state::link_off, &nvlf_state::endpoint_off}) {
        for (const std::uint64_t lie :
             {std::uint64_t{0}, std::uint64_t{64}, std::uint64_t{1} << 40, huge, huge - 63, huge / 64 * 64})
            BOOST_TEST(check_with([&](auto& h) { h.*member = lie; }) == EPROTO, lie);
        BOOST_TEST(check_with([&](auto& h) { h.*member += 8; }) == EPROTO);
    }
}

BOOST_AUTO_TEST_CASE(counts_beyond_the_region_or_the_limits_are_eproto) {
    for (const auto member :
         {&nvlf_state::device_count, &nvlf_state::switch_count, &nvlf_state::link_count, &nvlf_state::endpoint_count})
        for (const std::uint32_t lie : {1000U, 70000U, 0x80000000U, 0xffffffffU})
            BOOST_TEST(check_with([&](auto& h) { h.*member = lie; }) == EPROTO, lie);
}

BOOST_AUTO_TEST_CASE(a_length_that_is_not_the_regions_is_eproto) {
    BOOST_TEST(check_with([](auto& h) { ++h.bytes; }) == EPROTO);
    BOOST_TEST(check_with([](auto& h) { h.bytes = huge; }) == EPROTO);
    BOOST_TEST(check_with([](auto& h) { h.bytes = sizeof(nvlf_state) - 1; }) == EPROTO);
}

BOOST_AUTO_TEST_CASE(names_without_an_end_are_eproto) {
    BOOST_TEST(check_with([](auto& h) { std::memset(h.topology, 'x', sizeof h.topology); }) == EPROTO);
    StateImage image;
    nvlf_device device{};
    std::memset(device.name, 'x', sizeof device.name);
    image.put(image.head().device_off, device);
    BOOST_TEST(check(image) == EPROTO);
}

BOOST_AUTO_TEST_CASE(links_that_end_nowhere_are_eproto) {
    for (const auto& end :
         {nvlf_link_end{NVLF_OBJECT_DEVICE, StateImage::devices, 0, 0}, nvlf_link_end{NVLF_OBJECT_SWITCH, 1, 0, 0},
          nvlf_link_end{NVLF_OBJECT_LINK, 0, 0, 0}, nvlf_link_end{0, 0, 0, 0}}) {
        StateImage image;
        nvlf_link link{};
        link.end[0] = {NVLF_OBJECT_DEVICE, 0, 0, 0};
        link.end[1] = end;
        image.put(image.head().link_off, link);
        BOOST_TEST(check(image) == EPROTO);
    }
}

BOOST_AUTO_TEST_CASE(an_index_that_is_not_the_position_is_eproto) {
    StateImage image;
    nvlf_device device{};
    device.index = 1;
    image.put(image.head().device_off, device);
    BOOST_TEST(check(image) == EPROTO);
}

BOOST_AUTO_TEST_CASE(empty_arrays_are_fine_wherever_they_say_they_are) {
    BOOST_TEST(check_with([](auto& h) {
                   h.link_count = 0;
                   h.endpoint_count = 0;
                   h.endpoint_off = h.bytes;
               }) == 0);
}

BOOST_AUTO_TEST_CASE(the_accessors_lead_into_the_image) {
    const StateImage image;
    const auto* state = reinterpret_cast<const nvlf_state*>(image.bytes.data());
    BOOST_TEST(nvlf_state_devices(state)[1].name == "trn0");
    BOOST_TEST(nvlf_state_switches(state)[0].name == "sw0");
    BOOST_TEST(nvlf_state_links(state)[1].end[0].index == 1U);
    BOOST_TEST(nvlf_state_endpoints(state)[7].epoch == 0U);
    BOOST_TEST(nvlf_state_devices(nullptr) == nullptr);
}
