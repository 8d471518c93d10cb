// SPDX-License-Identifier: MIT OR GPL-2.0-only
// match.hpp - posted receives and messages that came before their receive.
//
// Messages of one peer match in the order in which they were sent, receives in the order in which they were posted: both
// queues are lists walked from the front. A receive that names its source matches that source only.
#pragma once

#include <rdma/fabric.h>

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "buffers.hpp"
#include "pool.hpp"

namespace nvlf::ofi {

struct Peer;
struct RxBinding;

using ListHook = boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>>;

// What is known of a message when it is matched.
struct Envelope {
    Peer* peer = nullptr;
    RxBinding* binding = nullptr; // By which of our endpoints it came in, and for which receive context.
    std::uint64_t tag = 0;
    std::uint64_t cq_data = 0;
    std::uint64_t id = 0;    // The sender's handle: of the waiting message (rendezvous), or for its acknowledgement.
    std::uint64_t total = 0; // Bytes of the whole message.
    bool tagged = false;
    bool collective = false; // Neither tagged nor not; cq_data is its key.
    bool has_cq_data = false;
    bool wants_ack = false;
    bool rendezvous = false;
};

// A receive: posted, or taking the pieces of a large message.
struct alignas(64) RxOp : Pooled, ListHook { // What a small message needs, which most are, lies in the first two lines.
    void* context = nullptr;
    std::uint64_t flags = 0; // FI_COMPLETION, FI_MULTI_RECV, ... as they hold for this receive.
    std::uint64_t tag = 0;
    std::uint64_t ignore = 0;
    fi_addr_t source = FI_ADDR_UNSPEC;
    Buffers to;

    // A large message in flight.
    Envelope message;
    std::size_t wanted = 0; // What fits, and was asked for.
    std::size_t got = 0;
    bool fetched = false;    // By us, rather than sent;
    Buffers from;            // from here in its sender's memory.
    std::uint64_t chunk = 0; // While both ends copy it: the size of a part,
    std::uint32_t mine = 0;  // and how many of them we took.
    bool spoilt = false;     // Ours could not be copied.
    RxOp* parent = nullptr;  // The multi-receive buffer in which this piece lies.

    // A multi-receive buffer.
    std::size_t used = 0;
    std::uint32_t pending = 0; // Large messages in flight into it.
    bool retired = false;      // No longer posted: too little room is left, or it was given up
    int given_up = 0;          // for this reason, FI_E*, told once nothing is in flight into it any more.
};

struct Unexpected : Pooled, ListHook {
    Envelope message;
    std::unique_ptr<std::byte[]> data; // Empty for a rendezvous.
    std::size_t bytes = 0;             // In data.
    void* claimed_by = nullptr;        // FI_CLAIM: context of the peek that set it aside.
};

// One matching space: tagged and untagged messages have one each, and those of collectives.
struct MatchQueue {
    using Posted = boost::intrusive::list<RxOp, boost::intrusive::constant_time_size<false>>;
    using Waiting = boost::intrusive::list<Unexpected, boost::intrusive::constant_time_size<false>>;
    Posted posted;
    Waiting unexpected;
};

[[nodiscard]] inline bool tags_match(std::uint64_t wanted, std::uint64_t ignore, std::uint64_t tag) noexcept {
    return ((wanted ^ tag) & ~ignore) == 0;
}

} // namespace nvlf::ofi
