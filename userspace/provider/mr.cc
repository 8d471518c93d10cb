// SPDX-License-Identifier: MIT OR GPL-2.0-only
// mr.cc - see mr.hpp.
#include "mr.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "base/cancel.hpp"
#include "cntr.hpp"
#include "dmabuf.hpp"
#include "domain.hpp"
#include "endpoint.hpp"
#include "eq.hpp"
#include "hmem.hpp"
#include "none.hpp"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

constexpr std::uint64_t all_access =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_COLLECTIVE;

// ---- The object ------------------------------------------------------------------------------------------------------

int mr_close(fid* object) {
    Mr& mr = mr_of(reinterpret_cast<fid_mr*>(object));
    mr.domain.remove_mr(mr);
    for (Endpoint* endpoint : mr.endpoints) endpoint->mrs.fetch_sub(1, std::memory_order_acq_rel);
    if (mr.remote_write_cntr != nullptr) mr.remote_write_cntr->refs.fetch_sub(1, std::memory_order_acq_rel);
    mr.domain.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &mr;
    return 0;
}

int raw_attr(const Mr& mr, struct fi_mr_raw_attr* attr) noexcept {
    if (attr == nullptr || attr->key_size == nullptr) return -FI_EINVAL;
    if (attr->flags != 0) return -FI_EBADFLAGS;
    const std::size_t room = *attr->key_size;
    *attr->key_size = sizeof mr.key;
    if (room < sizeof mr.key) return -FI_ETOOSMALL;
    if (attr->raw_key == nullptr) return -FI_EINVAL;
    std::memcpy(attr->raw_key, &mr.key, sizeof mr.key);
    if (attr->base_addr != nullptr) *attr->base_addr = (mr.domain.mr_mode & FI_MR_VIRT_ADDR) != 0 ? mr.address[0] : 0;
    return 0;
}

bool inside(const Mr& mr, const iovec& part) noexcept {
    const auto start = reinterpret_cast<std::uintptr_t>(part.iov_base);
    return std::any_of(mr.iov.begin(), mr.iov.begin() + static_cast<std::ptrdiff_t>(mr.iov_count), [&](const iovec& p) {
        const std::uintptr_t offset = start - reinterpret_cast<std::uintptr_t>(p.iov_base); // Wraps when before it.
        return offset <= p.iov_len && part.iov_len <= p.iov_len - offset;
    });
}

// What lies at the addresses may have changed since: from none, or the heap, to fabric memory and back. Operations by
// message look pages up at each access, so what there is to do is to list the registration anew.
int refresh(Mr& mr, const fi_mr_modify* what) noexcept {
    if (what == nullptr) return -FI_EINVAL;
    if (what->flags != 0) return -FI_EBADFLAGS;
    const std::size_t parts = what->attr.iov_count; // None: all of it.
    if (parts > 0 && what->attr.mr_iov == nullptr) return -FI_EINVAL;
    for (const iovec& part : std::span{what->attr.mr_iov, parts})
        if (!inside(mr, part)) return -FI_EINVAL;
    mr.domain.refresh_mr(mr);
    return 0;
}

int mr_control(fid* object, int command, void* arg) {
    Mr& mr = mr_of(reinterpret_cast<fid_mr*>(object));
    switch (command) {
    case FI_GET_RAW_MR: return raw_attr(mr, static_cast<struct fi_mr_raw_attr*>(arg));
    case FI_REFRESH: return refresh(mr, static_cast<const fi_mr_modify*>(arg));
    case FI_ENABLE:
        if (mr.enabled) return 0;
        if ((mr.domain.mr_mode & FI_MR_ENDPOINT) != 0 && mr.endpoints.empty()) return -FI_EINVAL;
        mr.domain.enable_mr(mr);
        return 0;
    default: return -FI_ENOSYS;
    }
}

