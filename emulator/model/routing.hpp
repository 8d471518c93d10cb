// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Ways from one device to another: shortest in links, and side by side where the fabric has several.
//
// Nothing is tabulated. A fabric of 4096 devices has sixteen million pairs, and a daemon that idles must not hold them;
// one question costs a breadth-first search over the part of the fabric that is nearer than the destination. The answer
// depends on the topology alone: same topology, same paths, in the same order, on every machine.
//
// "Side by side" means: paths that share no capacity, found one after the other until the shortest routes are full. So
// `rate` is what a single pair can get while everybody else is silent, and `width` is what `nvidia-smi topo -m` calls
// NV18. Devices pass on traffic only where their type says so.

#pragma once

#include "model/graph.hpp"
#include "model/topology.hpp"

#include <cstdint>
#include <vector>

namespace nvlf::model {

struct Path {
    std::vector<DirectedLink> hops;
    std::uint32_t switches = 0;
    std::uint32_t width = 0; ///< Lanes of its narrowest link.
    BytesPerSecond rate = 0; ///< Payload, one direction.
    Picoseconds latency = 0; ///< Of the first byte, memory system to memory system; no engine start-up, no queueing.
};

/// All shortest paths of one pair taken together.
struct PairSummary {
    std::uint32_t hops = 0;     ///< Links on each path; 0 from a device to itself.
    std::uint32_t switches = 0; ///< On the first path.
    std::uint32_t paths = 0;    ///< Side by side; 0 when the two are one device, or cannot reach each other.
    std::uint32_t width = 0;    ///< Lanes over all paths.
    BytesPerSecond rate = 0;    ///< Over all paths; 0 from a device to itself.
    Picoseconds latency = 0;    ///< Of the first path.
    bool same_node = false;
};

/// Keeps a reference to the topology, which must outlive it. Safe to use from several threads at once.
class Router {
public:
    explicit Router(const Topology& topology) : topology_{topology}, graph_{topology} {}

    /// Device indices, both below devices.size(). Empty when `from` is `to`, or when no way exists (which the loader
    /// rules out). At most `at_most` paths, the first ones.
    [[nodiscard]] std::vector<Path> paths(std::uint32_t from, std::uint32_t to,
                                          std::uint32_t at_most = UINT32_MAX) const;

    /// The directed links of one path, for GET_PATH and for traffic: `spread` picks among those side by side, modulo
    /// their number, so that flows with different `spread` use different planes.
    [[nodiscard]] std::vector<DirectedLink> path(std::uint32_t from, std::uint32_t to, std::uint32_t spread = 0) const;

    [[nodiscard]] PairSummary summary(std::uint32_t from, std::uint32_t to) const;

private:
    const Topology& topology_;
    Graph graph_;
};

} // namespace nvlf::model
