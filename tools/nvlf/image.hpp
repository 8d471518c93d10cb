// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What a topology would be like, without bringing it up: nvlfd reads the file or preset and writes the state image of
// nvlf/state.h, which is then viewed like a fabric that runs. So what a topology file means is known in one place.
#pragma once

#include "view.hpp"

#include <string>
#include <vector>

namespace nvlf::cli {

struct Image {
    View view{};
    std::string mistakes{}; // Lines as nvlfd said them; empty when there are none.
};

// Failure where nvlfd is not found or does not work; a wrong topology is an answer.
[[nodiscard]] Image read_image(const std::string& topology);

// Presets, as nvlfd knows them.
struct Preset {
    std::string name;
    std::string description;
};
[[nodiscard]] std::vector<Preset> presets();

} // namespace nvlf::cli
