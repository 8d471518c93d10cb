// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A small state image that is right in every respect, for tests to make wrong in one.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "nvlf/state.h"

namespace nvlf::test {

struct StateImage {
    static constexpr std::uint32_t devices = 2, switches = 1, links = 2, endpoints = 8;
    std::vector<std::byte> bytes;

    StateImage() {
        nvlf_state head{};
        head.magic = NVLF_STATE_MAGIC;
        head.abi = NVLF_ABI_VERSION;
        head.serving = 1;
        head.nodes = 1;
        head.device_count = devices;
        head.switch_count = switches;
        head.link_count = links;
        head.endpoint_count = endpoints;
        head.figures = 10;
        head.assumed = 3;
        std::strcpy(head.topology, "test");
        std::size_t end = sizeof head;
        const auto place = [&](std::size_t size) {
            const std::size_t at = (end + 63) / 64 * 64;
            end = at + size;
            return at;
        };
        head.device_off = place(devices * sizeof(nvlf_device));
        head.switch_off = place(switches * sizeof(nvlf_switch));
        head.link_off = place(links * sizeof(nvlf_link));
        head.endpoint_off = place(endpoints * sizeof(nvlf_state_endpoint));
        head.bytes = end;
        bytes.resize(end);
        put(0, head);
        for (std::uint32_t i = 0; i < devices; ++i) {
            nvlf_device device{};
            std::strcpy(device.name, i == 0 ? "gpu0" : "trn0");
            device.index = i;
            device.state = NVLF_STATE_UP;
            put(head.device_off + i * sizeof device, device);
            nvlf_link link{};
            link.index = i;
            link.end[0] = {NVLF_OBJECT_DEVICE, i, 0, 0};
            link.end[1] = {NVLF_OBJECT_SWITCH, 0, i, 0};
            put(head.link_off + i * sizeof link, link);
        }
        nvlf_switch sw{};
        std::strcpy(sw.name, "sw0");
        put(head.switch_off, sw);
    }

    template <class T>
    void put(std::size_t at, const T& value) {
        std::memcpy(bytes.data() + at, &value, sizeof value);
    }

    [[nodiscard]] nvlf_state head() const {
        nvlf_state head;
        std::memcpy(&head, bytes.data(), sizeof head);
        return head;
    }
    // The image with its header changed.
    template <class Change>
    [[nodiscard]] StateImage with(Change change) const {
        StateImage copy = *this;
        nvlf_state head = this->head();
        change(head);
        copy.put(0, head);
        return copy;
    }
};

} // namespace nvlf::test
