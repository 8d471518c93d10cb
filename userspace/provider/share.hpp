// SPDX-License-Identifier: MIT OR GPL-2.0-only
// share.hpp - one large copy made by two processors: the word in which both ends agree who copies which part of it.
//
// The owner of a copy cuts it into chunks and takes them from the front; the other end, if it is there, helps and takes
// them from the back. Each takes by compare-and-swap, so no chunk is taken twice, nobody waits for a helper that does not
// come, and the owner has only to wait for the chunk that the helper has in hand. The word lies in the lane that the owner
// consumes, on a cache line of its own (nvlf_lane_credit.user).
//
// The word is shared with a stranger. Its worst is to spoil or stall the one copy that is its own message: which chunk the
// owner takes next is counted privately, and what the helper touches is bounded by what it was told.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "nvlf/lane.h"

namespace nvlf::ofi {

class ShareWord {
public:
    // Of the lane that the owner consumes and the helper produces into.
    explicit ShareWord(nvlf_lane& lane) noexcept : word_{lane.credit.user[0]} {}

    static constexpr std::uint32_t most_chunks = (1U << 22) - 1;

    // ---- The owner. `ticket` is not 0 and not the last one's.
    void open(std::uint16_t ticket, std::uint32_t chunks) noexcept {
        word().store(Word{ticket, false, false, 0, chunks}.pack(), std::memory_order_release);
    }
    // The next chunk from the front is the owner's. False: there is none.
    [[nodiscard]] bool take_front(std::uint16_t ticket) noexcept {
        return change(ticket, [](Word& w) {
            if (w.front >= w.back) return false;
            ++w.front;
            return true;
        });
    }
    // Once there is none: has the helper let go of its last one? And has it copied all that it took?
    struct Rest {
        bool busy;
        bool copied;
    };
    [[nodiscard]] Rest rest(std::uint16_t ticket) const noexcept {
        const Word w = Word::unpack(word().load(std::memory_order_acquire)); // acquire: what it copied is there.
        return {w.busy, w.ticket == ticket && !w.failed};
    }
    // No chunk is given out any more. True: the helper has one in hand.
    bool close() noexcept {
        return (word().fetch_and(Word::busy_bit, std::memory_order_acq_rel) & Word::busy_bit) != 0;
    }
    [[nodiscard]] bool busy() const noexcept { return (word().load(std::memory_order_acquire) & Word::busy_bit) != 0; }

    // ---- The helper.
    [[nodiscard]] std::optional<std::uint32_t> take_back(std::uint16_t ticket) noexcept {
        std::uint32_t chunk = 0;
        const bool taken = change(ticket, [&](Word& w) {
            if (w.front >= w.back || w.busy) return false;
            chunk = --w.back;
            w.busy = true;
            return true;
        });
        return taken ? std::optional{chunk} : std::nullopt;
    }
    // release: what was copied is there before it is said so. An owner that has closed the word meanwhile waits for this.
    void let_go(std::uint16_t ticket, bool copied) noexcept {
        const bool let = change(ticket, [&](Word& w) {
            w.busy = false;
            w.failed |= !copied;
            return true;
        });
        if (!let) (void)change(0, [](Word& w) { return std::exchange(w.busy, false); });
    }

private:
    struct Word {
        std::uint16_t ticket;
        bool failed;
        bool busy;
        std::uint32_t front; // Chunks that the owner took,
        std::uint32_t back;  // and where those of the helper begin.

        static constexpr std::uint64_t busy_bit = std::uint64_t{1} << 46;
        static constexpr std::uint64_t failed_bit = std::uint64_t{1} << 47;
        [[nodiscard]] std::uint64_t pack() const noexcept {
            return std::uint64_t{ticket} << 48 | (failed ? failed_bit : 0) | (busy ? busy_bit : 0) |
                   std::uint64_t{front} << 23 | back;
        }
        [[nodiscard]] static Word unpack(std::uint64_t w) noexcept {
            constexpr std::uint32_t mask = (1U << 23) - 1;
            return {static_cast<std::uint16_t>(w >> 48), (w & failed_bit) != 0, (w & busy_bit) != 0,
                    static_cast<std::uint32_t>(w >> 23) & mask, static_cast<std::uint32_t>(w) & mask};
        }
    };

    [[nodiscard]] std::atomic_ref<__u64> word() const noexcept { return std::atomic_ref{word_}; }

    // f: changes the word as it is, or answers false. False also when it is another copy's.
    template <class F>
    bool change(std::uint16_t ticket, F&& f) noexcept {
        __u64 seen = word().load(std::memory_order_acquire);
        for (;;) {
            Word w = Word::unpack(seen);
            if (w.ticket != ticket || !f(w)) return false;
            if (word().compare_exchange_weak(seen, w.pack(), std::memory_order_acq_rel, std::memory_order_acquire))
                return true;
        }
    }

    __u64& word_;
};

// What an owner tells of a copy to be helped with.
struct Help {
    std::uint16_t ticket = 0; // 0: nothing to help with.
    std::uint64_t id = 0;     // Our operation.
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t chunk = 0;
    std::uint64_t left = 0; // So many chunks at most.
};

} // namespace nvlf::ofi
