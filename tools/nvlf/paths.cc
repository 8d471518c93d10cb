// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace nvlf::cli {

namespace {

constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

// Bytes per second that the link carries now.
std::uint64_t rate_now(const nvlf_link& link) {
    if (link.state == NVLF_STATE_DOWN || link.width == 0) return 0;
    return link.rate / link.width * std::min(link.width, link.width_up);
}

} // namespace

const char* label_prefix(std::uint32_t protocol) {
    switch (protocol) {
    case NVLF_LINK_NVLINK: return "NV";
    case NVLF_LINK_NEURONLINK: return "NL";
    case NVLF_LINK_PCIE: return "PCI";
    case NVLF_LINK_C2C: return "C2C";
    case NVLF_LINK_EFA: return "EFA";
    default: return "?";
    }
}

std::string label_of(const PathView& path) {
    const std::string label = fmt::format("{}{}", label_prefix(path.protocol), path.width);
    return path.hops > 1 ? fmt::format("{}/{}", label, path.hops - 1) : label;
}

Paths::Paths(const View& view)
    : view_{view},
      edges_(view.devices.size() + view.switches.size()),
      forwards_(edges_.size()),
      capacity_(2 * view.links.size()),
      left_(capacity_.size()),
      next_edge_(edges_.size()) {
    const auto devices = static_cast<Vertex>(view.devices.size());
    // Whatever wrote the region may have written nonsense into a link's ends: such a link is none.
    const auto vertex = [&](const nvlf_link_end& end) -> std::optional<Vertex> {
        if (end.object == NVLF_OBJECT_DEVICE && end.index < view.devices.size() &&
            view.devices[end.index].state != NVLF_STATE_DOWN)
            return end.index;
        if (end.object == NVLF_OBJECT_SWITCH && end.index < view.switches.size() &&
            view.switches[end.index].state != NVLF_STATE_DOWN)
            return devices + end.index;
        return std::nullopt;
    };
    for (Vertex v = devices; v < forwards_.size(); ++v) forwards_[v] = true;
    for (std::uint32_t i = 0; i < view.links.size(); ++i) {
        const nvlf_link& link = view.links[i];
        const auto a = vertex(link.end[0]);
        const auto b = vertex(link.end[1]);
        if (!a || !b || rate_now(link) == 0) continue;
        edges_[*a].push_back({*b, 2 * i});
        edges_[*b].push_back({*a, 2 * i + 1});
        capacity_[2 * i] = capacity_[2 * i + 1] = rate_now(link);
        if (is_device(*a) && is_device(*b)) forwards_[*a] = forwards_[*b] = true;
    }
}

void Paths::measure(Vertex from) {
    distance_.assign(edges_.size(), kFar);
    distance_[from] = 0;
    std::vector<Vertex> queue{from};
    for (std::size_t i = 0; i < queue.size(); ++i) {
        const Vertex v = queue[i];
        if (v != from && !forwards_[v]) continue;
        for (const Edge& edge : edges_[v]) {
            if (distance_[edge.to] != kFar) continue;
            distance_[edge.to] = distance_[v] + 1;
            queue.push_back(edge.to);
        }
    }
    measured_ = from;
}

const Paths::Edge* Paths::step_back(Vertex v, Vertex from) {
    for (std::size_t& i = next_edge_[v]; i < edges_[v].size(); ++i) {
        const Edge& edge = edges_[v][i];
        const bool nearer = distance_[edge.to] != kFar && distance_[edge.to] + 1 == distance_[v];
        // Back along the edge: its reverse is what traffic would use.
        if (nearer && (edge.to == from || forwards_[edge.to]) && left_[edge.link ^ 1U] > 0) return &edge;
    }
    return nullptr;
}

// The directed links of another path in order, empty when the shortest ways are full. Walks from the destination back,
// because each step to a smaller distance leads to the source: a dead end is a vertex whose way in is used up, and it is
// left for good.
std::vector<std::uint32_t> Paths::next_path(Vertex from, Vertex to) {
    std::vector<std::uint32_t> back;
    std::vector<Vertex> trail{to};
    while (trail.back() != from) {
        if (const Edge* edge = step_back(trail.back(), from)) {
            back.push_back(edge->link ^ 1U);
            trail.push_back(edge->to);
        } else if (back.empty()) {
            return {};
        } else {
            back.pop_back();
            trail.pop_back();
            ++next_edge_[trail.back()];
        }
    }
    std::reverse(back.begin(), back.end());
    return back;
}

std::optional<PathView> Paths::between(std::uint32_t from, std::uint32_t to) {
    if (measured_ != from) measure(from);
    if (distance_[to] == kFar) return std::nullopt;
    left_ = capacity_;
    std::fill(next_edge_.begin(), next_edge_.end(), 0);
    PathView found;
    for (auto path = next_path(from, to); !path.empty(); path = next_path(from, to)) {
        std::uint64_t rate = std::numeric_limits<std::uint64_t>::max();
        std::uint32_t width = std::numeric_limits<std::uint32_t>::max();
        const bool first = found.hops == 0;
        for (const std::uint32_t directed : path) {
            const nvlf_link& link = view_.links[directed / 2];
            if (left_[directed] < rate) {
                rate = left_[directed];
                if (first) found.protocol = link.protocol;
            }
            width = std::min(width, std::min(link.width, link.width_up));
            if (!first) continue;
            ++found.hops;
            found.latency_ps += link.latency_ps;
            const nvlf_link_end& end = link.end[1 - directed % 2];
            if (end.object == NVLF_OBJECT_SWITCH) {
                ++found.switches;
                found.latency_ps += view_.switches[end.index].latency_ps;
            }
        }
        for (const std::uint32_t directed : path) left_[directed] -= rate;
        found.rate += rate;
        found.width += width;
    }
    if (found.hops == 0) return std::nullopt;
    return found;
}

} // namespace nvlf::cli
