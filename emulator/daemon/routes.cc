// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/routes.hpp"

#include <algorithm>

namespace nvlf::daemon {
namespace {

static_assert(model::max_hops <= NVLF_MAX_HOPS);

bool usable(const StateRegion& state, const nvlf_link_end& end) {
    const std::uint32_t s =
        end.object == NVLF_OBJECT_DEVICE ? state.devices()[end.index].state : state.switches()[end.index].state;
    return s != NVLF_STATE_DOWN;
}

bool untouched(const nvlf_link& link) { return link.state == NVLF_STATE_UP && link.width_up == link.width; }

} // namespace

void Routes::prepare() {
    if (router_) return;
    const auto links = state_.links();
    const bool whole = std::all_of(links.begin(), links.end(), [this](const nvlf_link& link) {
        return untouched(link) && usable(state_, link.end[0]) && usable(state_, link.end[1]);
    });
    link_of_left_.clear();
    if (whole) {
        router_.emplace(topology_);
        return;
    }
    left_ = topology_;
    left_->links.clear();
    for (std::uint32_t i = 0; i < links.size(); ++i) {
        const nvlf_link& link = links[i];
        if (link.state == NVLF_STATE_DOWN || !usable(state_, link.end[0]) || !usable(state_, link.end[1])) continue;
        left_->links.push_back(topology_.links[i]);
        left_->links.back().width = static_cast<std::uint16_t>(link.width_up);
        link_of_left_.push_back(i);
    }
    router_.emplace(*left_);
}

Errno Routes::find(nvlf_ioc_path& path) {
    prepare();
    path.hops = path.width = path.switches = 0;
    path.rate = path.latency_ps = 0;
    std::fill(std::begin(path.hop), std::end(path.hop), 0U);
    const auto down = [this](std::uint32_t device) { return state_.devices()[device].state == NVLF_STATE_DOWN; };
    if (down(path.src) || down(path.dst)) return Errno{ENOENT};
    if (path.src == path.dst) return Errno{};
    const model::PairSummary summary = router_->summary(path.src, path.dst);
    const std::vector<model::DirectedLink> hops = router_->path(path.src, path.dst);
    if (summary.paths == 0 || hops.empty() || hops.size() > NVLF_MAX_HOPS) return Errno{ENOENT};
    path.hops = static_cast<std::uint32_t>(hops.size());
    path.width = summary.width;
    path.switches = summary.switches;
    path.rate = summary.rate;
    path.latency_ps = summary.latency;
    for (std::size_t i = 0; i < hops.size(); ++i)
        path.hop[i] = left_ ? 2 * link_of_left_[hops[i] / 2] + hops[i] % 2 : hops[i];
    return Errno{};
}

} // namespace nvlf::daemon
