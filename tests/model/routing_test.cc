// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Paths against what they must be on any fabric. The fabrics are random, each from a seed, and every seed runs twice: the
// second run must give the same paths. The reference is as plain as possible: distances by relaxing until nothing
// changes.
#define BOOST_TEST_MODULE routing
#include <boost/test/unit_test.hpp>

#include "model/presets.hpp"
#include "model/routing.hpp"
#include "topology_text.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace nvlf::model;

namespace {

// splitmix64: the same numbers on every machine.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_{seed} {}
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(next() % bound); }

private:
    std::uint64_t next() {
        state_ += 0x9e3779b97f4a7c15U;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }
    std::uint64_t state_;
};

// Up to 12 devices, of which some forward, and up to 6 switches; not necessarily connected.
Topology random_fabric(std::uint64_t seed) {
    Random random{seed};
    Topology t;
    t.node_count = 3;
    t.device_types.resize(2);
    t.device_types[1].forwards = true;
    t.switch_types.resize(1);
    t.link_types.resize(3);
    for (LinkType& type : t.link_types) type.rate.value = 1 + random.below(100);
    const std::uint32_t devices = 2 + random.below(11);
    for (std::uint32_t i = 0; i < devices; ++i)
        t.devices.push_back({"d" + std::to_string(i), random.below(2), random.below(3)});
    const std::uint32_t switches = random.below(7);
    for (std::uint32_t i = 0; i < switches; ++i) t.switches.push_back({"s" + std::to_string(i), 0, i});
    const std::uint32_t links = random.below(4 * devices);
    for (std::uint32_t i = 0; i < links; ++i) {
        const Vertex a = random.below(t.vertex_count());
        const Vertex b = random.below(t.vertex_count());
        if (a == b) continue;
        t.links.push_back({{{a, 0}, {b, 0}},
                           static_cast<std::uint16_t>(random.below(3)),
                           static_cast<std::uint16_t>(1 + random.below(4))});
    }
    return t;
}

constexpr std::uint32_t unreachable = 1'000'000;

std::vector<std::uint32_t> reference_distances(const Topology& t, Vertex from) {
    std::vector<std::uint32_t> distance(t.vertex_count(), unreachable);
    distance[from] = 0;
    for (Vertex round = 0; round < t.vertex_count(); ++round) {
        for (DirectedLink d = 0; d < 2 * t.links.size(); ++d) {
            const Vertex a = t.source(d).vertex;
            const Vertex b = t.target(d).vertex;
            if (a == from || t.forwards(a)) distance[b] = std::min(distance[b], distance[a] + 1);
        }
    }
    return distance;
}

bool is_way(const Topology& t, const std::vector<DirectedLink>& hops, Vertex from, Vertex to) {
    Vertex at = from;
    for (const DirectedLink d : hops) {
        if (t.source(d).vertex != at || (at != from && !t.forwards(at))) return false;
        at = t.target(d).vertex;
    }
    return at == to;
}

// Whether a shortest way is left over what `used` leaves of each directed link.
bool way_left(const Topology& t, const std::vector<std::uint64_t>& used, Vertex from, Vertex to, std::uint32_t length) {
    std::vector<bool> reached(t.vertex_count());
    reached[from] = true;
    for (std::uint32_t hop = 0; hop < length; ++hop) {
        std::vector<bool> next(t.vertex_count());
        for (DirectedLink d = 0; d < 2 * t.links.size(); ++d) {
            const Vertex a = t.source(d).vertex;
            const bool passable = a == from ? hop == 0 : t.forwards(a);
            if (reached[a] && passable && used[d] < t.rate_of(t.link_of(d))) next[t.target(d).vertex] = true;
        }
        reached = next;
    }
    return reached[to];
}

