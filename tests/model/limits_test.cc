// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Each limit of the loader, once at the limit and once past it.
#define BOOST_TEST_MODULE limits
#include <boost/test/unit_test.hpp>

#include "topology_text.hpp"

#include <string>

using namespace nvlf::model;
using namespace nvlf::test;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string star(std::uint32_t device_count, std::string_view more = {}) {
    return devices("gpu", device_count) + switches("sw", 1) +
           wire("each_to_each", "gpu[*]", "to = \"sw0\"\n" + std::string{more});
}

} // namespace

BOOST_AUTO_TEST_CASE(devices_stop_at_their_limit) {
    // No switch has ports for 4096, so three levels join them: 4 switches of 1024.
    const auto fabric = [](std::uint32_t more) {
        return topology_text({}, devices("gpu", 2048) + devices("trn", 2048 + more) + switches("sw", 4) +
                                     switches("top", 1) + wire("blocks", "gpu[*]", "to = \"sw[0-1]\"") +
                                     wire("blocks", "trn[0-2047]", "to = \"sw[2-3]\"") +
                                     wire("each_to_each", "sw[*]", "to = \"top0\""));
    };
    BOOST_TEST(mistakes(fabric(0)) == "");
    BOOST_TEST(contains(mistakes(fabric(1)), "this group makes 4097 devices in all, at most 4096 are supported"));
}

BOOST_AUTO_TEST_CASE(switches_stop_at_their_limit) {
    const auto fabric = [](std::uint32_t count) {
        return topology_text({}, devices("gpu", 2) + switches("sw", 1000) + switches("top", count - 1000) +
                                     wire("each_to_each", "gpu[*]", "to = \"sw[*]\""));
    };
    BOOST_TEST(mistakes(fabric(1024)) == "");
    BOOST_TEST(contains(mistakes(fabric(1025)), "this group makes 1025 switches in all, at most 1024 are supported"));
}

BOOST_AUTO_TEST_CASE(links_stop_at_their_limit) {
    const auto fabric = [](std::string_view more) {
        return topology_text({}, devices("gpu", 1024) + switches("sw", 65) +
                                     wire("each_to_each", "gpu[*]", "to = \"sw[0-63]\"") + std::string{more});
    };
    BOOST_TEST(mistakes(fabric("")) == "");
    BOOST_TEST(contains(mistakes(fabric(wire("pairs", "sw0", "to = \"sw64\""))),
                        "this rule makes 65537 links in all, at most 65536 are supported"));
}

BOOST_AUTO_TEST_CASE(nodes_stop_at_their_limit) {
    BOOST_TEST(mistakes(topology_text({.nodes = max_nodes}, star(2))) == "");
    BOOST_TEST(
        contains(mistakes(topology_text({.nodes = max_nodes + 1}, star(2))), "nodes is 4097, it must be 1 to 4096"));
}

BOOST_AUTO_TEST_CASE(ports_stop_at_their_limit) {
    BOOST_TEST(mistakes(topology_text({.switch_ports = max_ports}, star(2, "width = 1024"))) == "");
    BOOST_TEST(contains(mistakes(topology_text({.switch_ports = max_ports}, star(2, "width = 1025"))),
                        "sw0 has 2048 ports, but 2050 are wired"));
    BOOST_TEST(contains(mistakes(topology_text({.switch_ports = max_ports + 1}, star(2))),
                        "ports is 2049, it must be 1 to 2048"));
}

BOOST_AUTO_TEST_CASE(longest_way_stops_at_its_limit) {
    // A ring of n forwarding devices is n / 2 links wide.
    const auto ring = [](std::uint32_t count) {
        return topology_text({.forwards = true}, devices("trn", count) + wire("ring", "trn[*]", ""));
    };
    BOOST_TEST(mistakes(ring(33)) == "");
    BOOST_TEST(contains(mistakes(ring(34)), "is longer than 16 links"));
}

BOOST_AUTO_TEST_CASE(groups_stop_at_their_limit) {
    const auto fabric = [](std::uint32_t count) {
        std::string groups;
        for (std::uint32_t i = 0; i < count; ++i) groups += devices("gpu", 1, "first = " + std::to_string(i));
        return topology_text({}, groups + switches("sw", 1) + wire("each_to_each", "gpu[*]", "to = \"sw0\""));
    };
    BOOST_TEST(mistakes(fabric(max_groups)) == "");
    BOOST_TEST(contains(mistakes(fabric(max_groups + 1)), "257 tables [[devices]], at most 256 are supported"));
}

