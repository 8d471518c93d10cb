// SPDX-License-Identifier: MIT OR GPL-2.0-only
// lane.hpp - the two ends of a lane (nvlf/lane.h): one producer, one consumer, neither trusting the other.
//
// All state that decides where memory is touched is private to each end: the producer's tails, the consumer's heads.
// What the other end writes is only ever compared with it. So the worst a hostile peer can do is to stall its own lane,
// hand us garbage as payload, or make us declare it broken (EPROTO).
//
// The slot ring needs no shared producer cursor (each slot carries its publication word). The data ring needs no
// positions on the wire either: both ends run the same arithmetic (DataCursor) over the same sequence of lengths, so the
// consumer computes where a payload lies and only the length must be checked.
//
// Neither class locks: one thread at a time an end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/result.hpp"
#include "nvlf/lane.h"

namespace nvlf {

// Payloads in the data ring start on cache lines, so that two neighbours never share one.
inline constexpr std::uint64_t lane_data_align = 64;
// A payload is contiguous. Up to half the ring always fits once the consumer has caught up, wherever the tail stands:
// the skip to the start of the ring is then shorter than what remains.
inline constexpr std::uint32_t lane_data_max = NVLF_LANE_DATA / 2;

namespace detail {

// Free-running position in the data ring. `place` answers where a payload of `bytes` starts and moves past it.
class DataCursor {
public:
    [[nodiscard]] static std::uint64_t start_of(std::uint64_t at, std::uint32_t bytes) noexcept {
        const std::uint64_t offset = at % NVLF_LANE_DATA;
        return offset + bytes > NVLF_LANE_DATA ? at + (NVLF_LANE_DATA - offset) : at;
    }
    [[nodiscard]] static std::uint64_t end_of(std::uint64_t at, std::uint32_t bytes) noexcept {
        return (start_of(at, bytes) + bytes + lane_data_align - 1) / lane_data_align * lane_data_align;
    }
    std::uint64_t place(std::uint32_t bytes) noexcept {
        const std::uint64_t start = start_of(at_, bytes);
        at_ = end_of(at_, bytes);
        return start % NVLF_LANE_DATA;
    }
    [[nodiscard]] std::uint64_t at() const noexcept { return at_; }

private:
    std::uint64_t at_ = 0;
};

} // namespace detail

class LaneProducer {
public:
    explicit LaneProducer(nvlf_lane& lane) noexcept : lane_{&lane} {}

    // Whether a slot and `bytes` of the data ring are free. EAGAIN: not now. EPROTO: the consumer claims to have
    // consumed what was never sent. With `reserve` slots kept back for those who may not wait (control messages).
    [[nodiscard]] Errno room(std::uint32_t bytes, std::uint32_t reserve = 0) noexcept {
        const std::uint64_t end = detail::DataCursor::end_of(data_.at(), bytes);
        if (bytes <= lane_data_max && fits(end, reserve)) [[likely]]
            return Errno{};
        return refresh(end, bytes, reserve);
    }

    // After room(): where the next payload goes. Its slot must be published next.
    [[nodiscard]] std::byte* payload(std::uint32_t bytes) noexcept {
        return reinterpret_cast<std::byte*>(lane_->data) + data_.place(bytes);
    }

    // After room(): the slot to fill in, all but `seq`.
    [[nodiscard]] nvlf_slot& slot() noexcept { return lane_->slot[tail_ % NVLF_LANE_SLOTS]; }

    void publish() noexcept {
        // release: the rest of the slot, and its payload, are complete before the word that says so.
        std::atomic_ref{slot().seq}.store(static_cast<std::uint32_t>(tail_ + 1), std::memory_order_release);
        ++tail_;
    }

    // To be called after publish() with a count of what has come from the other end. Nothing came since the last time: this
    // is a stream, and the line of a slot to come is fetched for writing while we go on; the consumer had it last, and to
    // fetch it when it is written would stall us by a cache-line transfer a message. In a conversation of question and answer
    // there is nothing to be gained, and a line taken from a consumer that waits for it would be lost time.
    void run_ahead(std::uint64_t heard) noexcept {
        if (heard == heard_) fetch_to_write(&lane_->slot[(tail_ + slots_ahead) % NVLF_LANE_SLOTS]);
        heard_ = heard;
    }

    [[nodiscard]] std::uint64_t published() const noexcept { return tail_; }

    // Whether the consumer has dealt with the first `slots` that were published. It may say so late, and who lies harms
    // itself alone.
    [[nodiscard]] bool consumed(std::uint64_t slots) const noexcept {
        // acquire: what the consumer did with them is over.
        const std::uint64_t given = std::atomic_ref{lane_->credit.slots}.load(std::memory_order_acquire);
        return given - slots <= NVLF_LANE_SLOTS;
    }

private:
    // So many that the transfer of a line is over when its turn comes.
    static constexpr std::uint64_t slots_ahead = 4;

