// SPDX-License-Identifier: MIT OR GPL-2.0-only
// wire.hpp - what two endpoints of this provider say to each other in the slots of their lanes.
//
// A slot names an operation; its `tag` and up to 48 bytes of data are the operation's header, followed by the payload
// when that fits. A larger payload lies in the lane's data ring (flag_ring) and then `len` is its length there. All
// fields are written by a stranger: the receiving end copies a slot once, checks, and only then acts.
//
//   small, middle   msg                      payload in the slot or the ring; done for the sender when published
//   large           rts -> ack               the receiver fetched it, from where the sender said that it lies;
//                          share before ack  both copied, as far as the sender is there
//                   rts -> cts -> data ...   it cannot: the payload moves only when a buffer waits for it
//   collective      coll, or rts with flag_coll  in a matching space of their own
//   one-sided       write ... -> applied     on memory that is not fabric memory: the target's progress applies it
//                   read -> data ... / ack   (a refusal is an ack with an error)
//                   atomic -> result / ack
//
// Identifiers are handles of the sender's own table (pool.hpp); the other end returns them as they came.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "nvlf/lane.h"

namespace nvlf::ofi::wire {

enum Op : std::uint8_t {
    op_msg = 1,   // Whole message. flag_tagged, flag_cq_data, flag_ack.
    op_rts,       // A large message waits at its sender.
    op_cts,       // Send me so much of it.
    op_data,      // A piece of a large message.
    op_read_data, // A piece of what a read asked for.
    op_ack,       // A message was delivered; or what was asked is refused.
    op_write,     // One piece of a one-sided write; tag = key.
    op_read,      // tag = key.
    op_notify,    // A one-sided operation is complete, all of it; tag = the access it made, and notify_context.
    op_bye,       // The endpoint closes in good order.
    op_atomic,    // An atomic operation; tag = key when there is one segment.
    op_result,    // What an atomic operation found.
    op_coll,      // Whole message of a collective; tag = whose group.
    op_applied,   // So many pieces of your writes were taken in since the first.
    op_share,     // Help me to copy it.
};

enum Flag : std::uint8_t {
    flag_ring = 1, // The payload is in the data ring.
    flag_tagged = 2,
    flag_cq_data = 4,
    flag_ack = 8,      // The sender wants to hear of the delivery (op_msg, op_rts).
    flag_coll = 16,    // Of a collective (op_rts); cq_data is what Coll is for a whole message.
    flag_context = 32, // The message is for another receive context than the first (op_msg).
};

// Headers, each at the start of slot.data.
struct Msg {
    std::uint64_t cq_data; // Present only with flag_cq_data.
    std::uint64_t id;      // Present only with flag_ack; after cq_data if that is there.
    std::uint64_t context; // Present only with flag_context; after the others. The receiver's, by number.
};
struct Rts {
    std::uint64_t id; // The sender's.
    std::uint64_t total;
    std::uint64_t cq_data;
    std::uint64_t address = 0; // Where all of it lies in the sender's memory; 0: in several Pieces, or not told.
    std::uint64_t context = 0; // As in Msg; 0: the first.
};
struct Pieces { // Of a large message, in the sender's memory: the payload of op_rts with flag_ring.
    std::uint64_t count;
    struct {
        std::uint64_t address;
        std::uint64_t bytes;
    } piece[4];
};
struct Cts {
    std::uint64_t id;       // The sender's.
    std::uint64_t receiver; // The receiver's, to go with the data.
    std::uint64_t wanted;   // At most `total`: less when the buffer is too small.
};
struct Share {             // Of a message that the receiver fetches: help, from the back. See share.hpp.
    std::uint64_t id;      // The sender's.
    std::uint64_t address; // Of the buffer, in the receiver's memory.
    std::uint64_t wanted;
    std::uint64_t chunk; // Bytes.
    std::uint64_t ticket;
};
struct Data {
    std::uint64_t receiver; // op_data: from the cts. op_read_data: the reader's id.
    std::uint64_t notify;   // op_read_data: as in an Ack.
};
struct Ack {
    std::uint64_t id;
    std::uint32_t error;  // FI_E*, positive; 0: fine.
    std::uint32_t notify; // Of a one-sided operation, 1: the target wants an op_notify once all of it is complete.
};
struct Write {
    std::uint64_t address; // Virtual address or offset in the region, as the target's mr_mode has it.
    std::uint64_t id;
};
struct Applied {
    std::uint64_t count; // Refused ones included: each of those has an ack, before this.
};
struct Read {
    std::uint64_t address;
    std::uint64_t bytes;
    std::uint64_t id;
};
// Followed by the segments if they are more than one (as many Segments; then `address` and the tag say nothing), the first
// operands of all elements and, in its class, the second ones.
struct Atomic {
    std::uint64_t address;
    std::uint64_t id;
    std::uint32_t count; // Elements.
    std::uint8_t datatype;
    std::uint8_t op;
    std::uint8_t kind;
    std::uint8_t segments;
};
struct Segment {
    std::uint64_t address;
    std::uint64_t bytes;
    std::uint64_t key;
};
struct Result { // Followed by the elements.
    std::uint64_t id;
};
// Followed by the keys of the segments, as many as slot.len has room for. The access is FI_REMOTE_WRITE for what changed
// memory, FI_REMOTE_READ for what brought something back, or both.
inline constexpr unsigned notify_context = 32; // From this bit on, the tag is the context that hears of it: as in Msg.
struct Notify {
    std::uint64_t bytes;
    std::uint64_t cq_data; // Only with flag_cq_data.
};

struct Coll {          // Followed by the payload, if that is in the slot.
    std::uint64_t key; // coll_key.hpp
};

template <class Header>
void put(nvlf_slot& slot, const Header& header) noexcept {
    static_assert(sizeof(Header) <= NVLF_SLOT_DATA && std::is_trivially_copyable_v<Header>);
    std::memcpy(slot.data, &header, sizeof header);
}

// From our copy of the slot.
template <class Header>
[[nodiscard]] Header get(const nvlf_slot& slot) noexcept {
    static_assert(sizeof(Header) <= NVLF_SLOT_DATA && std::is_trivially_copyable_v<Header>);
    Header header;
    std::memcpy(&header, slot.data, sizeof header);
    return header;
}

} // namespace nvlf::ofi::wire
