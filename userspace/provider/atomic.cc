// SPDX-License-Identifier: MIT OR GPL-2.0-only
// atomic.cc - fi_atomic(3): the call forms, and which operations there are.
//
// Lists are counted in elements, so an element never lies in two entries of a list.
#include <rdma/fi_errno.h>

#include "calls.hpp"

namespace nvlf::ofi {
namespace {

// What an operation is, and the request that is being made of it. `error`: the first reason why there will be none.
struct Call {
    AtomicRequest request{};
    std::size_t element = 1; // Bytes.
    ssize_t error = 0;

    Call(AtomicClass kind, enum fi_datatype datatype, enum fi_op op, fi_addr_t to, std::uint64_t flags,
         void* context) noexcept {
        const auto type = static_cast<std::uint32_t>(datatype);
        request.function = atomic_function(kind, type, static_cast<std::uint32_t>(op));
        if (request.function == nullptr) {
            error = -FI_EOPNOTSUPP;
            return;
        }
        element = atomic_bytes(type);
        request.kind = kind;
        request.datatype = static_cast<std::uint8_t>(type);
        request.op = static_cast<std::uint8_t>(op);
        request.to = to;
        request.flags = flags;
        request.context = context;
    }

    // Bytes of so many elements; more than an operation takes are cut to one too many, so that sums cannot overflow.
    [[nodiscard]] std::size_t bytes(std::size_t count) const noexcept {
        return std::min(count, atomic_limit / element + 1) * element;
    }

    void set(Buffers& to, const void* buffer, std::size_t count) noexcept {
        to.set(buffer, bytes(count));
        if (buffer == nullptr && count > 0) fail(-FI_EINVAL);
    }

    void set(Buffers& to, const fi_ioc* list, std::size_t entries) noexcept {
        if (entries > iov_limit || (list == nullptr && entries > 0)) return fail(-FI_EINVAL);
        std::array<iovec, iov_limit> iov{};
        for (std::size_t i = 0; i < entries; ++i) {
            iov[i] = {list[i].addr, bytes(list[i].count)};
            if (list[i].addr == nullptr && list[i].count > 0) fail(-FI_EINVAL);
        }
        to.set(iov.data(), entries);
    }

    // An operand, which a pure read does not have: what stands there is not looked at.
    template <class... Where>
    void set_operand(Where... where) noexcept {
        if (request.op != FI_ATOMIC_READ) set(request.operand, where...);
    }

    // One remote segment as long as the local lists.
    void set_remote(std::uint64_t address, std::uint64_t key) noexcept {
        const Buffers& local = request.op != FI_ATOMIC_READ ? request.operand : request.result;
        request.segment[0] = {address, local.total, key};
        request.segments = 1;
        request.bytes = local.total;
    }

    void set_remote(const fi_rma_ioc* list, std::size_t entries) noexcept {
        if (entries > iov_limit || (list == nullptr && entries > 0)) return fail(-FI_EINVAL);
        for (std::size_t i = 0; i < entries; ++i) {
            request.segment[i] = {list[i].addr, bytes(list[i].count), list[i].key};
            request.bytes += request.segment[i].bytes;
        }
        request.segments = entries;
    }

    void fail(ssize_t why) noexcept {
        if (error == 0) error = why;
    }