    static void fetch_to_write(const nvlf_slot* slot) noexcept {
#if defined(__x86_64__)
        // The builtin becomes a fetch for reading unless the compiler is told of a newer processor; this one is nothing at
        // worst.
        asm volatile("prefetchw %0" : : "m"(*reinterpret_cast<const char*>(slot)));
#else
        __builtin_prefetch(slot, 1);
#endif
    }

    [[nodiscard]] bool fits(std::uint64_t end, std::uint32_t reserve) const noexcept {
        return tail_ - slots_free_from_ + reserve < NVLF_LANE_SLOTS && end - bytes_free_from_ <= NVLF_LANE_DATA;
    }

    // Cold: reads the consumer's credit, whose cache line the consumer owns.
    [[nodiscard, gnu::noinline, gnu::cold]] Errno refresh(std::uint64_t end, std::uint32_t bytes,
                                                          std::uint32_t reserve) noexcept {
        if (bytes > lane_data_max) return Errno{EMSGSIZE};
        // acquire: the consumer's reads of what it gave back are over before we write there again.
        const std::uint64_t slots = std::atomic_ref{lane_->credit.slots}.load(std::memory_order_acquire);
        const std::uint64_t data = std::atomic_ref{lane_->credit.bytes}.load(std::memory_order_acquire);
        if (tail_ - slots > NVLF_LANE_SLOTS || data_.at() - data > NVLF_LANE_DATA) return Errno{EPROTO};
        slots_free_from_ = slots;
        bytes_free_from_ = data;
        return fits(end, reserve) ? Errno{} : Errno{EAGAIN};
    }

    nvlf_lane* lane_;
    std::uint64_t tail_ = 0;
    detail::DataCursor data_;
    std::uint64_t slots_free_from_ = 0; // The last credit that we believed.
    std::uint64_t bytes_free_from_ = 0;
    std::uint64_t heard_ = 0;
};

class LaneConsumer {
public:
    explicit LaneConsumer(nvlf_lane& lane) noexcept : lane_{&lane} {}

    // Copies the next slot out, if there is one. A copy, not a pointer: the producer could rewrite a slot between our
    // check and our use of it.
    [[nodiscard]] bool pop(nvlf_slot& out) noexcept {
        nvlf_slot& slot = lane_->slot[head_ % NVLF_LANE_SLOTS];
        // acquire: pairs with the release in LaneProducer::publish.
        if (std::atomic_ref{slot.seq}.load(std::memory_order_acquire) != static_cast<std::uint32_t>(head_ + 1))
            return false;
        std::memcpy(&out, &slot, sizeof out);
        ++head_;
        return true;
    }

    [[nodiscard]] bool ready() const noexcept {
        return std::atomic_ref{lane_->slot[head_ % NVLF_LANE_SLOTS].seq}.load(std::memory_order_acquire) ==
               static_cast<std::uint32_t>(head_ + 1);
    }

    // The payload of the slot popped last, `bytes` long as that slot says; once for each such slot, in order, wanted or
    // not. EPROTO when no honest producer can have sent that much. It lies in shared memory: read it once. It is given
    // back to the producer by the next release().
    [[nodiscard]] Result<std::span<const std::byte>> payload(std::uint32_t bytes) noexcept {
        if (bytes > lane_data_max) [[unlikely]]
            return Errno{EPROTO};
        const std::byte* start = reinterpret_cast<const std::byte*>(lane_->data) + data_.place(bytes);
        return std::span<const std::byte>{start, bytes};
    }

    // What was popped so far is dealt with, and its payloads are no longer needed: a producer may take credit to mean that.
    // True: it has more room than before. A quarter at a time: the credit line moves between the cores once in that many
    // messages.
    bool release() noexcept {
        return (head_ - slots_given_ >= NVLF_LANE_SLOTS / 4 || data_.at() - bytes_given_ >= NVLF_LANE_DATA / 4) &&
               give_credit();
    }

    // Gives back all that is consumed. To be called when the lane is found empty: a producer may wait for more room than
    // the quarters above leave it. True: the producer has more room than before.
    bool give_credit() noexcept {
        const bool more = slots_given_ != head_ || bytes_given_ != data_.at();
        // release: our reads are over before the producer may overwrite.
        if (slots_given_ != head_)
            std::atomic_ref{lane_->credit.slots}.store(slots_given_ = head_, std::memory_order_release);
        if (bytes_given_ != data_.at())
            std::atomic_ref{lane_->credit.bytes}.store(bytes_given_ = data_.at(), std::memory_order_release);
        return more;
    }

    [[nodiscard]] std::uint64_t consumed() const noexcept { return head_; }

private:
    nvlf_lane* lane_;
    std::uint64_t head_ = 0;
    detail::DataCursor data_;
    std::uint64_t slots_given_ = 0;
    std::uint64_t bytes_given_ = 0;
};

} // namespace nvlf
