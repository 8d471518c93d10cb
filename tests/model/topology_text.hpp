// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Topology files for tests, put together from parts: types whose figures do not matter, and whatever the test is about.

#pragma once

#include "model/topology_loader.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace nvlf::test {

struct Figures {
    std::uint32_t nodes = 1;
    std::uint32_t device_ports = 2048;
    std::uint32_t switch_ports = 2048;
    bool forwards = false;
};

// Types `dev`, `sw` and `wire` (50 GB/s, 10 ns; ports may stay unwired), then `rest`.
inline std::string topology_text(const Figures& f, std::string_view rest) {
    const std::string tail = R"(, source = "assumed", ref = "a test" })";
    const auto figure = [&](std::string_view key, const std::string& value) {
        return std::string{key} + " = { value = " + value + tail + '\n';
    };
    std::string text = "schema = 1\nname = \"test\"\nnodes = " + std::to_string(f.nodes) + "\n[device.dev]\n";
    text += "kind = \"nvidia\"\nmodel = \"Test GPU\"\nforwards = " + std::string{f.forwards ? "true\n" : "false\n"};
    text += "spare_ports = " + std::to_string(f.device_ports) + '\n' + figure("ports", std::to_string(f.device_ports));
    text += figure("hbm", "\"1 GiB\"") + figure("hbm_rate", "\"1 TB/s\"") + figure("port_latency", "\"50 ns\"");
    text += "[switch.sw]\nmodel = \"Test switch\"\nspare_ports = " + std::to_string(f.switch_ports) + '\n';
    text += figure("ports", std::to_string(f.switch_ports)) + figure("latency", "\"70 ns\"");
    text += "[link.wire]\nprotocol = \"nvlink\"\ngeneration = 6\n" + figure("rate", "\"50 GB/s\"");
    text += figure("raw_rate", "\"53.125 GB/s\"") + figure("latency", "\"10 ns\"") + figure("max_payload", "\"256 B\"");
    text += figure("flit", "\"16 B\"") + figure("header_flits", "1") + figure("address_flits", "1");
    text += figure("byte_enable_flits", "1");
    return text + std::string{rest};
}

inline std::string devices(std::string_view prefix, std::uint64_t count, std::string_view more = {}) {
    return "[[devices]]\nprefix = \"" + std::string{prefix} + "\"\ntype = \"dev\"\ncount = " + std::to_string(count) +
           '\n' + std::string{more} + '\n';
}

inline std::string switches(std::string_view prefix, std::uint64_t count, std::string_view more = {}) {
    return "[[switches]]\nprefix = \"" + std::string{prefix} + "\"\ntype = \"sw\"\ncount = " + std::to_string(count) +
           '\n' + std::string{more} + '\n';
}

inline std::string wire(std::string_view rule, std::string_view from, std::string_view more) {
    return "[[wire]]\nrule = \"" + std::string{rule} + "\"\nfrom = \"" + std::string{from} + "\"\nlink = \"wire\"\n" +
           std::string{more} + '\n';
}

// All diagnostics, a line each; empty when the text was accepted.
inline std::string mistakes(const model::LoadResult& result) {
    std::string lines;
    if (const auto* found = std::get_if<std::vector<model::Diagnostic>>(&result))
        for (const model::Diagnostic& d : *found) lines += d.to_string() + '\n';
    return lines;
}

inline std::string mistakes(std::string_view text) { return mistakes(model::load_topology(text, "t.toml")); }

} // namespace nvlf::test