    [[nodiscard]] ssize_t start(fid_ep* fid) noexcept {
        EpFid& from = ep_fid_of(fid);
        constexpr std::uint64_t known = send_flags_known & ~FI_REMOTE_CQ_DATA;
        const bool later = (request.flags & ~known) != 0;
        if (later) fail(take_trigger(from, request.flags, known));
        if (request.bytes == 0) fail(-FI_EINVAL);
        if (request.bytes > atomic_limit) fail(-FI_EMSGSIZE);
        if ((request.flags & FI_INJECT) != 0 && request.operand.total > inject_limit) fail(-FI_EMSGSIZE);
        const auto fits = [&](bool wanted, const Buffers& local) {
            if (wanted && local.total != request.bytes) fail(-FI_EINVAL);
        };
        fits(request.op != FI_ATOMIC_READ, request.operand);
        fits(request.kind == AtomicClass::compare, request.compare);
        fits(request.kind != AtomicClass::base, request.result);
        if (error != 0) return error;
        request.tx = from.tx;
        return later ? put_aside(from, request) : from.endpoint->atomic(request);
    }
};

std::uint64_t defaults(fid_ep* ep) noexcept { return ep_fid_of(ep).tx_flags; }

// ---- Base ------------------------------------------------------------------------------------------------------------

ssize_t atomic_write(fid_ep* ep, const void* buf, std::size_t count, void*, fi_addr_t dest, std::uint64_t addr,
                     std::uint64_t key, enum fi_datatype datatype, enum fi_op op, void* context) {
    Call call{AtomicClass::base, datatype, op, dest, defaults(ep), context};
    call.set_operand(buf, count);
    call.set_remote(addr, key);
    return call.start(ep);
}

ssize_t atomic_writev(fid_ep* ep, const fi_ioc* iov, void**, std::size_t count, fi_addr_t dest, std::uint64_t addr,
                      std::uint64_t key, enum fi_datatype datatype, enum fi_op op, void* context) {
    Call call{AtomicClass::base, datatype, op, dest, defaults(ep), context};
    call.set_operand(iov, count);
    call.set_remote(addr, key);
    return call.start(ep);
}

// Of the three calls that take a message.
Call call_of(AtomicClass kind, const fi_msg_atomic* msg, std::uint64_t flags) noexcept {
    Call call{kind, msg->datatype, msg->op, msg->addr, flags, msg->context};
    call.set_operand(msg->msg_iov, msg->iov_count);
    call.set_remote(msg->rma_iov, msg->rma_iov_count);
    return call;
}

ssize_t atomic_writemsg(fid_ep* ep, const fi_msg_atomic* msg, std::uint64_t flags) {
    if (msg == nullptr) return -FI_EINVAL;
    return call_of(AtomicClass::base, msg, flags).start(ep);
}

ssize_t atomic_inject(fid_ep* ep, const void* buf, std::size_t count, fi_addr_t dest, std::uint64_t addr,
                      std::uint64_t key, enum fi_datatype datatype, enum fi_op op) {
    Call call{AtomicClass::base, datatype, op, dest, FI_INJECT, nullptr};
    call.request.silent = true;
    call.set_operand(buf, count);
    call.set_remote(addr, key);
    return call.start(ep);
}

// ---- Fetch -----------------------------------------------------------------------------------------------------------

ssize_t atomic_readwrite(fid_ep* ep, const void* buf, std::size_t count, void*, void* result, void*, fi_addr_t dest,
                         std::uint64_t addr, std::uint64_t key, enum fi_datatype datatype, enum fi_op op,
                         void* context) {
    Call call{AtomicClass::fetch, datatype, op, dest, defaults(ep), context};
    call.set_operand(buf, count);
    call.set(call.request.result, result, count);
    call.set_remote(addr, key);
    return call.start(ep);
}

ssize_t atomic_readwritev(fid_ep* ep, const fi_ioc* iov, void**, std::size_t count, fi_ioc* resultv, void**,
                          std::size_t result_count, fi_addr_t dest, std::uint64_t addr, std::uint64_t key,
                          enum fi_datatype datatype, enum fi_op op, void* context) {
    Call call{AtomicClass::fetch, datatype, op, dest, defaults(ep), context};
    call.set_operand(iov, count);
    call.set(call.request.result, resultv, result_count);
    call.set_remote(addr, key);
    return call.start(ep);
}

ssize_t atomic_readwritemsg(fid_ep* ep, const fi_msg_atomic* msg, fi_ioc* resultv, void**, std::size_t result_count,
                            std::uint64_t flags) {
    if (msg == nullptr) return -FI_EINVAL;
    Call call = call_of(AtomicClass::fetch, msg, flags);
    call.set(call.request.result, resultv, result_count);
    return call.start(ep);
}

// ---- Compare ---------------------------------------------------------------------------------------------------------

ssize_t atomic_compwrite(fid_ep* ep, const void* buf, std::size_t count, void*, const void* compare, void*,
                         void* result, void*, fi_addr_t dest, std::uint64_t addr, std::uint64_t key,
                         enum fi_datatype datatype, enum fi_op op, void* context) {
    Call call{AtomicClass::compare, datatype, op, dest, defaults(ep), context};
    call.set_operand(buf, count);
    call.set(call.request.compare, compare, count);
    call.set(call.request.result, result, count);
    call.set_remote(addr, key);
    return call.start(ep);
}

ssize_t atomic_compwritev(fid_ep* ep, const fi_ioc* iov, void**, std::size_t count, const fi_ioc* comparev, void**,
                          std::size_t compare_count, fi_ioc* resultv, void**, std::size_t result_count, fi_addr_t dest,
                          std::uint64_t addr, std::uint64_t key, enum fi_datatype datatype, enum fi_op op,
                          void* context) {
    Call call{AtomicClass::compare, datatype, op, dest, defaults(ep), context};
    call.set_operand(iov, count);
    call.set(call.request.compare, comparev, compare_count);
    call.set(call.request.result, resultv, result_count);
    call.set_remote(addr, key);
    return call.start(ep);
}

ssize_t atomic_compwritemsg(fid_ep* ep, const fi_msg_atomic* msg, const fi_ioc* comparev, void**,
                            std::size_t compare_count, fi_ioc* resultv, void**, std::size_t result_count,
                            std::uint64_t flags) {
    if (msg == nullptr) return -FI_EINVAL;
    Call call = call_of(AtomicClass::compare, msg, flags);
    call.set(call.request.compare, comparev, compare_count);
    call.set(call.request.result, resultv, result_count);
    return call.start(ep);
}

// ---- Which there are -------------------------------------------------------------------------------------------------

int valid(AtomicClass kind, enum fi_datatype datatype, enum fi_op op, std::size_t* ret_count) noexcept {
    if (ret_count == nullptr) return -FI_EINVAL;
    const auto type = static_cast<std::uint32_t>(datatype);
    if (atomic_function(kind, type, static_cast<std::uint32_t>(op)) == nullptr) return -FI_EOPNOTSUPP;
    *ret_count = atomic_limit / atomic_bytes(type);
    return 0;
}

int write_valid(fid_ep*, enum fi_datatype datatype, enum fi_op op, std::size_t* count) {
    return valid(AtomicClass::base, datatype, op, count);
}

int readwrite_valid(fid_ep*, enum fi_datatype datatype, enum fi_op op, std::size_t* count) {
    return valid(AtomicClass::fetch, datatype, op, count);
}

int compwrite_valid(fid_ep*, enum fi_datatype datatype, enum fi_op op, std::size_t* count) {
    return valid(AtomicClass::compare, datatype, op, count);
}

} // namespace

int query_atomic(fid_domain*, enum fi_datatype datatype, enum fi_op op, fi_atomic_attr* attr, std::uint64_t flags) {
    if (attr == nullptr) return -FI_EINVAL;
    if ((flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC | FI_TAGGED)) != 0) return -FI_EBADFLAGS;
    const bool fetch = (flags & FI_FETCH_ATOMIC) != 0;
    const bool compare = (flags & FI_COMPARE_ATOMIC) != 0;
    if (fetch && compare) return -FI_EINVAL;
    if ((flags & FI_TAGGED) != 0) return -FI_EOPNOTSUPP; // On tagged receives: none.
    const AtomicClass kind = compare ? AtomicClass::compare : fetch ? AtomicClass::fetch : AtomicClass::base;
    if (const int ret = valid(kind, datatype, op, &attr->count); ret != 0) return ret;
    attr->size = atomic_bytes(static_cast<std::uint32_t>(datatype));
    return 0;
}

fi_ops_atomic atomic_ops{
    .size = sizeof(fi_ops_atomic),
    .write = atomic_write,
    .writev = atomic_writev,
    .writemsg = atomic_writemsg,
    .inject = atomic_inject,
    .readwrite = atomic_readwrite,
    .readwritev = atomic_readwritev,
    .readwritemsg = atomic_readwritemsg,
    .compwrite = atomic_compwrite,
    .compwritev = atomic_compwritev,
    .compwritemsg = atomic_compwritemsg,
    .writevalid = write_valid,
    .readwritevalid = readwrite_valid,
    .compwritevalid = compwrite_valid,
};

} // namespace nvlf::ofi