int bind_endpoint(Mr& mr, Endpoint& endpoint, std::uint64_t flags) noexcept try {
    if (flags != 0) return -FI_EBADFLAGS;
    if (&endpoint.domain != &mr.domain) return -FI_EINVAL;
    if (std::find(mr.endpoints.begin(), mr.endpoints.end(), &endpoint) != mr.endpoints.end())
        return endpoint.fid.fid.fclass == FI_CLASS_SEP ? 0 : -FI_EINVAL; // By another of its contexts.
    mr.domain.bind_mr(mr, [&] { mr.endpoints.push_back(&endpoint); });
    endpoint.mrs.fetch_add(1, std::memory_order_relaxed);
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

int bind_cntr(Mr& mr, Cntr& cntr, std::uint64_t flags) noexcept {
    if (flags != FI_REMOTE_WRITE) return -FI_EBADFLAGS;
    if (&cntr.domain != &mr.domain || mr.remote_write_cntr != nullptr) return -FI_EINVAL;
    if (const int ret = mr.domain.drive_with(cntr); ret != 0) return ret;
    mr.domain.counted_mrs.store(true);
    mr.domain.bind_mr(mr, [&] { mr.remote_write_cntr = &cntr; });
    cntr.refs.fetch_add(1, std::memory_order_relaxed);
    return 0;
}

// Where a mode asks for it (FI_MR_ENDPOINT, FI_MR_RMA_EVENT), what is bound is bound before the registration is enabled;
// elsewhere it is enabled from the start, and may be bound at any time.
int mr_bind(fid* object, fid* other, std::uint64_t flags) {
    Mr& mr = mr_of(reinterpret_cast<fid_mr*>(object));
    if (other == nullptr) return -FI_EINVAL;
    if (mr.enabled && mr.starts_disabled) return -FI_EOPBADSTATE;
    switch (other->fclass) {
    case FI_CLASS_EP:
    case FI_CLASS_SEP:
    case FI_CLASS_RX_CTX: return bind_endpoint(mr, endpoint_of(reinterpret_cast<fid_ep*>(other)), flags);
    case FI_CLASS_CNTR:
        if ((mr.domain.caps & FI_RMA_EVENT) == 0) return -FI_ENOSYS; // Nobody would count.
        return bind_cntr(mr, cntr_of(reinterpret_cast<fid_cntr*>(other)), flags);
    default: return -FI_EINVAL;
    }
}

fi_ops mr_fid_ops{sizeof(fi_ops), mr_close, mr_bind, mr_control, no_ops_open, no_tostr, no_ops_set};

// ---- Registering -----------------------------------------------------------------------------------------------------

// What the three calls ask for alike.
struct Registration {
    std::span<const iovec> pieces{};
    const DmaBuf* dmabuf = nullptr; // Instead of pieces.
    std::uint64_t access = 0;
    std::uint64_t offset = 0;
    std::uint64_t key = 0;
    std::uint64_t flags = 0;
    void* context = nullptr;
    HmemDevice device{};
};

// Pieces whose ends, and whose sum, fit 64 bits: so that resolving needs no further care.
int take_pieces(Mr& mr, std::span<const iovec> pieces) noexcept {
    if (pieces.data() == nullptr || pieces.empty() || pieces.size() > mr_iov_limit) return -FI_EINVAL;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const auto base = reinterpret_cast<std::uintptr_t>(pieces[i].iov_base);
        std::uint64_t end = 0;
        if (__builtin_add_overflow(base, pieces[i].iov_len, &end) ||
            __builtin_add_overflow(mr.length, pieces[i].iov_len, &mr.length))
            return -FI_EINVAL;
        mr.iov[i] = pieces[i];
        mr.address[i] = base;
    }
    mr.iov_count = pieces.size();
    return mr.length > 0 ? 0 : -FI_EINVAL;
}

int take_memory(Mr& mr, const Registration& what) noexcept {
    if (what.dmabuf != nullptr) return take_dmabuf(mr, *what.dmabuf, what.access);
    if (const int ret = take_pieces(mr, what.pieces); ret != 0) return ret;
    return check_hmem(mr.domain, what.device, what.flags, what.pieces);
}

std::uint64_t known_flags(const Domain& domain) noexcept {
    std::uint64_t flags = 0;
    if ((domain.caps & FI_RMA_EVENT) != 0) flags |= FI_RMA_EVENT;
    if ((domain.caps & FI_HMEM) != 0) flags |= FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC;
    return flags;
}

int report(fid_mr& mr) noexcept {
    const fi_eq_entry entry{.fid = &mr.fid, .context = mr.fid.context, .data = 0};
    return mr_of(&mr).domain.eq->push(FI_MR_COMPLETE, &entry, sizeof entry);
}

