// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What a topology file says, before its rules are carried out: groups of devices, groups of switches, wiring rules, each
// with the place in the file where it stands. topology_loader.cc reads TOML into this; wiring.cc expands it. Internal
// to the model.
//
// The split is what makes a hostile file harmless: everything countable is known here, and is bounded before a single
// device or link exists.

#pragma once

#include "model/diagnostic.hpp"
#include "model/topology.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace nvlf::model {

/// The type of a group or rule whose file entry was wrong and has been reported already.
inline constexpr std::uint32_t unknown_type = UINT32_MAX;

struct Group {
    bool of_switches = false;
    std::string prefix;
    std::uint32_t type = unknown_type;
    std::uint32_t first = 0; ///< Number in the name of the first member.
    std::uint32_t count = 0;
    std::uint32_t first_node = 0;  ///< Devices.
    std::uint32_t per_node = 0;    ///< Devices; at least 1.
    std::uint32_t first_plane = 0; ///< Switches.
    std::uint32_t planes = 1;      ///< Switches; at least 1.
    Position at;
};

/// `gpu3`, `gpu[0-7]`, `gpu[*]` or `gpu3:5` (port 5 of gpu3).
struct Selector {
    std::string text;
    std::string prefix;
    bool all = false;
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::optional<std::uint32_t> port;
    Position at;
};

enum class Wiring : std::uint8_t {
    each_to_each, ///< Every member of `from` with every member of `to`.
    blocks,       ///< `from` in equal runs, one for each member of `to`.
    pairs,        ///< The first with the first, the second with the second.
    ring,         ///< Each member of `from` with the next, the last with the first.
    torus,        ///< `from` laid out in `dims`, the first dimension running fastest.
};

struct Rule {
    Wiring wiring = Wiring::pairs;
    std::vector<Selector> from;
    std::vector<Selector> to;
    std::vector<std::uint32_t> links;  ///< Link types: one, or one a dimension.
    std::vector<std::uint32_t> widths; ///< One, or one a member of `to` (each_to_each) or a dimension (torus).
    std::vector<std::uint32_t> dims;   ///< torus
    Position at;
};

struct Plan {
    Topology topology; ///< Name, nodes and types; devices, switches and links still empty.
    std::vector<Position> device_type_at;
    std::vector<Position> switch_type_at;
    std::vector<Group> groups;
    std::vector<Rule> rules;
    /// Prefixes of groups that could not be read (empty: nor could the prefix): rules that name them are not reported
    /// again.
    std::unordered_set<std::string> broken_prefixes;
};

/// Carries out the rules and checks the result against the invariants of topology.hpp, reporting into `diagnostics`.
/// The topology in `plan` is complete exactly if `diagnostics` is still empty afterwards.
void carry_out(Plan& plan, Diagnostics& diagnostics);

} // namespace nvlf::model
