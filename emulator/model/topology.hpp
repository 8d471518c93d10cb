// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A fabric as the model sees it: devices and switches joined by links, and the hardware figures behind them.
//
// The one idea: figures live in a few *types* (device, switch, link), each figure with its standing and its reference;
// the thousands of devices, switches and links only name their type. So a rack of 144 chips costs a few tens of
// kilobytes, and every report can say on how many assumptions it rests.
//
// Invariants of a Topology that load_topology() returned, on which everybody may rely:
//  - every index in it is in range, every name is unique among devices and switches and at most max_name_bytes long;
//  - no port serves two links, and only as many ports are unwired as the file said could be;
//  - every device reaches every other over at most max_hops links;
//  - the counts are within the limits below.
// A Topology is a value: copy it, move it, compare the parts. It never changes once loaded; states of links belong to
// whoever runs the fabric.

#pragma once

#include "model/quantity.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nvlf::model {

// Limits, each checked by the loader where the thing grows. Those that the control contract also knows are not above
// its figures; docs/TOPOLOGY.md lists them for users.
inline constexpr std::uint32_t max_devices = 4096;
inline constexpr std::uint32_t max_switches = 1024;
inline constexpr std::uint32_t max_links = 65536; ///< Two-way links; twice as many directed ones.
inline constexpr std::uint32_t max_nodes = 4096;
inline constexpr std::uint32_t max_ports = 2048; ///< Of one device or switch.
inline constexpr std::uint32_t max_hops = 16;    ///< Directed links on a shortest path.
inline constexpr std::uint32_t max_types = 64;   ///< Of each: device, switch, link.
inline constexpr std::uint32_t max_groups = 256; ///< [[devices]] and [[switches]] together.
inline constexpr std::uint32_t max_rules = 1024; ///< [[wire]]
inline constexpr std::size_t max_name_bytes = 31;
inline constexpr std::size_t max_model_bytes = 47;
inline constexpr std::size_t max_text_bytes = 512; ///< Descriptions and references.

/// How well a figure is known.
enum class Standing : std::uint8_t {
    published, ///< A vendor's document or source code says so.
    measured,  ///< Somebody measured it and published the measurement.
    derived,   ///< Arithmetic from published or measured facts; the reference holds the formula.
    assumed,   ///< Not publicly known; the reference says why this value.
};

[[nodiscard]] std::string_view to_string(Standing standing) noexcept;

/// A hardware figure: never a bare number.
template <class T>
struct Sourced {
    T value{};
    Standing standing = Standing::assumed;
    std::string reference;
};

enum class DeviceKind : std::uint8_t { nvidia, trainium };

enum class Protocol : std::uint8_t { nvlink, neuronlink, pcie, c2c, efa };

[[nodiscard]] std::string_view to_string(DeviceKind kind) noexcept;
[[nodiscard]] std::string_view to_string(Protocol protocol) noexcept;

/// What a DMA engine adds; zero engines means that the device reaches remote memory by loads and stores.
struct DmaEngines {
    Sourced<std::uint32_t> count;
    Sourced<Picoseconds> startup; ///< From the semaphore to the first byte.
    Sourced<BytesPerSecond> rate; ///< Peak of one engine.
};

struct DeviceType {
    std::string key; ///< Its name in the file: [device.KEY].
    DeviceKind kind = DeviceKind::nvidia;
    std::string model;
    Sourced<std::uint32_t> ports;
    Sourced<Bytes> hbm;
    Sourced<BytesPerSecond> hbm_rate;
    Sourced<Picoseconds> port_latency; ///< Between the device's memory system and its port; paid at either end.
    DmaEngines dma;
    bool forwards = false; ///< Passes on traffic between its ports (torus); else traffic only begins and ends here.
    std::uint32_t spare_ports = 0; ///< Ports that may stay unwired.
};

struct SwitchType {
    std::string key;
    std::string model;
    Sourced<std::uint32_t> ports;
    Sourced<Picoseconds> latency; ///< Port to port, cut through.
    std::uint32_t spare_ports = 0;
};

