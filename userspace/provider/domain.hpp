// SPDX-License-Identifier: MIT OR GPL-2.0-only
// domain.hpp - fi_domain: this process acting for one device of a fabric.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "endpoint_api.hpp"
#include "fabric.hpp"
#include "mr.hpp"
#include "nvlf/nvlf.h"
#include "work_queue.hpp"

namespace nvlf::ofi {

struct Cntr;

// Objects of one domain.
inline constexpr int cqs_per_domain = 65536;
inline constexpr int cntrs_per_domain = 65536;

struct Eq;

struct Domain {
    // `one_thread`: one thread at a time is in the domain's objects.
    Domain(Fabric& f, nvlf_fabric* open, std::uint32_t dev, bool one_thread, std::uint64_t mode,
           std::uint64_t capabilities) noexcept
        : fabric{f},
          nvlf{open},
          device{dev},
          serialised{one_thread},
          mr_mode{mode},
          caps{capabilities},
          mrs{locks(), (mode & FI_MR_VIRT_ADDR) != 0} {}
    ~Domain();

    fid_domain fid{};
    Fabric& fabric;
    nvlf_fabric* const nvlf; // Owned: closed with the domain.
    const std::uint32_t device;
    const bool serialised;
    const std::uint64_t mr_mode;   // FI_MR_* bits, never the old enumeration.
    const std::uint64_t caps;      // FI_* capabilities for which fi_domain was called.
    std::uint32_t addr_format = 0; // Of its vectors and endpoints: addr_nvlf or FI_SOCKADDR_IN.
    std::uint64_t fabric_id = 0;   // nvlf_addr.fabric of this fabric.
    std::atomic<int> refs{0};      // Objects opened on it.
    std::atomic<int> cqs{0};
    std::atomic<int> cntrs{0};
    Eq* eq = nullptr;         // fi_domain_bind,
    bool reports_mrs = false; // with FI_REG_MR.
    MrTable mrs;
    std::atomic<bool> counted_mrs{false}; // Ever was a counter bound to one.
    WorkQueue work{locks()};
    std::unique_ptr<ProgressThread> thread; // Only with FI_PROGRESS_AUTO.

    [[nodiscard]] bool locks() const noexcept { return !serialised; }

    // Endpoints that are told of registrations (endpoint_mr_changed). A new one hears at once of those that exist. False:
    // no memory, and nothing happened.
    [[nodiscard]] bool add_endpoint(Endpoint& endpoint) noexcept;
    void remove_endpoint(Endpoint& endpoint) noexcept;

    // Has whoever reads this counter drive all endpoints, now and in future, because what it counts may come about through
    // any of them: it is bound to none, but to a registration. 0 or -FI_E*.
    [[nodiscard]] int drive_with(Cntr& cntr) noexcept;
    void drive_no_more_with(Cntr& cntr) noexcept; // It closes.

    // Puts a registration into the table and tells the endpoints; under its own key, or under a new one.
    [[nodiscard]] Errno add_mr(Mr& mr, bool new_key) noexcept;
    // Makes one found that was not yet (fi_mr_enable).
    void enable_mr(Mr& mr) noexcept;
    // Has the endpoints look anew at what it lies in (fi_mr_refresh).
    void refresh_mr(Mr& mr) noexcept;
    // f(), which binds something to it; the endpoints hear of the change. Throws what f throws, and nothing happened.
    template <class F>
    void bind_mr(Mr& mr, F&& f) {
        const std::lock_guard guard{endpoints_lock_};
        mrs.change(f);
        relist(mr);
    }
    // Takes it out and tells the endpoints. Each of them takes its lock for that, so that none still uses it afterwards.
    void remove_mr(Mr& mr) noexcept;

private:
    void relist(Mr& mr) noexcept;

    std::mutex endpoints_lock_; // Not a spin lock: endpoints ask the carrier while it is held.
    std::vector<Endpoint*> endpoints_;
    std::vector<Cntr*> drivers_; // See drive_with.
};

inline Domain& domain_of(fid_domain* fid) noexcept { return *reinterpret_cast<Domain*>(fid); }

int domain_open(fid_fabric* fabric, fi_info* info, fid_domain** ret_domain, void* context) noexcept;

} // namespace nvlf::ofi
