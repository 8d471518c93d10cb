// SPDX-License-Identifier: MIT OR GPL-2.0-only
// carrier_socket.hpp - nvlfd as the carrier: the contract's structs in messages over a SOCK_SEQPACKET socket.
//
// One request is under way at a time, under a lock: control is rare, and an answer that is not the one expected is then
// plainly a fault. Whatever breaks the contract ends the connection, because nothing that follows could be trusted to
// belong to what was asked.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

#include "base/message.hpp"
#include "driver/carrier.hpp"
#include "driver/fork_guard.hpp"

namespace nvlf {

class SocketCarrier final : public Carrier {
public:
    // How long nvlfd may take to answer. It answers in microseconds; ten seconds is a machine in deep trouble.
    static constexpr std::chrono::milliseconds patience{10'000};

    explicit SocketCarrier(Fd socket, std::chrono::milliseconds bound = patience) noexcept
        : socket_{std::move(socket)}, bound_{bound} {}

    [[nodiscard]] Errno transact(std::uint32_t cmd, std::span<std::byte> body) noexcept override;
    [[nodiscard]] int fd() const noexcept override { return socket_.fd(); }
    void condemn() noexcept override;
    [[nodiscard]] bool usable() const noexcept override { return !dead_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool in_forked_child() const noexcept override { return socket_.in_child(); }

private:
    using Clock = std::chrono::steady_clock;
    [[nodiscard]] Errno round_trip(std::span<const std::byte> request, std::span<const int> fds, Message& reply);
    [[nodiscard]] Errno await(short events, Clock::time_point end) const noexcept;
    [[nodiscard]] Errno fatal(Errno error) noexcept;

    ForkGuard socket_;
    std::chrono::milliseconds bound_;
    std::mutex lock_; // Over a whole round trip.
    std::uint32_t tag_ = 0;
    std::atomic<bool> dead_{false};
};

} // namespace nvlf
