// SPDX-License-Identifier: MIT OR GPL-2.0-only
// reduction.cc - see reduction.hpp.
#include "reduction.hpp"

#include <array>
#include <complex>
#include <cstring>
#include <utility>

#include "element.hpp"

namespace nvlf::ofi {
namespace {

using namespace element;

constexpr std::size_t ops = FI_BXOR + 1; // FI_MIN is the first.
constexpr std::size_t datatypes = FI_UINT128 + 1;

template <fi_op Op, class T>
void reduce(std::byte* into, const std::byte* from, std::size_t elements) noexcept {
    for (std::size_t i = 0; i < elements; ++i) {
        T a{};
        T b{};
        std::memcpy(static_cast<void*>(&a), into + i * sizeof(T), sizeof(T));
        std::memcpy(static_cast<void*>(&b), from + i * sizeof(T), sizeof(T));
        a = next<Op, T>(a, b, T{});
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

} // namespace nvlf::ofi
