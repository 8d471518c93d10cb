// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the loader makes of rules, and what it says of mistakes. Each file in tests/data/topologies/malformed has beside
// it what must be said about it, to the letter.
#define BOOST_TEST_MODULE topology_loader
#include <boost/test/unit_test.hpp>

#include "model/presets.hpp"
#include "support/paths.hpp"
#include "topology_text.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

using namespace nvlf::model;
using namespace nvlf::test;

namespace {

std::string read_file(const std::filesystem::path& path) {
    std::ifstream file{path, std::ios::binary};
    BOOST_REQUIRE(file.is_open());
    return {std::istreambuf_iterator<char>{file}, {}};
}

Topology loaded(std::string_view text) {
    auto result = load_topology(text, "t.toml");
    BOOST_REQUIRE_EQUAL(mistakes(result), "");
    return std::get<Topology>(std::move(result));
}

// "gpu0-sw1 gpu1-sw1 ..." with the width where it is not 1.
std::string wiring(const Topology& t) {
    std::string text;
    for (const Link& link : t.links) {
        text += (text.empty() ? "" : " ") + t.name_of(link.end[0].vertex) + '-' + t.name_of(link.end[1].vertex);
        if (link.width != 1) text += 'x' + std::to_string(link.width);
    }
    return text;
}

} // namespace

BOOST_AUTO_TEST_CASE(malformed_files_get_exactly_the_expected_messages) {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator{data_file("topologies/malformed")}) {
        if (entry.path().extension() != ".toml") continue;
        ++count;
        auto expected = entry.path();
        expected.replace_extension(".expected");
        const auto result = load_topology(read_file(entry.path()), entry.path().filename().string());
        BOOST_TEST(mistakes(result) == read_file(expected));
    }
    BOOST_TEST(count >= 50U);
}

