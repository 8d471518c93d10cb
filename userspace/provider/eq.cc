// SPDX-License-Identifier: MIT OR GPL-2.0-only
// eq.cc - see eq.hpp.
#include "eq.hpp"

#include <cstring>
#include <memory>
#include <new>

#include "none.hpp"
#include "provider.hpp"
#include "wait_set.hpp"

namespace nvlf::ofi {

int Eq::push(std::uint32_t event, const void* data, std::size_t bytes) noexcept try {
    {
        const std::lock_guard guard{lock_};
        if (events_.size() >= eq_limit) return -FI_EAGAIN;
        const auto* const first = static_cast<const std::byte*>(data);
        events_.push_back({event, std::vector<std::byte>(first, first + bytes)});
    }
    wait.notify();
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

int Eq::push_error(const fi_eq_err_entry& error) noexcept try {
    {
        const std::lock_guard guard{lock_};
        if (errors_.size() >= eq_limit) return -FI_EAGAIN;
        errors_.push_back(error);
    }
    wait.notify();
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

ssize_t Eq::read(std::uint32_t* ret_event, void* buf, std::size_t len, std::uint64_t flags) noexcept {
    if (wait.armed()) end_try_wait(waitable());
    if (empty()) endpoints.progress();
    const std::lock_guard guard{lock_};
    if (!errors_.empty()) return -FI_EAVAIL;
    if (events_.empty()) return -FI_EAGAIN;
    const Event& next = events_.front();
    const std::size_t bytes = next.data.size();
    if (buf != nullptr && len < bytes) return -FI_ETOOSMALL;
    if (ret_event != nullptr) *ret_event = next.event;
    const std::size_t taken = buf != nullptr ? bytes : 0; // Who brings no buffer wants to know of the event alone.
    if (taken > 0) std::memcpy(buf, next.data.data(), taken);
    if ((flags & FI_PEEK) == 0) events_.pop_front();
    return static_cast<ssize_t>(taken);
}

ssize_t Eq::read_error(fi_eq_err_entry* entry, std::uint64_t flags) noexcept {
    const std::lock_guard guard{lock_};
    if (errors_.empty()) return -FI_EAGAIN;
    // Applications from before 1.5 have a struct that ends with err_data.
    const std::size_t bytes =
        fabric.api_version >= FI_VERSION(1, 5) ? sizeof *entry : offsetof(fi_eq_err_entry, err_data_size);
    std::memcpy(entry, &errors_.front(), bytes);
    if ((flags & FI_PEEK) == 0) errors_.pop_front();
    return static_cast<ssize_t>(bytes);
}

bool Eq::empty() noexcept {
    const std::lock_guard guard{lock_};
    return events_.empty() && errors_.empty();
}

int Eq::try_wait() noexcept {
    return begin_try_wait(
        waitable(), [](void* self) noexcept -> ssize_t { return static_cast<Eq*>(self)->empty() ? -FI_EAGAIN : 0; },
        this);
}

namespace {

ssize_t eq_read(fid_eq* fid, std::uint32_t* ret_event, void* buf, std::size_t len, std::uint64_t flags) {
    if ((flags & ~FI_PEEK) != 0) return -FI_EBADFLAGS;
    if (buf == nullptr && len > 0) return -FI_EINVAL;
    return eq_of(fid).read(ret_event, buf, len, flags);
}

ssize_t eq_readerr(fid_eq* fid, fi_eq_err_entry* entry, std::uint64_t flags) {
    if ((flags & ~FI_PEEK) != 0) return -FI_EBADFLAGS;
    if (entry == nullptr) return -FI_EINVAL;
    return eq_of(fid).read_error(entry, flags);
}

ssize_t eq_write(fid_eq* fid, std::uint32_t event, const void* buf, std::size_t len, std::uint64_t flags) {
    Eq& eq = eq_of(fid);
    if (flags != 0) return -FI_EBADFLAGS;
    if (!eq.writable || (buf == nullptr && len > 0) || len > eq_event_limit) return -FI_EINVAL;
    const int ret = eq.push(event, buf, len);
    return ret != 0 ? ret : static_cast<ssize_t>(len);
}

ssize_t eq_sread(fid_eq* fid, std::uint32_t* ret_event, void* buf, std::size_t len, int timeout, std::uint64_t flags) {
    Eq& eq = eq_of(fid);
    if ((flags & ~FI_PEEK) != 0) return -FI_EBADFLAGS;
    if (!eq.wait.can_block() || (buf == nullptr && len > 0)) return -FI_EINVAL;
    struct Args {
        Eq& eq;
        std::uint32_t* event;
        void* buf;
        std::size_t len;
        std::uint64_t flags;
    } args{eq, ret_event, buf, len, flags};
    const Look look = [](void* self) noexcept -> ssize_t {
        const Args& a = *static_cast<Args*>(self);
        return a.eq.read(a.event, a.buf, a.len, a.flags);
    };
    return block(eq.waitable(), look, &args, timeout, -FI_EAGAIN);
}

const char* eq_strerror(fid_eq*, int prov_errno, const void*, char* buf, std::size_t len) {
    const char* text = fi_strerror(prov_errno);
    if (buf == nullptr || len == 0) return text;
    std::strncpy(buf, text, len - 1);
    buf[len - 1] = '\0';
    return buf;
}

int eq_close(fid* object) {
    Eq& eq = eq_of(reinterpret_cast<fid_eq*>(object));
    if (eq.refs.load(std::memory_order_acquire) != 0) return -FI_EBUSY;
    leave_wait_set(eq.wait, *object);
    eq.fabric.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &eq;
    return 0;
}

int eq_control(fid* object, int command, void* arg) {
    return eq_of(reinterpret_cast<fid_eq*>(object)).wait.control(command, arg);
}

fi_ops eq_fid_ops{sizeof(fi_ops), eq_close, no_bind, eq_control, no_ops_open, no_tostr, no_ops_set};

fi_ops_eq eq_ops{
    .size = sizeof(fi_ops_eq),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = eq_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

} // namespace

int eq_open(fid_fabric* fid, fi_eq_attr* attr, fid_eq** ret_eq, void* context) noexcept try {
    if (attr == nullptr || ret_eq == nullptr) return -FI_EINVAL;
    if ((attr->flags & ~(FI_WRITE | FI_AFFINITY)) != 0) return -FI_EBADFLAGS;
    if (attr->size > eq_limit) return -FI_EINVAL;
    Fabric& fabric = fabric_of(fid);
    auto eq = std::make_unique<Eq>(fabric);
    if (const int ret = eq->wait.open(attr->wait_obj, attr->wait_set); ret != 0) return ret;
    eq->writable = (attr->flags & FI_WRITE) != 0;
    eq->fid = {.fid = {.fclass = FI_CLASS_EQ, .context = context, .ops = &eq_fid_ops}, .ops = &eq_ops};
    if (const int ret = join_wait_set(eq->wait, eq->fid.fid); ret != 0) return ret;
    fabric.refs.fetch_add(1, std::memory_order_acq_rel);
    *ret_eq = &eq.release()->fid;
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

} // namespace nvlf::ofi
