// SPDX-License-Identifier: MIT OR GPL-2.0-only
// requests.hpp - what libfabric's many call forms come down to: three kinds of operations that are sent, as the engine
// takes them. A request is a value: it can be put aside and started later.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <variant>

#include "atomic_ops.hpp"
#include "buffers.hpp"

namespace nvlf::ofi {

struct TxContext;

struct RmaSegment {
    RmaSegment() noexcept {} // Not cleared: requests have room for several and use one.
    RmaSegment(std::uint64_t at, std::uint64_t length, std::uint64_t of) noexcept
        : address{at}, bytes{length}, key{of} {}

    std::uint64_t address;
    std::uint64_t bytes;
    std::uint64_t key;
};

// A message to send.
struct SendRequest {
    Buffers from{};
    fi_addr_t to = FI_ADDR_UNSPEC;
    std::uint64_t tag = 0;
    std::uint64_t cq_data = 0;
    std::uint64_t flags = 0; // FI_COMPLETION, FI_INJECT, FI_FENCE, FI_DELIVERY_COMPLETE, FI_REMOTE_CQ_DATA
    void* context = nullptr;
    TxContext* tx = nullptr;
    std::uint32_t target = 0; // The receive context of the peer's that it is for, by number.
    bool tagged = false;
    bool collective = false; // In the matching space of these; cq_data is the key, `context` the step.
    bool silent = false;     // fi_inject and its like: no completion.

    // As completions and counters know it.
    [[nodiscard]] std::uint64_t completes_as() const noexcept { return tagged ? FI_TAGGED : FI_MSG; }
    [[nodiscard]] bool writes() const noexcept { return false; }
};

// A message for the short way (express.hpp): in one buffer, and without what a SendRequest may ask for beside.
struct ExpressSend {
    const void* buffer;
    std::size_t bytes;
    fi_addr_t to;
    std::uint64_t tag;
    std::uint64_t flags;
    void* context;
    TxContext* tx;
    bool tagged;
    bool silent;
};

// A one-sided operation.
struct RmaRequest {
    Buffers local{};
    fi_addr_t to = FI_ADDR_UNSPEC;
    std::array<RmaSegment, iov_limit> segment{};
    std::size_t segments = 0;
    std::uint64_t cq_data = 0;
    std::uint64_t flags = 0;
    void* context = nullptr;
    TxContext* tx = nullptr;
    bool write = false;
    bool silent = false;

    [[nodiscard]] std::uint64_t completes_as() const noexcept { return FI_RMA | (write ? FI_WRITE : FI_READ); }
    [[nodiscard]] bool writes() const noexcept { return write; }
};

// An atomic operation, on as many elements as its segments hold. Buffers that it does not have are empty.
struct AtomicRequest {
    AtomicFunction function = nullptr;
    Buffers operand{};
    Buffers compare{};
    Buffers result{};
    fi_addr_t to = FI_ADDR_UNSPEC;
    std::array<RmaSegment, iov_limit> segment{};
    std::size_t segments = 0;
    std::uint64_t bytes = 0; // Of all segments.
    std::uint64_t flags = 0;
    void* context = nullptr;
    TxContext* tx = nullptr;
    AtomicClass kind = AtomicClass::base;
    std::uint8_t datatype = 0;
    std::uint8_t op = 0;
    bool silent = false;

    [[nodiscard]] std::uint64_t completes_as() const noexcept {
        return FI_ATOMIC | (kind == AtomicClass::base ? FI_WRITE : FI_READ);
    }
    [[nodiscard]] bool writes() const noexcept { return op != FI_ATOMIC_READ; }
};

// Buffers of an injected operation are the caller's again when it returns: one that starts later needs them copied. Throws
// bad_alloc; what it answers, the request points into.
[[nodiscard]] inline std::unique_ptr<std::byte[]> own_buffers(std::initializer_list<Buffers*> list) {
    std::size_t bytes = 0;
    for (const Buffers* buffers : list) bytes += buffers->total;
    auto copy = std::make_unique<std::byte[]>(bytes);
    std::byte* to = copy.get();
    for (Buffers* buffers : list) {
        if (buffers->count == 0) continue;
        const std::size_t part = buffers->total;
        buffers->gather(0, to, part);
        buffers->set(to, part);
        to += part;
    }
    return copy;
}
[[nodiscard]] inline std::unique_ptr<std::byte[]> own_buffers(SendRequest& r) { return own_buffers({&r.from}); }
[[nodiscard]] inline std::unique_ptr<std::byte[]> own_buffers(RmaRequest& r) { return own_buffers({&r.local}); }
[[nodiscard]] inline std::unique_ptr<std::byte[]> own_buffers(AtomicRequest& r) {
    return own_buffers({&r.operand, &r.compare});
}

// One that may not start yet (waiting.cc). Completions are those of its context, as if it had been posted late.
struct Waiting {
    std::variant<SendRequest, RmaRequest, AtomicRequest> request;
    std::unique_ptr<std::byte[]> copy; // Of buffers that the caller may use again.
};

} // namespace nvlf::ofi
