// SPDX-License-Identifier: MIT OR GPL-2.0-only
// av_set.cc - see av_set.hpp.
#include "av_set.hpp"

#include <algorithm>
#include <memory>
#include <new>

#include "none.hpp"

namespace nvlf::ofi {

bool AvSet::has(fi_addr_t member) const noexcept {
    return std::find(members.begin(), members.end(), member) != members.end();
}

namespace {

constexpr std::uint64_t collective_flags = FI_BARRIER_SET | FI_BROADCAST_SET | FI_ALLTOALL_SET | FI_ALLREDUCE_SET |
                                           FI_ALLGATHER_SET | FI_REDUCE_SCATTER_SET | FI_REDUCE_SET | FI_SCATTER_SET |
                                           FI_GATHER_SET;

int set_union(fid_av_set* fid, const fid_av_set* other) try {
    if (other == nullptr) return -FI_EINVAL;
    AvSet& set = av_set_of(fid);
    const AvSet& source = av_set_of(other);
    if (&set.av != &source.av) return -FI_EINVAL;
    std::vector<fi_addr_t> members = set.members; // All of them, or none.
    for (const fi_addr_t member : source.members)
        if (!set.has(member)) members.push_back(member);
    if (members.size() > group_limit) return -FI_EINVAL;
    set.members.swap(members);
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

int intersect(fid_av_set* fid, const fid_av_set* other) {
    if (other == nullptr) return -FI_EINVAL;
    AvSet& set = av_set_of(fid);
    const AvSet& source = av_set_of(other);
    if (&set.av != &source.av) return -FI_EINVAL;
    std::erase_if(set.members, [&](fi_addr_t member) { return !source.has(member); });
    return 0;
}

int diff(fid_av_set* fid, const fid_av_set* other) {
    if (other == nullptr) return -FI_EINVAL;
    AvSet& set = av_set_of(fid);
    const AvSet& source = av_set_of(other);
    if (&set.av != &source.av) return -FI_EINVAL;
    if (&set == &source) set.members.clear(); // Not while it is walked.
    else std::erase_if(set.members, [&](fi_addr_t member) { return source.has(member); });
    return 0;
}

int insert(fid_av_set* fid, fi_addr_t member) try {
    AvSet& set = av_set_of(fid);
    nvlf_addr address{};
    if (!set.av.lookup(member, address) || set.has(member) || set.members.size() == group_limit) return -FI_EINVAL;
    set.members.push_back(member);
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

int remove(fid_av_set* fid, fi_addr_t member) {
    return std::erase(av_set_of(fid).members, member) != 0 ? 0 : -FI_EINVAL;
}

int address(fid_av_set* fid, fi_addr_t* ret_address) {
    if (ret_address == nullptr) return -FI_EINVAL;
    *ret_address = av_set_of(fid).address;
    return 0;
}

int close(fid* object) {
    AvSet& set = *reinterpret_cast<AvSet*>(object);
    set.av.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &set;
    return 0;
}

fi_ops set_fid_ops{sizeof(fi_ops), close, no_bind, no_control, no_ops_open, no_tostr, no_ops_set};
fi_ops_av_set set_ops{sizeof(fi_ops_av_set), set_union, intersect, diff, insert, remove, address};

// The initial members: a range, all there are, or none. 0 or -FI_E*.
int fill(AvSet& set, const fi_av_set_attr& attr) {
    const bool all = (attr.flags & FI_UNIVERSE) != 0;
    const bool empty = attr.start_addr == FI_ADDR_NOTAVAIL && attr.end_addr == FI_ADDR_NOTAVAIL;
    if (!all && empty) return attr.stride == 0 ? 0 : -FI_EINVAL;
    const fi_addr_t first = all ? 0 : attr.start_addr;
    const fi_addr_t last = all ? std::max<std::size_t>(set.av.table.end(), 1) - 1 : attr.end_addr;
    const std::uint64_t stride = all ? 1 : attr.stride;
    // Not FI_ADDR_NOTAVAIL at one end only; and a step of nothing only where there is nowhere to go.
    if (first > last || last >= av_limit || (stride == 0 && first != last)) return -FI_EINVAL;
    for (fi_addr_t at = first; at <= last; at += stride) {
        nvlf_addr unused{};
        if (set.av.lookup(at, unused)) set.members.push_back(at);
        if (set.members.size() > (attr.count != 0 && !all ? std::min(attr.count, group_limit) : group_limit))
            return -FI_EINVAL;
        if (stride == 0 || stride > last - at) break; // The sum might wrap.
    }
    return 0;
}

} // namespace

int av_set_open(fid_av* fid, fi_av_set_attr* attr, fid_av_set** ret_set, void* context) noexcept try {
    if (attr == nullptr || ret_set == nullptr) return -FI_EINVAL;
    if ((attr->flags & ~(FI_UNIVERSE | collective_flags)) != 0) return -FI_EBADFLAGS;
    if (attr->comm_key_size != 0) return -FI_EOPNOTSUPP; // Nobody but we manages membership.
    Av& av = av_of(fid);
    auto set = std::make_unique<AvSet>(av);
    if (const int ret = fill(*set, *attr); ret != 0) return ret;
    set->collectives = attr->flags & collective_flags;
    set->address = av_set_address | av.sets_made.fetch_add(1, std::memory_order_relaxed);
    set->fid = {.fid = {.fclass = FI_CLASS_AV_SET, .context = context, .ops = &set_fid_ops}, .ops = &set_ops};
    av.refs.fetch_add(1, std::memory_order_acq_rel);
    *ret_set = &set.release()->fid;
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

} // namespace nvlf::ofi
