// SPDX-License-Identifier: MIT OR GPL-2.0-only
// events.cc - how the target of one-sided operations comes to know of them.
//
// What is done directly on fabric memory passes the target by, and what goes by messages reaches it in pieces, each on its
// own: only the initiator knows when an operation is complete and that no part of it was refused. So it is the initiator
// who says so, by an op_notify behind the data, and only where somebody cares: when the operation carries remote CQ data, or
// the target counts such operations (fi_ep_bind, fi_mr_bind with FI_REMOTE_READ and FI_REMOTE_WRITE). That a target counts is
// written in its directory entry (direct.cc) and in its answers (onesided.cc); who does not count costs nobody a slot.
#include <algorithm>

#include "endpoint.hpp"

namespace nvlf::ofi {

static_assert((FI_REMOTE_READ | FI_REMOTE_WRITE) >> wire::notify_context == 0);
static_assert(sizeof(wire::Notify) + iov_limit * sizeof(std::uint64_t) <= NVLF_SLOT_DATA);

// What the counters of any receive context count.
std::uint64_t Endpoint::counted_access() const noexcept {
    std::uint64_t access = 0;
    for (const RxBinding& binding : rx_bindings)
        access |= (binding.remote_read_cntr != nullptr ? FI_REMOTE_READ : 0) |
                  (binding.remote_write_cntr != nullptr ? FI_REMOTE_WRITE : 0);
    return access;
}

// Access to this registration through this endpoint of which somebody here wants to hear: FI_REMOTE_READ, FI_REMOTE_WRITE.
std::uint64_t Endpoint::events_of(const Mr& mr) const noexcept {
    return counted_access() | (mr.remote_write_cntr != nullptr ? FI_REMOTE_WRITE : 0);
}

bool Endpoint::wants_notify(std::uint64_t key, std::uint64_t access) const noexcept {
    if (counted_access() == 0 && !domain.counted_mrs.load()) return false;
    bool wanted = false;
    domain.mrs.look_at(key, [&](const Mr& mr) { wanted = (events_of(mr) & access) != 0; });
    return wanted;
}

// To be called when the operation is complete: slots are released after what was written before them.
void Endpoint::notify(Peer& peer, std::uint64_t access, std::span<const RmaSegment> segments, std::uint64_t bytes,
                      const std::uint64_t* cq_data, std::uint32_t target) noexcept {
    nvlf_slot slot{};
    slot.op = wire::op_notify;
    slot.tag = access | std::uint64_t{target} << wire::notify_context;
    slot.flags = cq_data != nullptr ? std::uint8_t{wire::flag_cq_data} : std::uint8_t{0};
    wire::put(slot, wire::Notify{bytes, cq_data != nullptr ? *cq_data : 0});
    std::size_t at = sizeof(wire::Notify);
    for (const RmaSegment& segment : segments) {
        std::memcpy(slot.data + at, &segment.key, sizeof segment.key);
        at += sizeof segment.key;
    }
    slot.len = static_cast<std::uint16_t>(at);
    answer(peer, slot);
}

bool Endpoint::on_notify(Peer& peer, const nvlf_slot& slot) noexcept {
    const auto notify = wire::get<wire::Notify>(slot);
    if (slot.len < sizeof notify || slot.len > sizeof notify + iov_limit * sizeof(std::uint64_t)) return broken(peer);
    // Access of no kind would need no right, and be counted as a write.
    const auto access = static_cast<std::uint32_t>(slot.tag);
    if (access == 0 || (access & ~(FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0) return broken(peer);
    std::array<RmaSegment, iov_limit> segment{};
    const std::size_t segments = (slot.len - sizeof notify) / sizeof segment[0].key;
    for (std::size_t i = 0; i < segments; ++i)
        std::memcpy(&segment[i].key, slot.data + sizeof notify + i * sizeof segment[i].key, sizeof segment[i].key);
    const RxBinding* const named = binding_for(slot.tag >> wire::notify_context);
    if (named == nullptr) return true;
    const RxBinding& binding = *named;
    // Who asked for none of this is told of none.
    if ((slot.flags & wire::flag_cq_data) != 0 && binding.cq != nullptr && (binding.caps & FI_REMOTE_WRITE) != 0) {
        if (binding.cq->crowded()) return false; // Its lane waits until the application has read some.
        binding.cq->push(
            {.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, .len = notify.bytes, .data = notify.cq_data});
    }
    count_access(access, {segment.data(), segments});
    return true;
}

// An operation of a peer's is complete that had this access to the registrations of these segments. The endpoint counts it
// once, as what it was for its initiator; a registration counts once what changed it. The keys are a stranger's words: who
// has none to our memory is not counted.
void Endpoint::count_access(std::uint64_t access, std::span<const RmaSegment> segments) noexcept {
    const std::uint64_t kind = (access & FI_REMOTE_READ) != 0 ? FI_REMOTE_READ : FI_REMOTE_WRITE;
    const bool counted = (counted_access() & kind) != 0;
    if (!counted && !domain.counted_mrs.load()) return;
    bool known = false;
    for (auto at = segments.begin(); at != segments.end(); ++at) {
        if (std::any_of(segments.begin(), at, [&](const RmaSegment& s) { return s.key == at->key; })) continue;
        domain.mrs.look_at(at->key, [&](const Mr& mr) {
            if ((access & ~mr.access) != 0 || !mr_reachable(mr, this)) return;
            known = true;
            if ((access & FI_REMOTE_WRITE) != 0 && mr.remote_write_cntr != nullptr) mr.remote_write_cntr->add(1);
        });
    }
    if (!known || !counted) return;
    for (const RxBinding& binding : rx_bindings) {
        Cntr* const cntr = kind == FI_REMOTE_READ ? binding.remote_read_cntr : binding.remote_write_cntr;
        if (cntr != nullptr) cntr->add(1);
    }
}

} // namespace nvlf::ofi
