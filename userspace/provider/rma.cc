// SPDX-License-Identifier: MIT OR GPL-2.0-only
// rma.cc - fi_rma(3): one-sided reads and writes.
#include "calls.hpp"

namespace nvlf::ofi {
namespace {

// By assignment: an initializer would clear the whole struct first, the lists for several buffers and segments included,
// which takes longer than to write eight bytes.
RmaRequest request(fi_addr_t to, std::uint64_t flags, void* context, bool write) noexcept {
    RmaRequest r;
    r.to = to;
    r.flags = flags;
    r.context = context;
    r.write = write;
    return r;
}

ssize_t start(fid_ep* fid, RmaRequest& request) noexcept {
    const bool write = request.write;
    const std::uint64_t known = write ? send_flags_known : send_flags_known & ~(FI_REMOTE_CQ_DATA | FI_INJECT);
    EpFid& from = ep_fid_of(fid);
    const bool later = (request.flags & ~known) != 0;
    if (later) [[unlikely]] {
        if (const int ret = take_trigger(from, request.flags, known); ret != 0) return ret;
    }
    if ((request.flags & FI_INJECT) != 0 && request.local.total > inject_limit) return -FI_EMSGSIZE;
    if (request.local.total > max_msg_size) return -FI_EMSGSIZE;
    std::uint64_t remote = 0;
    for (std::size_t i = 0; i < request.segments; ++i) {
        if (request.segment[i].bytes > max_msg_size) return -FI_EMSGSIZE; // So that the sum cannot overflow.
        remote += request.segment[i].bytes;
    }
    if (request.segments == 0 || remote != request.local.total) return -FI_EINVAL;
    request.tx = from.tx;
    if (later) [[unlikely]]
        return put_aside(from, request);
    return from.endpoint->one_sided(request);
}

// One remote segment as long as the local buffers together.
ssize_t one_segment(fid_ep* fid, RmaRequest& request, std::uint64_t addr, std::uint64_t key) noexcept {
    request.segment[0] = {addr, request.local.total, key};
    request.segments = 1;
    return start(fid, request);
}

ssize_t message(fid_ep* fid, const fi_msg_rma* msg, std::uint64_t flags, bool write) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    RmaRequest r = request(msg->addr, flags, msg->context, write);
    r.cq_data = msg->data;
    if (!set_buffers(r.local, msg->msg_iov, msg->iov_count)) return -FI_EINVAL;
    if (msg->rma_iov_count > iov_limit || (msg->rma_iov == nullptr && msg->rma_iov_count > 0)) return -FI_EINVAL;
    for (std::size_t i = 0; i < msg->rma_iov_count; ++i)
        r.segment[i] = {msg->rma_iov[i].addr, msg->rma_iov[i].len, msg->rma_iov[i].key};
    r.segments = msg->rma_iov_count;
    return start(fid, r);
}

ssize_t rma_read(fid_ep* ep, void* buf, std::size_t len, void*, fi_addr_t src, std::uint64_t addr, std::uint64_t key,
                 void* context) {
    RmaRequest r = request(src, ep_fid_of(ep).tx_flags & ~FI_INJECT, context, false);
    r.local.set(buf, len);
    return one_segment(ep, r, addr, key);
}

ssize_t rma_readv(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t src, std::uint64_t addr,
                  std::uint64_t key, void* context) {
    RmaRequest r = request(src, ep_fid_of(ep).tx_flags & ~FI_INJECT, context, false);
    return set_buffers(r.local, iov, count) ? one_segment(ep, r, addr, key) : -FI_EINVAL;
}

ssize_t rma_readmsg(fid_ep* ep, const fi_msg_rma* msg, std::uint64_t flags) { return message(ep, msg, flags, false); }

ssize_t rma_write(fid_ep* ep, const void* buf, std::size_t len, void*, fi_addr_t dest, std::uint64_t addr,
                  std::uint64_t key, void* context) {
    RmaRequest r = request(dest, ep_fid_of(ep).tx_flags, context, true);
    r.local.set(buf, len);
    return one_segment(ep, r, addr, key);
}

ssize_t rma_writev(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t dest, std::uint64_t addr,
                   std::uint64_t key, void* context) {
    RmaRequest r = request(dest, ep_fid_of(ep).tx_flags, context, true);
    return set_buffers(r.local, iov, count) ? one_segment(ep, r, addr, key) : -FI_EINVAL;
}

ssize_t rma_writemsg(fid_ep* ep, const fi_msg_rma* msg, std::uint64_t flags) { return message(ep, msg, flags, true); }

ssize_t rma_inject(fid_ep* ep, const void* buf, std::size_t len, fi_addr_t dest, std::uint64_t addr,
                   std::uint64_t key) {
    RmaRequest r = request(dest, FI_INJECT, nullptr, true);
    r.silent = true;
    r.local.set(buf, len);
    return one_segment(ep, r, addr, key);
}

ssize_t rma_writedata(fid_ep* ep, const void* buf, std::size_t len, void*, std::uint64_t data, fi_addr_t dest,
                      std::uint64_t addr, std::uint64_t key, void* context) {
    RmaRequest r = request(dest, ep_fid_of(ep).tx_flags | FI_REMOTE_CQ_DATA, context, true);
    r.cq_data = data;
    r.local.set(buf, len);
    return one_segment(ep, r, addr, key);
}

ssize_t rma_injectdata(fid_ep* ep, const void* buf, std::size_t len, std::uint64_t data, fi_addr_t dest,
                       std::uint64_t addr, std::uint64_t key) {
    RmaRequest r = request(dest, FI_INJECT | FI_REMOTE_CQ_DATA, nullptr, true);
    r.cq_data = data;
    r.silent = true;
    r.local.set(buf, len);
    return one_segment(ep, r, addr, key);
}

} // namespace

fi_ops_rma rma_ops{sizeof(fi_ops_rma), rma_read,     rma_readv,  rma_readmsg,   rma_write,
                   rma_writev,         rma_writemsg, rma_inject, rma_writedata, rma_injectdata};

} // namespace nvlf::ofi
