// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "model/routing.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

namespace nvlf::model {

namespace {

using Distance = std::uint16_t; // A path visits each vertex once, and there are at most 5120.
constexpr Distance too_far = std::numeric_limits<Distance>::max();
static_assert(max_devices + max_switches < too_far);

// Distances from `from`, complete up to the level of `to`; farther vertices stay too_far.
std::vector<Distance> distances_until(const Topology& topology, const Graph& graph, Vertex from, Vertex to) {
    std::vector<Distance> distance(topology.vertex_count(), too_far);
    distance[from] = 0;
    std::vector<Vertex> queue{from};
    for (std::size_t i = 0; i < queue.size(); ++i) {
        const Vertex v = queue[i];
        if (distance[v] >= distance[to]) break; // Nothing behind the level of `to` can lie on a shortest path.
        if (v != from && !topology.forwards(v)) continue;
        for (const Graph::Edge& edge : graph.leaving(v)) {
            if (distance[edge.to] != too_far) continue;
            distance[edge.to] = static_cast<Distance>(distance[v] + 1);
            queue.push_back(edge.to);
        }
    }
    return distance;
}

// Finds paths one after the other, each taking its narrowest link's capacity away from those after it. It walks from
// the destination back to the source, because every step to a smaller distance leads there: the only dead ends are
// vertices whose incoming capacity is used up, and those are never entered again. So the whole search looks at each
// link once, plus a path's length for each path.
class Peeler {
public:
    Peeler(const Topology& topology, const Graph& graph, Vertex from, Vertex to)
        : topology_{topology},
          graph_{graph},
          from_{from},
          to_{to},
          distance_{distances_until(topology, graph, from, to)},
          next_edge_(topology.vertex_count()),
          left_(2 * topology.links.size()) {
        for (DirectedLink d = 0; d < left_.size(); ++d) left_[d] = topology.rate_of(topology.link_of(d));
    }

    // The hops of another path, or none.
    std::vector<DirectedLink> next() {
        if (distance_[to_] == too_far) return {};
        std::vector<DirectedLink> backward;
        Vertex v = to_;
        while (v != from_) {
            if (const auto* edge = step_back(v)) {
                backward.push_back(edge->link ^ 1U);
                v = edge->to;
            } else if (backward.empty()) {
                return {};
            } else {
                v = topology_.target(backward.back()).vertex; // `v` is used up: leave it for good.
                backward.pop_back();
                ++next_edge_[v];
            }
        }
        std::reverse(backward.begin(), backward.end());
        return backward;
    }

    // What `hops` can carry; takes it.
    BytesPerSecond take(const std::vector<DirectedLink>& hops) {
        BytesPerSecond rate = std::numeric_limits<BytesPerSecond>::max();
        for (const DirectedLink d : hops) rate = std::min(rate, left_[d]);
        for (const DirectedLink d : hops) left_[d] -= rate;
        return rate;
    }

private:
    const Graph::Edge* step_back(Vertex v) {
        const auto edges = graph_.leaving(v);
        for (std::uint32_t& i = next_edge_[v]; i < edges.size(); ++i) {
            const Graph::Edge& edge = edges[i];
            const bool nearer = distance_[edge.to] != too_far && distance_[edge.to] + 1 == distance_[v];
            const bool passable = edge.to == from_ || topology_.forwards(edge.to);
            if (nearer && passable && left_[edge.link ^ 1U] > 0) return &edge;
        }
        return nullptr;
    }

    const Topology& topology_;
    const Graph& graph_;
    Vertex from_;
    Vertex to_;
    std::vector<Distance> distance_;
    std::vector<std::uint32_t> next_edge_; // Edges before it are of no more use.
    std::vector<BytesPerSecond> left_;     // Capacity of each directed link.
};

std::uint32_t narrowest(const Topology& topology, const std::vector<DirectedLink>& hops) {
    std::uint32_t width = std::numeric_limits<std::uint32_t>::max();
    for (const DirectedLink d : hops) width = std::min<std::uint32_t>(width, topology.link_of(d).width);
    return width;
}

std::uint32_t switches_on(const Topology& topology, const std::vector<DirectedLink>& hops) {
    return static_cast<std::uint32_t>(std::count_if(
        hops.begin(), hops.end(), [&](DirectedLink d) { return !topology.is_device(topology.target(d).vertex); }));
}

// Links, switches, and the device's own way between memory and port at every device that is touched: once at either
// end, in and out again at one that forwards.
Picoseconds latency_of(const Topology& topology, const std::vector<DirectedLink>& hops) {
    Picoseconds sum = 0;
    for (const DirectedLink d : hops) {
        sum += topology.type_of(topology.link_of(d)).latency.value;
        for (const Vertex v : {topology.source(d).vertex, topology.target(d).vertex})
            if (topology.is_device(v)) sum += topology.type_of(topology.devices[v]).port_latency.value;
        const Vertex end = topology.target(d).vertex;
        if (!topology.is_device(end))
            sum += topology.type_of(topology.switches[topology.switch_index(end)]).latency.value;
    }
    return sum;
}

} // namespace

std::vector<Path> Router::paths(std::uint32_t from, std::uint32_t to, std::uint32_t at_most) const {
    assert(from < topology_.devices.size() && to < topology_.devices.size());
    std::vector<Path> found;
    if (from == to) return found;
    Peeler peeler{topology_, graph_, from, to};
    while (found.size() < at_most) {
        Path path;
        path.hops = peeler.next();
        if (path.hops.empty()) break;
        path.rate = peeler.take(path.hops);
        path.width = narrowest(topology_, path.hops);
        path.switches = switches_on(topology_, path.hops);
        path.latency = latency_of(topology_, path.hops);
        found.push_back(std::move(path));
    }
    return found;
}

std::vector<DirectedLink> Router::path(std::uint32_t from, std::uint32_t to, std::uint32_t spread) const {
    // The common question needs one path only; finding all of them first would cost more than the answer.
    auto found = spread == 0 ? paths(from, to, 1) : paths(from, to);
    if (found.empty()) return {};
    return std::move(found[spread % found.size()].hops);
}

PairSummary Router::summary(std::uint32_t from, std::uint32_t to) const {
    PairSummary sum;
    sum.same_node = topology_.devices[from].node == topology_.devices[to].node;
    const auto found = paths(from, to);
    if (found.empty()) return sum;
    sum.hops = static_cast<std::uint32_t>(found.front().hops.size());
    sum.switches = found.front().switches;
    sum.latency = found.front().latency;
    sum.paths = static_cast<std::uint32_t>(found.size());
    for (const Path& path : found) {
        sum.width += path.width;
        sum.rate += path.rate;
    }
    return sum;
}

} // namespace nvlf::model
