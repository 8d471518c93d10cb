// SPDX-License-Identifier: MIT OR GPL-2.0-only
// msg.cc - fi_msg(3): untagged messages.
#include "calls.hpp"
#include "express.hpp"
#include "none.hpp"

namespace nvlf::ofi {
namespace {

ssize_t msg_recv(fid_ep* ep, void* buf, std::size_t len, void*, fi_addr_t src, void* context) {
    ReceiveRequest r{.source = src, .flags = ep_fid_of(ep).rx_flags, .context = context};
    r.to.set(buf, len);
    return call_receive(ep, r);
}

ssize_t msg_recvv(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t src, void* context) {
    ReceiveRequest r{.source = src, .flags = ep_fid_of(ep).rx_flags, .context = context};
    return set_buffers(r.to, iov, count) ? call_receive(ep, r) : -FI_EINVAL;
}

ssize_t msg_recvmsg(fid_ep* ep, const fi_msg* msg, std::uint64_t flags) {
    if (msg == nullptr) return -FI_EINVAL;
    ReceiveRequest r{.source = msg->addr, .flags = flags, .context = msg->context};
    return set_buffers(r.to, msg->msg_iov, msg->iov_count) ? call_receive(ep, r) : -FI_EINVAL;
}

ssize_t msg_send(fid_ep* ep, const void* buf, std::size_t len, void*, fi_addr_t dest, void* context) {
    const EpFid& from = ep_fid_of(ep);
    if (from.endpoint->send_express({buf, len, dest, 0, from.tx_flags, context, from.tx, false, false})) return 0;
    SendRequest r{.to = dest, .flags = from.tx_flags, .context = context};
    r.from.set(buf, len);
    return call_send(ep, r);
}

ssize_t msg_sendv(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t dest, void* context) {
    SendRequest r{.to = dest, .flags = ep_fid_of(ep).tx_flags, .context = context};
    return set_buffers(r.from, iov, count) ? call_send(ep, r) : -FI_EINVAL;
}

ssize_t msg_sendmsg(fid_ep* ep, const fi_msg* msg, std::uint64_t flags) {
    if (msg == nullptr) return -FI_EINVAL;
    SendRequest r{.to = msg->addr, .cq_data = msg->data, .flags = flags, .context = msg->context};
    return set_buffers(r.from, msg->msg_iov, msg->iov_count) ? call_send(ep, r) : -FI_EINVAL;
}

ssize_t msg_inject(fid_ep* ep, const void* buf, std::size_t len, fi_addr_t dest) {
    const EpFid& from = ep_fid_of(ep);
    if (from.endpoint->send_express({buf, len, dest, 0, FI_INJECT, nullptr, from.tx, false, true})) return 0;
    SendRequest r{.to = dest, .flags = FI_INJECT, .silent = true};
    r.from.set(buf, len);
    return call_send(ep, r);
}

ssize_t msg_senddata(fid_ep* ep, const void* buf, std::size_t len, void*, std::uint64_t data, fi_addr_t dest,
                     void* context) {
    SendRequest r{.to = dest, .cq_data = data, .flags = ep_fid_of(ep).tx_flags | FI_REMOTE_CQ_DATA, .context = context};
    r.from.set(buf, len);
    return call_send(ep, r);
}

ssize_t msg_injectdata(fid_ep* ep, const void* buf, std::size_t len, std::uint64_t data, fi_addr_t dest) {
    SendRequest r{.to = dest, .cq_data = data, .flags = FI_INJECT | FI_REMOTE_CQ_DATA, .silent = true};
    r.from.set(buf, len);
    return call_send(ep, r);
}

} // namespace

fi_ops_msg msg_ops{sizeof(fi_ops_msg), msg_recv,    msg_recvv,  msg_recvmsg,  msg_send,
                   msg_sendv,          msg_sendmsg, msg_inject, msg_senddata, msg_injectdata};

fi_ops_msg msg_send_ops{sizeof(fi_ops_msg), none,        none,       none,         msg_send,
                        msg_sendv,          msg_sendmsg, msg_inject, msg_senddata, msg_injectdata};

fi_ops_msg msg_receive_ops{sizeof(fi_ops_msg), msg_recv, msg_recvv, msg_recvmsg, none, none, none, none, none, none};

} // namespace nvlf::ofi
