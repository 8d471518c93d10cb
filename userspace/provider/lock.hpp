// SPDX-License-Identifier: MIT OR GPL-2.0-only
// lock.hpp - the one lock of the provider: held for tens of nanoseconds on the data path, or not there at all.
//
// An application that promised to serialise its calls (FI_THREAD_DOMAIN) must not pay for atomics, so whether a lock
// works is decided when its object is opened. An endpoint keeps it through a round trip to the carrier on first contact
// and when a registration comes or goes, and the kernel may take the processor from any holder: a waiter that has spun for
// a while gives its own away, or with more threads than cores it would burn its whole slice.
//
// Order of locks, outermost first: list of endpoints (of a CQ, counter, domain) -> endpoint -> CQ, counter, AV, MR table.
#pragma once

#include <sched.h>

#include <atomic>

namespace nvlf::ofi {

// Tells the processor that this is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

class SpinLock {
public:
    explicit SpinLock(bool enabled) noexcept : enabled_{enabled} {}
    SpinLock(const SpinLock&) = delete;
    SpinLock& operator=(const SpinLock&) = delete;

    void lock() noexcept {
        if (!enabled_) return;
        if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
            wait();
    }
    // False: somebody else has it.
    [[nodiscard]] bool try_lock() noexcept {
        return !enabled_ ||
               (!held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire));
    }
    void unlock() noexcept {
        if (enabled_) held_.store(false, std::memory_order_release);
    }

private:
    // Reads until it looks free before it writes again: waiters share the line instead of stealing it from the holder.
    [[gnu::cold, gnu::noinline]] void wait() noexcept {
        constexpr int spins_before_yield = 128; // Some microseconds: longer than any holder that has its processor.
        do {
            for (int spins = 0; held_.load(std::memory_order_relaxed); ++spins) {
                if (spins < spins_before_yield) cpu_relax();
                else ::sched_yield();
            }
        } while (held_.exchange(true, std::memory_order_acquire));
    }

    const bool enabled_;
    std::atomic<bool> held_{false};
};

} // namespace nvlf::ofi