BOOST_AUTO_TEST_CASE(file_that_the_malformed_ones_vary_is_valid) {
    const Topology t = loaded(read_file(data_file("topologies/valid-tiny.toml")));
    BOOST_TEST(t.devices.size() == 4U);
    BOOST_TEST(t.figures().total() == 14U);
    BOOST_TEST(t.figures().assumed == 14U);
    BOOST_TEST(t.device_types[0].hbm.value == 1ULL << 30);
    BOOST_TEST(t.device_types[0].hbm.reference == "a test");
    BOOST_TEST(t.link_types[0].raw_rate.value == 53'125'000'000U);
}

BOOST_AUTO_TEST_CASE(each_to_each_joins_every_pair_with_the_width_of_its_switch) {
    const auto t = loaded(topology_text({}, devices("gpu", 2) + switches("sw", 2) +
                                                wire("each_to_each", "gpu[*]", "to = \"sw[*]\"\nwidth = [3, 1]")));
    BOOST_TEST(wiring(t) == "gpu0-sw0x3 gpu0-sw1 gpu1-sw0x3 gpu1-sw1");
}

BOOST_AUTO_TEST_CASE(blocks_give_each_switch_its_own_run) {
    const auto t = loaded(topology_text({}, devices("gpu", 4) + switches("sw", 2) + switches("top", 1) +
                                                wire("blocks", "gpu[*]", "to = \"sw[*]\"") +
                                                wire("each_to_each", "sw[*]", "to = \"top0\"")));
    BOOST_TEST(wiring(t) == "gpu0-sw0 gpu1-sw0 gpu2-sw1 gpu3-sw1 sw0-top0 sw1-top0");
}

BOOST_AUTO_TEST_CASE(ring_closes_and_a_ring_of_two_is_one_link) {
    const Figures forwarding{.forwards = true};
    BOOST_TEST(wiring(loaded(topology_text(forwarding, devices("trn", 3) + wire("ring", "trn[*]", "")))) ==
               "trn0-trn1 trn1-trn2 trn2-trn0");
    BOOST_TEST(wiring(loaded(topology_text(forwarding, devices("trn", 2) + wire("ring", "trn[*]", "")))) ==
               "trn0-trn1");
}

BOOST_AUTO_TEST_CASE(torus_runs_fastest_along_its_first_dimension) {
    const Figures forwarding{.forwards = true};
    const auto t =
        loaded(topology_text(forwarding, devices("t", 6) + wire("torus", "t[*]", "dims = [3, 2]\nwidth = [1, 2]")));
    BOOST_TEST(wiring(t) == "t0-t1 t1-t2 t2-t0 t3-t4 t4-t5 t5-t3 t0-t3x2 t1-t4x2 t2-t5x2");
}

BOOST_AUTO_TEST_CASE(no_port_serves_two_links_and_named_ports_are_kept) {
    const auto t = loaded(topology_text({.device_ports = 4, .switch_ports = 8},
                                        devices("gpu", 2) + switches("sw", 1) +
                                            wire("each_to_each", "gpu[*]", "to = \"sw0\"\nwidth = 2") +
                                            wire("pairs", "gpu0:1", "to = \"sw0:3\"\nwidth = 1")));
    std::set<std::pair<Vertex, std::uint32_t>> taken;
    for (const Link& link : t.links)
        for (const LinkEnd& end : link.end)
            for (std::uint32_t i = 0; i < link.width; ++i) BOOST_TEST(taken.insert({end.vertex, end.port + i}).second);
    BOOST_TEST(t.links.back().end[0].port == 1U);
    BOOST_TEST(t.links.back().end[1].port == 3U);
}

BOOST_AUTO_TEST_CASE(devices_are_placed_on_nodes_and_switches_on_planes) {
    const auto t =
        loaded(topology_text({.nodes = 3}, devices("gpu", 4, "per_node = 2") + devices("trn", 2, "first_node = 2") +
                                               switches("sw", 4, "first_plane = 5\nplanes = 2") +
                                               wire("each_to_each", "gpu[*]", "to = \"sw[*]\"") +
                                               wire("each_to_each", "trn[*]", "to = \"sw[*]\"")));
    std::string nodes;
    for (const Device& d : t.devices) nodes += std::to_string(d.node);
    BOOST_TEST(nodes == "001122");
    std::string planes;
    for (const Switch& s : t.switches) planes += std::to_string(s.plane);
    BOOST_TEST(planes == "5656");
}

BOOST_AUTO_TEST_CASE(two_groups_may_share_a_prefix) {
    const auto t = loaded(topology_text({}, devices("gpu", 2, "first = 10") + devices("gpu", 2, "first = 8") +
                                                switches("sw", 1) + wire("each_to_each", "gpu[8-11]", "to = \"sw0\"")));
    BOOST_TEST(wiring(t) == "gpu8-sw0 gpu9-sw0 gpu10-sw0 gpu11-sw0");
    BOOST_TEST(find_device(t, "gpu8") == 2U);
    BOOST_TEST(find_device(t, "gpu7") == t.devices.size());
}

BOOST_AUTO_TEST_CASE(example_in_the_manual_is_valid) {
    const std::string manual = read_file(std::filesystem::path{source_dir()} / "docs" / "TOPOLOGY.md");
    const std::size_t begin = manual.find("schema = 1");
    BOOST_REQUIRE(begin != std::string::npos);
    const Topology t = loaded(manual.substr(begin, manual.find("```", begin) - begin));
    BOOST_TEST(t.name == "pair-of-servers");
    BOOST_TEST(t.devices.size() == 8U);
}

BOOST_AUTO_TEST_CASE(manual_counts_the_assumptions_of_each_preset) {
    const std::string manual = read_file(std::filesystem::path{source_dir()} / "docs" / "TOPOLOGY.md");
    for (const std::string_view name : preset_names()) {
        const FigureCounts figures = loaded(*preset_text(name)).figures();
        const std::size_t row = manual.find("| `" + std::string{name} + '`');
        BOOST_REQUIRE_MESSAGE(row != std::string::npos, name);
        const std::string line = manual.substr(row, manual.find('\n', row) - row);
        const std::string expected = std::to_string(figures.assumed) + " of " + std::to_string(figures.total());
        BOOST_TEST((line.find("| " + expected + " |") != std::string::npos), name << ": " << expected);
    }
}

BOOST_AUTO_TEST_CASE(same_text_gives_the_same_fabric) {
    for (const std::string_view name : preset_names()) {
        const auto text = *preset_text(name);
        BOOST_TEST(wiring(loaded(text)) == wiring(loaded(text)));
    }
}

BOOST_AUTO_TEST_CASE(windows_line_ends_are_no_mistake) {
    std::string text{*preset_text(default_preset)};
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.insert(at, 1, '\r');
    BOOST_TEST(mistakes(text) == "");
}

BOOST_AUTO_TEST_CASE(any_language_may_stand_in_strings_and_comments) {
    const std::string star =
        devices("gpu", 2) + switches("sw", 1) + wire("each_to_each", "gpu[*]", "to = \"sw0\" # \u00fc");
    const Topology t =
        loaded("\xEF\xBB\xBF# \u6f22\ndescription = \"\u00e9 \\\" # \u00e9\"\n" + topology_text({}, star));
    BOOST_TEST(t.description == "\u00e9 \" # \u00e9");
}

BOOST_AUTO_TEST_CASE(text_that_is_not_utf8_is_refused) { BOOST_TEST(mistakes("name = \"\xff\xfe\"\n") != ""); }
