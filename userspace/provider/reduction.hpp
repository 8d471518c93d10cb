// SPDX-License-Identifier: MIT OR GPL-2.0-only
// reduction.hpp - what collectives can combine: operations by datatypes, on memory that nobody else writes meanwhile.
//
// The operations are those of fi_atomic(3) that are the same in whatever order the members' contributions come (their
// datatypes likewise), but plain loops, which the compiler turns into vector instructions: the buffers are the
// application's and ours. So what no processor can update atomically (a complex long double) can be reduced all the same.
#pragma once

#include <rdma/fi_atomic.h>

#include <cstddef>
#include <cstdint>

namespace nvlf::ofi {

// `into` becomes `into` op `from`, element by element. Neither need be aligned; they do not overlap.
using Reduction = void (*)(std::byte* into, const std::byte* from, std::size_t elements) noexcept;

// nullptr: not offered. Any numbers may be asked for.
[[nodiscard]] Reduction reduction(std::uint32_t op, std::uint32_t datatype) noexcept;

} // namespace nvlf::ofi