/// Figures are for one lane of a link (one NVLink, one x8 port...) and one direction.
struct LinkType {
    std::string key;
    Protocol protocol = Protocol::nvlink;
    std::uint32_t generation = 0;     ///< 6 of NVLink 6.
    Sourced<BytesPerSecond> rate;     ///< Payload rate: what headline figures count.
    Sourced<BytesPerSecond> raw_rate; ///< Line rate.
    Sourced<Picoseconds> latency;     ///< Flight time, port to port.
    Sourced<Bytes> max_payload;       ///< Of one packet.
    Sourced<Bytes> flit;
    Sourced<std::uint32_t> header_flits;      ///< In every packet.
    Sourced<std::uint32_t> address_flits;     ///< Address extension, likewise.
    Sourced<std::uint32_t> byte_enable_flits; ///< In packets that write part of a flit only.
};

struct Device {
    std::string name;
    std::uint32_t type = 0; ///< Index into Topology::device_types.
    std::uint32_t node = 0;
};

struct Switch {
    std::string name;
    std::uint32_t type = 0;
    std::uint32_t plane = 0;
};

/// A device or a switch as one number: devices first, in their order, then switches.
using Vertex = std::uint32_t;

struct LinkEnd {
    Vertex vertex = 0;
    std::uint32_t port = 0; ///< The first of the link's `width` neighbouring ports.
};

/// A full-duplex link of `width` bonded lanes, which take `width` ports at either end.
struct Link {
    LinkEnd end[2];
    std::uint16_t type = 0;
    std::uint16_t width = 1;
};

/// A link in one direction: 2 * link + direction; direction 0 goes from end[0] to end[1].
using DirectedLink = std::uint32_t;

/// How many figures a topology rests on, by standing.
struct FigureCounts {
    std::uint32_t published = 0;
    std::uint32_t measured = 0;
    std::uint32_t derived = 0;
    std::uint32_t assumed = 0;

    [[nodiscard]] std::uint32_t total() const noexcept { return published + measured + derived + assumed; }
};

struct Topology {
    std::string name;
    std::string description;
    std::uint32_t node_count = 0;
    std::vector<DeviceType> device_types;
    std::vector<SwitchType> switch_types;
    std::vector<LinkType> link_types;
    std::vector<Device> devices;
    std::vector<Switch> switches;
    std::vector<Link> links;

    [[nodiscard]] Vertex vertex_count() const noexcept { return static_cast<Vertex>(devices.size() + switches.size()); }
    [[nodiscard]] bool is_device(Vertex v) const noexcept { return v < devices.size(); }
    [[nodiscard]] Vertex switch_vertex(std::uint32_t index) const noexcept {
        return static_cast<Vertex>(devices.size()) + index;
    }
    /// `v` must be a switch.
    [[nodiscard]] std::uint32_t switch_index(Vertex v) const noexcept {
        return v - static_cast<Vertex>(devices.size());
    }
    [[nodiscard]] const std::string& name_of(Vertex v) const {
        return is_device(v) ? devices[v].name : switches[switch_index(v)].name;
    }
    /// Whether traffic between two others may pass through `v`.
    [[nodiscard]] bool forwards(Vertex v) const { return !is_device(v) || device_types[devices[v].type].forwards; }
    [[nodiscard]] const DeviceType& type_of(const Device& device) const { return device_types[device.type]; }
    [[nodiscard]] const SwitchType& type_of(const Switch& sw) const { return switch_types[sw.type]; }
    [[nodiscard]] const LinkType& type_of(const Link& link) const { return link_types[link.type]; }

    [[nodiscard]] const Link& link_of(DirectedLink d) const { return links[d / 2]; }
    [[nodiscard]] LinkEnd source(DirectedLink d) const { return links[d / 2].end[d % 2]; }
    [[nodiscard]] LinkEnd target(DirectedLink d) const { return links[d / 2].end[1 - d % 2]; }

    /// Payload bytes a second of all lanes of the link, one direction.
    [[nodiscard]] BytesPerSecond rate_of(const Link& link) const { return type_of(link).rate.value * link.width; }
    /// The same, summed over the links of a device or switch. Walks all links.
    [[nodiscard]] BytesPerSecond rate_of_vertex(Vertex v) const;

    /// Counts each figure of each type once, however many devices share it.
    [[nodiscard]] FigureCounts figures() const;
};

/// Index of the device of that name, or devices.size(). Linear.
[[nodiscard]] std::size_t find_device(const Topology& topology, std::string_view name) noexcept;

} // namespace nvlf::model
