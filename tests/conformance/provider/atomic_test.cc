// SPDX-License-Identifier: MIT OR GPL-2.0-only
// atomic_test - FI_ATOMIC on memory of the heap, which the target's progress serves, and on fabric memory, which the
// initiator updates by itself: the same cases on both. What an operation does is compared with the plain language.
#define BOOST_TEST_MODULE atomic
#include <rdma/fi_atomic.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cfloat>
#include <complex>
#include <cstring>
#include <limits>
#include <thread>

#include "target_memory.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

enum class Kind { base, fetch, compare };
constexpr std::array kinds{Kind::base, Kind::fetch, Kind::compare};
constexpr int datatypes = FI_UINT128 + 1;

const SideOptions with_atomics{.caps = FI_MSG | FI_ATOMIC | FI_RMA};

struct Case {
    explicit Case(bool on_fabric, std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE,
                  const SideOptions& options = with_atomics)
        : target{on_fabric}, pair{options, options} {
        std::memset(target.data, 0, region_size);
        fid_mr* m = nullptr;
        check(fi_mr_reg(pair.b.domain.get(), target.data, region_size, access, 0, key, 0, &m, nullptr), "fi_mr_reg");
        mr.reset(m);
    }

    // Starts an operation on `count` elements at `at` of the region and answers how it ended.
    int run(Kind kind, int datatype, int op, const void* operand, const void* compare, void* result, std::size_t count,
            std::uint64_t at = 0, std::uint64_t with_key = key) {
        int context = 0;
        const auto type = static_cast<fi_datatype>(datatype);
        const auto what = static_cast<fi_op>(op);
        pair.post("atomic", [&]() -> ssize_t {
            fid_ep* ep = pair.a.ep.get();
            switch (kind) {
            case Kind::base:
                return fi_atomic(ep, operand, count, nullptr, pair.to_b, at, with_key, type, what, &context);
            case Kind::fetch:
                return fi_fetch_atomic(ep, operand, count, nullptr, result, nullptr, pair.to_b, at, with_key, type,
                                       what, &context);
            case Kind::compare:
                return fi_compare_atomic(ep, operand, count, nullptr, compare, nullptr, result, nullptr, pair.to_b, at,
                                         with_key, type, what, &context);
            }
            return -FI_EINVAL;
        });
        const Event done = pair.wait(pair.a, "atomic");
        BOOST_TEST(done.entry.op_context == &context);
        BOOST_TEST(done.entry.flags == (FI_ATOMIC | (kind == Kind::base ? FI_WRITE : FI_READ)));
        return done.error;
    }

    static constexpr std::uint64_t key = 1234;
    TargetMemory target;
    TwoEndpoints pair;
    FidPtr<fid_mr> mr;
};

template <class F>
void on_both_kinds_of_memory(F&& f) {
    for (const bool on_fabric : {false, true})
        BOOST_TEST_CONTEXT((on_fabric ? "fabric" : "heap") << " memory") f(on_fabric);
}

int valid(fid_ep* ep, Kind kind, int datatype, int op, std::size_t& count) {
    const auto type = static_cast<fi_datatype>(datatype);
    const auto what = static_cast<fi_op>(op);
    return kind == Kind::base    ? fi_atomicvalid(ep, type, what, &count)
           : kind == Kind::fetch ? fi_fetch_atomicvalid(ep, type, what, &count)
                                 : fi_compare_atomicvalid(ep, type, what, &count);
}

std::uint64_t query_flags(Kind kind) {
    return kind == Kind::base ? 0 : kind == Kind::fetch ? FI_FETCH_ATOMIC : FI_COMPARE_ATOMIC;
}

// ---- The language's idea of it ---------------------------------------------------------------------------------------

template <class T>
constexpr bool is_complex = false;
template <class T>
constexpr bool is_complex<std::complex<T>> = true;
template <class T>
constexpr bool is_integer = !is_complex<T> && !std::is_floating_point_v<T>;

