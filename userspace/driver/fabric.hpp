// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fabric.hpp - an open fabric: the carrier's connection and what was learned through it when it was opened.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "base/mapping.hpp"
#include "base/result.hpp"
#include "driver/address_space.hpp"
#include "driver/api.hpp"
#include "driver/carrier.hpp"

struct nvlf_fabric {
    std::unique_ptr<nvlf::Carrier> carrier;
    nvlf_ioc_info info{};         // As of nvlf_open; nvlf_get_info asks anew.
    std::uint64_t address_id = 0; // nvlf_addr::fabric of this fabric's endpoints.
    nvlf::Mapping state;
    nvlf::Mapping shared;
    std::size_t shared_links = 0;
    std::shared_ptr<nvlf::Arena> arena;
    bool membarrier = false;               // This process takes part in GLOBAL_EXPEDITED membarriers; see wait.cc.
    std::atomic<std::uint32_t> objects{0}; // Memory and endpoints (which count their channels): see nvlf_close.

    mutable std::mutex events_lock; // Over the two below.
    nvlf::Fd events;
    std::vector<nvlf_ep*> endpoints; // Each waits for `events` too.

    [[nodiscard]] const nvlf_state& region() const noexcept { return *static_cast<const nvlf_state*>(state.data()); }
};

namespace nvlf {

// An object's hold on its fabric: nvlf_close answers EBUSY as long as there is one.
class FabricUse {
public:
    explicit FabricUse(nvlf_fabric& fabric) noexcept : fabric_{&fabric} {
        fabric.objects.fetch_add(1, std::memory_order_relaxed);
    }
    FabricUse(const FabricUse&) = delete;
    FabricUse& operator=(const FabricUse&) = delete;
    // release: the object's last use of the fabric comes before the close that this permits.
    ~FabricUse() { fabric_->objects.fetch_sub(1, std::memory_order_release); }

    nvlf_fabric* operator->() const noexcept { return fabric_; }
    nvlf_fabric& operator*() const noexcept { return *fabric_; }
    [[nodiscard]] nvlf_fabric* get() const noexcept { return fabric_; }

private:
    nvlf_fabric* fabric_;
};

// What the carrier said is impossible: the connection is not to be believed any more.
[[nodiscard]] inline int nonsense(nvlf_fabric& fabric) noexcept {
    fabric.carrier->condemn();
    return -EPROTO;
}

// Takes over a connected carrier: GET_INFO, GET_STATE, the arena. `why` gets words on failure.
[[nodiscard]] Result<std::unique_ptr<nvlf_fabric>> make_fabric(std::unique_ptr<Carrier> carrier, std::string& why);

// GET_INFO with our version of the contract; checks what is fixed.
[[nodiscard]] Errno ask_info(Carrier& carrier, nvlf_ioc_info& info, std::string& why);

// GET_STATE: both regions, mapped and checked. `shared` may be nullptr for those who only look.
[[nodiscard]] Errno map_state(Carrier& carrier, const nvlf_ioc_info& info, Mapping& state, Mapping* shared,
                              std::string& why);

// Whether what arrived as a descriptor of this carrier may be mapped: memfds must not be able to shrink under us.
[[nodiscard]] bool mappable(const nvlf_ioc_info& info, int fd) noexcept;

// The complete address of an endpoint of this fabric, as only the carrier makes them.
[[nodiscard]] bool complete_address(const nvlf_fabric& fabric, const ::nvlf_addr& address) noexcept;

} // namespace nvlf
