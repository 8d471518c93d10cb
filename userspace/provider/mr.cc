// SPDX-License-Identifier: MIT OR GPL-2.0-only
// mr.cc - see mr.hpp.
#include "mr.hpp"

#include <sys/random.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "domain.hpp"
#include "none.hpp"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

constexpr std::uint64_t all_access =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_COLLECTIVE;

int mr_close(fid* object) {
    Mr& mr = mr_of(reinterpret_cast<fid_mr*>(object));
    mr.domain.remove_mr(mr);
    mr.domain.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &mr;
    return 0;
}

int raw_attr(const Mr& mr, struct fi_mr_raw_attr* attr) noexcept {
    if (attr == nullptr || attr->key_size == nullptr || attr->flags != 0) return -FI_EINVAL;
    const std::size_t room = *attr->key_size;
    *attr->key_size = sizeof mr.key;
    if (room < sizeof mr.key) return -FI_ETOOSMALL;
    if (attr->raw_key == nullptr) return -FI_EINVAL;
    std::memcpy(attr->raw_key, &mr.key, sizeof mr.key);
    if (attr->base_addr != nullptr) {
        const bool virtual_addresses = (mr.domain.mr_mode & FI_MR_VIRT_ADDR) != 0;
        *attr->base_addr = virtual_addresses ? reinterpret_cast<std::uintptr_t>(mr.iov[0].iov_base) : 0;
    }
    return 0;
}

int mr_control(fid* object, int command, void* arg) {
    const Mr& mr = mr_of(reinterpret_cast<fid_mr*>(object));
    switch (command) {
    case FI_GET_RAW_MR: return raw_attr(mr, static_cast<struct fi_mr_raw_attr*>(arg));
    case FI_ENABLE:  // Enabled from the start.
    case FI_REFRESH: // Pages are looked up at each access.
        return 0;
    default: return -FI_ENOSYS;
    }
}

// Binding serves FI_MR_ENDPOINT and FI_MR_RMA_EVENT, which we do not ask for.
fi_ops mr_fid_ops{sizeof(fi_ops), mr_close, no_bind, mr_control, no_ops_open, no_tostr, no_ops_set};

// Pieces whose ends, and whose sum, fit 64 bits: so that resolving needs no further care.
bool take_pieces(Mr& mr, const iovec* iov, std::size_t count) noexcept {
    if (iov == nullptr || count == 0 || count > mr_iov_limit) return false;
    for (std::size_t i = 0; i < count; ++i) {
        const auto base = reinterpret_cast<std::uintptr_t>(iov[i].iov_base);
        std::uint64_t end = 0;
        if (__builtin_add_overflow(base, iov[i].iov_len, &end) ||
            __builtin_add_overflow(mr.length, iov[i].iov_len, &mr.length))
            return false;
        mr.iov[i] = iov[i];
    }
    mr.iov_count = count;
    return mr.length > 0;
}

int register_memory(fid* object, const iovec* iov, std::size_t count, std::uint64_t access, std::uint64_t offset,
                    std::uint64_t requested_key, std::uint64_t flags, fid_mr** ret_mr, void* context) noexcept try {
    if (object == nullptr || object->fclass != FI_CLASS_DOMAIN || ret_mr == nullptr) return -FI_EINVAL;
    if (flags != 0) return -FI_EBADFLAGS;
    if (offset != 0 || (access & ~all_access) != 0) return -FI_EINVAL;
    Domain& domain = domain_of(reinterpret_cast<fid_domain*>(object));
    const bool new_key = (domain.mr_mode & FI_MR_PROV_KEY) != 0;
    if (!new_key && requested_key == FI_KEY_NOTAVAIL) return -FI_EINVAL;

    auto mr = std::make_unique<Mr>(domain);
    if (!take_pieces(*mr, iov, count)) return -FI_EINVAL;
    mr->access = access;
    mr->key = requested_key;
    if (const Errno error = domain.add_mr(*mr, new_key); error.failed()) return error.negative();
    domain.refs.fetch_add(1, std::memory_order_acq_rel);
    mr->fid = {
        .fid = {.fclass = FI_CLASS_MR, .context = context, .ops = &mr_fid_ops}, .mem_desc = mr.get(), .key = mr->key};
    *ret_mr = &mr.release()->fid;
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

int mr_reg(fid* domain, const void* buf, std::size_t len, std::uint64_t access, std::uint64_t offset,
           std::uint64_t requested_key, std::uint64_t flags, fid_mr** ret_mr, void* context) {
    const iovec iov{const_cast<void*>(buf), len};
    return register_memory(domain, &iov, 1, access, offset, requested_key, flags, ret_mr, context);
}

int mr_regv(fid* domain, const iovec* iov, std::size_t count, std::uint64_t access, std::uint64_t offset,
            std::uint64_t requested_key, std::uint64_t flags, fid_mr** ret_mr, void* context) {
    return register_memory(domain, iov, count, access, offset, requested_key, flags, ret_mr, context);
}

int mr_regattr(fid* object, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** ret_mr) {
    if (object == nullptr || object->fclass != FI_CLASS_DOMAIN || attr == nullptr) return -FI_EINVAL;
    // The struct of an application from before 1.5, or 1.10, ends before these fields.
    const std::uint32_t version = domain_of(reinterpret_cast<fid_domain*>(object)).fabric.api_version;
    if (version >= FI_VERSION(1, 5) && attr->auth_key_size != 0) return -FI_EINVAL;
    if (version >= FI_VERSION(1, 10) && attr->iface != FI_HMEM_SYSTEM) return -FI_ENOSYS;
    return register_memory(object, attr->mr_iov, attr->iov_count, attr->access, attr->offset, attr->requested_key,
                           flags, ret_mr, attr->context);
}

} // namespace