// What fi_atomic(3) says, element by element. False: such an operation makes no sense on T.
template <class T>
bool expected(int op, T& there, T operand, T compare) {
    const T old = there;
    const bool a = old != T(0), b = operand != T(0);
    switch (op) {
    case FI_LOR: there = T(a || b ? 1 : 0); return true;
    case FI_LAND: there = T(a && b ? 1 : 0); return true;
    case FI_LXOR: there = T(a != b ? 1 : 0); return true;
    case FI_ATOMIC_READ: return true;
    case FI_ATOMIC_WRITE: there = operand; return true;
    case FI_CSWAP: there = compare == old ? operand : old; return true;
    case FI_CSWAP_NE: there = compare != old ? operand : old; return true;
    default: break;
    }
    if constexpr (is_integer<T>) {
        switch (op) {
        case FI_SUM: there = static_cast<T>(static_cast<Uint128>(old) + static_cast<Uint128>(operand)); return true;
        case FI_PROD: there = static_cast<T>(static_cast<Uint128>(old) * static_cast<Uint128>(operand)); return true;
        case FI_BOR: there = static_cast<T>(old | operand); return true;
        case FI_BAND: there = static_cast<T>(old & operand); return true;
        case FI_BXOR: there = static_cast<T>(old ^ operand); return true;
        case FI_MSWAP: there = static_cast<T>((operand & compare) | (old & ~compare)); return true;
        default: break;
        }
    } else {
        if (op == FI_SUM) return there = old + operand, true;
        if (op == FI_PROD) return there = old * operand, true;
    }
    if constexpr (!is_complex<T>) {
        switch (op) {
        case FI_MIN: there = operand < old ? operand : old; return true;
        case FI_MAX: there = operand > old ? operand : old; return true;
        case FI_CSWAP_LE: there = compare <= old ? operand : old; return true;
        case FI_CSWAP_LT: there = compare < old ? operand : old; return true;
        case FI_CSWAP_GE: there = compare >= old ? operand : old; return true;
        case FI_CSWAP_GT: there = compare > old ? operand : old; return true;
        default: break;
        }
    }
    return false;
}

bool belongs(Kind kind, int op) {
    if (kind == Kind::compare) return op >= FI_CSWAP && op <= FI_MSWAP;
    return op <= FI_ATOMIC_WRITE && (kind == Kind::fetch || op != FI_ATOMIC_READ);
}

template <class F>
void with_type(int datatype, F&& f) {
    switch (datatype) {
    case FI_INT8: return f(std::int8_t{});
    case FI_UINT8: return f(std::uint8_t{});
    case FI_INT16: return f(std::int16_t{});
    case FI_UINT16: return f(std::uint16_t{});
    case FI_INT32: return f(std::int32_t{});
    case FI_UINT32: return f(std::uint32_t{});
    case FI_INT64: return f(std::int64_t{});
    case FI_UINT64: return f(std::uint64_t{});
    case FI_FLOAT: return f(float{});
    case FI_DOUBLE: return f(double{});
    case FI_FLOAT_COMPLEX: return f(std::complex<float>{});
    case FI_DOUBLE_COMPLEX: return f(std::complex<double>{});
    case FI_LONG_DOUBLE: return f(static_cast<long double>(0));
    case FI_LONG_DOUBLE_COMPLEX: return f(std::complex<long double>{});
    case FI_INT128: return f(Int128{});
    case FI_UINT128: return f(Uint128{});
    default: BOOST_FAIL("no such datatype");
    }
}

// Small values that are often equal, sometimes zero, and extreme ones.
template <class T>
std::vector<T> values(std::size_t count, std::uint32_t seed) {
    std::vector<T> list(count);
    std::uint32_t state = seed * 2654435761U + 1;
    for (T& value : list) {
        state = state * 1664525U + 1013904223U;
        const int small = static_cast<int>(state >> 24) % 7 - 3;
        if constexpr (is_complex<T>)
            value = T(static_cast<typename T::value_type>(small), static_cast<typename T::value_type>(state >> 30));
        else if constexpr (!is_integer<T>) value = static_cast<T>(small) / static_cast<T>(2);
        else if ((state >> 20) % 4 == 0) value = static_cast<T>(~Uint128{0} / 3 + state);
        else value = static_cast<T>(small);
    }
    return list;
}

template <class T>
bool same(const std::vector<T>& wanted, const void* bytes) { // By value: a long double has bytes without one.
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        T there;
        std::memcpy(static_cast<void*>(&there), static_cast<const char*>(bytes) + i * sizeof(T), sizeof there);
        if (there != wanted[i]) return false;
    }
    return true;
}

template <class T>
void check_against_the_language(Case& c, Kind kind, int datatype, int op, std::size_t count) {
    constexpr std::size_t at = 4096 - sizeof(T); // The first element ends a page.
    const auto seed = static_cast<std::uint32_t>(datatype * 100 + op);
    const auto before = values<T>(count, seed), operand = values<T>(count, seed + 1),
               compare = values<T>(count, seed + 2);
    std::vector<T> result = values<T>(count, seed + 3);
    std::vector<T> after = before;
    for (std::size_t i = 0; i < count; ++i) BOOST_REQUIRE(expected(op, after[i], operand[i], compare[i]));
    std::memcpy(c.target.data + at, before.data(), count * sizeof(T));
    const char guard = c.target.data[at + count * sizeof(T)] = 'g';
    // A source at an odd address: only targets need alignment.
    std::vector<char> odd(count * sizeof(T) + 1);
    std::memcpy(odd.data() + 1, operand.data(), count * sizeof(T));
    BOOST_TEST(c.run(kind, datatype, op, op == FI_ATOMIC_READ ? nullptr : odd.data() + 1, compare.data(), result.data(),
                     count, at) == 0);
    BOOST_TEST(same(after, c.target.data + at));
    if (kind != Kind::base) BOOST_TEST(same(before, result.data()));
    BOOST_TEST(c.target.data[at + count * sizeof(T)] == guard);
}

} // namespace

