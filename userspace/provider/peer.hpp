// SPDX-License-Identifier: MIT OR GPL-2.0-only
// peer.hpp - one end of a conversation: the channel to one other endpoint and what waits to go out on it.
//
// A peer is up from first contact until it says goodbye, dies, or sends nonsense; it never comes back. A new endpoint
// at the same service is a new peer with a new channel. What remains of a peer that is gone is this small record, because
// operations and address tables still point to it.
#pragma once

#include <rdma/fabric.h>

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <deque>
#include <list>
#include <vector>

#include "base/lane.hpp"
#include "buffers.hpp"
#include "cma.hpp"
#include "key_table.hpp"
#include "match.hpp"
#include "nvlf/nvlf.h"
#include "pool.hpp"
#include "requests.hpp"
#include "share.hpp"

namespace nvlf::ofi {

// An operation of ours that did not end with the call that started it, or an answer to a peer's read.
struct TxOp : Pooled, ListHook {
    enum class Kind : std::uint8_t {
        eager,   // Published; waits for its acknowledgement.
        large,   // Rendezvous: waits for the cts, then streams.
        write,   // Streams pieces, then waits among its peer's `unapplied`.
        read,    // Waits for the pieces.
        respond, // Streams the answer to a peer's read. Not the application's.
        atomic,  // Waits for its acknowledgement.
        fetch,   // An atomic operation that waits for what it found.
        result,  // What a peer's atomic operation found waits for room. Not the application's.
    };
    Kind kind = Kind::eager;
    bool streaming = false; // In its peer's list of streams.
    bool tagged = false;
    bool collective = false; // A message of a collective's, whose step `context` is.
    bool has_cq_data = false;
    bool silent = false;          // An injected operation: counts, but reports only failure.
    bool delivered = false;       // Of `large`: the receiver acknowledged.
    bool unpublished = false;     // One-sided, and not all of it is in the lane yet.
    bool notify = false;          // One-sided: the target wants to hear of its end.
    std::uint32_t error = 0;      // First refusal, FI_E*.
    std::uint64_t last_write = 0; // Of `write`: the number of its last piece among those that went to the peer.
    Peer* peer = nullptr;
    TxContext* tx = nullptr; // Who hears of its end.
    void* context = nullptr;
    std::uint64_t flags = 0;
    std::uint64_t cq_data = 0;
    std::uint32_t target = 0; // The receive context of the peer's that hears of cq_data.
    Buffers local;
    std::unique_ptr<std::byte[]> copy; // Owns what `local` points to, when the caller may reuse its buffer at once.
    std::size_t total = 0;             // To stream: less than local.total when the receiver wants less.
    std::size_t offset = 0;            // Streamed, or received (read).
    std::uint64_t remote = 0;          // The peer's handle to name in the pieces.
    std::array<RmaSegment, iov_limit> segment{};
    std::size_t segments = 0;
    std::size_t segment_at = 0;     // Current segment,
    std::size_t segment_offset = 0; // and how far it is done.
};

// Slots kept back for answers: an application that fills a lane with messages must not keep its own acknowledgements out.
inline constexpr std::uint32_t control_reserve = 32;
// Answers of an endpoint that wait for a slot. We stop reading from a peer who asks faster than it listens once as many wait
// for it as others may still have. Until then two of which each owes the other answers must go on reading: nobody else
// makes room for these. So it is twice what all operations of one peer (tx_limit) can be owed, and 16 MiB.
inline constexpr std::size_t control_limit = 1U << 18;
// Results of one initiator's atomic operations that are on their way at a time. Who keeps to it finds the target willing,
// who does not waits until it has taken some.
inline constexpr std::size_t result_limit = 1u << 20;
// A piece of a large transfer: four fit the data ring, so both ends copy at the same time.
inline constexpr std::uint32_t piece_bytes = 32u << 10;
static_assert(piece_bytes <= lane_data_max && piece_bytes <= UINT16_MAX);

// A registration of a peer's that we mapped.
struct DirectImport {
    std::uint64_t key = 0;
    std::uint64_t base = 0; // Remote address of its first byte,
    std::uint64_t bytes = 0;
    std::uint64_t access = 0;   // FI_REMOTE_READ, FI_REMOTE_WRITE
    std::byte* start = nullptr; // and where that lies here.
    ::nvlf_mem* memory = nullptr;
    std::uint64_t events = 0;                   // The access of which the peer wants to hear.
    std::uint64_t across = 0;                   // Instead of `access`: it is the peer's own memory, and lies there
    std::uint64_t there = 0;                    // at this address.
    const std::uint64_t* sequence_at = nullptr; // In the peer's region: still the same while it reads `sequence`.
    std::uint64_t sequence = 0;
};

struct Peer {
    enum class State : std::uint8_t { up, closed, dead };

