// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Any bytes are a topology file to somebody. The loader must answer with a topology or with at least one diagnostic, and a
// topology that it lets through must keep the promises of model/topology.hpp: every device reaches every other.
#include "model/routing.hpp"
#include "model/topology_loader.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <variant>
#include <vector>

using namespace nvlf::model;

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

void check_diagnostics(const std::vector<Diagnostic>& found) {
    require(!found.empty() && found.size() <= max_diagnostics + 1);
    for (const Diagnostic& d : found) require(d.line > 0 && d.column > 0 && !d.what.empty() && !d.fix.empty());
}

void check_topology(const Topology& t) {
    require(!t.devices.empty() && t.devices.size() <= max_devices);
    require(t.switches.size() <= max_switches && t.links.size() <= max_links);
    for (const Link& link : t.links) {
        require(link.width > 0 && t.rate_of(link) > 0);
        for (const LinkEnd& end : link.end) require(end.vertex < t.vertex_count());
    }
    const Router router{t};
    const auto last = static_cast<std::uint32_t>(t.devices.size() - 1);
    for (const std::uint32_t to : {last / 2, last}) {
        const PairSummary pair = router.summary(0, to);
        require(to == 0 ? pair.paths == 0 : pair.paths > 0 && pair.hops <= max_hops && pair.rate > 0);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text{size == 0 ? "" : reinterpret_cast<const char*>(data), size};
    const LoadResult result = load_topology(text, "fuzz.toml");
    if (const auto* topology = std::get_if<Topology>(&result)) {
        check_topology(*topology);
    } else {
        check_diagnostics(std::get<std::vector<Diagnostic>>(result));
    }
    return 0;
}
