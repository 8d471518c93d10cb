// SPDX-License-Identifier: MIT OR GPL-2.0-only
// key_table.hpp - values found by a 64-bit key of theirs, on the path of each one-sided operation.
//
// A power of two of cells in one array, a key's place by multiplication, collisions in the cells that follow: a look is
// one cache line, whether a peer has one registration or thousands. Removed values leave a mark, so that what lies behind
// them is still found; the marks go when the table next grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace nvlf::ofi {

// T: cheap to copy, default-constructible, with a member `key`.
template <class T>
class KeyTable {
public:
    // Any of those with that key; nullptr: none. Good until the table changes.
    [[nodiscard]] const T* find(std::uint64_t key) const noexcept {
        if (cells_.empty()) return nullptr;
        for (std::size_t at = place(key);; at = next(at)) {
            const Cell& cell = cells_[at];
            if (cell.use == Use::value && cell.value.key == key) [[likely]]
                return &cell.value;
            if (cell.use == Use::never) return nullptr;
        }
    }

    // Makes room for one insertion, which then cannot fail. Throws bad_alloc.
    void reserve_one() {
        if ((filled_ + 1) * 2 <= cells_.size()) return; // At most half of the cells: chains stay short.
        std::size_t values = 1;
        for (const Cell& cell : cells_) values += cell.use == Use::value ? 1 : 0;
        std::size_t size = 8;
        while (size < values * 4) size *= 2;
        std::vector<Cell> old(size);
        old.swap(cells_);
        filled_ = 0;
        for (const Cell& cell : old)
            if (cell.use == Use::value) insert(cell.value);
    }
    // After reserve_one().
    void insert(const T& value) noexcept {
        std::size_t at = place(value.key);
        while (cells_[at].use == Use::value) at = next(at);
        if (cells_[at].use == Use::never) ++filled_;
        cells_[at] = {value, Use::value};
    }

    // pred(value) is called once for each.
    template <class Predicate>
    void erase_if(Predicate&& pred) noexcept {
        for (Cell& cell : cells_)
            if (cell.use == Use::value && pred(std::as_const(cell.value))) cell.use = Use::removed;
    }

private:
    enum class Use : std::uint8_t { never, value, removed };
    struct Cell {
        T value{};
        Use use = Use::never;
    };

    // Keys are small numbers or random; multiplied by 2^64 over the golden ratio, both spread over the upper bits.
    [[nodiscard]] std::size_t place(std::uint64_t key) const noexcept {
        return (key * 0x9e3779b97f4a7c15ULL >> 32) & (cells_.size() - 1);
    }
    [[nodiscard]] std::size_t next(std::size_t at) const noexcept { return (at + 1) & (cells_.size() - 1); }

    std::vector<Cell> cells_;
    std::size_t filled_ = 0; // Cells that are not Use::never.
};

} // namespace nvlf::ofi
