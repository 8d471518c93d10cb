// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fabric_memory.cc - see fabric_memory.hpp.
#include "fabric_memory.hpp"

#include <rdma/fi_errno.h>

#include <cstring>
#include <new>
#include <utility>

#include "domain.hpp"
#include "hmem.hpp"
#include "nvlf/fi_nvlf.h"

using nvlf::ofi::Domain;
using nvlf::ofi::MemRef;

struct nvlf_fi_mem {
    nvlf_fi_mem(Domain& d, MemRef m) noexcept : domain{d}, memory{std::move(m)} {
        domain.refs.fetch_add(1, std::memory_order_acq_rel);
    }
    ~nvlf_fi_mem() {
        memory.reset(); // Before the domain may close the fabric.
        domain.refs.fetch_sub(1, std::memory_order_acq_rel);
    }
    nvlf_fi_mem(const nvlf_fi_mem&) = delete;
    nvlf_fi_mem& operator=(const nvlf_fi_mem&) = delete;

    Domain& domain;
    MemRef memory;
};

namespace nvlf::ofi {
namespace {

// nullptr: none of ours. All our objects are allocated by us, so a domain of another provider is told by its table.
Domain* domain_at(fid_domain* fid) noexcept {
    return fid != nullptr && fid->fid.fclass == FI_CLASS_DOMAIN && fid->fid.ops != nullptr &&
                   fid->fid.ops->ops_open == open_nvlf_ops
               ? &domain_of(fid)
               : nullptr;
}

// libnvlf has one errno for "no such device" and for "the fabric is gone".
int no_such_device(const Domain& domain, int error) noexcept {
    return error == -ENODEV && nvlf_alive(domain.nvlf) == 1 ? -FI_EINVAL : error;
}

int hand_out(Domain& domain, MemRef memory, nvlf_fi_mem** ret_mem, void** ret_ptr) noexcept {
    void* at = nullptr;
    if (const int ret = nvlf_mem_map(memory.get(), &at); ret != 0) return ret;
    auto* mem = new (std::nothrow) nvlf_fi_mem{domain, std::move(memory)};
    if (mem == nullptr) return -FI_ENOMEM;
    *ret_mem = mem;
    *ret_ptr = at;
    return 0;
}

int allocate(fid_domain* fid, std::uint32_t device, std::uint64_t bytes, nvlf_fi_mem** ret_mem, void** ret_ptr) {
    Domain* domain = domain_at(fid);
    if (domain == nullptr || ret_mem == nullptr || ret_ptr == nullptr) return -FI_EINVAL;
    nvlf_mem* memory = nullptr;
    const int ret =
        nvlf_mem_alloc(domain->nvlf, device == NVLF_DEVICE_ANY ? domain->device : device, bytes, 0, &memory);
    if (ret != 0) return no_such_device(*domain, ret);
    return hand_out(*domain, MemRef{memory}, ret_mem, ret_ptr);
}

int release(nvlf_fi_mem* mem) {
    delete mem;
    return 0;
}

int export_token(nvlf_fi_mem* mem, std::uint32_t access, std::uint8_t ret_token[NVLF_TOKEN_LEN]) {
    return mem != nullptr ? nvlf_mem_export(mem->memory.get(), access, ret_token) : -FI_EINVAL;
}

int import_token(fid_domain* fid, const std::uint8_t token[NVLF_TOKEN_LEN], nvlf_fi_mem** ret_mem, void** ret_ptr) {
    Domain* domain = domain_at(fid);
    if (domain == nullptr || ret_mem == nullptr || ret_ptr == nullptr) return -FI_EINVAL;
    nvlf_mem* memory = nullptr;
    if (const int ret = nvlf_mem_import(domain->nvlf, token, &memory); ret != 0) return ret;
    return hand_out(*domain, MemRef{memory}, ret_mem, ret_ptr);
}

int descriptor(const nvlf_fi_mem* mem, int* ret_fd) {
    if (mem == nullptr || ret_fd == nullptr) return -FI_EINVAL;
    *ret_fd = nvlf_mem_fd(mem->memory.get());
    return 0;
}

int query(fid_domain* fid, const void* ptr, std::uint64_t bytes, nvlf_fi_place* ret_place) {
    Domain* domain = domain_at(fid);
    if (domain == nullptr || ret_place == nullptr) return -FI_EINVAL;
    nvlf_mem* found = nullptr;
    if (const int ret = nvlf_mem_find(ptr, bytes, &found); ret != 0) return ret;
    const MemRef memory{found};
    if (!same_fabric(*domain, *found)) return -FI_ENOENT;
    void* base = nullptr;
    if (const int ret = nvlf_mem_map(found, &base); ret != 0) return ret;
    const HmemDevice device = hmem_device(*domain, nvlf_mem_device(found));
    *ret_place = {.base = base,
                  .bytes = nvlf_mem_bytes(found),
                  .fla = nvlf_mem_fla(found),
                  .device = nvlf_mem_device(found),
                  .access = nvlf_mem_access(found),
                  .iface = device.iface,
                  .ordinal = device.ordinal};
    return 0;
}

int domain_device(fid_domain* fid, std::uint32_t* ret_device) {
    const Domain* domain = domain_at(fid);
    if (domain == nullptr || ret_device == nullptr) return -FI_EINVAL;
    *ret_device = domain->device;
    return 0;
}

int get_device(fid_domain* fid, std::uint32_t index, nvlf_device* ret_device) {
    const Domain* domain = domain_at(fid);
    if (domain == nullptr || ret_device == nullptr) return -FI_EINVAL;
    return no_such_device(*domain, nvlf_get_device(domain->nvlf, index, ret_device));
}

nvlf_fi_ops_v1 ops_v1{.size = sizeof(nvlf_fi_ops_v1),
                      .alloc = allocate,
                      .free = release,
                      .export_token = export_token,
                      .import_token = import_token,
                      .descriptor = descriptor,
                      .query = query,
                      .domain_device = domain_device,
                      .device = get_device};

} // namespace

int open_nvlf_ops(fid*, const char* name, std::uint64_t flags, void** ret_ops, void*) {
    if (name == nullptr || ret_ops == nullptr) return -FI_EINVAL;
    if (flags != 0) return -FI_EBADFLAGS;
    if (std::strcmp(name, NVLF_FI_OPS_V1) != 0) return -FI_ENOSYS;
    *ret_ops = &ops_v1;
    return 0;
}

} // namespace nvlf::ofi
