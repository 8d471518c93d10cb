// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "model/topology.hpp"

#include <algorithm>

namespace nvlf::model {

namespace {

class Counter {
public:
    template <class... T>
    void add(const Sourced<T>&... figures) {
        (count(figures.standing), ...);
    }
    [[nodiscard]] FigureCounts result() const noexcept { return counts_; }

private:
    void count(Standing standing) noexcept {
        switch (standing) {
        case Standing::published: ++counts_.published; break;
        case Standing::measured: ++counts_.measured; break;
        case Standing::derived: ++counts_.derived; break;
        case Standing::assumed: ++counts_.assumed; break;
        }
    }

    FigureCounts counts_;
};

} // namespace

std::string_view to_string(Standing standing) noexcept {
    switch (standing) {
    case Standing::published: return "published";
    case Standing::measured: return "measured";
    case Standing::derived: return "derived";
    case Standing::assumed: return "assumed";
    }
    return "";
}

std::string_view to_string(DeviceKind kind) noexcept {
    switch (kind) {
    case DeviceKind::nvidia: return "nvidia";
    case DeviceKind::trainium: return "trainium";
    }
    return "";
}

std::string_view to_string(Protocol protocol) noexcept {
    switch (protocol) {
    case Protocol::nvlink: return "nvlink";
    case Protocol::neuronlink: return "neuronlink";
    case Protocol::pcie: return "pcie";
    case Protocol::c2c: return "c2c";
    case Protocol::efa: return "efa";
    }
    return "";
}

BytesPerSecond Topology::rate_of_vertex(Vertex v) const {
    BytesPerSecond sum = 0;
    for (const Link& link : links)
        if (link.end[0].vertex == v || link.end[1].vertex == v) sum += rate_of(link);
    return sum;
}

FigureCounts Topology::figures() const {
    Counter counter;
    for (const DeviceType& t : device_types) {
        counter.add(t.ports, t.hbm, t.hbm_rate, t.port_latency);
        if (t.dma.count.value > 0) counter.add(t.dma.count, t.dma.startup, t.dma.rate);
    }
    for (const SwitchType& t : switch_types) counter.add(t.ports, t.latency);
    for (const LinkType& t : link_types) {
        counter.add(t.rate, t.raw_rate, t.latency, t.max_payload);
        counter.add(t.flit, t.header_flits, t.address_flits, t.byte_enable_flits);
    }
    return counter.result();
}

std::size_t find_device(const Topology& topology, std::string_view name) noexcept {
    const auto found = std::find_if(topology.devices.begin(), topology.devices.end(),
                                    [&](const Device& device) { return device.name == name; });
    return static_cast<std::size_t>(found - topology.devices.begin());
}

} // namespace nvlf::model