BOOST_AUTO_TEST_CASE(every_operation_on_every_datatype_does_what_the_language_does) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        for (const Kind kind : kinds)
            for (int datatype = 0; datatype < datatypes; ++datatype)
                for (int op = 0; op < FI_ATOMIC_OP_LAST; ++op) {
                    std::size_t most = 0;
                    if (valid(c.pair.a.ep.get(), kind, datatype, op, most) != 0) continue;
                    BOOST_TEST_CONTEXT("kind " << static_cast<int>(kind) << ", datatype " << datatype << ", op " << op)
                    with_type(datatype, [&](auto zero) {
                        for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{100}, most})
                            check_against_the_language<decltype(zero)>(c, kind, datatype, op, count);
                    });
                }
    });
}

BOOST_AUTO_TEST_CASE(everything_that_makes_sense_is_offered_and_the_queries_agree) {
    TwoEndpoints pair{with_atomics, with_atomics};
    for (const Kind kind : kinds)
        for (int datatype = 0; datatype < datatypes; ++datatype)
            for (int op = 0; op < FI_ATOMIC_OP_LAST; ++op)
                with_type(datatype, [&](auto zero) {
                    using T = decltype(zero);
                    T there(1);
                    // Of 32 bytes no processor updates an element at once.
                    const bool wanted = belongs(kind, op) && expected(op, there, T(1), T(1)) && sizeof(T) <= 16;
                    std::size_t count = 0;
                    const int answer = valid(pair.a.ep.get(), kind, datatype, op, count);
                    BOOST_TEST(answer == (wanted ? 0 : -FI_EOPNOTSUPP), "datatype " << datatype << ", op " << op);
                    fi_atomic_attr attr{};
                    BOOST_TEST(fi_query_atomic(pair.a.domain.get(), static_cast<fi_datatype>(datatype),
                                               static_cast<fi_op>(op), &attr, query_flags(kind)) == answer);
                    if (!wanted) return;
                    BOOST_TEST(attr.count == count);
                    BOOST_TEST(count > 0U);
                    BOOST_TEST(attr.size == sizeof(T));
                });
}

BOOST_AUTO_TEST_CASE(lists_are_walked_on_both_sides_element_by_element) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        std::array<std::uint64_t, 10> operand{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, compare{}, result{};
        auto* const there = reinterpret_cast<std::uint64_t*>(c.target.data);
        for (std::uint64_t i = 0; i < 100; ++i) there[i] = 1000 * i;
        const std::array<std::size_t, 10> places{50, 51, 52, 7, 20, 21, 22, 23, 80, 81};
        for (std::size_t i = 0; i < 10; ++i) compare[i] = i == 4 ? 1 : there[places[i]]; // All but one are equal.
        std::array<fi_ioc, 4> from{
            {{operand.data(), 1}, {operand.data() + 1, 4}, {nullptr, 0}, {operand.data() + 5, 5}}};
        std::array<fi_ioc, 2> with{{{compare.data(), 9}, {compare.data() + 9, 1}}};
        std::array<fi_ioc, 3> to{{{result.data(), 2}, {result.data() + 2, 2}, {result.data() + 4, 6}}};
        std::array<fi_rma_ioc, 4> remote{
            {{50 * 8, 3, Case::key}, {7 * 8, 1, Case::key}, {20 * 8, 4, Case::key}, {80 * 8, 2, Case::key}}};
        fi_msg_atomic msg{.msg_iov = from.data(),
                          .desc = nullptr,
                          .iov_count = from.size(),
                          .addr = c.pair.to_b,
                          .rma_iov = remote.data(),
                          .rma_iov_count = remote.size(),
                          .datatype = FI_UINT64,
                          .op = FI_CSWAP,
                          .context = &c,
                          .data = 0};
        c.pair.post("compare_atomicmsg", [&] {
            return fi_compare_atomicmsg(c.pair.a.ep.get(), &msg, with.data(), nullptr, with.size(), to.data(), nullptr,
                                        to.size(), FI_COMPLETION | FI_INJECT);
        });
        BOOST_TEST(c.pair.wait(c.pair.a, "compare_atomicmsg").error == 0);
        for (std::size_t i = 0; i < 10; ++i) {
            BOOST_TEST(result[i] == 1000 * places[i]);
            BOOST_TEST(there[places[i]] == (i == 4 ? 1000 * places[i] : operand[i]));
        }
        msg.op = FI_SUM;
        c.pair.post("atomicmsg", [&] { return fi_atomicmsg(c.pair.a.ep.get(), &msg, 0); });
        BOOST_TEST(c.pair.wait(c.pair.a, "atomicmsg").error == 0);
        for (std::size_t i = 0; i < 10; ++i)
            BOOST_TEST(there[places[i]] == (i == 4 ? 1000 * places[i] : operand[i]) + operand[i]);
        msg.op = FI_ATOMIC_READ;
        msg.msg_iov = nullptr; // Ignored, as the operand is.
        msg.iov_count = 0;
        c.pair.post("fetch_atomicmsg",
                    [&] { return fi_fetch_atomicmsg(c.pair.a.ep.get(), &msg, to.data(), nullptr, to.size(), 0); });
        BOOST_TEST(c.pair.wait(c.pair.a, "fetch_atomicmsg").error == 0);
        for (std::size_t i = 0; i < 10; ++i) BOOST_TEST(result[i] == there[places[i]]);
    });
}

