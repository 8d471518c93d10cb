// SPDX-License-Identifier: MIT OR GPL-2.0-only
// calls.hpp - what libfabric's many call forms have in common.
//
// A form with `msg` in its name brings its own flags; all others take the defaults with which the endpoint was opened.
// Injected operations report nothing and give the buffer back at once.
#pragma once

#include <rdma/fi_errno.h>

#include "endpoint.hpp"
#include "params.hpp"

namespace nvlf::ofi {

inline constexpr std::uint64_t send_flags_known = FI_REMOTE_CQ_DATA | FI_COMPLETION | FI_MORE | FI_FENCE | FI_INJECT |
                                                  FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | acknowledged_flags;

[[nodiscard]] inline bool set_buffers(Buffers& to, const iovec* iov, std::size_t count) noexcept {
    if (count > iov_limit || (iov == nullptr && count > 0)) return false;
    to.set(iov, count);
    return true;
}

// Triggered operations and deferred work: what is to be done is checked as ever, and then put aside (trigger.cc). Takes the
// flag that asks for it off; -FI_EBADFLAGS: there are others that are not `known`.
[[nodiscard]] int take_trigger(const EpFid& from, std::uint64_t& flags, std::uint64_t known) noexcept;
[[nodiscard]] ssize_t put_aside(EpFid& from, const SendRequest& request) noexcept;
[[nodiscard]] ssize_t put_aside(EpFid& from, const RmaRequest& request) noexcept;
[[nodiscard]] ssize_t put_aside(EpFid& from, const AtomicRequest& request) noexcept;
[[nodiscard]] ssize_t put_aside(EpFid& from, const ReceiveRequest& request) noexcept;

[[nodiscard]] inline ssize_t call_send(fid_ep* fid, SendRequest& request) noexcept {
    EpFid& from = ep_fid_of(fid);
    const bool later = (request.flags & ~send_flags_known) != 0;
    if (later) [[unlikely]] {
        if (const int ret = take_trigger(from, request.flags, send_flags_known); ret != 0) return ret;
    }
    if (request.from.total > max_msg_size) [[unlikely]]
        return -FI_EMSGSIZE;
    if ((request.flags & FI_INJECT) != 0 && request.from.total > inject_limit + params().msg_prefix) [[unlikely]]
        return -FI_EMSGSIZE;
    request.tx = from.tx;
    request.target = from.endpoint->target_of(request.to);
    if (later) [[unlikely]]
        return put_aside(from, request);
    return from.endpoint->send(request);
}

[[nodiscard]] inline ssize_t call_receive(fid_ep* fid, ReceiveRequest& request) noexcept {
    EpFid& from = ep_fid_of(fid);
    constexpr std::uint64_t known = FI_COMPLETION | FI_MULTI_RECV | FI_MORE | FI_PEEK | FI_CLAIM | FI_DISCARD;
    const bool later = (request.flags & ~known) != 0;
    if (later) [[unlikely]] {
        // To look for a message later says nothing about it.
        constexpr std::uint64_t looks = FI_PEEK | FI_CLAIM | FI_DISCARD;
        if (const int ret = take_trigger(from, request.flags, known & ~looks); ret != 0) return ret;
    }
    if ((request.flags & FI_MULTI_RECV) != 0 && (request.to.count != 1 || request.tagged)) return -FI_EINVAL;
    if ((request.flags & FI_DISCARD) != 0 && (request.flags & (FI_PEEK | FI_CLAIM)) == 0) return -FI_EBADFLAGS;
    if (later) [[unlikely]]
        return put_aside(from, request);
    return from.rx->receive(request);
}

} // namespace nvlf::ofi
