// SPDX-License-Identifier: MIT OR GPL-2.0-only
// routes.hpp - how traffic goes now: the model's router over what is left of the topology.
//
// The model routes over a topology that never changes. So when a link, a device or a switch changes its state, we hand
// it a topology without what is down and with the lanes that are left, and translate the links back. That copy, and the
// router's own graph, are made at the first question after a change: most fabrics are never asked.
#pragma once

#include <optional>
#include <vector>

#include "base/result.hpp"
#include "daemon/state_region.hpp"
#include "model/routing.hpp"
#include "model/topology.hpp"
#include "nvlf/ioctl.h"

namespace nvlf::daemon {

class Routes {
public:
    // Both must outlive it.
    Routes(const model::Topology& topology, const StateRegion& state) : topology_{topology}, state_{state} {}
    Routes(const Routes&) = delete;
    Routes& operator=(const Routes&) = delete;

    void changed() noexcept {
        router_.reset();
        left_.reset();
    }
    // Fills what is "out" in `path`; src and dst are in range. ENOENT when nothing is left between the two.
    [[nodiscard]] Errno find(nvlf_ioc_path& path);

private:
    void prepare();

    const model::Topology& topology_;
    const StateRegion& state_;
    std::optional<model::Topology> left_;     // Empty while everything is up.
    std::vector<std::uint32_t> link_of_left_; // Index in left_ to index in topology_.
    std::optional<model::Router> router_;
};

} // namespace nvlf::daemon