BOOST_AUTO_TEST_CASE(elements_may_lie_in_several_pieces_of_a_registration_but_none_across_two) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        std::array<iovec, 2> pieces{{{c.target.data + 800, 24}, {c.target.data, 20}}};
        fid_mr* m = nullptr;
        check(
            fi_mr_regv(c.pair.b.domain.get(), pieces.data(), 2, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &m, nullptr),
            "fi_mr_regv");
        const FidPtr<fid_mr> mr{m};
        const std::array<std::uint64_t, 4> operand{1, 2, 3, 4};
        std::array<std::uint64_t, 4> result{9, 9, 9, 9};
        BOOST_TEST(c.run(Kind::fetch, FI_UINT64, FI_SUM, operand.data(), nullptr, result.data(), 4, 8, 5) == 0);
        BOOST_TEST(result == (std::array<std::uint64_t, 4>{}), boost::test_tools::per_element());
        const auto* there = reinterpret_cast<const std::uint64_t*>(c.target.data);
        BOOST_TEST((there[101] == 1 && there[102] == 2 && there[0] == 3 && there[1] == 4));
        const std::uint32_t half = 1; // The last element of 4 bytes is whole, of 8 bytes it is not.
        BOOST_TEST(c.run(Kind::base, FI_UINT32, FI_SUM, &half, nullptr, nullptr, 1, 40, 5) == 0);
        BOOST_TEST(c.run(Kind::base, FI_UINT64, FI_SUM, operand.data(), nullptr, nullptr, 1, 40, 5) == FI_EKEYREJECTED);
        BOOST_TEST(c.run(Kind::base, FI_UINT64, FI_SUM, operand.data(), nullptr, nullptr, 1, 20, 5) == FI_EINVAL);
    });
}

BOOST_AUTO_TEST_CASE(the_vector_forms_do_the_same_to_one_remote_range) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        std::array<std::int32_t, 3> operand{5, 6, 7}, compare{0, 0, 9}, result{-1, -1, -1};
        std::array<fi_ioc, 2> from{{{operand.data(), 2}, {operand.data() + 2, 1}}};
        const fi_ioc with{compare.data(), 3};
        fi_ioc to{result.data(), 3};
        fid_ep* ep = c.pair.a.ep.get();
        const auto* there = reinterpret_cast<const std::int32_t*>(c.target.data);
        c.pair.post("compare_atomicv", [&] {
            return fi_compare_atomicv(ep, from.data(), nullptr, 2, &with, nullptr, 1, &to, nullptr, 1, c.pair.to_b, 0,
                                      Case::key, FI_INT32, FI_CSWAP, nullptr);
        });
        BOOST_TEST(c.pair.wait(c.pair.a, "compare_atomicv").error == 0);
        BOOST_TEST((there[0] == 5 && there[1] == 6 && there[2] == 0 && result[2] == 0));
        c.pair.post("atomicv", [&] {
            return fi_atomicv(ep, from.data(), nullptr, 2, c.pair.to_b, 0, Case::key, FI_INT32, FI_SUM, nullptr);
        });
        BOOST_TEST(c.pair.wait(c.pair.a, "atomicv").error == 0);
        c.pair.post("fetch_atomicv", [&] {
            return fi_fetch_atomicv(ep, from.data(), nullptr, 2, &to, nullptr, 1, c.pair.to_b, 0, Case::key, FI_INT32,
                                    FI_MAX, nullptr);
        });
        BOOST_TEST(c.pair.wait(c.pair.a, "fetch_atomicv").error == 0);
        BOOST_TEST((result[0] == 10 && result[1] == 12 && result[2] == 7));
    });
}

