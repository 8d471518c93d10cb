// SPDX-License-Identifier: MIT OR GPL-2.0-only
// update.cc - atomic operations, at the initiator and at the target.
//
// On fabric memory the initiator applies them itself, on its own mapping of the target's memory. On other memory one slot
// carries the whole operation, and the target's progress applies it: either all of it or, when a segment is refused,
// nothing. Both ways end in the same functions (atomic_ops.hpp), so the target's threads and all peers may update the
// same elements at the same time.
//
// An element whose address is not a multiple of its size is refused (FI_EINVAL): the processor would not be atomic there,
// or not do it at all.
#include <new>

#include "endpoint.hpp"

namespace nvlf::ofi {
namespace {

constexpr std::size_t inline_atomic = NVLF_SLOT_DATA - sizeof(wire::Atomic);
constexpr std::size_t inline_result = NVLF_SLOT_DATA - sizeof(wire::Result);
static_assert(iov_limit * sizeof(wire::Segment) + 2 * atomic_limit <= lane_data_max);
static_assert(iov_limit * sizeof(wire::Segment) + 2 * atomic_limit <= UINT16_MAX);

bool aligned(const void* at, std::size_t bytes) noexcept { return reinterpret_cast<std::uintptr_t>(at) % bytes == 0; }

// No element lies across the end of a piece.
bool whole_elements(const Buffers& range, std::size_t element) noexcept {
    bool whole = true;
    range.each(0, range.total,
               [&](const std::byte* at, std::size_t bytes) { whole &= aligned(at, element) && bytes % element == 0; });
    return whole;
}

// A position in a scatter/gather list of whole elements. One without entries has no end, and no address.
class Cursor {
public:
    explicit Cursor(const Buffers& buffers) noexcept : buffers_{buffers} { skip_empty(); }
    [[nodiscard]] std::byte* at() const noexcept {
        return buffers_.count != 0 ? static_cast<std::byte*>(buffers_.iov[index_].iov_base) + offset_ : nullptr;
    }
    [[nodiscard]] std::size_t left() const noexcept {
        return buffers_.count != 0 ? buffers_.iov[index_].iov_len - offset_ : SIZE_MAX;
    }
    void advance(std::size_t bytes) noexcept {
        if (buffers_.count == 0) return;
        offset_ += bytes;
        skip_empty();
    }

private:
    void skip_empty() noexcept {
        while (index_ + 1 < buffers_.count && offset_ == buffers_.iov[index_].iov_len) {
            ++index_;
            offset_ = 0;
        }
    }
    const Buffers& buffers_;
    std::size_t index_ = 0;
    std::size_t offset_ = 0;
};

// ---- What came from a peer -------------------------------------------------------------------------------------------

// An operation as it was read from the lane, checked as far as that goes without looking at registrations.
struct Arrived {
    AtomicFunction function = nullptr;
    std::size_t element = 0; // Bytes.
    std::size_t bytes = 0;   // Of all elements.
    std::uint64_t access = 0;
    std::array<RmaSegment, iov_limit> segment{};
    std::size_t segments = 0;
    const std::byte* operand = nullptr; // In shared memory: read once.
    const std::byte* compare = nullptr;
    bool answers = false; // With what it found.
};

// False: no honest peer sends that.
bool read_segments(const wire::Atomic& atomic, std::uint64_t key, std::span<const std::byte>& payload,
                   Arrived& ret) noexcept {
    ret.segments = atomic.segments;
    if (ret.segments == 1) {
        ret.segment[0] = {atomic.address, ret.bytes, key};
        return true;
    }
    if (ret.segments == 0 || ret.segments > iov_limit || payload.size() < ret.segments * sizeof(wire::Segment))
        return false;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < ret.segments; ++i) {
        wire::Segment segment;
        std::memcpy(&segment, payload.data() + i * sizeof segment, sizeof segment);
        if (segment.bytes > ret.bytes || segment.bytes % ret.element != 0) return false;
        sum += segment.bytes;
        ret.segment[i] = {segment.address, segment.bytes, segment.key};
    }
    payload = payload.subspan(ret.segments * sizeof(wire::Segment));
    return sum == ret.bytes;
}

bool read_atomic(const wire::Atomic& atomic, std::uint64_t key, std::span<const std::byte> payload,
                 Arrived& ret) noexcept {
    const auto kind = static_cast<AtomicClass>(atomic.kind);
    ret.function = atomic_function(kind, atomic.datatype, atomic.op);
    if (ret.function == nullptr) return false;
    ret.element = atomic_bytes(atomic.datatype);
    if (atomic.count == 0 || atomic.count > atomic_limit / ret.element) return false;
    ret.bytes = atomic.count * ret.element;
    ret.access = atomic_access(kind, atomic.op);
    ret.answers = kind != AtomicClass::base;
    if (!read_segments(atomic, key, payload, ret)) return false;
    const std::size_t operands = (atomic.op != FI_ATOMIC_READ ? 1U : 0U) + (kind == AtomicClass::compare ? 1U : 0U);
    ret.operand = payload.data();
    ret.compare = payload.data() + ret.bytes;
    return payload.size() == operands * ret.bytes;
}

} // namespace

