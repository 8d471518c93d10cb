// SPDX-License-Identifier: MIT OR GPL-2.0-only
// cntr.cc - see cntr.hpp.
#include "cntr.hpp"

#include <memory>
#include <new>

#include "none.hpp"
#include "params.hpp"
#include "provider.hpp"
#include "wait_set.hpp"

namespace nvlf::ofi {

void Cntr::progress() noexcept {
    if (wait.armed()) [[unlikely]]
        end_try_wait(waitable());
    endpoints.progress();
}

int Cntr::try_wait() noexcept {
    return begin_try_wait(
        waitable(),
        [](void* self) noexcept -> ssize_t {
            Cntr& cntr = *static_cast<Cntr*>(self);
            cntr.endpoints.progress();
            return cntr.news() ? 0 : -FI_EAGAIN;
        },
        this);
}

namespace {

// The counts have no order with other memory to keep: what a completion makes visible is visible by the acquire that
// found it in the lane. But a reader on another thread must see it too, hence acquire here (and the adds release).
std::uint64_t take(const std::atomic<std::uint64_t>& count, std::atomic<std::uint64_t>& seen,
                   Patience& patience) noexcept {
    const std::uint64_t now = count.load(std::memory_order_acquire);
    if (seen.exchange(now, std::memory_order_relaxed) != now) patience.found();
    else patience.found_nothing(params().yield_after);
    return now;
}

std::uint64_t cntr_read(fid_cntr* fid) {
    Cntr& cntr = cntr_of(fid);
    cntr.progress();
    return take(cntr.value, cntr.seen_value, cntr.patience);
}

std::uint64_t cntr_readerr(fid_cntr* fid) {
    Cntr& cntr = cntr_of(fid);
    cntr.progress();
    return take(cntr.errors, cntr.seen_errors, cntr.patience);
}

// What the application does itself is no news to it, but it is to another thread that waits, and
// to work that waits for it.
int cntr_add(fid_cntr* fid, std::uint64_t value) {
    Cntr& cntr = cntr_of(fid);
    cntr.seen_value.fetch_add(value, std::memory_order_relaxed);
    cntr.add(value);
    cntr.domain.work.fire();
    return 0;
}

int cntr_adderr(fid_cntr* fid, std::uint64_t value) {
    Cntr& cntr = cntr_of(fid);
    cntr.seen_errors.fetch_add(value, std::memory_order_relaxed);
    cntr.add_error(value);
    cntr.domain.work.fire();
    return 0;
}

int cntr_set(fid_cntr* fid, std::uint64_t value) {
    Cntr& cntr = cntr_of(fid);
    cntr.seen_value.store(value, std::memory_order_relaxed);
    cntr.set(value);
    cntr.domain.work.fire();
    return 0;
}

int cntr_seterr(fid_cntr* fid, std::uint64_t value) {
    Cntr& cntr = cntr_of(fid);
    cntr.seen_errors.store(value, std::memory_order_relaxed);
    cntr.set_error(value);
    cntr.domain.work.fire();
    return 0;
}

int cntr_wait(fid_cntr* fid, std::uint64_t threshold, int timeout) {
    Cntr& cntr = cntr_of(fid);
    // Without a wait object it spins: applications wait for counters that they have not asked to be able to wait for.
    if (!cntr.wait.can_block() && cntr.wait.kind() != FI_WAIT_NONE) return -FI_EINVAL;
    struct Args {
        Cntr& cntr;
        std::uint64_t threshold;
        std::uint64_t errors; // When the call began.
    } args{cntr, threshold, cntr.errors.load(std::memory_order_acquire)};
    const Look look = [](void* self) noexcept -> ssize_t {
        const Args& a = *static_cast<Args*>(self);
        if (a.cntr.value.load(std::memory_order_seq_cst) < a.threshold) a.cntr.progress();
        if (a.cntr.value.load(std::memory_order_seq_cst) >= a.threshold) return 0;
        return a.cntr.errors.load(std::memory_order_seq_cst) != a.errors ? -FI_EAVAIL : -FI_EAGAIN;
    };
    return static_cast<int>(block(cntr.waitable(), look, &args, timeout, -FI_ETIMEDOUT));
}

int cntr_close(fid* object) {
    Cntr& cntr = cntr_of(reinterpret_cast<fid_cntr*>(object));
    if (cntr.refs.load(std::memory_order_acquire) != 0) return -FI_EBUSY;
    leave_wait_set(cntr.wait, *object);
    cntr.domain.drive_no_more_with(cntr);
    cntr.domain.cntrs.fetch_sub(1, std::memory_order_acq_rel);
    cntr.domain.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &cntr;
    return 0;
}

int cntr_control(fid* object, int command, void* arg) {
    return cntr_of(reinterpret_cast<fid_cntr*>(object)).wait.control(command, arg);
}

fi_ops cntr_fid_ops{sizeof(fi_ops), cntr_close, no_bind, cntr_control, no_ops_open, no_tostr, no_ops_set};

fi_ops_cntr cntr_ops{
    .size = sizeof(fi_ops_cntr),
    .read = cntr_read,
    .readerr = cntr_readerr,
    .add = cntr_add,
    .set = cntr_set,
    .wait = cntr_wait,
    .adderr = cntr_adderr,
    .seterr = cntr_seterr,
};

} // namespace

int cntr_open(fid_domain* fid, fi_cntr_attr* attr, fid_cntr** ret_cntr, void* context) noexcept {
    if (attr == nullptr || ret_cntr == nullptr) return -FI_EINVAL;
    if (attr->flags != 0) return -FI_EBADFLAGS;
    if (attr->events != FI_CNTR_EVENTS_COMP) return -FI_ENOSYS; // libfabric 2 counts bytes, too.
    Domain& domain = domain_of(fid);
    std::unique_ptr<Cntr> cntr{new (std::nothrow) Cntr{domain}};
    if (!cntr) return -FI_ENOMEM;
    if (const int ret = cntr->wait.open(attr->wait_obj, attr->wait_set); ret != 0) return ret;
    cntr->fid = {.fid = {.fclass = FI_CLASS_CNTR, .context = context, .ops = &cntr_fid_ops}, .ops = &cntr_ops};
    if (const int ret = join_wait_set(cntr->wait, cntr->fid.fid); ret != 0) return ret;
    if (domain.cntrs.fetch_add(1, std::memory_order_acq_rel) >= cntrs_per_domain) {
        domain.cntrs.fetch_sub(1, std::memory_order_acq_rel);
        leave_wait_set(cntr->wait, cntr->fid.fid);
        return -FI_EMFILE;
    }
    domain.refs.fetch_add(1, std::memory_order_acq_rel);
    *ret_cntr = &cntr.release()->fid;
    return 0;
}

} // namespace nvlf::ofi
