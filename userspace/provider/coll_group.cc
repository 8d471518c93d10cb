// SPDX-License-Identifier: MIT OR GPL-2.0-only
// coll_group.cc - collective groups: joining, leaving, and the way to the members.
//
// Joining is a collective itself: all members contribute to a maximum, the first one (the leader) the number that the
// group shall have, and the others nothing. So all know the number in the end, and nobody's join is over before all have
// called it. Until then the group is known by its members; members that join the same set several times do so in the
// same order, and count.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "base/cancel.hpp"
#include "collectives.hpp"
#include "eq.hpp"
#include "none.hpp"
#include "params.hpp"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

// Address of a group: its place in the endpoint's table, and which group in the course of time that is.
constexpr fi_addr_t group_address = fi_addr_t{1} << 62;
constexpr unsigned generation_shift = 32;
constexpr std::uint32_t generation_mask = (1U << 28) - 1;

constexpr auto resolve_retry = std::chrono::milliseconds{1};

Group& group_of_fid(fid* object) noexcept { return *reinterpret_cast<Group*>(object); }

int mc_close(fid* object) {
    Group& group = group_of_fid(object);
    Collectives& home = group.home;
    const std::lock_guard guard{home.ep.lock()};
    home.close(group);
    return 0;
}

fi_ops mc_fid_ops{sizeof(fi_ops), mc_close, no_bind, no_control, no_ops_open, no_tostr, no_ops_set};

// The same at all members, and hardly ever the same for other members.
std::uint64_t hash_of(const std::vector<Member>& members) noexcept {
    std::uint64_t hash = members.size();
    for (const Member& member : members) {
        hash = (hash ^ coll::identity(member.address)) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
        hash *= 0xbf58476d1ce4e5b9ULL;
        hash ^= hash >> 32;
    }
    return hash;
}

bool is_service(const nvlf_addr& address) noexcept { return address.endpoint == 0 && address.epoch == 0; }

} // namespace

const Member* Group::member(const nvlf_addr& address) const noexcept {
    const auto there = std::find_if(members.begin(), members.end(), [&](const Member& m) {
        return coll::identity(m.address) == coll::identity(address);
    });
    return there != members.end() ? &*there : nullptr;
}

Collectives::~Collectives() {
    for (CollOp& op : active) cancel_messages(op);
    ep.tx_ops.for_each_used([this](TxOp& tx) {
        if (tx.collective) drop_send(tx); // The endpoint goes, and with it whoever could fetch it.
    });
    active.clear_and_dispose([](CollOp* op) { delete op; });
    queue.unexpected.clear_and_dispose([this](Unexpected* u) { context().forget(*u); });
}

