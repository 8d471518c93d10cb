// SPDX-License-Identifier: MIT OR GPL-2.0-only
// work.hpp - a piece of work: the request that is started when its counter allows, and who hears of its end.
//
// A triggered operation is an ordinary one, posted late: once it has started, nothing is left of the work. The end of
// deferred work is told to a counter of its own and, only if FI_COMPLETION asks for that, to the endpoint's queue and
// counters. So it goes out on an account of its own (a TxContext with nothing bound to it), or is received with a flag that
// no application can set; and the work stays until it has ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <variant>

#include "requests.hpp"
#include "rx_context.hpp"
#include "tx_context.hpp"
#include "work_queue.hpp"

namespace nvlf::ofi {

// Of a posted receive: its context is the deferred work that it is of.
inline constexpr std::uint64_t flag_deferred = std::uint64_t{1} << 63;

struct CntrRequest {
    Cntr* cntr = nullptr;
    std::uint64_t value = 0;
    bool set = false; // Else added.
};

struct Work : WorkItem {
    enum class State : std::uint8_t { waiting, due, starting, started };
    using Request = std::variant<CntrRequest, SendRequest, RmaRequest, AtomicRequest, ReceiveRequest>;

    explicit Work(WorkQueue& q) noexcept : queue{q} {}
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    WorkQueue& queue;
    State state = State::waiting;
    Request request;
    std::unique_ptr<std::byte[]> copy; // Of buffers that the caller may use again.
    Endpoint* endpoint = nullptr;      // Whose it is; nullptr: a counter's, or a shared receive context's.
    RxContext* rx = nullptr;           // On which it receives.

    // Deferred work.
    const ::fi_deferred_work* name = nullptr; // By which the application knows it; nullptr: a triggered operation.
    Cntr* completion = nullptr;
    TxContext account;       // On which it is sent,
    TxContext* tx = nullptr; // and that of the endpoint.
    void* context = nullptr; // The application's, of a receive.

    [[nodiscard]] bool deferred() const noexcept { return name != nullptr; }

    // Posts it. -FI_EAGAIN: not now; anything else is the end of a triggered operation, and 0 may be that of deferred work
    // (on another thread): it must not be touched any more.
    [[nodiscard]] ssize_t start() noexcept;
    // It could not be started.
    void fail(int error) noexcept;

    // Deferred work has ended, in error (FI_E*) or not (0), and is gone. `kind`: as TxContext::complete has it.
    void sent(std::uint64_t kind, void* its_context, int error) noexcept;
    // Answers whether the endpoint's queue and counter are to hear of it as well.
    [[nodiscard]] bool received(int error) noexcept;

private:
    [[nodiscard]] bool heard_by_endpoint(int error) const noexcept;
    void end(int error) noexcept;
};

} // namespace nvlf::ofi
