// SPDX-License-Identifier: MIT OR GPL-2.0-only
// element.hpp - what fi_atomic(3)'s operations make of a value: arithmetic alone.
//
// Who applies them decides how: atomically to memory that others work on (atomic_ops.cc), or in plain loops over buffers
// that nobody else touches (reduction.cc).
#pragma once

#include <rdma/fi_atomic.h>

#include <complex>
#include <cstdint>
#include <type_traits>

namespace nvlf::ofi::element {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

template <class T>
struct Traits {
    static constexpr bool complex = false;
    static constexpr bool integer = std::is_integral_v<T>;
};
template <class T>
struct Traits<std::complex<T>> {
    static constexpr bool complex = true;
    static constexpr bool integer = false;
};
// Under strict ISO C++ the library does not count these among the integers.
template <>
struct Traits<Int128> {
    static constexpr bool complex = false;
    static constexpr bool integer = true;
};
template <>
struct Traits<Uint128> : Traits<Int128> {};

// Integer sums and products wrap. Unsigned and at least as wide as int: narrower ones would be promoted to int, which
// must not overflow.
template <class T, class F>
T wrapping(T a, T b, F&& f) noexcept {
    using Wide = std::conditional_t<sizeof(T) == 16, Uint128, std::uint64_t>;
    return static_cast<T>(f(static_cast<Wide>(a), static_cast<Wide>(b)));
}

template <class T>
T sum(T a, T b) noexcept {
    if constexpr (Traits<T>::integer) return wrapping(a, b, [](auto x, auto y) { return x + y; });
    else return a + b;
}

template <class T>
T product(T a, T b) noexcept {
    if constexpr (Traits<T>::integer) return wrapping(a, b, [](auto x, auto y) { return x * y; });
    else return a * b;
}

template <class T>
bool truth(T value) noexcept {
    return value != T{};
}

template <class T>
T truth_value(bool value) noexcept {
    return value ? T(1) : T(0);
}

template <fi_op Op, class T>
inline constexpr bool defined = [] {
    switch (Op) {
    case FI_SUM:
    case FI_PROD:
    case FI_LOR:
    case FI_LAND:
    case FI_LXOR:
    case FI_ATOMIC_READ:
    case FI_ATOMIC_WRITE:
    case FI_CSWAP:
    case FI_CSWAP_NE: return true;
    case FI_BOR:
    case FI_BAND:
    case FI_BXOR:
    case FI_MSWAP: return Traits<T>::integer;
    default: return !Traits<T>::complex; // Complex numbers have no order.
    }
}();

// What becomes of an element that is `now`.
template <fi_op Op, class T>
T next(T now, T operand, [[maybe_unused]] T compare) noexcept {
    if constexpr (Op == FI_MIN) return operand < now ? operand : now;
    else if constexpr (Op == FI_MAX) return operand > now ? operand : now;
    else if constexpr (Op == FI_SUM) return sum(now, operand);
    else if constexpr (Op == FI_PROD) return product(now, operand);
    else if constexpr (Op == FI_LOR) return truth_value<T>(truth(now) || truth(operand));
    else if constexpr (Op == FI_LAND) return truth_value<T>(truth(now) && truth(operand));
    else if constexpr (Op == FI_LXOR) return truth_value<T>(truth(now) != truth(operand));
    else if constexpr (Op == FI_BOR) return static_cast<T>(now | operand);
    else if constexpr (Op == FI_BAND) return static_cast<T>(now & operand);
    else if constexpr (Op == FI_BXOR) return static_cast<T>(now ^ operand);
    else if constexpr (Op == FI_ATOMIC_READ) return now;
    else if constexpr (Op == FI_ATOMIC_WRITE) return operand;
    else if constexpr (Op == FI_CSWAP) return compare == now ? operand : now;
    else if constexpr (Op == FI_CSWAP_NE) return compare != now ? operand : now;
    else if constexpr (Op == FI_CSWAP_LE) return compare <= now ? operand : now;
    else if constexpr (Op == FI_CSWAP_LT) return compare < now ? operand : now;
    else if constexpr (Op == FI_CSWAP_GE) return compare >= now ? operand : now;
    else if constexpr (Op == FI_CSWAP_GT) return compare > now ? operand : now;
    else if constexpr (Op == FI_MSWAP) return static_cast<T>((operand & compare) | (now & ~compare));
}

} // namespace nvlf::ofi::element
