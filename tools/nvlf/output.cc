// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "output.hpp"

#include <fmt/format.h>

#include <array>

namespace nvlf::cli {

namespace {

// Three significant digits, without zeros that say nothing: "1.8", "450", "26.6".
std::string three_digits(double value) {
    std::string text = value < 9.995   ? fmt::format("{:.2f}", value)
                       : value < 99.95 ? fmt::format("{:.1f}", value)
                                       : fmt::format("{:.0f}", value);
    if (text.find('.') != std::string::npos) {
        while (text.back() == '0') text.pop_back();
        if (text.back() == '.') text.pop_back();
    }
    return text;
}

template <std::size_t N>
std::string scaled(std::uint64_t value, double step, const std::array<const char*, N>& units) {
    auto number = static_cast<double>(value);
    std::size_t unit = 0;
    while (unit + 1 < N && number >= step) {
        number /= step;
        ++unit;
    }
    return three_digits(number) + ' ' + units[unit];
}

std::string unknown(std::uint32_t value) { return fmt::format("unknown ({})", value); }

} // namespace

std::string bytes_text(std::uint64_t bytes) {
    return scaled(bytes, 1024, std::array{"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string rate_text(std::uint64_t bytes_per_second) {
    return scaled(bytes_per_second, 1000, std::array{"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"});
}

std::string time_text(std::uint64_t picoseconds) {
    return scaled(picoseconds, 1000, std::array{"ps", "ns", "us", "ms", "s"});
}

std::string duration_text(std::uint64_t seconds) {
    const std::uint64_t minutes = seconds / 60;
    const std::uint64_t hours = minutes / 60;
    if (hours >= 24) return fmt::format("{} d {} h", hours / 24, hours % 24);
    if (hours > 0) return fmt::format("{} h {} min", hours, minutes % 60);
    if (minutes > 0) return fmt::format("{} min {} s", minutes, seconds % 60);
    return fmt::format("{} s", seconds);
}

std::string counted(std::uint64_t count, std::string_view noun, std::string_view plural) {
    if (count == 1) return fmt::format("1 {}", noun);
    return plural.empty() ? fmt::format("{} {}s", count, noun) : fmt::format("{} {}", count, plural);
}

std::string kind_word(std::uint32_t kind) {
    switch (kind) {
    case NVLF_DEVICE_NVIDIA: return "nvidia";
    case NVLF_DEVICE_TRAINIUM: return "trainium";
    default: return unknown(kind);
    }
}

std::string state_word(std::uint32_t state) {
    switch (state) {
    case NVLF_STATE_UP: return "up";
    case NVLF_STATE_DEGRADED: return "degraded";
    case NVLF_STATE_DOWN: return "down";
    default: return unknown(state);
    }
}

std::string protocol_word(std::uint32_t protocol) {
    switch (protocol) {
    case NVLF_LINK_NVLINK: return "nvlink";
    case NVLF_LINK_NEURONLINK: return "neuronlink";
    case NVLF_LINK_PCIE: return "pcie";
    case NVLF_LINK_C2C: return "c2c";
    case NVLF_LINK_EFA: return "efa";
    default: return unknown(protocol);
    }
}

std::string clock_word(std::uint32_t clock) {
    switch (clock) {
    case NVLF_CLOCK_OFF: return "off";
    case NVLF_CLOCK_REALTIME: return "realtime";
    case NVLF_CLOCK_VIRTUAL: return "virtual";
    default: return unknown(clock);
    }
}

Table::Cell state_cell(std::uint32_t state) {
    const Style style = state == NVLF_STATE_UP         ? Style::good
                        : state == NVLF_STATE_DEGRADED ? Style::warning
                                                       : Style::bad;
    return {state_word(state), style};
}

std::string uuid_text(const __u8 (&uuid)[16]) {
    std::string text;
    for (std::size_t i = 0; i < sizeof uuid; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += fmt::format("{:02x}", uuid[i]);
    }
    return text;
}

bool uuid_given(const __u8 (&uuid)[16]) {
    for (const __u8 byte : uuid)
        if (byte != 0) return true;
    return false;
}

Json to_json(const nvlf_device& device) {
    Json json;
    json["index"] = device.index;
    json["name"] = text_of(device.name);
    json["kind"] = kind_word(device.kind);
    json["model"] = text_of(device.model);
    json["node"] = device.node;
    json["numa_node"] = device.numa_node == UINT32_MAX ? Json(nullptr) : Json(device.numa_node);
    json["state"] = state_word(device.state);
    json["ports"] = device.ports;
    json["hbm_bytes"] = device.hbm_bytes;
    json["hbm_used_bytes"] = device.hbm_used;
    json["rate_bytes_per_s"] = device.rate;
    json["clients"] = device.clients;
    return json;
}

Json to_json(const nvlf_switch& sw) {
    Json json;
    json["index"] = sw.index;
    json["name"] = text_of(sw.name);
    json["model"] = text_of(sw.model);
    json["plane"] = sw.plane;
    json["ports"] = sw.ports;
    json["state"] = state_word(sw.state);
    json["latency_ps"] = sw.latency_ps;
    return json;
}

void print_json(const Json& json) {
    // replace: a name that is no UTF-8 must not cost the reader the rest.
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
}

} // namespace nvlf::cli
