// SPDX-License-Identifier: MIT OR GPL-2.0-only
// state_region.hpp - the two regions of nvlf/state.h, and the same image as a file.
//
// The state region is nvlfd's own picture of the fabric, too: descriptors live there and nowhere else, GET_DEVICE copies
// them out. nvlfd maps it writable first and seals it against future writable mappings then, which no holder of a
// descriptor can get round; a descriptor opened read-only would do for the honest only.
//
// The endpoint table has room for every endpoint that any limit allows, because readers take its size once; the region is
// sparse, and a table that nobody uses costs no page.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "base/mapping.hpp"
#include "daemon/memfd.hpp"
#include "daemon/placement.hpp"
#include "model/topology.hpp"
#include "nvlf/state.h"

namespace nvlf::daemon {

using Uuid = std::array<std::uint8_t, 16>;

// A word that readers in other processes load while we change it.
template <class T>
[[nodiscard]] T live_load(T& word) noexcept {
    return std::atomic_ref<T>{word}.load(std::memory_order_acquire);
}
// release: whoever sees the word sees what was written before it.
template <class T>
void live_store(T& word, T value) noexcept {
    std::atomic_ref<T>{word}.store(value, std::memory_order_release);
}
template <class T>
void live_add(T& word, T value) noexcept {
    std::atomic_ref<T>{word}.fetch_add(value, std::memory_order_acq_rel);
}

// The image without an endpoint table and with `serving` 0, as libnvlf reads it where no fabric runs.
[[nodiscard]] std::vector<std::byte> state_file_image(const model::Topology& topology);

class StateRegion {
public:
    [[nodiscard]] static Result<StateRegion> create(const model::Topology& topology, const Uuid& uuid,
                                                    const Placement& placement);

    [[nodiscard]] nvlf_state& header() const noexcept { return at<nvlf_state>(0, 1)[0]; }
    [[nodiscard]] std::span<nvlf_device> devices() const noexcept {
        return at<nvlf_device>(device_off_, device_count_);
    }
    [[nodiscard]] std::span<nvlf_switch> switches() const noexcept {
        return at<nvlf_switch>(switch_off_, switch_count_);
    }
    [[nodiscard]] std::span<nvlf_link> links() const noexcept { return at<nvlf_link>(link_off_, link_count_); }
    [[nodiscard]] std::span<nvlf_state_endpoint> endpoints() const noexcept {
        return at<nvlf_state_endpoint>(endpoint_off_, endpoint_count_);
    }

    [[nodiscard]] int state_fd() const noexcept { return state_fd_.get(); }
    [[nodiscard]] int shared_fd() const noexcept { return shared_fd_.get(); }
    [[nodiscard]] std::uint64_t state_bytes() const noexcept { return map_.size(); }
    [[nodiscard]] std::uint64_t shared_bytes() const noexcept { return shared_bytes_; }

private:
    StateRegion() = default;
    // The one place where bytes of the mapping become objects.
    template <class T>
    [[nodiscard]] std::span<T> at(std::uint64_t offset, std::uint32_t count) const noexcept {
        return {reinterpret_cast<T*>(static_cast<std::byte*>(map_.data()) + offset), count};
    }

    Fd state_fd_;
    Fd shared_fd_;
    Mapping map_;
    std::uint64_t shared_bytes_ = 0;
    // Copied out once: what is in the region is for others to read.
    std::uint64_t device_off_ = 0, switch_off_ = 0, link_off_ = 0, endpoint_off_ = 0;
    std::uint32_t device_count_ = 0, switch_count_ = 0, link_count_ = 0, endpoint_count_ = 0;
};

} // namespace nvlf::daemon