int register_memory(Domain& domain, const Registration& what, fid_mr** ret_mr) noexcept try {
    if (ret_mr == nullptr) return -FI_EINVAL;
    if ((what.flags & ~known_flags(domain)) != 0) return -FI_EBADFLAGS;
    if (what.offset != 0 || (what.access & ~all_access) != 0) return -FI_EINVAL;
    const bool new_key = (domain.mr_mode & FI_MR_PROV_KEY) != 0;
    if (!new_key && what.key == FI_KEY_NOTAVAIL) return -FI_EINVAL;

    auto mr = std::make_unique<Mr>(domain);
    if (const int ret = take_memory(*mr, what); ret != 0) return ret;
    mr->access = what.access;
    mr->key = what.key;
    mr->starts_disabled = (domain.mr_mode & FI_MR_ENDPOINT) != 0 ||
                          ((domain.mr_mode & FI_MR_RMA_EVENT) != 0 && (what.flags & FI_RMA_EVENT) != 0);
    mr->enabled = !mr->starts_disabled;
    if (const Errno error = domain.add_mr(*mr, new_key); error.failed()) return error.negative();
    domain.refs.fetch_add(1, std::memory_order_acq_rel);
    mr->fid = {.fid = {.fclass = FI_CLASS_MR, .context = what.context, .ops = &mr_fid_ops},
               .mem_desc = mr.get(),
               .key = mr->key};
    *ret_mr = &mr.release()->fid; // Before an event tells of it.
    if (!domain.reports_mrs) return 0;
    const int ret = report(**ret_mr);
    if (ret != 0) (void)mr_close(&std::exchange(*ret_mr, nullptr)->fid);
    return ret;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

bool is_domain(const fid* object) noexcept { return object != nullptr && object->fclass == FI_CLASS_DOMAIN; }

int mr_regv(fid* object, const iovec* iov, std::size_t count, std::uint64_t access, std::uint64_t offset,
            std::uint64_t requested_key, std::uint64_t flags, fid_mr** ret_mr, void* context) {
    if (!is_domain(object)) return -FI_EINVAL;
    return register_memory(domain_of(reinterpret_cast<fid_domain*>(object)),
                           {.pieces = {iov, count},
                            .access = access,
                            .offset = offset,
                            .key = requested_key,
                            .flags = flags,
                            .context = context},
                           ret_mr);
}

int mr_reg(fid* domain, const void* buf, std::size_t len, std::uint64_t access, std::uint64_t offset,
           std::uint64_t requested_key, std::uint64_t flags, fid_mr** ret_mr, void* context) {
    const iovec iov{const_cast<void*>(buf), len};
    return mr_regv(domain, &iov, 1, access, offset, requested_key, flags, ret_mr, context);
}

// The struct grew with libfabric: what the application's has not got is not read. Its first five fields are as old as
// the call; auth_key came with 1.5, iface with 1.10; what came after 1.18 only advises.
int mr_regattr(fid* object, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** ret_mr) {
    const Uncancellable whole;
    if (!is_domain(object) || attr == nullptr) return -FI_EINVAL;
    Domain& domain = domain_of(reinterpret_cast<fid_domain*>(object));
    const std::uint32_t version = domain.fabric.api_version;
    Registration what{.access = attr->access,
                      .offset = attr->offset,
                      .key = attr->requested_key,
                      .flags = flags,
                      .context = attr->context};
    const bool hmem = (domain.caps & FI_HMEM) != 0;
    if (hmem && version >= FI_VERSION(1, 20) && (flags & flag_mr_dmabuf) != 0) {
        what.flags &= ~flag_mr_dmabuf;
        what.dmabuf = reinterpret_cast<const DmaBuf*>(attr->mr_iov); // A union of the two, in newer headers.
        if (what.dmabuf == nullptr || attr->iov_count != 1) return -FI_EINVAL;
    } else {
        what.pieces = {attr->mr_iov, attr->iov_count};
    }
    if (version >= FI_VERSION(1, 5) && attr->auth_key_size != 0) return -FI_EINVAL;
    // Without FI_HMEM the interface is not looked at.
    if (hmem && version >= FI_VERSION(1, 10)) what.device = {attr->iface, attr->device.cuda};
    return register_memory(domain, what, ret_mr);
}

// As much of [addr, addr + len) as lies in the piece in which it begins; NULL when that is none.
iovec piece_at(const Mr& mr, std::uint64_t addr, std::uint64_t len, bool virtual_addresses) noexcept {
    std::uint64_t offset = addr; // From the start of the piece at hand.
    for (std::size_t i = 0; i < mr.iov_count; ++i) {
        const iovec& piece = mr.iov[i];
        if (virtual_addresses) offset = addr - mr.address[i];
        // Unsigned: an address before the piece wraps to an offset beyond it. At its very end only nothing fits.
        if (offset < piece.iov_len || (offset == piece.iov_len && len == 0))
            return {static_cast<std::byte*>(piece.iov_base) + offset, std::min(len, piece.iov_len - offset)};
        if (!virtual_addresses) offset -= piece.iov_len;
    }
    return {};
}

} // namespace

fi_ops_mr mr_ops{.size = sizeof(fi_ops_mr), .reg = mr_reg, .regv = mr_regv, .regattr = mr_regattr};

bool mr_reachable(const Mr& mr, const Endpoint* through) noexcept {
    return mr.enabled &&
           (mr.endpoints.empty() || std::find(mr.endpoints.begin(), mr.endpoints.end(), through) != mr.endpoints.end());
}

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

std::optional<Buffers> mr_locate(const Mr& mr, std::uint64_t addr, std::uint64_t len, bool virtual_addresses) noexcept {
    Buffers range;
    while (range.count < mr.iov_count) {
        const iovec part = piece_at(mr, addr, len, virtual_addresses);
        if (part.iov_base == nullptr) return std::nullopt;
        range.iov[range.count++] = part;
        range.total += part.iov_len;
        if (part.iov_len == len) return range;
        addr += part.iov_len; // Within the registration, so it cannot overflow.
        len -= part.iov_len;
    }
    return std::nullopt;
}

Result<Buffers> MrTable::resolve(std::uint64_t key, std::uint64_t addr, std::uint64_t len, std::uint64_t access,
                                 const Endpoint* through) const noexcept {
    const std::lock_guard guard{lock_};
    const auto found = by_key_.find(key);
    if (found == by_key_.end() || !mr_reachable(*found->second, through)) return Errno{FI_EKEYREJECTED};
    const Mr& mr = *found->second;
    if ((access & ~mr.access) != 0) return Errno{EACCES};
    const auto range = mr_locate(mr, addr, len, virtual_);
    if (!range) return Errno{FI_EKEYREJECTED};
    return *range;
}

} // namespace nvlf::ofi
