// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "model/graph.hpp"

namespace nvlf::model {

Graph::Graph(const Topology& topology) : first_(topology.vertex_count() + 1U), edges_(2 * topology.links.size()) {
    for (const Link& link : topology.links)
        for (const LinkEnd& end : link.end) ++first_[end.vertex + 1U];
    for (std::size_t v = 1; v < first_.size(); ++v) first_[v] += first_[v - 1];

    std::vector<std::uint32_t> next{first_.begin(), first_.end() - 1};
    const auto directed_links = static_cast<DirectedLink>(edges_.size());
    for (DirectedLink d = 0; d < directed_links; ++d)
        edges_[next[topology.source(d).vertex]++] = {d, topology.target(d).vertex};
}

} // namespace nvlf::model