int Collectives::join(fi_addr_t parent, const AvSet& set, fid_mc** ret_mc, void* context) try {
    if (ep.ep == nullptr) return -FI_EOPBADSTATE;
    if (ep.dead != 0) return -ep.dead;
    if (ep.eq == nullptr) return -FI_ENOEQ;
    if (&set.av != ep.av || set.members.empty()) return -FI_EINVAL;
    // Of what the new group is a part makes no difference to us; but it must be something.
    if (parent != FI_ADDR_NOTAVAIL && !is_av_set_address(parent) && find(parent) == nullptr) return -FI_EINVAL;

    auto group = std::make_unique<Group>(*this);
    group->collectives = set.collectives;
    for (const fi_addr_t member : set.members) {
        nvlf_addr address{};
        if (!ep.av->lookup(member, address)) return -FI_EINVAL;
        group->members.push_back({.fi_addr = member, .address = address});
    }
    auto slot = std::find_if(groups.begin(), groups.end(), [](const Slot& s) { return s.group == nullptr; });
    if (slot == groups.end()) {
        if (groups.size() == groups_limit) return -FI_EMFILE;
        slot = groups.emplace(groups.end());
    }
    if (const int ret = resolve(*group); ret != 0 && ret != -FI_EAGAIN) return ret;
    auto op = std::make_unique<CollOp>();
    op->group = group.get();
    op->account = ep.tx;
    op->context = context;
    op->join = true;
    if (group->resolved) begin_join(*op);

    slot->generation = (slot->generation + 1) & generation_mask;
    group->fid = {.fid = {.fclass = FI_CLASS_MC, .context = context, .ops = &mc_fid_ops},
                  .fi_addr = group_address | fi_addr_t{slot->generation} << generation_shift |
                             static_cast<fi_addr_t>(slot - groups.begin())};
    ++group->operations;
    *ret_mc = &group->fid;
    slot->group = std::move(group);
    ++operations;
    ++joining;
    active.push_back(*op);
    sort_out(); // It may have failed already.
    run(*op.release());
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

// Finds the endpoints behind services, and our own rank. 0, -FI_EAGAIN (somebody is not there yet), -FI_EINVAL.
int Collectives::resolve(Group& group) noexcept {
    for (Member& member : group.members) {
        if (!is_service(member.address)) continue;
        const int e = nvlf_ep_lookup(ep.domain.nvlf, &member.address);
        if (e == -ENOENT) return -FI_EAGAIN;
        if (e != 0) return e;
    }
    const Member* const me = group.member(*nvlf_ep_addr(ep.ep));
    if (me == nullptr) return -FI_EINVAL;
    for (const Member& member : group.members) // Each endpoint once, under whatever addresses.
        if (group.member(member.address) != &member) return -FI_EINVAL;
    group.rank = static_cast<std::uint32_t>(me - group.members.data());
    group.resolved = true;
    return 0;
}

// Throws bad_alloc.
void Collectives::begin_join(CollOp& op) {
    Group& group = *op.group;
    constexpr Elements number{1, sizeof(std::uint64_t)};
    op.schedule = plan_allreduce(group.place(), number, reinterpret_cast<const std::byte*>(&group.proposed),
                                 reinterpret_cast<std::byte*>(&group.agreed), reduction(FI_MAX, FI_UINT64));
    op.tag = hash_of(group.members);
    op.key = coll::key_of_join(joins[op.tag]++);
    if (group.rank == 0) group.proposed = ++led;
}

// Called whenever a join has come to something: its members are (or are not yet) there, it is over, it failed.
void Collectives::end_join(CollOp& op) noexcept {
    Group& group = *op.group;
    if (op.error == 0 && !group.resolved) {
        const auto now = Endpoint::Clock::now();
        op.stalled = true;
        if (now < next_resolve) return;
        next_resolve = now + resolve_retry;
        try {
            const int e = resolve(group);
            if (e == 0) begin_join(op);
            else if (e != -FI_EAGAIN) op.fail(-e);
        } catch (const std::bad_alloc&) {
            op.fail(FI_ENOMEM);
        }
        if (op.error == 0) sort_out();
        return;
    }
    --joining;
    group.state = op.error == 0 ? Group::State::open : Group::State::failed;
    const nvlf_addr& leader = group.members.front().address;
    group.tag = coll::identity(leader);
    group.key = coll::key_of_group(group.agreed);
    sort_out();
    if (group.closed) return; // Nobody to tell.
    int pushed = 0;
    if (op.error == 0) {
        const fi_eq_entry entry{.fid = &group.fid.fid, .context = op.context, .data = 0};
        pushed = ep.eq->push(FI_JOIN_COMPLETE, &entry, sizeof entry);
    } else {
        fi_eq_err_entry entry{};
        entry.fid = &group.fid.fid;
        entry.context = op.context;
        entry.err = op.error;
        pushed = ep.eq->push_error(entry);
    }
    const Uncancellable whole;
    if (pushed != 0) FI_WARN(&provider, FI_LOG_EP_CTRL, "event queue has no room for the end of a join\n");
}

Group* Collectives::find(fi_addr_t address) noexcept {
    const std::size_t index = address & UINT32_MAX;
    if ((address >> generation_shift & ~fi_addr_t{generation_mask}) != group_address >> generation_shift ||
        index >= groups.size() || groups[index].generation != (address >> generation_shift & generation_mask))
        return nullptr;
    Group* const group = groups[index].group.get();
    return group != nullptr && !group->closed ? group : nullptr;
}

bool Collectives::any_group() const noexcept {
    return std::any_of(groups.begin(), groups.end(),
                       [](const Slot& s) { return s.group != nullptr && !s.group->closed; });
}

Group* Collectives::group_of(std::uint64_t tag, std::uint64_t key, bool also_closed) noexcept {
    for (Slot& slot : groups)
        if (Group* const g = slot.group.get(); g != nullptr && (also_closed || !g->closed) &&
                                               g->state == Group::State::open && g->tag == tag &&
                                               coll::counted(g->key) == coll::counted(key))
            return g;
    return nullptr;
}

// The members that wait for us in a collective of ours must hear that we do not go on.
void Collectives::close(Group& group) noexcept {
    group.closed = true;
    for (auto it = active.begin(); it != active.end();) {
        CollOp& op = *it++;
        if (op.group != &group) continue;
        op.fail(FI_ECANCELED);
        if (group.operations == 1) return run(op); // The group goes with it, or when all have been told.
        run(op);
    }
    release(group);
}

// Frees a closed group that nothing works on any more.
void Collectives::release(Group& group) noexcept {
    if (!group.closed || group.operations > 0) return;
    const auto slot =
        std::find_if(groups.begin(), groups.end(), [&](const Slot& s) { return s.group.get() == &group; });
    slot->group.reset();
    ep.to_bury = true; // Records of peers that only the group remembered.
    sort_out();
}

// The peer that a member is, met now if it was not before. nullptr: gone (an error), or on its way (-FI_EAGAIN).
Peer* Collectives::reach(Member& member, ssize_t& error) noexcept try {
    if (member.peer == nullptr) {
        if (ep.dead != 0) return error = -ep.dead, nullptr;
        Peer* peer = ep.known(member.address);
        if (peer == nullptr) {
            const int e = ep.connect(member.address, peer);
            if (e != 0) return error = ep.refused(member.address, e), nullptr;
        }
        member.peer = peer;
    }
    if (member.peer->up()) return member.peer;
    error = member.peer->state == Peer::State::closed ? -FI_ECONNRESET : -FI_ECONNABORTED;
    return nullptr;
} catch (const std::bad_alloc&) {
    error = -FI_ENOMEM;
    return nullptr;
}

} // namespace nvlf::ofi
