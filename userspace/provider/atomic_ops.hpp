// SPDX-License-Identifier: MIT OR GPL-2.0-only
// atomic_ops.hpp - what fi_atomic(3) can do to one element: operations by datatypes, each with the processor's own atomics.
//
// Whoever touches the memory applies them: the initiator where it has the target's memory mapped, the target's progress
// elsewhere. Both use instructions of the processor, so an element is atomic towards every load, store and std::atomic of
// the same size, in any process; there is no lock that others would have to know.
//
// That decides what is offered. Up to 8 bytes everything is. Types of 16 bytes (128-bit integers, complex doubles, on
// x86-64 long doubles) need cmpxchg16b, and AVX, which is what makes an aligned load of 16 bytes atomic: without that a
// read would have to write. A complex long double has 32 bytes and no instruction; it would be atomic among our own
// operations only, so it is not offered.
//
// Where ordering or equality of values is asked for it is that of the language's operators, as fi_atomic(3) has it: -0.0
// equals 0.0, and NaN nothing at all.
#pragma once

#include <rdma/fi_atomic.h>

#include <cstddef>
#include <cstdint>

namespace nvlf::ofi {

// The three families of calls. The numbers cross the wire.
enum class AtomicClass : std::uint8_t {
    base = 0,    // fi_atomic: no result.
    fetch = 1,   // fi_fetch_atomic: the element as it was.
    compare = 2, // fi_compare_atomic: the same, with a second operand.
};

// Applies an operation to `count` elements from `target` on, which is aligned to the size of an element. `operand`,
// `compare` and `result` may lie anywhere; those that the operation does not have are not looked at.
using AtomicFunction = void (*)(std::byte* target, const std::byte* operand, const std::byte* compare,
                                std::byte* result, std::size_t count) noexcept;

// Size of an element and the alignment that a target must have; 0: there is no such datatype.
[[nodiscard]] std::size_t atomic_bytes(std::uint32_t datatype) noexcept;

// nullptr: not offered. Any numbers may be asked for.
[[nodiscard]] AtomicFunction atomic_function(AtomicClass kind, std::uint32_t datatype, std::uint32_t op) noexcept;

// FI_REMOTE_READ, FI_REMOTE_WRITE: what the target must have granted. What brings something back reads, also where it
// may come to write nothing.
[[nodiscard]] constexpr std::uint64_t atomic_access(AtomicClass kind, std::uint32_t op) noexcept {
    return (kind != AtomicClass::base ? FI_REMOTE_READ : 0) | (op != FI_ATOMIC_READ ? FI_REMOTE_WRITE : 0);
}

} // namespace nvlf::ofi
