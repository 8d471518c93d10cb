// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/state_region.hpp"

#include <algorithm>
#include <cstring>

namespace nvlf::daemon {
namespace {

static_assert(sizeof(nvlf_link_shared) == 64);

constexpr std::uint64_t align64(std::uint64_t offset) { return (offset + 63) & ~std::uint64_t{63}; }

// Cut to the array, always with its NUL. The model bounds names by the same figures.
template <std::size_t N>
void copy_text(char (&out)[N], const std::string& text) {
    std::memset(out, 0, N);
    std::memcpy(out, text.data(), std::min(text.size(), N - 1));
}

std::uint32_t kind_of(model::DeviceKind kind) {
    return kind == model::DeviceKind::nvidia ? NVLF_DEVICE_NVIDIA : NVLF_DEVICE_TRAINIUM;
}

std::uint32_t protocol_of(model::Protocol protocol) {
    switch (protocol) {
    case model::Protocol::nvlink: return NVLF_LINK_NVLINK;
    case model::Protocol::neuronlink: return NVLF_LINK_NEURONLINK;
    case model::Protocol::pcie: return NVLF_LINK_PCIE;
    case model::Protocol::c2c: return NVLF_LINK_C2C;
    case model::Protocol::efa: break;
    }
    return NVLF_LINK_EFA;
}

nvlf_state layout(const model::Topology& topology, std::uint32_t endpoints) {
    nvlf_state h{};
    h.magic = NVLF_STATE_MAGIC;
    h.abi = NVLF_ABI_VERSION;
    h.nodes = topology.node_count;
    h.device_count = static_cast<std::uint32_t>(topology.devices.size());
    h.switch_count = static_cast<std::uint32_t>(topology.switches.size());
    h.link_count = static_cast<std::uint32_t>(topology.links.size());
    h.endpoint_count = endpoints;
    const model::FigureCounts figures = topology.figures();
    h.assumed = figures.assumed;
    h.figures = figures.total();
    h.device_off = align64(sizeof h);
    h.switch_off = align64(h.device_off + h.device_count * sizeof(nvlf_device));
    h.link_off = align64(h.switch_off + h.switch_count * sizeof(nvlf_switch));
    h.endpoint_off = align64(h.link_off + h.link_count * sizeof(nvlf_link));
    h.bytes = align64(h.endpoint_off + h.endpoint_count * sizeof(nvlf_state_endpoint));
    copy_text(h.topology, topology.name);
    return h;
}

// Ports in use and payload rate of every vertex, in one walk over the links.
std::vector<std::uint64_t> rates(const model::Topology& topology) {
    std::vector<std::uint64_t> rate(topology.vertex_count());
    for (const model::Link& link : topology.links)
        for (const model::LinkEnd& end : link.end) rate[end.vertex] += topology.rate_of(link);
    return rate;
}

nvlf_device describe(const model::Topology& topology, std::uint32_t index, std::uint64_t rate, std::uint32_t numa) {
    const model::Device& device = topology.devices[index];
    const model::DeviceType& type = topology.type_of(device);
    nvlf_device d{};
    copy_text(d.name, device.name);
    copy_text(d.model, type.model);
    d.index = index;
    d.kind = kind_of(type.kind);
    d.node = device.node;
    d.state = NVLF_STATE_UP;
    d.ports = type.ports.value;
    d.numa_node = numa;
    d.hbm_bytes = type.hbm.value;
    d.rate = rate;
    return d;
}

nvlf_switch describe_switch(const model::Topology& topology, std::uint32_t index) {
    const model::Switch& sw = topology.switches[index];
    const model::SwitchType& type = topology.type_of(sw);
    nvlf_switch s{};
    copy_text(s.name, sw.name);
    copy_text(s.model, type.model);
    s.index = index;
    s.plane = sw.plane;
    s.ports = type.ports.value;
    s.state = NVLF_STATE_UP;
    s.latency_ps = type.latency.value;
    return s;
}

nvlf_link_end describe_end(const model::Topology& topology, const model::LinkEnd& end) {
    nvlf_link_end e{};
    const bool device = topology.is_device(end.vertex);
    e.object = device ? NVLF_OBJECT_DEVICE : NVLF_OBJECT_SWITCH;
    e.index = device ? end.vertex : topology.switch_index(end.vertex);
    e.port = end.port;
    return e;
}

nvlf_link describe_link(const model::Topology& topology, std::uint32_t index) {
    const model::Link& link = topology.links[index];
    const model::LinkType& type = topology.type_of(link);
    nvlf_link l{};
    for (std::size_t i = 0; i < 2; ++i) l.end[i] = describe_end(topology, link.end[i]);
    l.index = index;
    l.protocol = protocol_of(type.protocol);
    l.generation = type.generation;
    l.width = link.width;
    l.width_up = link.width;
    l.state = NVLF_STATE_UP;
    l.rate = topology.rate_of(link);
    l.raw_rate = type.raw_rate.value * link.width;
    l.latency_ps = type.latency.value;
    return l;
}

// Writes all but the endpoint table, which is zero as the memory comes. memcpy, so that neither alignment nor the
// lifetime of objects in `out` matters here.
void write_image(std::byte* out, const nvlf_state& header, const model::Topology& topology,
                 const Placement& placement) {
    std::memcpy(out, &header, sizeof header);
    const std::vector<std::uint64_t> rate = rates(topology);
    for (std::uint32_t i = 0; i < header.device_count; ++i) {
        const std::uint32_t numa = placement.numa_node(topology.devices[i].node, topology.node_count);
        const nvlf_device d = describe(topology, i, rate[i], numa);
        std::memcpy(out + header.device_off + i * sizeof d, &d, sizeof d);
    }
    for (std::uint32_t i = 0; i < header.switch_count; ++i) {
        const nvlf_switch s = describe_switch(topology, i);
        std::memcpy(out + header.switch_off + i * sizeof s, &s, sizeof s);
    }
    for (std::uint32_t i = 0; i < header.link_count; ++i) {
        const nvlf_link l = describe_link(topology, i);
        std::memcpy(out + header.link_off + i * sizeof l, &l, sizeof l);
    }
}

} // namespace

std::vector<std::byte> state_file_image(const model::Topology& topology) {
    const nvlf_state header = layout(topology, 0);
    std::vector<std::byte> image(header.bytes);
    write_image(image.data(), header, topology, Placement{});
    return image;
}

Result<StateRegion> StateRegion::create(const model::Topology& topology, const Uuid& uuid, const Placement& placement) {
    nvlf_state header = layout(topology, NVLF_MAX_ENDPOINTS);
    std::copy(uuid.begin(), uuid.end(), header.uuid);
    header.serving = 1;

    StateRegion region;
    auto state = make_memory("nvlf-state", header.bytes);
    if (!state) return state.error();
    region.state_fd_ = std::move(*state);
    auto map = Mapping::map(region.state_fd_.get(), header.bytes, Mapping::Access::read_write);
    if (!map) return map.error();
    region.map_ = std::move(*map);
    write_image(static_cast<std::byte*>(region.map_.data()), header, topology, placement);
    if (const Errno e = seal(region.state_fd_.get(), Seal::size_and_future_writes); e.failed()) return e;

    // At least one entry: an object of no bytes cannot be mapped.
    region.shared_bytes_ = std::max<std::uint64_t>(1, 2ULL * header.link_count) * sizeof(nvlf_link_shared);
    auto shared = make_memory("nvlf-shared", region.shared_bytes_);
    if (!shared) return shared.error();
    region.shared_fd_ = std::move(*shared);
    if (const Errno e = seal(region.shared_fd_.get(), Seal::size); e.failed()) return e;

    region.device_off_ = header.device_off;
    region.switch_off_ = header.switch_off;
    region.link_off_ = header.link_off;
    region.endpoint_off_ = header.endpoint_off;
    region.device_count_ = header.device_count;
    region.switch_count_ = header.switch_count;
    region.link_count_ = header.link_count;
    region.endpoint_count_ = header.endpoint_count;
    return region;
}

} // namespace nvlf::daemon