BOOST_AUTO_TEST_CASE(rules_stop_at_their_limit) {
    const auto fabric = [](std::uint32_t count) {
        std::string rules;
        for (std::uint32_t i = 0; i < count; ++i) rules += wire("pairs", "gpu" + std::to_string(i), "to = \"sw0\"");
        return topology_text({}, devices("gpu", count) + switches("sw", 1) + rules);
    };
    BOOST_TEST(mistakes(fabric(max_rules)) == "");
    BOOST_TEST(contains(mistakes(fabric(max_rules + 1)), "1025 tables [[wire]], at most 1024 are supported"));
}

BOOST_AUTO_TEST_CASE(types_stop_at_their_limit) {
    const auto fabric = [](std::uint32_t count) {
        std::string text = topology_text({}, "");
        for (std::uint32_t i = 1; i < count; ++i) {
            text += "[switch.s" + std::to_string(i) + "]\nmodel = \"m\"\n";
            text += "ports = { value = 1, source = \"assumed\", ref = \"r\" }\n";
            text += "latency = { value = \"1 ns\", source = \"assumed\", ref = \"r\" }\n";
        }
        return text + star(2);
    };
    BOOST_TEST(mistakes(fabric(max_types)) == "");
    BOOST_TEST(contains(mistakes(fabric(max_types + 1)), "65 types of switch, at most 64 are supported"));
}

BOOST_AUTO_TEST_CASE(file_stops_at_its_limit) {
    std::string text = topology_text({}, star(2));
    while (text.size() + 100 < max_file_bytes) text += "#" + std::string(98, '-') + '\n';
    text += '#' + std::string(max_file_bytes - text.size() - 1, '-');
    BOOST_TEST(mistakes(text) == "");
    BOOST_TEST(mistakes(text + '-') == "t.toml:1:1: the file has 262145 bytes, at most 262144 are supported\n");
}

BOOST_AUTO_TEST_CASE(line_stops_at_its_limit) {
    const std::string text = topology_text({}, star(2)) + '#';
    BOOST_TEST(mistakes(text + std::string(max_line_bytes - 1, '-')) == "");
    BOOST_TEST(contains(mistakes(text + std::string(max_line_bytes, '-')), "the line is longer than 1024 bytes"));
}

BOOST_AUTO_TEST_CASE(texts_stop_at_their_limit) {
    const auto fabric = [](std::size_t bytes) {
        return "description = \"" + std::string(bytes, 'x') + "\"\n" + topology_text({}, star(2));
    };
    BOOST_TEST(mistakes(fabric(max_text_bytes)) == "");
    BOOST_TEST(contains(mistakes(fabric(max_text_bytes + 1)), "description is 513 bytes long, it must be 1 to 512"));
}

BOOST_AUTO_TEST_CASE(deep_nesting_ends_in_a_message) {
    BOOST_TEST(mistakes("a = " + std::string(1000, '[')) != "");
    std::string dots = "a";
    while (dots.size() + 2 < max_line_bytes - 8) dots += ".a";
    std::string text;
    for (int i = 0; i < 14; ++i) text += "a = [\n{" + dots + " = [\n";
    BOOST_TEST(mistakes(text) != "");
    BOOST_TEST(mistakes(dots + " = 1\n") != "");
}

BOOST_AUTO_TEST_CASE(hostile_counts_cost_nothing) {
    BOOST_TEST(contains(mistakes(topology_text({}, devices("gpu", 1'000'000'000))), "count is 1000000000"));
    BOOST_TEST(contains(mistakes(topology_text({}, star(2) + wire("ring", "gpu[0-999999]", ""))),
                        "names gpu2, which does not exist"));
    BOOST_TEST(contains(mistakes(topology_text(
                            {}, star(2) + wire("torus", "gpu[*]", "dims = [4096, 4096, 4096, 4096, 4096, 4096, 2]"))),
                        "dims make 4294967295 places for 2 members"));
}
