// SPDX-License-Identifier: MIT OR GPL-2.0-only
// atomic_ops.cc - see atomic_ops.hpp.
//
// An element is updated in one of two ways: by the one instruction that does it, where there is one (integers of up to
// 8 bytes), or by a loop that computes the new value and swaps it in if the element is still what it was. The loop
// compares representations, so it is right for floating point, too, and an operation that changes nothing (a minimum
// that already is, a swap whose comparison fails) writes nothing.
//
// This file is compiled with -mcx16 on x86-64.
#include "atomic_ops.hpp"

#include <algorithm>
#include <array>
#include <cfloat>
#include <complex>
#include <cstring>
#include <type_traits>
#include <utility>
#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

#include "element.hpp"

namespace nvlf::ofi {
namespace {

using namespace element;

constexpr std::size_t ops = FI_ATOMIC_OP_LAST;
constexpr std::size_t datatypes = FI_UINT128 + 1;

// ---- Words -----------------------------------------------------------------------------------------------------------

// The unsigned integer as large as an element, which is what the processor swaps.
template <std::size_t Bytes>
struct WordOf;
template <>
struct WordOf<1> {
    using Type = std::uint8_t;
};
template <>
struct WordOf<2> {
    using Type = std::uint16_t;
};
template <>
struct WordOf<4> {
    using Type = std::uint32_t;
};
template <>
struct WordOf<8> {
    using Type = std::uint64_t;
};
template <>
struct WordOf<16> {
    using Type = Uint128;
};
template <class T>
using Word = typename WordOf<sizeof(T)>::Type;

// Of an x87 long double only ten bytes are value.
template <class T>
inline constexpr std::size_t value_bytes = std::is_same_v<T, long double>
                                               ? std::min<std::size_t>(sizeof(T), LDBL_MANT_DIG == 64 ? 10 : sizeof(T))
                                               : sizeof(T);

template <class T>
Word<T> word_of(const T& value) noexcept {
    Word<T> word = 0; // Padding, where there is any, is zero.
    std::memcpy(&word, &value, value_bytes<T>);
    return word;
}

template <class T>
T value_of(Word<T> word) noexcept {
    T value{};
    std::memcpy(static_cast<void*>(&value), &word, sizeof value);
    return value;
}

template <class W>
W load(W* at) noexcept {
#if defined(__x86_64__)
    if constexpr (sizeof(W) == 16) {
        // Not the compiler's atomic load: that would swap, and the memory may be mapped for reading only.
        __m128i both;
        asm volatile("movdqa %1, %0" : "=x"(both) : "m"(*at) : "memory");
        W word;
        std::memcpy(&word, &both, sizeof word);
        return word;
    } else
#endif
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

// As compare_exchange_strong.
template <class W>
bool swap_in(W* at, W& expected, W desired) noexcept {
    if constexpr (sizeof(W) == 16) {
        // The old builtin is inline code; the new one is a call into libatomic.
        const W before = __sync_val_compare_and_swap(at, expected, desired);
        return std::exchange(expected, before) == before;
    } else {
        return __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
}

// ---- Elements --------------------------------------------------------------------------------------------------------

// Each answers what the element was.

template <fi_op Op, class T>
Word<T> by_loop(Word<T>* at, T operand, T compare) noexcept {
    Word<T> now = load(at);
    for (;;) {
        const Word<T> then = word_of(next<Op, T>(value_of<T>(now), operand, compare));
        if (then == now) return now;
        if (swap_in(at, now, then)) return now;
    }
}

template <fi_op Op, class T>
Word<T> update(Word<T>* at, T operand, T compare) noexcept {
    const Word<T> word = word_of(operand);
    if constexpr (Op == FI_ATOMIC_READ) {
        return load(at);
    } else if constexpr (sizeof(T) == 16) {
        return by_loop<Op, T>(at, operand, compare);
    } else if constexpr (Op == FI_ATOMIC_WRITE) {
        return __atomic_exchange_n(at, word, __ATOMIC_SEQ_CST);
    } else if constexpr (!Traits<T>::integer) {
        return by_loop<Op, T>(at, operand, compare);
    } else if constexpr (Op == FI_SUM) {
        return __atomic_fetch_add(at, word, __ATOMIC_SEQ_CST);
    } else if constexpr (Op == FI_BOR) {
        return __atomic_fetch_or(at, word, __ATOMIC_SEQ_CST);
    } else if constexpr (Op == FI_BAND) {
        return __atomic_fetch_and(at, word, __ATOMIC_SEQ_CST);
    } else if constexpr (Op == FI_BXOR) {
        return __atomic_fetch_xor(at, word, __ATOMIC_SEQ_CST);
    } else if constexpr (Op == FI_CSWAP) {
        Word<T> was = word_of(compare);
        (void)swap_in(at, was, word);
        return was;
    } else {
        return by_loop<Op, T>(at, operand, compare);
    }
}

template <class T>
T element(const std::byte* from, std::size_t index) noexcept {
    T value{};
    std::memcpy(static_cast<void*>(&value), from + index * sizeof(T), sizeof(T));
    return value;
}

// A function each for with and without result: most instructions that bring nothing back are cheaper.
template <fi_op Op, class T, bool Fetch>
void apply(std::byte* target, [[maybe_unused]] const std::byte* operand, [[maybe_unused]] const std::byte* compare,
           [[maybe_unused]] std::byte* result, std::size_t count) noexcept {
    auto* at = reinterpret_cast<Word<T>*>(target);
    for (std::size_t i = 0; i < count; ++i) {
        T first{};
        T second{};
        if constexpr (Op != FI_ATOMIC_READ) first = element<T>(operand, i);
        if constexpr (Op >= FI_CSWAP) second = element<T>(compare, i);
        [[maybe_unused]] const Word<T> was = update<Op, T>(at + i, first, second);
        if constexpr (Fetch) std::memcpy(result + i * sizeof(T), &was, sizeof was);
    }
}

// ---- The table -------------------------------------------------------------------------------------------------------

using Row = std::array<AtomicFunction, ops>;

template <std::size_t Op, class T, bool Fetch>
constexpr AtomicFunction entry() noexcept {
    constexpr auto op = static_cast<fi_op>(Op);
    if constexpr (defined<op, T>) return &apply<op, T, Fetch>;
    else return nullptr;
}

template <class T, bool Fetch, std::size_t... Op>
constexpr Row row_of(std::index_sequence<Op...>) noexcept {
    return {entry<Op, T, Fetch>()...};
}

template <class T, bool Fetch>
inline constexpr Row row = row_of<T, Fetch>(std::make_index_sequence<ops>{});

inline constexpr Row nothing{};

template <class T, bool Fetch>
inline constexpr const Row& wide_row() noexcept {
#if defined(__x86_64__)
    if constexpr (sizeof(T) == 16) return row<T, Fetch>;
#endif
    return nothing;
}

// In the order of enum fi_datatype.
template <bool Fetch>
constexpr std::array<const Row*, datatypes> rows{
    &row<std::int8_t, Fetch>,
    &row<std::uint8_t, Fetch>,
    &row<std::int16_t, Fetch>,
    &row<std::uint16_t, Fetch>,
    &row<std::int32_t, Fetch>,
    &row<std::uint32_t, Fetch>,
    &row<std::int64_t, Fetch>,
    &row<std::uint64_t, Fetch>,
    &row<float, Fetch>,
    &row<double, Fetch>,
    &row<std::complex<float>, Fetch>,
    &wide_row<std::complex<double>, Fetch>(),
    &wide_row<long double, Fetch>(),
    &nothing, // Complex long double.
    &wide_row<Int128, Fetch>(),
    &wide_row<Uint128, Fetch>(),
};

constexpr std::array<std::size_t, datatypes> sizes{
    1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, sizeof(long double), 2 * sizeof(long double), 16, 16};
static_assert(FI_FLOAT == 8 && FI_FLOAT_COMPLEX == 10 && FI_LONG_DOUBLE == 12 && FI_INT128 == 14);

// Whether this processor swaps and loads 16 bytes at once.
bool has_wide_atomics() noexcept {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_CMPXCHG16B) != 0 && (c & bit_AVX) != 0;
#else
    return false;
#endif
}

bool takes(AtomicClass kind, std::uint32_t op) noexcept {
    switch (kind) {
    case AtomicClass::base: return op <= FI_BXOR || op == FI_ATOMIC_WRITE;
    case AtomicClass::fetch: return op <= FI_ATOMIC_WRITE;
    case AtomicClass::compare: return op >= FI_CSWAP && op <= FI_MSWAP;
    }
    return false;
}

} // namespace

std::size_t atomic_bytes(std::uint32_t datatype) noexcept { return datatype < datatypes ? sizes[datatype] : 0; }

AtomicFunction atomic_function(AtomicClass kind, std::uint32_t datatype, std::uint32_t op) noexcept {
    static const bool wide = has_wide_atomics();
    if (datatype >= datatypes || !takes(kind, op) || (sizes[datatype] == 16 && !wide)) return nullptr;
    return (*(kind == AtomicClass::base ? rows<false> : rows<true>)[datatype])[op];
}

} // namespace nvlf::ofi
