// SPDX-License-Identifier: MIT OR GPL-2.0-only
// placement.hpp - which of the host's NUMA nodes backs the memory of which device.
//
// The nodes of the fabric are spread over the NUMA nodes of the host, so that what is local in the fabric is local on
// the host. The host is looked at once, at the start; where it has one NUMA node there is nothing to decide and the
// whole class does nothing. The preference is a hint: when the node is full the memory comes from elsewhere.
#pragma once

#include <cstdint>
#include <vector>

namespace nvlf::daemon {

class Placement {
public:
    static constexpr std::uint32_t anywhere = 0xffffffffU; // As nvlf_device::numa_node says it.

    Placement() = default;
    // `host_nodes`: OS indices of the NUMA nodes, in order.
    explicit Placement(std::vector<std::uint32_t> host_nodes) : host_nodes_{std::move(host_nodes)} {}
    // Asks hwloc. Never fails: a host that cannot be looked at has one node.
    [[nodiscard]] static Placement of_this_host();

    [[nodiscard]] std::uint32_t numa_node(std::uint32_t fabric_node, std::uint32_t fabric_nodes) const noexcept;
    // Sets the policy of the memory object itself, so that it holds whoever touches a page first.
    void bind(int memory, std::uint64_t bytes, std::uint32_t numa_node) const noexcept;

private:
    std::vector<std::uint32_t> host_nodes_;
};

} // namespace nvlf::daemon
