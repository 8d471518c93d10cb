// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fabric.hpp - fi_fabric: a name and a version. The connection to the fabric belongs to the domain, which acts for one
// device.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <string>

namespace nvlf::ofi {

inline constexpr char fabric_prefix[] = "nvlf:"; // Before the name of the fabric: fabric_attr->name.

struct Fabric {
    fid_fabric fid{};
    std::uint32_t api_version = 0; // That the application asked fi_getinfo for.
    std::atomic<int> refs{0};      // Domains and event queues.
    std::string name;              // As NVLF_FABRIC takes it, without the prefix.
};

inline Fabric& fabric_of(fid_fabric* fid) noexcept { return *reinterpret_cast<Fabric*>(fid); }

int fabric_open(fi_fabric_attr* attr, fid_fabric** ret_fabric, void* context) noexcept;

} // namespace nvlf::ofi
