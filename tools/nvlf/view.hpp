// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A fabric as the readers (topo, ls, status) see it: a copy of its descriptors, taken from the state region without
// becoming a client. Where none runs it is the image of the topology that would start.
#pragma once

#include "commands.hpp"

#include <nvlf/nvlf.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nvlf::cli {

struct View {
    bool running = false;
    std::string fabric;   // Its name, running or not.
    std::string topology; // Name of the topology, as its file says.
    std::string uuid;     // Empty when not running.
    std::uint32_t nodes = 0;
    std::uint32_t assumed = 0; // Hardware figures that nobody has published or measured ...
    std::uint32_t figures = 0; // ... of so many.
    std::vector<nvlf_device> devices;
    std::vector<nvlf_switch> switches;
    std::vector<nvlf_link> links;
};

// The running fabric; or the image of `target.topology`, or of the default topology. A topology that the user named
// explicitly is what he gets, whatever runs.
[[nodiscard]] View view(const Target& target);

// Of a checked region.
[[nodiscard]] View copy_of(const nvlf_state& state);

// "gpu0", "sw3"; "?" for an end that names nothing.
[[nodiscard]] std::string end_name(const View& view, const nvlf_link_end& end);

// Indices of the devices that `selectors` name, in the order of the fabric: "gpu0", "3", "gpu[0-3]", "gpu[*]". All of
// them when there are no selectors. Failure (usage) for a selector that names none.
[[nodiscard]] std::vector<std::uint32_t> select_devices(const View& view, const std::vector<std::string>& selectors);

// A client of the running fabric, for what the state region does not tell. Never starts one.
struct CloseFabric {
    void operator()(nvlf_fabric* fabric) const noexcept { ::nvlf_close(fabric); }
};
using Client = std::unique_ptr<nvlf_fabric, CloseFabric>;
[[nodiscard]] Client connect(const Target& target);     // Failure when none runs.
[[nodiscard]] Client try_connect(const Target& target); // Null when none runs; Failure for everything else.
[[nodiscard]] nvlf_ioc_info info_of(nvlf_fabric& fabric);

// The name that the user means: `target.fabric`, NVLF_FABRIC, "default".
[[nodiscard]] std::string fabric_name(const Target& target);

} // namespace nvlf::cli
