// SPDX-License-Identifier: MIT OR GPL-2.0-only
// api.hpp - what every function of the C API does around its own work.
#pragma once

#include <cerrno>
#include <cstdint>
#include <new>
#include <utility>

#include "base/cancel.hpp"
#include "nvlf/nvlf.h"

namespace nvlf {

// Runs the body of a C function: what the standard library throws becomes an errno at the boundary. Nothing of ours
// throws, and bad_alloc is all that the containers and strings we use can.
// It is done whole: nobody cancels a thread in it.
template <class Body>
[[nodiscard]] int guarded(Body&& body) noexcept {
    const Uncancellable whole;
    try {
        return std::forward<Body>(body)();
    } catch (const std::bad_alloc&) {
        return -ENOMEM;
    } catch (...) {
        return -EIO;
    }
}

// Words that a carrier changes while we read them: one load each, never twice.
template <class T>
[[nodiscard]] T load_relaxed(const T& word) noexcept {
    return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
template <class T>
[[nodiscard]] T load_acquire(const T& word) noexcept {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

} // namespace nvlf
