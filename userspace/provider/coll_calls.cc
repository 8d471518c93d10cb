// SPDX-License-Identifier: MIT OR GPL-2.0-only
// coll_calls.cc - libfabric's collective calls, turned into schedules; fi_join_collective and fi_query_collective.
//
// fi_collective(3) leaves open what `count` counts. Here, for broadcast, reduce and allreduce it is the elements of the
// whole vector; for scatter, gather, allgather, alltoall and reduce_scatter those of one member's part, so that the longer
// of the two buffers has `count` times the size of the group. The root is named by its address in the vector, as every
// endpoint is.
//
// A collective completes where transmits do, and counts where base atomics do (FI_WRITE).
#include <rdma/fi_errno.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "atomic_ops.hpp"
#include "collectives.hpp"
#include "none.hpp"

namespace nvlf::ofi {
namespace {

constexpr std::uint64_t flags_known =
    FI_COMPLETION | FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
// Collectives of an endpoint that have not ended.
constexpr std::size_t operations_limit = tx_limit;

struct Call {
    enum fi_collective_op collective = FI_BARRIER;
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t count = 0;
    fi_addr_t group = FI_ADDR_NOTAVAIL;
    fi_addr_t root = FI_ADDR_NOTAVAIL;
    std::uint32_t datatype = FI_VOID;
    std::uint32_t op = FI_NOOP;
    std::uint64_t flags = 0;
    void* context = nullptr;
};

struct Kind {
    std::uint64_t set_flag; // By which a set asks for it.
    bool data;
    bool reduces;
    bool rooted;
    bool by_parts; // `count` is one member's part.
};

// nullptr: there is no such collective.
const Kind* kind_of(enum fi_collective_op collective) noexcept {
    static constexpr Kind barrier{FI_BARRIER_SET, false, false, false, false};
    static constexpr Kind broadcast{FI_BROADCAST_SET, true, false, true, false};
    static constexpr Kind alltoall{FI_ALLTOALL_SET, true, false, false, true};
    static constexpr Kind allreduce{FI_ALLREDUCE_SET, true, true, false, false};
    static constexpr Kind allgather{FI_ALLGATHER_SET, true, false, false, true};
    static constexpr Kind reduce_scatter{FI_REDUCE_SCATTER_SET, true, true, false, true};
    static constexpr Kind reduce{FI_REDUCE_SET, true, true, true, false};
    static constexpr Kind scatter{FI_SCATTER_SET, true, false, true, true};
    static constexpr Kind gather{FI_GATHER_SET, true, false, true, true};
    switch (collective) {
    case FI_BARRIER: return &barrier;
    case FI_BROADCAST: return &broadcast;
    case FI_ALLTOALL: return &alltoall;
    case FI_ALLREDUCE: return &allreduce;
    case FI_ALLGATHER: return &allgather;
    case FI_REDUCE_SCATTER: return &reduce_scatter;
    case FI_REDUCE: return &reduce;
    case FI_SCATTER: return &scatter;
    case FI_GATHER: return &gather;
    }
    return nullptr;
}

// Throws bad_alloc. All arguments have been checked.
Schedule plan(const Call& call, const Group& group, std::uint32_t root) {
    const Place place = group.place();
    const Elements data{call.count, std::max<std::size_t>(atomic_bytes(call.datatype), 1)};
    const auto* from = static_cast<const std::byte*>(call.from);
    auto* to = static_cast<std::byte*>(call.to);
    const Reduction op = reduction(call.op, call.datatype);
    switch (call.collective) {
    case FI_BARRIER: break;
    case FI_BROADCAST: return plan_broadcast(place, root, data, to);
    case FI_ALLTOALL: return plan_alltoall(place, data, from, to);
    case FI_ALLREDUCE: return plan_allreduce(place, data, from, to, op);
    case FI_ALLGATHER: return plan_allgather(place, data, from, to);
    case FI_REDUCE_SCATTER: return plan_reduce_scatter(place, data, from, to, op);
    case FI_REDUCE: return plan_reduce(place, root, data, from, to, op);
    case FI_SCATTER: return plan_scatter(place, root, data, from, to);
    case FI_GATHER: return plan_gather(place, root, data, from, to);
    }
    return plan_barrier(place);
}

// Which buffers a member must bring.
bool buffers_ok(const Call& call, bool is_root) noexcept {
    if (call.count == 0) return true;
    const bool gives = call.collective != FI_BROADCAST && (call.collective != FI_SCATTER || is_root);
    const bool gets = (call.collective != FI_REDUCE && call.collective != FI_GATHER) || is_root;
    return (!gives || call.from != nullptr) && (!gets || call.to != nullptr);
}

// 0, or what is wrong with the arguments.
ssize_t check(const Call& call, const Kind& kind, const Group& group, std::uint32_t& ret_root) noexcept {
    if ((call.flags & ~flags_known) != 0) return -FI_EBADFLAGS;
    if (group.state != Group::State::open) return -FI_EOPBADSTATE;
    if (group.collectives != 0 && (group.collectives & kind.set_flag) == 0) return -FI_EOPNOTSUPP;
    if (!kind.data) return 0;
    const std::size_t element = atomic_bytes(call.datatype);
    if (element == 0 || (kind.reduces && reduction(call.op, call.datatype) == nullptr)) return -FI_EOPNOTSUPP;
    if (call.count > max_msg_size / element / (kind.by_parts ? group.members.size() : 1)) return -FI_EMSGSIZE;
    if (kind.rooted) {
        const auto root = std::find_if(group.members.begin(), group.members.end(),
                                       [&](const Member& m) { return m.fi_addr == call.root; });
        if (root == group.members.end()) return -FI_EINVAL;
        ret_root = static_cast<std::uint32_t>(root - group.members.begin());
    }
    return buffers_ok(call, kind.rooted && ret_root == group.rank) ? 0 : -FI_EINVAL;
}

ssize_t start(fid_ep* fid, const Call& call) noexcept try {
    Endpoint& ep = endpoint_of(fid);
    if (ep.inherited()) return -FI_EOPBADSTATE;
    const Kind* const kind = kind_of(call.collective);
    if (kind == nullptr) return -FI_EINVAL;
    const std::lock_guard guard{ep.lock()};
    if (ep.dead != 0) return -ep.dead;
    Group* const group = ep.collectives->find(call.group);
    if (group == nullptr) return -FI_EINVAL;
    std::uint32_t root = 0;
    if (const ssize_t ret = check(call, *kind, *group, root); ret != 0) return ret;
    if (ep.collectives->operations >= operations_limit) return -FI_EAGAIN;
    EpFid& caller = ep_fid_of(fid);
    ep.collectives->start(*group, plan(call, *group, root), *caller.tx, call.context, call.flags | caller.tx_flags);
    ep.domain.work.stir();
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

// ---- The calls -------------------------------------------------------------------------------------------------------

ssize_t barrier(fid_ep* ep, fi_addr_t group, void* context) {
    return start(ep, {.collective = FI_BARRIER, .group = group, .context = context});
}

ssize_t barrier2(fid_ep* ep, fi_addr_t group, std::uint64_t flags, void* context) {
    return start(ep, {.collective = FI_BARRIER, .group = group, .flags = flags, .context = context});
}

ssize_t broadcast(fid_ep* ep, void* buf, std::size_t count, void*, fi_addr_t group, fi_addr_t root,
                  enum fi_datatype datatype, std::uint64_t flags, void* context) {
    return start(ep, {.collective = FI_BROADCAST,
                      .to = buf,
                      .count = count,
                      .group = group,
                      .root = root,
                      .datatype = datatype,
                      .flags = flags,
                      .context = context});
}

ssize_t alltoall(fid_ep* ep, const void* buf, std::size_t count, void*, void* result, void*, fi_addr_t group,
                 enum fi_datatype datatype, std::uint64_t flags, void* context) {
    return start(ep, {.collective = FI_ALLTOALL,
                      .from = buf,
                      .to = result,
                      .count = count,
                      .group = group,
                      .datatype = datatype,
                      .flags = flags,
                      .context = context});
}

ssize_t allreduce(fid_ep* ep, const void* buf, std::size_t count, void*, void* result, void*, fi_addr_t group,
                  enum fi_datatype datatype, enum fi_op op, std::uint64_t flags, void* context) {
    return start(ep, {.collective = FI_ALLREDUCE,
                      .from = buf,
                      .to = result,
                      .count = count,
                      .group = group,
                      .datatype = datatype,
                      .op = op,
                      .flags = flags,
                      .context = context});
}

ssize_t allgather(fid_ep* ep, const void* buf, std::size_t count, void*, void* result, void*, fi_addr_t group,
                  enum fi_datatype datatype, std::uint64_t flags, void* context) {
    return start(ep, {.collective = FI_ALLGATHER,
                      .from = buf,
                      .to = result,
                      .count = count,
                      .group = group,
                      .datatype = datatype,
                      .flags = flags,
                      .context = context});
}

ssize_t reduce_scatter(fid_ep* ep, const void* buf, std::size_t count, void*, void* result, void*, fi_addr_t group,
                       enum fi_datatype datatype, enum fi_op op, std::uint64_t flags, void* context) {
    return start(ep, {.collective = FI_REDUCE_SCATTER,
                      .from = buf,
                      .to = result,
                      .count = count,
                      .group = group,
                      .datatype = datatype,
                      .op = op,
                      .flags = flags,
                      .context = context});
}

ssize_t reduce(fid_ep* ep, const void* buf, std::size_t count, void*, void* result, void*, fi_addr_t group,
               fi_addr_t root, enum fi_datatype datatype, enum fi_op op, std::uint64_t flags, void* context) {
    return start(ep, {.collective = FI_REDUCE,
                      .from = buf,
                      .to = result,
                      .count = count,
                      .group = group,
                      .root = root,
                      .datatype = datatype,
                      .op = op,
                      .flags = flags,
                      .context = context});
}

ssize_t scatter(fid_ep* ep, const void* buf, std::size_t count, void*, void* result, void*, fi_addr_t group,
                fi_addr_t root, enum fi_datatype datatype, std::uint64_t flags, void* context) {
    return start(ep, {.collective = FI_SCATTER,
                      .from = buf,
                      .to = result,
                      .count = count,
                      .group = group,
                      .root = root,
                      .datatype = datatype,
                      .flags = flags,
                      .context = context});
}

ssize_t gather(fid_ep* ep, const void* buf, std::size_t count, void*, void* result, void*, fi_addr_t group,
               fi_addr_t root, enum fi_datatype datatype, std::uint64_t flags, void* context) {
    return start(ep, {.collective = FI_GATHER,
                      .from = buf,
                      .to = result,
                      .count = count,
                      .group = group,
                      .root = root,
                      .datatype = datatype,
                      .flags = flags,
                      .context = context});
}

// One segment a side, whose count is that of the other forms: these have no more either, and no libfabric call leads here.
ssize_t collective_msg(fid_ep* ep, const fi_msg_collective* msg, fi_ioc* results, void**, std::size_t result_count,
                       std::uint64_t flags) {
    if (msg == nullptr || msg->iov_count > 1 || result_count > 1) return -FI_EINVAL;
    if ((msg->iov_count == 1 && msg->msg_iov == nullptr) || (result_count == 1 && results == nullptr))
        return -FI_EINVAL;
    Call call{.collective = msg->coll,
              .group = msg->coll_addr,
              .root = msg->root_addr,
              .datatype = msg->datatype,
              .op = msg->op,
              .flags = flags,
              .context = msg->context};
    if (msg->iov_count == 1) {
        call.from = msg->msg_iov->addr;
        call.count = msg->msg_iov->count;
    }
    if (result_count == 1) {
        call.to = results->addr;
        if (msg->iov_count == 0) call.count = results->count;
    }
    if (msg->coll == FI_BROADCAST && msg->iov_count == 1) call.to = msg->msg_iov->addr;
    return start(ep, call);
}

} // namespace

fi_ops_collective collective_ops{sizeof(fi_ops_collective),
                                 barrier,
                                 broadcast,
                                 alltoall,
                                 allreduce,
                                 allgather,
                                 reduce_scatter,
                                 reduce,
                                 scatter,
                                 gather,
                                 collective_msg,
                                 barrier2};

int join_collective(fid_ep* fid, const void* address, std::uint64_t flags, fid_mc** ret_mc, void* context) noexcept {
    Endpoint& ep = endpoint_of(fid);
    if ((flags & FI_COLLECTIVE) == 0 || ep.collectives == nullptr) return -FI_ENOSYS; // Other multicast.
    // Every member sends and receives.
    const std::uint64_t direction = flags & (FI_SEND | FI_RECV);
    if ((flags & ~(FI_COLLECTIVE | FI_SEND | FI_RECV)) != 0 || direction == FI_SEND || direction == FI_RECV)
        return -FI_EBADFLAGS;
    const auto* const wanted = static_cast<const fi_collective_addr*>(address);
    if (wanted == nullptr || wanted->set == nullptr || ret_mc == nullptr) return -FI_EINVAL;
    if (ep.inherited()) return -FI_EOPBADSTATE;
    const std::lock_guard guard{ep.lock()};
    const int ret = ep.collectives->join(wanted->coll_addr, av_set_of(wanted->set), ret_mc, context);
    ep.domain.work.stir();
    return ret;
}

int query_collective(fid_domain*, enum fi_collective_op collective, fi_collective_attr* attr,
                     std::uint64_t flags) noexcept {
    const Kind* const kind = kind_of(collective);
    if (attr == nullptr || attr->mode != 0 || kind == nullptr) return -FI_EINVAL;
    // fi_collective(3) has a collective's name as the flag that asks for reduce-scatter.
    if (flags != 0 && (flags != FI_SCATTER || collective != FI_REDUCE_SCATTER)) return -FI_EBADFLAGS;
    const std::size_t element = kind->data ? atomic_bytes(attr->datatype) : 0;
    if (kind->data && element == 0) return -FI_EOPNOTSUPP;
    if (kind->reduces && reduction(attr->op, attr->datatype) == nullptr) return -FI_EOPNOTSUPP;
    attr->datatype_attr.size = element;
    attr->datatype_attr.count = kind->data ? max_msg_size / element / (kind->by_parts ? group_limit : 1) : 0;
    attr->max_members = group_limit;
    return 0;
}

} // namespace nvlf::ofi
