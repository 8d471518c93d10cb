// SPDX-License-Identifier: MIT OR GPL-2.0-only
// pool.hpp - operations in flight: stable addresses, reuse without allocation, and handles that a peer may echo.
//
// A handle is index and generation. It goes to the peer and comes back in an acknowledgement; a handle that was made up,
// or that outlived its operation, finds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace nvlf::ofi {

// Base of what a Pool holds.
struct Pooled {
    std::uint32_t pool_index = 0;
    std::uint32_t pool_generation = 0; // Odd while in use.
    [[nodiscard]] std::uint64_t handle() const noexcept { return std::uint64_t{pool_generation} << 32 | pool_index; }
};

// Grows by blocks up to `limit` objects and keeps what it has: operations in flight are bounded by the caller's queues.
template <class T>
class Pool {
    static constexpr std::size_t block = 64;

public:
    explicit Pool(std::size_t limit) noexcept : limit_{limit} {}

    // A used object, in the state its last user left it but for the handle; nullptr at the limit or without memory.
    [[nodiscard]] T* take() noexcept {
        if (free_.empty() && !grow()) return nullptr;
        T* object = free_.back();
        free_.pop_back();
        ++object->pool_generation;
        return object;
    }

    void give(T* object) noexcept {
        ++object->pool_generation;
        free_.push_back(object); // Never allocates: grow() reserved.
    }

    [[nodiscard]] T* find(std::uint64_t handle) noexcept {
        const auto index = static_cast<std::uint32_t>(handle);
        if (index >= blocks_.size() * block) return nullptr;
        T& object = blocks_[index / block][index % block];
        return object.handle() == handle && object.pool_generation % 2 == 1 ? &object : nullptr;
    }

    template <class F>
    void for_each_used(F&& f) {
        for (auto& b : blocks_)
            for (std::size_t i = 0; i < block; ++i)
                if (b[i].pool_generation % 2 == 1) f(b[i]);
    }

    [[nodiscard]] std::size_t used() const noexcept { return blocks_.size() * block - free_.size(); }

private:
    bool grow() noexcept try {
        const std::size_t have = blocks_.size() * block;
        if (have + block > limit_) return false;
        free_.reserve(have + block);
        blocks_.push_back(std::make_unique<T[]>(block));
        for (std::size_t i = block; i-- > 0;) {
            T& object = blocks_.back()[i];
            object.pool_index = static_cast<std::uint32_t>(have + i);
            free_.push_back(&object);
        }
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }

    std::size_t limit_;
    std::vector<std::unique_ptr<T[]>> blocks_;
    std::vector<T*> free_;
};

} // namespace nvlf::ofi
