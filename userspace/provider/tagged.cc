// SPDX-License-Identifier: MIT OR GPL-2.0-only
// tagged.cc - fi_tagged(3): messages that carry a tag, and receives that select by it.
#include "calls.hpp"
#include "express.hpp"
#include "none.hpp"

namespace nvlf::ofi {
namespace {

ssize_t tagged_recv(fid_ep* ep, void* buf, std::size_t len, void*, fi_addr_t src, std::uint64_t tag,
                    std::uint64_t ignore, void* context) {
    ReceiveRequest r{.source = src,
                     .tag = tag,
                     .ignore = ignore,
                     .flags = ep_fid_of(ep).rx_flags & ~FI_MULTI_RECV,
                     .context = context,
                     .tagged = true};
    r.to.set(buf, len);
    return call_receive(ep, r);
}

ssize_t tagged_recvv(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t src, std::uint64_t tag,
                     std::uint64_t ignore, void* context) {
    ReceiveRequest r{.source = src,
                     .tag = tag,
                     .ignore = ignore,
                     .flags = ep_fid_of(ep).rx_flags & ~FI_MULTI_RECV,
                     .context = context,
                     .tagged = true};
    return set_buffers(r.to, iov, count) ? call_receive(ep, r) : -FI_EINVAL;
}

ssize_t tagged_recvmsg(fid_ep* ep, const fi_msg_tagged* msg, std::uint64_t flags) {
    if (msg == nullptr) return -FI_EINVAL;
    ReceiveRequest r{.source = msg->addr,
                     .tag = msg->tag,
                     .ignore = msg->ignore,
                     .flags = flags,
                     .context = msg->context,
                     .tagged = true};
    return set_buffers(r.to, msg->msg_iov, msg->iov_count) ? call_receive(ep, r) : -FI_EINVAL;
}

ssize_t tagged_send(fid_ep* ep, const void* buf, std::size_t len, void*, fi_addr_t dest, std::uint64_t tag,
                    void* context) {
    const EpFid& from = ep_fid_of(ep);
    if (from.endpoint->send_express({buf, len, dest, tag, from.tx_flags, context, from.tx, true, false})) return 0;
    SendRequest r{.to = dest, .tag = tag, .flags = from.tx_flags, .context = context, .tagged = true};
    r.from.set(buf, len);
    return call_send(ep, r);
}

ssize_t tagged_sendv(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t dest, std::uint64_t tag,
                     void* context) {
    SendRequest r{.to = dest, .tag = tag, .flags = ep_fid_of(ep).tx_flags, .context = context, .tagged = true};
    return set_buffers(r.from, iov, count) ? call_send(ep, r) : -FI_EINVAL;
}

ssize_t tagged_sendmsg(fid_ep* ep, const fi_msg_tagged* msg, std::uint64_t flags) {
    if (msg == nullptr) return -FI_EINVAL;
    SendRequest r{.to = msg->addr,
                  .tag = msg->tag,
                  .cq_data = msg->data,
                  .flags = flags,
                  .context = msg->context,
                  .tagged = true};
    return set_buffers(r.from, msg->msg_iov, msg->iov_count) ? call_send(ep, r) : -FI_EINVAL;
}

ssize_t tagged_inject(fid_ep* ep, const void* buf, std::size_t len, fi_addr_t dest, std::uint64_t tag) {
    const EpFid& from = ep_fid_of(ep);
    if (from.endpoint->send_express({buf, len, dest, tag, FI_INJECT, nullptr, from.tx, true, true})) return 0;
    SendRequest r{.to = dest, .tag = tag, .flags = FI_INJECT, .tagged = true, .silent = true};
    r.from.set(buf, len);
    return call_send(ep, r);
}

ssize_t tagged_senddata(fid_ep* ep, const void* buf, std::size_t len, void*, std::uint64_t data, fi_addr_t dest,
                        std::uint64_t tag, void* context) {
    SendRequest r{.to = dest,
                  .tag = tag,
                  .cq_data = data,
                  .flags = ep_fid_of(ep).tx_flags | FI_REMOTE_CQ_DATA,
                  .context = context,
                  .tagged = true};
    r.from.set(buf, len);
    return call_send(ep, r);
}

ssize_t tagged_injectdata(fid_ep* ep, const void* buf, std::size_t len, std::uint64_t data, fi_addr_t dest,
                          std::uint64_t tag) {
    SendRequest r{.to = dest,
                  .tag = tag,
                  .cq_data = data,
                  .flags = FI_INJECT | FI_REMOTE_CQ_DATA,
                  .tagged = true,
                  .silent = true};
    r.from.set(buf, len);
    return call_send(ep, r);
}

} // namespace

fi_ops_tagged tagged_ops{sizeof(fi_ops_tagged), tagged_recv,    tagged_recvv,  tagged_recvmsg,  tagged_send,
                         tagged_sendv,          tagged_sendmsg, tagged_inject, tagged_senddata, tagged_injectdata};

fi_ops_tagged tagged_send_ops{
    sizeof(fi_ops_tagged), none, none, none, tagged_send, tagged_sendv, tagged_sendmsg, tagged_inject, tagged_senddata,
    tagged_injectdata};

fi_ops_tagged tagged_receive_ops{
    sizeof(fi_ops_tagged), tagged_recv, tagged_recvv, tagged_recvmsg, none, none, none, none, none, none};

} // namespace nvlf::ofi