// ---- The initiator ---------------------------------------------------------------------------------------------------

ssize_t Endpoint::start(Peer& peer, const AtomicRequest& request) noexcept {
    return may_go_direct(peer) && try_direct(peer, request) ? 0 : push_atomic(peer, request);
}

// True: done, completion included.
bool Endpoint::try_direct(Peer& peer, const AtomicRequest& request) noexcept {
    Places at{};
    std::uint64_t events = 0;
    const std::span<const RmaSegment> segments{request.segment.data(), request.segments};
    const std::uint64_t access = atomic_access(request.kind, request.op);
    if (!reach(peer, segments, access, at, events)) return false;
    const bool told = (events & access) != 0;
    if (told && peer.tx.room(0, control_reserve).failed()) return false;
    const std::size_t element = atomic_bytes(request.datatype);
    for (std::size_t i = 0; i < request.segments; ++i) {
        if (aligned(at[i], element)) continue;
        request.tx->fail(request.completes_as(), request.context, FI_EINVAL);
        return true;
    }
    Cursor operand{request.operand}, compare{request.compare}, result{request.result};
    for (std::size_t i = 0; i < request.segments; ++i) {
        for (std::size_t done = 0; done < request.segment[i].bytes;) {
            const std::size_t part =
                std::min<std::size_t>({request.segment[i].bytes - done, operand.left(), compare.left(), result.left()});
            request.function(at[i] + done, operand.at(), compare.at(), result.at(), part / element);
            operand.advance(part);
            compare.advance(part);
            result.advance(part);
            done += part;
        }
    }
    if (told) notify(peer, access, segments, request.bytes, nullptr);
    request.tx->complete(request.completes_as(), request.flags, request.context, request.silent);
    return true;
}

// Copies the operands into the lane: the caller's buffers are free when it returns.
ssize_t Endpoint::push_atomic(Peer& peer, const AtomicRequest& request) noexcept {
    // As with reads and writes. And results that the target cannot send it has to keep.
    if (!peer.control.empty() || request.result.total > result_limit - peer.wanted_bytes) return -FI_EAGAIN;
    const std::size_t table = request.segments > 1 ? request.segments * sizeof(wire::Segment) : 0;
    const auto bytes = static_cast<std::uint32_t>(table + request.operand.total + request.compare.total);
    const bool in_ring = bytes > inline_atomic;
    if (const Errno e = peer.tx.room(in_ring ? bytes : 0, control_reserve); e.failed()) return no_room(peer, e);
    TxOp* op = tx_ops.take();
    if (op == nullptr) return -FI_EAGAIN;
    op->kind = request.kind == AtomicClass::base ? TxOp::Kind::atomic : TxOp::Kind::fetch;
    op->peer = &peer;
    op->tx = request.tx;
    op->context = request.context;
    op->flags = request.flags;
    op->silent = request.silent;
    op->streaming = false;
    op->delivered = false;
    op->local = request.result;
    began(*op);

    nvlf_slot& slot = peer.tx.slot();
    std::byte* to = in_ring ? peer.tx.payload(bytes) : reinterpret_cast<std::byte*>(slot.data) + sizeof(wire::Atomic);
    for (std::size_t i = 0; table != 0 && i < request.segments; ++i) {
        const wire::Segment segment{request.segment[i].address, request.segment[i].bytes, request.segment[i].key};
        std::memcpy(to + i * sizeof segment, &segment, sizeof segment);
    }
    request.operand.gather(0, to + table, request.operand.total);
    request.compare.gather(0, to + table + request.operand.total, request.compare.total);
    wire::put(slot, wire::Atomic{request.segment[0].address, op->handle(),
                                 static_cast<std::uint32_t>(request.bytes / atomic_bytes(request.datatype)),
                                 request.datatype, request.op, static_cast<std::uint8_t>(request.kind),
                                 static_cast<std::uint8_t>(request.segments)});
    slot.op = wire::op_atomic;
    slot.tag = request.segment[0].key;
    slot.flags = in_ring ? std::uint8_t{wire::flag_ring} : std::uint8_t{0};
    slot.len = static_cast<std::uint16_t>(in_ring ? bytes : sizeof(wire::Atomic) + bytes);
    peer.tx.publish();
    nvlf_channel_notify(peer.channel);
    return 0;
}

