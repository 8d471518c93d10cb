// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Who is next to whom: the directed links that leave each vertex, in one array (compressed sparse rows). Two words a
// directed link and one a vertex; for 144 chips that is some 10 KiB, for the largest fabric allowed 0.5 MiB.

#pragma once

#include "model/topology.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace nvlf::model {

class Graph {
public:
    struct Edge {
        DirectedLink link = 0;
        Vertex to = 0;
    };

    /// Links with an end outside the topology must not exist (load_topology() guarantees it).
    explicit Graph(const Topology& topology);

    /// In the order of the links, so that everything derived from it is the same on every run.
    [[nodiscard]] std::span<const Edge> leaving(Vertex v) const {
        return std::span{edges_}.subspan(first_[v], first_[v + 1] - first_[v]);
    }

private:
    std::vector<std::uint32_t> first_;
    std::vector<Edge> edges_;
};

} // namespace nvlf::model