fi_ops_mr mr_ops{.size = sizeof(fi_ops_mr), .reg = mr_reg, .regv = mr_regv, .regattr = mr_regattr};

Errno MrTable::add(Mr& mr) noexcept try {
    const std::lock_guard guard{lock_};
    if (by_key_.size() >= mr_limit) return Errno{EMFILE};
    return by_key_.try_emplace(mr.key, &mr).second ? Errno{} : Errno{FI_ENOKEY};
} catch (const std::bad_alloc&) {
    return Errno{ENOMEM};
}

Errno MrTable::add_with_new_key(Mr& mr) noexcept {
    // 64 random bits: a peer that was not given the key does not find it, and two of them are never the same in practice.
    for (int tries = 0; tries < 8; ++tries) {
        if (::getrandom(&mr.key, sizeof mr.key, 0) != static_cast<ssize_t>(sizeof mr.key)) return last_errno();
        if (mr.key == FI_KEY_NOTAVAIL) continue;
        const Errno error = add(mr);
        if (error != Errno{FI_ENOKEY}) return error;
    }
    return Errno{FI_ENOKEY};
}

void MrTable::remove(const Mr& mr) noexcept {
    const std::lock_guard guard{lock_};
    by_key_.erase(mr.key);
}

std::vector<const Mr*> MrTable::all() const {
    const std::lock_guard guard{lock_};
    std::vector<const Mr*> list;
    list.reserve(by_key_.size());
    for (const auto& [key, mr] : by_key_) list.push_back(mr);
    return list;
}

const Mr* MrTable::find(std::uint64_t key) const noexcept {
    const std::lock_guard guard{lock_};
    const auto found = by_key_.find(key);
    return found != by_key_.end() ? found->second : nullptr;
}

void* mr_locate(const Mr& mr, std::uint64_t addr, std::uint64_t len, bool virtual_addresses) noexcept {
    std::uint64_t offset = addr; // From the start of the piece at hand.
    for (std::size_t i = 0; i < mr.iov_count; ++i) {
        const iovec& piece = mr.iov[i];
        if (virtual_addresses) offset = addr - reinterpret_cast<std::uintptr_t>(piece.iov_base);
        // Unsigned: an address before the piece wraps to an offset beyond it. At its very end only nothing fits, and that
        // may belong to the next piece.
        if (offset < piece.iov_len || (offset == piece.iov_len && len == 0))
            return len <= piece.iov_len - offset ? static_cast<std::byte*>(piece.iov_base) + offset : nullptr;
        if (!virtual_addresses) offset -= piece.iov_len;
    }
    return nullptr;
}

Result<void*> MrTable::resolve(std::uint64_t key, std::uint64_t addr, std::uint64_t len,
                               std::uint64_t access) const noexcept {
    const std::lock_guard guard{lock_};
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return Errno{FI_EKEYREJECTED};
    const Mr& mr = *found->second;
    if ((access & ~mr.access) != 0) return Errno{EACCES};
    void* const where = mr_locate(mr, addr, len, virtual_);
    if (where == nullptr) return Errno{FI_EKEYREJECTED};
    return where;
}

} // namespace nvlf::ofi
