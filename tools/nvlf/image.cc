// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "image.hpp"

#include "failure.hpp"
#include "places.hpp"
#include "process.hpp"

#include <fmt/format.h>

#include <cstring>
#include <sstream>
#include <string_view>
#include <vector>

namespace nvlf::cli {

namespace {

// The accessors of the library ask for a checked region. This one comes from our own daemon; what is checked is that the
// two are of one version and the file is whole.
bool whole(const nvlf_state& state, std::size_t bytes) {
    const auto fits = [&](std::uint64_t offset, std::uint64_t count, std::uint64_t size) {
        return offset <= bytes && offset % 64 == 0 && count <= (bytes - offset) / size;
    };
    return state.magic == NVLF_STATE_MAGIC && state.abi >> 16 == NVLF_ABI_MAJOR && state.bytes == bytes &&
           fits(state.device_off, state.device_count, sizeof(nvlf_device)) &&
           fits(state.switch_off, state.switch_count, sizeof(nvlf_switch)) &&
           fits(state.link_off, state.link_count, sizeof(nvlf_link));
}

// In units of the header, whose alignment all of the region needs.
std::vector<nvlf_state> aligned(const std::string& bytes) {
    std::vector<nvlf_state> memory(bytes.size() / sizeof(nvlf_state) + 1);
    std::memcpy(memory.data(), bytes.data(), bytes.size());
    return memory;
}

} // namespace

Image read_image(const std::string& topology) {
    const Finished finished = run_and_read({daemon_path(), "--dump-state", topology});
    Image image;
    if (finished.exit_code == kUsage && !finished.err.empty()) {
        image.mistakes = finished.err;
        return image;
    }
    if (finished.exit_code != 0)
        throw Failure{kFailed, fmt::format("topology {}: nvlfd failed to read it (exit code {}): {}", topology,
                                           finished.exit_code, finished.err)};
    const auto memory = aligned(finished.out);
    if (finished.out.size() < sizeof(nvlf_state) || !whole(memory.front(), finished.out.size()))
        throw Failure{kFailed, fmt::format("nvlfd: {} is of another version than this program", daemon_path())};
    image.view = copy_of(memory.front());
    return image;
}

std::vector<Preset> presets() {
    const Finished finished = run_and_read({daemon_path(), "--list-topologies"});
    if (finished.exit_code != 0)
        throw Failure{kFailed, fmt::format("nvlfd: cannot list its topologies (exit code {}): {}", finished.exit_code,
                                           finished.err)};
    std::vector<Preset> list;
    std::istringstream lines{finished.out};
    for (std::string line; std::getline(lines, line);) {
        const auto tab = line.find('\t');
        list.push_back({line.substr(0, tab), tab == std::string::npos ? "" : line.substr(tab + 1)});
    }
    return list;
}

} // namespace nvlf::cli
