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

// The fabric's own memory is where it is mapped already: there, peers reach it by themselves.
Result<std::byte*> own_memory(nvlf_mem& memory, std::size_t end, bool written) noexcept {
    if (end > nvlf_mem_bytes(&memory)) return Errno{EPROTO};
    if (written && (nvlf_mem_access(&memory) & (NVLF_ACCESS_WRITE | NVLF_ACCESS_ATOMIC)) == 0) return Errno{EACCES};
    void* start = nullptr;
    if (const int ret = nvlf_mem_map(&memory, &start); ret != 0) return Errno{-ret};
    return static_cast<std::byte*>(start);
}

Result<std::byte*> map_foreign(Mr& mr, int fd, std::size_t end, bool written) noexcept {
    auto mapping = Mapping::map(fd, end, written ? Mapping::Access::read_write : Mapping::Access::read);
    if (!mapping) return mapping.error();
    mr.mapping = std::move(*mapping);
    return static_cast<std::byte*>(mr.mapping.data());
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
    if (nvlf_mem* own = nullptr; nvlf_mem_find_fd(buffer.fd, &own) == 0) mr.memory.reset(own);
    const Result<std::byte*> start =
        mr.memory ? own_memory(*mr.memory, end, written) : map_foreign(mr, buffer.fd, end, written);
    if (!start) return refuse(buffer, start.error().value());
    mr.iov[0] = {*start + buffer.offset, buffer.len};
    mr.address[0] = address;
    mr.iov_count = 1;
    mr.length = buffer.len;
    return 0;
}

} // namespace nvlf::ofi