BOOST_AUTO_TEST_CASE(injected_operations_report_nothing_and_free_their_operand) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        std::vector<std::uint64_t> operand(512, 3);
        for (int i = 0; i < 5; ++i) {
            c.pair.post("inject_atomic", [&] {
                return fi_inject_atomic(c.pair.a.ep.get(), operand.data(), operand.size(), c.pair.to_b, 0, Case::key,
                                        FI_UINT64, FI_SUM);
            });
            for (auto& value : operand) ++value;
        }
        std::uint64_t last = 0; // Behind them in the same lane; the first completion there is.
        BOOST_TEST(c.run(Kind::fetch, FI_UINT64, FI_ATOMIC_READ, nullptr, nullptr, &last, 1, 511 * 8) == 0);
        BOOST_TEST(last == 3U + 4 + 5 + 6 + 7);
        BOOST_TEST(!poll(c.pair.a.cq.get()).has_value());
    });
}

BOOST_AUTO_TEST_CASE(what_the_target_did_not_grant_fails_at_the_initiator_and_changes_nothing) {
    on_both_kinds_of_memory([](bool on_fabric) {
        std::uint64_t operand = 1, compare = 0, result = 7;
        const auto attempt = [&](Case& c, Kind kind, int op, std::uint64_t at = 0, std::uint64_t key = Case::key) {
            return c.run(kind, FI_UINT64, op, &operand, &compare, &result, 1, at, key);
        };
        Case read{on_fabric, FI_REMOTE_READ};
        BOOST_TEST(attempt(read, Kind::fetch, FI_ATOMIC_READ) == 0);
        BOOST_TEST(result == 0U);
        BOOST_TEST(attempt(read, Kind::base, FI_SUM) == FI_EACCES);
        BOOST_TEST(attempt(read, Kind::fetch, FI_SUM) == FI_EACCES);
        BOOST_TEST(attempt(read, Kind::compare, FI_CSWAP_NE) == FI_EACCES); // Also where it would write nothing.
        BOOST_TEST(*reinterpret_cast<std::uint64_t*>(read.target.data) == 0U);
        Case write{on_fabric, FI_REMOTE_WRITE};
        BOOST_TEST(attempt(write, Kind::base, FI_SUM) == 0);
        BOOST_TEST(attempt(write, Kind::fetch, FI_SUM) == FI_EACCES);
        BOOST_TEST(attempt(write, Kind::fetch, FI_ATOMIC_READ) == FI_EACCES);
        BOOST_TEST(attempt(write, Kind::compare, FI_CSWAP) == FI_EACCES);
        BOOST_TEST(*reinterpret_cast<std::uint64_t*>(write.target.data) == 1U);
        Case both{on_fabric};
        BOOST_TEST(attempt(both, Kind::base, FI_SUM, 0, Case::key + 1) == FI_EKEYREJECTED);
        BOOST_TEST(attempt(both, Kind::base, FI_SUM, region_size) == FI_EKEYREJECTED);
        BOOST_TEST(attempt(both, Kind::base, FI_SUM, ~std::uint64_t{7}) == FI_EKEYREJECTED);
        BOOST_TEST(attempt(both, Kind::base, FI_SUM, region_size - 8) == 0);
        BOOST_TEST(fi_close(&both.mr.release()->fid) == 0);
        BOOST_TEST(attempt(both, Kind::base, FI_SUM) == FI_EKEYREJECTED);
        BOOST_TEST(*reinterpret_cast<std::uint64_t*>(both.target.data) == 0U);
    });
}

BOOST_AUTO_TEST_CASE(an_operation_of_which_one_segment_is_refused_does_nothing) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        std::array<std::uint64_t, 2> operand{1, 1};
        const fi_ioc from{operand.data(), 2};
        std::array<fi_rma_ioc, 2> remote{{{0, 1, Case::key}, {region_size, 1, Case::key}}};
        fi_msg_atomic msg{&from, nullptr, 1, c.pair.to_b, remote.data(), 2, FI_UINT64, FI_SUM, nullptr, 0};
        c.pair.post("atomicmsg", [&] { return fi_atomicmsg(c.pair.a.ep.get(), &msg, 0); });
        BOOST_TEST(c.pair.wait(c.pair.a, "refusal").error != 0);
        BOOST_TEST(*reinterpret_cast<std::uint64_t*>(c.target.data) == 0U);
    });
}

