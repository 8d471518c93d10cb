// SPDX-License-Identifier: MIT OR GPL-2.0-only
// reduction.cc - see reduction.hpp.
#include "reduction.hpp"

#include <array>
#include <complex>
#include <cstring>
#include <type_traits>
#include <utility>

namespace nvlf::ofi {
namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

constexpr std::size_t ops = FI_BXOR + 1; // FI_MIN is the first.
constexpr std::size_t datatypes = FI_UINT128 + 1;

template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;
// Under strict ISO C++ the library does not count 128 bits among the integers.
template <class T>
inline constexpr bool is_integer = std::is_integral_v<T> || std::is_same_v<T, Int128> || std::is_same_v<T, Uint128>;

template <fi_op Op, class T>
inline constexpr bool defined = Op == FI_MIN || Op == FI_MAX                     ? !is_complex<T>
                                : Op == FI_BOR || Op == FI_BAND || Op == FI_BXOR ? is_integer<T>
                                                                                 : true;

// Integer sums and products wrap: computed unsigned, and no narrower than int, to which they would be promoted.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 16, Uint128, std::uint64_t>;

template <fi_op Op, class T>
T combined(T a, T b) noexcept {
    if constexpr (Op == FI_MIN) return b < a ? b : a;
    else if constexpr (Op == FI_MAX) return b > a ? b : a;
    else if constexpr (Op == FI_SUM && is_integer<T>) return static_cast<T>(Wide<T>(a) + Wide<T>(b));
    else if constexpr (Op == FI_PROD && is_integer<T>) return static_cast<T>(Wide<T>(a) * Wide<T>(b));
    else if constexpr (Op == FI_SUM) return a + b;
    else if constexpr (Op == FI_PROD) return a * b;
    else if constexpr (Op == FI_LOR) return T(a != T{} || b != T{});
    else if constexpr (Op == FI_LAND) return T(a != T{} && b != T{});
    else if constexpr (Op == FI_LXOR) return T((a != T{}) != (b != T{}));
    else if constexpr (Op == FI_BOR) return static_cast<T>(a | b);
    else if constexpr (Op == FI_BAND) return static_cast<T>(a & b);
    else return static_cast<T>(a ^ b);
}

template <fi_op Op, class T>
void reduce(std::byte* into, const std::byte* from, std::size_t elements) noexcept {
    for (std::size_t i = 0; i < elements; ++i) {
        T a{};
        T b{};
        std::memcpy(static_cast<void*>(&a), into + i * sizeof(T), sizeof(T));
        std::memcpy(static_cast<void*>(&b), from + i * sizeof(T), sizeof(T));
        a = combined<Op, T>(a, b);
        std::memcpy(into + i * sizeof(T), static_cast<const void*>(&a), sizeof(T));
    }
}

using Row = std::array<Reduction, ops>;

template <class T, std::size_t Op>
constexpr Reduction entry() noexcept {
    if constexpr (defined<static_cast<fi_op>(Op), T>) return &reduce<static_cast<fi_op>(Op), T>;
    else return nullptr;
}

template <class T, std::size_t... Op>
constexpr Row row_of(std::index_sequence<Op...>) noexcept {
    return {entry<T, Op>()...};
}

// In the order of enum fi_datatype.
template <class... T>
struct Table {
    static constexpr std::array<Row, sizeof...(T)> rows{row_of<T>(std::make_index_sequence<ops>{})...};
    static constexpr std::array<std::size_t, sizeof...(T)> sizes{sizeof(T)...};
};
using All = Table<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, std::int64_t,
                  std::uint64_t, float, double, std::complex<float>, std::complex<double>, long double,
                  std::complex<long double>, Int128, Uint128>;
static_assert(All::rows.size() == datatypes && FI_FLOAT == 8 && FI_FLOAT_COMPLEX == 10 && FI_LONG_DOUBLE == 12 &&
              FI_INT128 == 14);

} // namespace

Reduction reduction(std::uint32_t op, std::uint32_t datatype) noexcept {
    return op < ops && datatype < datatypes ? All::rows[datatype][op] : nullptr;
}

std::size_t element_bytes(std::uint32_t datatype) noexcept { return datatype < datatypes ? All::sizes[datatype] : 0; }

} // namespace nvlf::ofi
