// SPDX-License-Identifier: MIT OR GPL-2.0-only
// topology_source.hpp - from what the user named to a topology: a preset, or a file. The model does no I/O; this does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/topology.hpp"

namespace nvlf::daemon {

// A preset's name, or a path (which has a slash or a dot in it; a preset's name has neither). On failure nullopt, and in
// `ret_mistakes` one line or more for people.
[[nodiscard]] std::optional<model::Topology> find_topology(const std::string& name_or_path,
                                                           std::vector<std::string>& ret_mistakes);

} // namespace nvlf::daemon
