// SPDX-License-Identifier: MIT OR GPL-2.0-only
// mapping.hpp - a shared mapping with one owner.
//
// Memory that arrives as a descriptor may be shorter than its sender said, and touching what is past its end is SIGBUS.
// So map() asks the kernel for the size of the object first and refuses to map more than there is. (Memory objects of a
// fabric are sealed against shrinking; those of a stranger may not be: see sealed().)
#pragma once

#include <cstddef>

#include "base/result.hpp"

namespace nvlf {

class Mapping {
public:
    enum class Access { read, read_write };

    Mapping() noexcept = default;
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() { reset(); }

    // Maps the first `bytes` of `fd`, which stays the caller's. EPROTO when the object is smaller than that.
    [[nodiscard]] static Result<Mapping> map(int fd, std::size_t bytes, Access access);

    [[nodiscard]] void* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    explicit operator bool() const noexcept { return data_ != nullptr; }
    void reset() noexcept;

    // Has the pages of `bytes` at `offset` ready for reads and writes: one system call instead of a fault a page. What the
    // kernel does not do now, the faults do later. Only of a mapping that is read_write.
    void populate(std::size_t offset, std::size_t bytes) noexcept;

private:
    Mapping(void* data, std::size_t size) noexcept : data_{data}, size_{size} {}
    void* data_ = nullptr;
    std::size_t size_ = 0;
};

// True when the memfd behind `fd` can no longer shrink, so that a mapping of it stays good whoever else holds it.
[[nodiscard]] bool sealed(int fd) noexcept;

} // namespace nvlf
