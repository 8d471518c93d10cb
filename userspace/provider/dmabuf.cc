// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dmabuf.cc - see dmabuf.hpp.
#include "dmabuf.hpp"

#include <rdma/fi_errno.h>

#include <cstdint>

#include "mr.hpp"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

int refuse(const DmaBuf& buffer, int error) noexcept {
    FI_WARN(&provider, FI_LOG_MR, "descriptor %d cannot be registered, %zu bytes at %llu: %s\n", buffer.fd, buffer.len,
            static_cast<unsigned long long>(buffer.offset),
            error == EPROTO ? "it is shorter than that" : fi_strerror(error));
    return error == EPROTO ? -FI_EINVAL : -error;
}

} // namespace

int take_dmabuf(Mr& mr, const DmaBuf& buffer, std::uint64_t access) noexcept {
    std::size_t end = 0;
    std::uint64_t address = 0;
    std::uint64_t address_end = 0;
    const auto base = reinterpret_cast<std::uintptr_t>(buffer.base_addr);
    if (buffer.len == 0 || __builtin_add_overflow(buffer.offset, buffer.len, &end) ||
        __builtin_add_overflow(base, base != 0 ? buffer.offset : 0, &address) ||
        __builtin_add_overflow(address, buffer.len, &address_end))
        return -FI_EINVAL;
    // What reads of ours write into (FI_READ, FI_RECV) is written to, too. Who granted reading only may have a descriptor
    // that allows no more.
    const bool written = (access & (FI_RECV | FI_READ | FI_REMOTE_WRITE)) != 0;
    auto mapping = Mapping::map(buffer.fd, end, written ? Mapping::Access::read_write : Mapping::Access::read);
    if (!mapping) return refuse(buffer, mapping.error().value());
    mr.mapping = std::move(*mapping);
    mr.iov[0] = {static_cast<std::byte*>(mr.mapping.data()) + buffer.offset, buffer.len};
    mr.address[0] = address;
    mr.iov_count = 1;
    mr.length = buffer.len;
    return 0;
}

} // namespace nvlf::ofi
