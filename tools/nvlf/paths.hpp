// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How traffic goes between two devices, computed from a view. The carrier answers the same question (GET_PATH), but only
// while it runs, only to a client, and one pair a round trip: a matrix of 144 devices would cost ten thousand.
//
// The rules are the fabric's: shortest in links; parallel links and planes that share no capacity count as one path,
// their lanes and rates summed; switches pass traffic on, and so do devices that are wired straight to another device
// (a torus). What is down carries nothing. tests/system/cli compares the answers with GET_PATH on every preset.
#pragma once

#include "view.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nvlf::cli {

struct PathView {
    std::uint32_t hops = 0;       // Links in a row.
    std::uint32_t switches = 0;   // On the first path.
    std::uint32_t width = 0;      // Lanes side by side.
    std::uint32_t protocol = 0;   // NVLF_LINK_* of the slowest link.
    std::uint64_t rate = 0;       // Payload bytes per second, one direction.
    std::uint64_t latency_ps = 0; // Links and switches.
};

// "NV36/1": protocol, lanes, and the number of switches and devices that are passed on the way.
[[nodiscard]] std::string label_of(const PathView& path);
[[nodiscard]] const char* label_prefix(std::uint32_t protocol);

class Paths {
public:
    // Keeps a reference to the view.
    explicit Paths(const View& view);

    // Nothing when no way is left. `from` and `to` are different device indices. Fast when `from` stays the same.
    [[nodiscard]] std::optional<PathView> between(std::uint32_t from, std::uint32_t to);

private:
    using Vertex = std::uint32_t; // Devices first, then switches.
    struct Edge {
        Vertex to;
        std::uint32_t link; // Directed: 2 * link + direction.
    };

    void measure(Vertex from);
    [[nodiscard]] std::vector<std::uint32_t> next_path(Vertex from, Vertex to);
    [[nodiscard]] const Edge* step_back(Vertex v, Vertex from);
    [[nodiscard]] bool is_device(Vertex v) const { return v < view_.devices.size(); }

    const View& view_;
    std::vector<std::vector<Edge>> edges_;
    std::vector<bool> forwards_;
    std::vector<std::uint64_t> capacity_; // Of each directed link, bytes per second.
    std::vector<std::uint64_t> left_;     // The same, less what the pair at hand has used.
    std::vector<std::size_t> next_edge_;  // Edges of a vertex before it are of no more use to the pair at hand.
    std::vector<std::uint32_t> distance_;
    std::optional<Vertex> measured_;
};

} // namespace nvlf::cli