// Everything that must hold of one pair; returns its paths as text, for the comparison of two runs.
std::string check_pair(const Topology& t, const Router& router, std::uint32_t from, std::uint32_t to,
                       std::uint32_t distance) {
    const auto paths = router.paths(from, to);
    std::string text;
    std::vector<std::uint64_t> used(2 * t.links.size());
    std::uint64_t rate = 0;
    for (const Path& path : paths) {
        BOOST_TEST(path.hops.size() == distance);
        BOOST_TEST(is_way(t, path.hops, from, to));
        BOOST_TEST(path.rate > 0U);
        rate += path.rate;
        for (const DirectedLink d : path.hops) {
            used[d] += path.rate;
            text += std::to_string(d) + ' ';
        }
        text += '\n';
    }
    for (DirectedLink d = 0; d < used.size(); ++d) BOOST_TEST(used[d] <= t.rate_of(t.link_of(d)));
    const bool expected = distance != unreachable && from != to;
    BOOST_TEST(paths.empty() == !expected);
    if (expected) BOOST_TEST(!way_left(t, used, from, to, distance));

    const PairSummary summary = router.summary(from, to);
    BOOST_TEST(summary.paths == paths.size());
    BOOST_TEST(summary.rate == rate);
    BOOST_TEST(summary.hops == (expected ? distance : 0));
    for (std::uint32_t spread = 0; expected && spread < 2 * paths.size(); ++spread)
        BOOST_TEST(router.path(from, to, spread) == paths[spread % paths.size()].hops);
    return text;
}

std::string check_fabric(std::uint64_t seed) {
    const Topology t = random_fabric(seed);
    const Router router{t};
    std::string text;
    for (std::uint32_t from = 0; from < t.devices.size(); ++from) {
        const auto distances = reference_distances(t, from);
        for (std::uint32_t to = 0; to < t.devices.size(); ++to) text += check_pair(t, router, from, to, distances[to]);
    }
    return text;
}

} // namespace

BOOST_AUTO_TEST_CASE(paths_on_random_fabrics_are_shortest_within_capacity_and_complete) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        BOOST_TEST_CONTEXT("seed " << seed) { BOOST_TEST(check_fabric(seed) == check_fabric(seed)); }
    }
}

BOOST_AUTO_TEST_CASE(device_reaches_itself_without_a_hop) {
    const Topology t = random_fabric(1);
    const PairSummary self = Router{t}.summary(0, 0);
    BOOST_TEST(self.hops == 0U);
    BOOST_TEST(self.rate == 0U);
    BOOST_TEST(self.same_node);
    BOOST_TEST((Router{t}.path(0, 0).empty()));
}

BOOST_AUTO_TEST_CASE(traffic_does_not_pass_through_a_device_that_does_not_forward) {
    Topology t;
    t.device_types.resize(1);
    t.link_types.resize(1);
    t.link_types[0].rate.value = 1;
    for (const char* name : {"a", "b", "c"}) t.devices.push_back({name, 0, 0});
    t.links = {{{{0, 0}, {1, 0}}, 0, 1}, {{{1, 1}, {2, 0}}, 0, 1}};
    BOOST_TEST(Router{t}.summary(0, 2).paths == 0U);
    BOOST_TEST(Router{t}.summary(0, 1).paths == 1U);
    t.device_types[0].forwards = true;
    BOOST_TEST(Router{t}.summary(0, 2).hops == 2U);
}

BOOST_AUTO_TEST_CASE(device_that_forwards_costs_its_way_in_and_out) {
    Topology t;
    t.device_types.resize(1);
    t.device_types[0].forwards = true;
    t.device_types[0].port_latency.value = 100;
    t.link_types.resize(1);
    t.link_types[0].rate.value = 1;
    t.link_types[0].latency.value = 7;
    for (const char* name : {"a", "b", "c"}) t.devices.push_back({name, 0, 0});
    t.links = {{{{0, 0}, {1, 0}}, 0, 1}, {{{1, 1}, {2, 0}}, 0, 1}};
    BOOST_TEST(Router{t}.summary(0, 1).latency == 207U);
    BOOST_TEST(Router{t}.summary(0, 2).latency == 414U);
}

BOOST_AUTO_TEST_CASE(different_spread_uses_different_planes) {
    auto result = load_topology(*preset_text("gb200-nvl72"), "gb200-nvl72");
    const auto& t = std::get<Topology>(result);
    const Router router{t};
    std::vector<DirectedLink> first_hops;
    for (std::uint32_t spread = 0; spread < 18; ++spread) first_hops.push_back(router.path(0, 71, spread).front());
    std::sort(first_hops.begin(), first_hops.end());
    BOOST_TEST((std::adjacent_find(first_hops.begin(), first_hops.end()) == first_hops.end()));
}
