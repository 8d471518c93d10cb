// SPDX-License-Identifier: MIT OR GPL-2.0-only
// eq.hpp - event queues: completions of control operations (asynchronous fi_av_insert, fi_join_collective), and what the
// application writes itself. Slow path: a mutex and a deque.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "fabric.hpp"
#include "wait.hpp"

namespace nvlf::ofi {

inline constexpr std::size_t eq_limit = 65536;          // Events in a queue.
inline constexpr std::size_t eq_event_limit = 64 << 10; // Bytes of an event.

struct Eq {
    explicit Eq(Fabric& f) : fabric{f} {}

    fid_eq fid{};
    Fabric& fabric;
    std::atomic<int> refs{0}; // Objects bound to it.

    // -FI_ENOMEM, -FI_EAGAIN (eq_limit).
    [[nodiscard]] int push(std::uint32_t event, const void* data, std::size_t bytes) noexcept;
    [[nodiscard]] int push_error(const fi_eq_err_entry& error) noexcept;

    ssize_t read(std::uint32_t* ret_event, void* buf, std::size_t len, std::uint64_t flags) noexcept;
    ssize_t read_error(fi_eq_err_entry* entry, std::uint64_t flags) noexcept;
    [[nodiscard]] bool empty() noexcept;
    [[nodiscard]] int try_wait() noexcept; // fi_trywait: 0 or -FI_E*.
    [[nodiscard]] Waitable waitable() noexcept { return {wait, &endpoints, nullptr}; }

    // As Cq's: endpoints whose operations end here (fi_join_collective).
    [[nodiscard]] int add_endpoint(Endpoint& endpoint) noexcept { return endpoints.add(endpoint, wait); }
    void remove_endpoint(Endpoint& endpoint) noexcept { endpoints.remove(endpoint, wait); }

    WaitObject wait;
    EndpointList endpoints{true};
    bool writable = false; // Opened with FI_WRITE.

private:
    struct Event {
        std::uint32_t event;
        std::vector<std::byte> data;
    };
    std::mutex lock_;
    std::deque<Event> events_;
    std::deque<fi_eq_err_entry> errors_;
};

inline Eq& eq_of(fid_eq* fid) noexcept { return *reinterpret_cast<Eq*>(fid); }

int eq_open(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** ret_eq, void* context) noexcept;

} // namespace nvlf::ofi