BOOST_AUTO_TEST_CASE(an_element_across_its_natural_alignment_is_refused) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        for (int datatype = 0; datatype < datatypes; ++datatype)
            with_type(datatype, [&](auto zero) {
                using T = decltype(zero);
                std::size_t count = 0;
                if (sizeof(T) == 1 || valid(c.pair.a.ep.get(), Kind::fetch, datatype, FI_SUM, count) != 0) return;
                const T operand(1);
                T result(0);
                for (const std::size_t at : {std::size_t{1}, sizeof(T) / 2, 64 - sizeof(T) / 2})
                    BOOST_TEST(c.run(Kind::fetch, datatype, FI_SUM, &operand, nullptr, &result, 1, at) == FI_EINVAL);
            });
        BOOST_TEST(std::all_of(c.target.data, c.target.data + 128, [](char byte) { return byte == 0; }));
    });
}

BOOST_AUTO_TEST_CASE(counters_of_reads_and_writes_count_what_brings_something_back_and_what_does_not) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        // An endpoint with counters and without queue entries, beside the fixture's.
        const auto open_counter = [&] {
            fi_cntr_attr attr{};
            attr.wait_obj = FI_WAIT_NONE;
            fid_cntr* counter = nullptr;
            check(fi_cntr_open(c.pair.a.domain.get(), &attr, &counter, nullptr), "fi_cntr_open");
            return FidPtr<fid_cntr>{counter};
        };
        const auto reads = open_counter(), writes = open_counter();
        fid_ep* opened = nullptr;
        check(fi_endpoint(c.pair.a.domain.get(), c.pair.a.info.get(), &opened, nullptr), "fi_endpoint");
        const FidPtr<fid_ep> ep{opened};
        check(fi_ep_bind(opened, &c.pair.a.av->fid, 0), "bind av");
        check(fi_ep_bind(opened, &c.pair.a.cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION), "bind cq");
        check(fi_ep_bind(opened, &reads->fid, FI_READ), "bind reads");
        check(fi_ep_bind(opened, &writes->fid, FI_WRITE), "bind writes");
        check(fi_enable(opened), "fi_enable");
        std::uint32_t one = 1, result = 0;
        const auto wait_for = [&](fid_cntr* counter, std::uint64_t count, std::uint64_t failures) {
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
            while (std::chrono::steady_clock::now() < deadline) {
                if (fi_cntr_read(counter) == count && fi_cntr_readerr(counter) == failures) return true;
                (void)fi_cq_read(c.pair.b.cq.get(), nullptr, 0);
            }
            return false;
        };
        c.pair.post("atomic", [&] {
            return fi_atomic(opened, &one, 1, nullptr, c.pair.to_b, 0, Case::key, FI_UINT32, FI_SUM, nullptr);
        });
        BOOST_TEST(wait_for(writes.get(), 1, 0));
        c.pair.post("inject_atomic",
                    [&] { return fi_inject_atomic(opened, &one, 1, c.pair.to_b, 0, Case::key, FI_UINT32, FI_SUM); });
        BOOST_TEST(wait_for(writes.get(), 2, 0));
        c.pair.post("fetch_atomic", [&] {
            return fi_fetch_atomic(opened, &one, 1, nullptr, &result, nullptr, c.pair.to_b, 0, Case::key, FI_UINT32,
                                   FI_SUM, nullptr);
        });
        BOOST_TEST(wait_for(reads.get(), 1, 0));
        BOOST_TEST(result == 2U);
        c.pair.post("compare_atomic", [&] {
            return fi_compare_atomic(opened, &one, 1, nullptr, &one, nullptr, &result, nullptr, c.pair.to_b, 0,
                                     Case::key + 1, FI_UINT32, FI_CSWAP, &c);
        });
        BOOST_TEST(wait_for(reads.get(), 1, 1));
        const auto failure = poll(c.pair.a.cq.get()); // Failures come in any case, successes were not asked for.
        BOOST_REQUIRE(failure.has_value());
        BOOST_TEST(failure->error == FI_EKEYREJECTED);
        BOOST_TEST(failure->entry.op_context == &c);
        BOOST_TEST(!poll(c.pair.a.cq.get()).has_value());
    });
}

