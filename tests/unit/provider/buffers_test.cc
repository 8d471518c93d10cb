// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Scatter/gather lists against a flat copy: every offset and length, over pieces of odd sizes and of none.
#define BOOST_TEST_MODULE provider_buffers
#include <boost/test/unit_test.hpp>

#include <memory>
#include <vector>

#include "buffers.hpp"

using namespace nvlf::ofi;

namespace {

using Bytes = std::vector<std::byte>;
constexpr std::byte untouched{0xee};

Bytes counting(std::size_t bytes) {
    Bytes flat(bytes);
    for (std::size_t i = 0; i < bytes; ++i) flat[i] = static_cast<std::byte>(i + 1);
    return flat;
}

// Pieces of these sizes, each a heap block of its own, so that ASan sees the first byte too far.
struct Pieces {
    std::vector<std::unique_ptr<std::byte[]>> memory;
    Buffers buffers;

    explicit Pieces(const std::vector<std::size_t>& sizes) {
        std::vector<iovec> iov;
        for (const std::size_t size : sizes) {
            memory.push_back(std::make_unique<std::byte[]>(size));
            std::fill_n(memory.back().get(), size, untouched);
            iov.push_back({memory.back().get(), size});
        }
        buffers.set(iov.data(), iov.size()); // `iov` is the caller's, and gone when this is used.
    }

    [[nodiscard]] Bytes flat() const {
        Bytes all;
        for (std::size_t i = 0; i < buffers.count; ++i) {
            const auto* first = memory[i].get();
            all.insert(all.end(), first, first + buffers.iov[i].iov_len);
        }
        return all;
    }
};

const std::vector<std::vector<std::size_t>> splits{{},           {0},    {1},          {13},         {0, 0, 0, 0},
                                                   {3, 0, 7, 1}, {0, 5}, {5, 0, 0, 2}, {1, 1, 1, 1}, {0, 1, 0, 6}};

} // namespace

BOOST_AUTO_TEST_CASE(scatter_fills_what_there_is_and_answers_how_much) {
    for (const auto& split : splits) {
        const std::size_t total = Pieces{split}.buffers.total;
        for (std::size_t offset = 0; offset <= total + 2; ++offset)
            for (std::size_t bytes = 0; bytes <= total + 2; ++bytes) {
                const Pieces pieces{split};
                const Bytes from = counting(bytes);
                const std::size_t fits = offset >= total ? 0 : std::min(bytes, total - offset);
                Bytes expected(total, untouched);
                std::copy_n(from.begin(), fits,
                            expected.begin() + static_cast<std::ptrdiff_t>(std::min(offset, total)));
                BOOST_REQUIRE(pieces.buffers.scatter(offset, from) == fits);
                BOOST_REQUIRE((pieces.flat() == expected));
            }
    }
}

BOOST_AUTO_TEST_CASE(gather_takes_any_part_of_what_there_is) {
    for (const auto& split : splits) {
        const Pieces pieces{split};
        const std::size_t total = pieces.buffers.total;
        const Bytes all = counting(total);
        BOOST_REQUIRE(pieces.buffers.scatter(0, all) == total);
        for (std::size_t offset = 0; offset <= total; ++offset)
            for (std::size_t bytes = 0; bytes <= total - offset; ++bytes) {
                Bytes to(bytes);
                pieces.buffers.gather(offset, to.data(), bytes);
                const auto first = all.begin() + static_cast<std::ptrdiff_t>(offset);
                BOOST_REQUIRE((to == Bytes(first, first + static_cast<std::ptrdiff_t>(bytes))));
            }
    }
}

BOOST_AUTO_TEST_CASE(no_part_is_empty_and_none_lies_past_the_end) {
    for (const auto& split : splits) {
        const Pieces pieces{split};
        const std::size_t total = pieces.buffers.total;
        for (const std::size_t offset : {std::size_t{0}, total, total + 1, ~std::size_t{0}}) {
            std::size_t sum = 0;
            pieces.buffers.each(offset, ~std::size_t{0}, [&](std::byte*, std::size_t part) {
                BOOST_TEST(part > 0U);
                sum += part;
            });
            BOOST_TEST(sum == (offset == 0 ? total : 0));
            pieces.buffers.each(offset, 0, [](std::byte*, std::size_t) { BOOST_ERROR("a part of nothing"); });
        }
        BOOST_TEST(pieces.buffers.scatter(~std::size_t{0}, counting(2)) == 0U);
    }
}

BOOST_AUTO_TEST_CASE(setting_anew_forgets_what_was) {
    Pieces pieces{{3, 4, 5, 6}};
    std::byte one[5]{};
    pieces.buffers.set(one, sizeof one);
    BOOST_TEST(pieces.buffers.count == 1U);
    BOOST_TEST(pieces.buffers.total == 5U);
    BOOST_TEST(pieces.buffers.scatter(1, counting(9)) == 4U);
    BOOST_TEST(std::to_integer<int>(one[0]) == 0);
    BOOST_TEST(std::to_integer<int>(one[4]) == 4);
    pieces.buffers.set(static_cast<const void*>(nullptr), 0);
    BOOST_TEST(pieces.buffers.total == 0U);
    BOOST_TEST(pieces.buffers.scatter(0, counting(9)) == 0U);
}