bool Endpoint::on_result(Peer& peer, const nvlf_slot& slot) noexcept {
    std::span<const std::byte> payload;
    if (!payload_of(peer, slot, sizeof(wire::Result), payload)) return broken(peer);
    TxOp* op = tx_ops.find(wire::get<wire::Result>(slot).id);
    if (op == nullptr || op->peer != &peer || op->kind != TxOp::Kind::fetch) return true;
    if (payload.size() != op->local.total) return broken(peer);
    (void)op->local.scatter(0, payload);
    op->delivered = true;
    maybe_finish(*op);
    return true;
}

// ---- The target ------------------------------------------------------------------------------------------------------

bool Endpoint::on_atomic(Peer& peer, const nvlf_slot& slot) noexcept {
    if (peer.result_bytes > result_limit) return false;
    const auto atomic = wire::get<wire::Atomic>(slot);
    std::span<const std::byte> payload;
    Arrived arrived;
    if (!payload_of(peer, slot, sizeof(wire::Atomic), payload) || !read_atomic(atomic, slot.tag, payload, arrived))
        return broken(peer);

    std::array<Buffers, iov_limit> at{};
    std::uint32_t error = 0;
    for (std::size_t i = 0; i < arrived.segments && error == 0; ++i) {
        const RmaSegment& s = arrived.segment[i];
        const auto where = domain.mrs.resolve(s.key, s.address, s.bytes, arrived.access, this);
        if (!where) error = static_cast<std::uint32_t>(where.error().value());
        else if (!whole_elements(*where, arrived.element)) error = FI_EINVAL;
        else at[i] = *where;
    }
    nvlf_slot answer_slot{};
    std::byte* result = reinterpret_cast<std::byte*>(answer_slot.data) + sizeof(wire::Result);
    TxOp* waiting = nullptr;
    if (error == 0 && arrived.answers && arrived.bytes > inline_result) {
        waiting = begin_result(peer, atomic.id, arrived.bytes);
        if (waiting == nullptr) error = FI_ENOMEM;
        else result = waiting->copy.get();
    }
    if (error == 0) {
        std::size_t done = 0;
        for (std::size_t i = 0; i < arrived.segments; ++i)
            at[i].each(0, at[i].total, [&](std::byte* part, std::size_t bytes) {
                arrived.function(part, arrived.operand + done, arrived.compare + done, result + done,
                                 bytes / arrived.element);
                done += bytes;
            });
        count_access(arrived.access, {arrived.segment.data(), arrived.segments});
    }
    if (waiting != nullptr) {
        start_stream(peer, *waiting);
    } else if (error == 0 && arrived.answers) {
        answer_slot.op = wire::op_result;
        answer_slot.len = static_cast<std::uint16_t>(sizeof(wire::Result) + arrived.bytes);
        wire::put(answer_slot, wire::Result{atomic.id});
        answer(peer, answer_slot);
    } else {
        answer(peer, wire::op_ack, wire::Ack{atomic.id, error, 0});
    }
    return true;
}

// A result that does not fit a slot, to be filled in. nullptr: there are too many already, or there is no memory.
TxOp* Endpoint::begin_result(Peer& peer, std::uint64_t id, std::size_t bytes) noexcept {
    if (peer.responses >= tx_limit - responses.used()) return nullptr; // As with reads: fair.
    TxOp* op = responses.take();
    if (op == nullptr) return nullptr;
    op->copy.reset(new (std::nothrow) std::byte[bytes]);
    if (op->copy == nullptr) {
        responses.give(op);
        return nullptr;
    }
    op->kind = TxOp::Kind::result;
    op->peer = &peer;
    op->remote = id;
    op->total = bytes;
    ++peer.responses;
    peer.result_bytes += bytes;
    return op;
}

bool Endpoint::push_result(Peer& peer, TxOp& op) noexcept {
    const auto bytes = static_cast<std::uint32_t>(op.total);
    if (peer.tx.room(bytes, control_reserve).failed()) return false;
    nvlf_slot& slot = peer.tx.slot();
    slot.op = wire::op_result;
    slot.flags = wire::flag_ring;
    slot.len = static_cast<std::uint16_t>(bytes);
    wire::put(slot, wire::Result{op.remote});
    std::memcpy(peer.tx.payload(bytes), op.copy.get(), bytes);
    peer.tx.publish();
    op.streaming = false;
    return true;
}

} // namespace nvlf::ofi
