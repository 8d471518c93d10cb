// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/placement.hpp"

#include <hwloc.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

namespace nvlf::daemon {

Placement Placement::of_this_host() {
    // hwloc's plugins look for GPUs and PCI devices by loading their vendors' libraries: megabytes and milliseconds for
    // things we do not ask for. Set before the library is first entered; nvlfd starts no other program.
    ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 0);
    std::vector<std::uint32_t> nodes;
    hwloc_topology_t host = nullptr;
    if (hwloc_topology_init(&host) != 0) return {};
    hwloc_topology_set_all_types_filter(host, HWLOC_TYPE_FILTER_KEEP_NONE); // NUMA nodes are always kept.
    if (hwloc_topology_load(host) == 0) {
        for (hwloc_obj_t node = nullptr;
             (node = hwloc_get_next_obj_by_type(host, HWLOC_OBJ_NUMANODE, node)) != nullptr;)
            nodes.push_back(node->os_index);
    }
    hwloc_topology_destroy(host);
    return Placement{std::move(nodes)};
}

std::uint32_t Placement::numa_node(std::uint32_t fabric_node, std::uint32_t fabric_nodes) const noexcept {
    if (host_nodes_.size() < 2 || fabric_nodes == 0) return anywhere;
    if (fabric_nodes <= host_nodes_.size()) return host_nodes_[fabric_node % host_nodes_.size()];
    // Neighbours in the fabric share a node of the host.
    return host_nodes_[std::uint64_t{fabric_node} * host_nodes_.size() / fabric_nodes % host_nodes_.size()];
}

void Placement::bind(int memory, std::uint64_t bytes, std::uint32_t numa_node) const noexcept {
    constexpr std::uint32_t mask_bits = 1024; // MAX_NUMNODES of the largest kernels.
    if (host_nodes_.size() < 2 || numa_node >= mask_bits) return;
    // The policy of shared memory is set through a mapping and stays with the object when that is gone.
    void* address = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, memory, 0);
    if (address == MAP_FAILED) return;
    constexpr std::uint32_t word_bits = sizeof(unsigned long) * CHAR_BIT;
    unsigned long mask[mask_bits / word_bits]{};
    mask[numa_node / word_bits] = 1UL << (numa_node % word_bits);
    // By number: libnuma would be a dependency for one call. The bit count is one more than what the kernel reads.
    ::syscall(SYS_mbind, address, bytes, MPOL_PREFERRED, mask, static_cast<unsigned long>(mask_bits + 1), 0UL);
    ::munmap(address, bytes);
}

} // namespace nvlf::daemon