namespace {

// Adds to an element until told to stop; how often.
template <class T>
std::uint64_t add_by_the_language(T& sum, const std::atomic<bool>& stop) {
    std::uint64_t times = 0;
    for (; !stop; ++times) {
        if constexpr (sizeof(T) == 16) {
            T now = 0;
            for (T before = 0; (before = __sync_val_compare_and_swap(&sum, now, now + 3)) != now;) now = before;
        } else {
            std::atomic_ref{sum}.fetch_add(3);
        }
    }
    return times;
}

// Adds from here by libfabric and, at the same time, from another thread by the language, until the two have met often. On
// heap memory a third one drives the target, whose progress is what applies ours.
template <class T>
void add_from_both_sides(bool on_fabric, int datatype) {
    Case c{on_fabric};
    T& sum = *reinterpret_cast<T*>(c.target.data + 64);
    std::atomic<bool> stop{false};
    std::uint64_t theirs = 0;
    std::thread local{[&] { theirs = add_by_the_language(sum, stop); }};
    std::thread driver{[&] {
        while (!on_fabric && !stop) (void)fi_cq_read(c.pair.b.cq.get(), nullptr, 0);
    }};
    const T two = 2;
    T was = 0, before = 0;
    std::uint64_t ours = 0, met = 0;
    ssize_t problem = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{3};
    while (problem == 0 && met < 1000 && std::chrono::steady_clock::now() < deadline) {
        ssize_t ret = fi_fetch_atomic(c.pair.a.ep.get(), &two, 1, nullptr, &was, nullptr, c.pair.to_b, 64, Case::key,
                                      static_cast<fi_datatype>(datatype), FI_SUM, nullptr);
        fi_cq_tagged_entry entry{};
        if (ret == -FI_EAGAIN) {
            (void)fi_cq_read(c.pair.a.cq.get(), nullptr, 0);
            continue;
        }
        while (ret == 0 && (ret = fi_cq_read(c.pair.a.cq.get(), &entry, 1)) == -FI_EAGAIN) ret = 0;
        problem = std::min<ssize_t>(ret, 0);
        met += was != before + 2 ? 1U : 0U;
        before = was;
        ++ours;
    }
    stop = true;
    local.join();
    driver.join();
    BOOST_TEST(problem == 0);
    BOOST_TEST((sum == static_cast<T>(ours * 2 + theirs * 3)));
}

} // namespace

BOOST_AUTO_TEST_CASE(a_sum_of_the_targets_own_atomics_and_of_remote_ones_loses_nothing) {
    on_both_kinds_of_memory([](bool on_fabric) {
        add_from_both_sides<std::uint32_t>(on_fabric, FI_UINT32);
        add_from_both_sides<std::uint64_t>(on_fabric, FI_UINT64);
    });
}

BOOST_AUTO_TEST_CASE(elements_of_16_bytes_are_not_torn_and_lose_nothing) {
    TwoEndpoints pair{with_atomics, with_atomics};
    std::size_t count = 0;
    if (fi_fetch_atomicvalid(pair.a.ep.get(), FI_UINT128, FI_SUM, &count) != 0) return; // Not on this processor.
    on_both_kinds_of_memory([](bool on_fabric) { add_from_both_sides<Uint128>(on_fabric, FI_UINT128); });
}

BOOST_AUTO_TEST_CASE(on_fabric_memory_the_target_does_nothing) {
    Case c{true};
    const double operand = 1.5;
    double result = 1;
    BOOST_TEST(fi_fetch_atomic(c.pair.a.ep.get(), &operand, 1, nullptr, &result, nullptr, c.pair.to_b, 8, Case::key,
                               FI_DOUBLE, FI_SUM, nullptr) == 0);
    BOOST_TEST(poll(c.pair.a.cq.get()).has_value()); // The target was never driven.
    BOOST_TEST(result == 0);
    BOOST_TEST(*reinterpret_cast<double*>(c.target.data + 8) == 1.5);
}