    // Throws bad_alloc, and then the channel is still the caller's.
    Peer(::nvlf_channel* c, bool is_self)
        : channel{c},
          address{*nvlf_channel_peer(c)},
          tx{*nvlf_channel_tx(c)},
          // To oneself there is one lane, not two.
          rx{is_self ? *nvlf_channel_tx(c) : *nvlf_channel_rx(c)},
          self{is_self} {}
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    ~Peer();
    void put_imports() noexcept; // direct.cc

    [[nodiscard]] bool up() const noexcept { return state == State::up; }
    [[nodiscard]] bool busy() const noexcept {
        return !streams.empty() || !control.empty() || !fetches.empty() || help.ticket != 0;
    }

    ::nvlf_channel* channel; // nullptr once gone.
    nvlf_addr address;
    LaneProducer tx;
    LaneConsumer rx;
    fi_addr_t fi_addr = FI_ADDR_NOTAVAIL;       // Ours for it, when the address vector has it: the lowest of them.
    fi_addr_t reported_addr = FI_ADDR_NOTAVAIL; // What completions say instead.
    State state = State::up;
    bool self;
    bool said_bye = false;
    bool mourned = false; // Scratch of Endpoint::bury.
    bool holding = false; // `held` was read from the lane and could not be taken in yet; nothing is read past it.
    nvlf_slot held{};
    boost::intrusive::list<TxOp, boost::intrusive::constant_time_size<false>> streams;
    boost::intrusive::list<RxOp, boost::intrusive::constant_time_size<false>> fetches; // Its messages, being copied.
    RxOp* sharing = nullptr;  // The one of them that both ends copy.
    std::uint16_t ticket = 0; // The last that was given to one.
    Help help;                // What we help with.
    Cma cma;
    boost::intrusive::list<TxOp, boost::intrusive::constant_time_size<false>> unapplied; // Writes, by their last piece.
    std::uint64_t writes_sent = 0;                                                       // Pieces, from the first on;
    std::uint64_t writes_applied = 0; // of these, those that the peer has told of.
    std::uint64_t writes_seen = 0;    // The peer's,
    std::uint64_t writes_told = 0;    // and those that we told of.
    std::deque<nvlf_slot> control;    // Answers that found no slot.
    std::size_t unexpected_bytes = 0; // Its part of what waits for receives.
    std::size_t responses = 0;        // Its reads that we answer at the moment, and its results.
    std::size_t result_bytes = 0;     // What its atomic operations found and the lane had no room for.
    std::size_t wanted_bytes = 0;     // What ours are to bring back.

    // What has to be known of our own operations to keep them in order (waiting.cc).
    std::uint32_t held_back = 0;   // Reasons why a message may not be sent at once; mostly none.
    std::uint32_t unpublished = 0; // One-sided operations that are not all in the lane yet,
    std::uint32_t one_sided = 0;   // that are in the lane and have not ended,
    std::uint32_t reads = 0;       // and those of them that read.
    std::uint32_t pending = 0;     // Operations of all kinds that have not ended.
    std::uint64_t fence = 0;       // What was published before the last fence: nothing goes past it.
    std::list<Waiting> waiting;
    KeyTable<DirectImport> direct;
};

} // namespace nvlf::ofi