BOOST_AUTO_TEST_CASE(many_results_at_once_all_arrive) {
    Case c{false};
    // Larger than a slot, so that the lane cannot hold them all, and none is read until all are asked for.
    constexpr std::size_t elements = 1000, operations = 200;
    const std::vector<std::uint64_t> ones(elements, 1);
    std::vector<std::vector<std::uint64_t>> results(operations, std::vector<std::uint64_t>(elements));
    for (auto& result : results)
        c.pair.post("fetch_atomic", [&] {
            return fi_fetch_atomic(c.pair.a.ep.get(), ones.data(), elements, nullptr, result.data(), nullptr,
                                   c.pair.to_b, 0, Case::key, FI_UINT64, FI_SUM, nullptr);
        });
    for (std::size_t i = 0; i < operations; ++i) BOOST_REQUIRE_EQUAL(c.pair.wait(c.pair.a, "result").error, 0);
    for (std::uint64_t i = 0; i < operations; ++i)
        BOOST_TEST(std::all_of(results[i].begin(), results[i].end(), [&](std::uint64_t was) { return was == i; }));
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused) {
    Case c{false};
    fid_ep* ep = c.pair.a.ep.get();
    std::uint64_t operand = 0, result = 0;
    std::size_t most = 0;
    BOOST_TEST(fi_atomicvalid(ep, FI_UINT64, FI_SUM, &most) == 0);
    BOOST_TEST(fi_atomicvalid(ep, FI_UINT64, FI_SUM, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_atomicvalid(ep, static_cast<fi_datatype>(77), FI_SUM, &most) == -FI_EOPNOTSUPP);
    BOOST_TEST(fi_atomicvalid(ep, FI_UINT64, static_cast<fi_op>(77), &most) == -FI_EOPNOTSUPP);
    const auto atomic = [&](std::size_t count, fi_datatype datatype = FI_UINT64, fi_op op = FI_SUM) {
        return fi_atomic(ep, &operand, count, nullptr, c.pair.to_b, 0, Case::key, datatype, op, nullptr);
    };
    BOOST_TEST(atomic(0) == -FI_EINVAL);
    BOOST_TEST(atomic(most + 1) == -FI_EMSGSIZE);
    BOOST_TEST(atomic(SIZE_MAX) == -FI_EMSGSIZE);
    BOOST_TEST(atomic(1, FI_FLOAT, FI_BOR) == -FI_EOPNOTSUPP);
    BOOST_TEST(atomic(1, FI_UINT64, FI_CSWAP) == -FI_EOPNOTSUPP);
    BOOST_TEST(atomic(1, FI_UINT64, FI_ATOMIC_READ) == -FI_EOPNOTSUPP);
    BOOST_TEST(atomic(1, FI_VOID) == -FI_EOPNOTSUPP);
    BOOST_TEST(fi_atomic(ep, nullptr, 1, nullptr, c.pair.to_b, 0, Case::key, FI_UINT64, FI_SUM, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_fetch_atomic(ep, &operand, 1, nullptr, nullptr, nullptr, c.pair.to_b, 0, Case::key, FI_UINT64, FI_SUM,
                               nullptr) == -FI_EINVAL);
    const std::vector<char> big(8192);
    BOOST_TEST(fi_inject_atomic(ep, big.data(), c.pair.a.info->tx_attr->inject_size + 1, c.pair.to_b, 0, Case::key,
                                FI_UINT8, FI_SUM) == -FI_EMSGSIZE);
    const fi_ioc from{&operand, 1};
    fi_ioc to{&result, 1};
    fi_rma_ioc remote{0, 2, Case::key};
    fi_msg_atomic msg{&from, nullptr, 1, c.pair.to_b, &remote, 1, FI_UINT64, FI_SUM, nullptr, 0};
    BOOST_TEST(fi_atomicmsg(ep, nullptr, 0) == -FI_EINVAL);
    BOOST_TEST(fi_atomicmsg(ep, &msg, 0) == -FI_EINVAL); // The counts differ.
    remote.count = 1;
    BOOST_TEST(fi_atomicmsg(ep, &msg, 1ULL << 63) == -FI_EBADFLAGS);
    BOOST_TEST(fi_atomicmsg(ep, &msg, FI_REMOTE_CQ_DATA) == -FI_EBADFLAGS);
    BOOST_TEST(fi_fetch_atomicmsg(ep, &msg, &to, nullptr, 5, 0) == -FI_EINVAL);
    BOOST_TEST(fi_fetch_atomicmsg(ep, &msg, nullptr, nullptr, 0, 0) == -FI_EINVAL);
    msg.rma_iov_count = 5;
    BOOST_TEST(fi_atomicmsg(ep, &msg, 0) == -FI_EINVAL);
    msg.rma_iov_count = 0;
    BOOST_TEST(fi_atomicmsg(ep, &msg, 0) == -FI_EINVAL);
    fi_atomic_attr attr{};
    fid_domain* domain = c.pair.a.domain.get();
    BOOST_TEST(fi_query_atomic(domain, FI_UINT64, FI_SUM, nullptr, 0) == -FI_EINVAL);
    BOOST_TEST(fi_query_atomic(domain, FI_UINT64, FI_SUM, &attr, FI_COMPLETION) == -FI_EBADFLAGS);
    BOOST_TEST(fi_query_atomic(domain, FI_UINT64, FI_SUM, &attr, FI_TAGGED) == -FI_EOPNOTSUPP);
    BOOST_TEST(fi_query_atomic(domain, FI_UINT64, FI_SUM, &attr, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) == -FI_EINVAL);
}
