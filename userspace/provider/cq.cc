// SPDX-License-Identifier: MIT OR GPL-2.0-only
// cq.cc - see cq.hpp.
//
// The format is chosen when the queue is opened: each has a table of calls of its own, so that reading does not decide.
#include "cq.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>

#include "info.hpp"
#include "none.hpp"
#include "params.hpp"
#include "provider.hpp"
#include "wait_set.hpp"

namespace nvlf::ofi {

CompletionRing::CompletionRing(std::size_t entries, std::size_t limit)
    : ring_{std::make_unique<Entry[]>(std::bit_ceil(entries))},
      mask_{std::bit_ceil(entries) - 1},
      limit_{std::bit_ceil(limit)} {
    overrun_.err = FI_EOVERRUN;
}

CompletionRing::~CompletionRing() {
    while (!empty()) {
        if (error_next()) static_cast<void>(pop_error());
        else pop();
    }
}

bool CompletionRing::make_room() noexcept {
    const std::size_t size = mask_ + 1;
    if (size < limit_) {
        if (Entry* const larger = new (std::nothrow) Entry[size * 2]) {
            for (std::size_t at = head_; at != tail_; ++at) larger[at & (size * 2 - 1)] = ring_[at & mask_];
            ring_.reset(larger);
            mask_ = size * 2 - 1;
            return true;
        }
    }
    mark_overrun();
    return false;
}

void CompletionRing::mark_overrun() noexcept {
    if (overrun_queued_) return; // Said already, and not yet read.
    ring_[tail_++ & mask_] = {overrun_.c, &overrun_};
    ++errors_;
    overrun_queued_ = true;
}

void CompletionRing::push_error(const Failure& failure) noexcept {
    if (tail_ - head_ >= mask_ && !make_room()) return;
    Failure* const copy = new (std::nothrow) Failure{failure};
    if (copy == nullptr) return mark_overrun();
    ring_[tail_++ & mask_] = {failure.c, copy};
    ++errors_;
}

Failure CompletionRing::pop_error() noexcept {
    Failure* const failure = ring_[head_++ & mask_].failure;
    --errors_;
    Failure copy = *failure;
    if (failure == &overrun_) overrun_queued_ = false;
    else delete failure;
    return copy;
}

Cq::Cq(Domain& d, std::size_t entries, std::size_t limit)
    : domain{d}, endpoints{d.locks()}, lock_{d.locks()}, ring_{entries, limit} {}

void Cq::push_error(const Failure& failure) noexcept {
    lock_.lock();
    ring_.push_error(failure);
    lock_.unlock();
    wait.notify();
}

void Cq::progress() noexcept {
    if (wait.armed()) [[unlikely]]
        end_try_wait(waitable());
    endpoints.progress();
}

bool Cq::holds(std::size_t entries) noexcept {
    const std::lock_guard guard{lock_};
    return ring_.size() >= entries || ring_.any_error();
}

ssize_t Cq::peek() noexcept {
    const std::lock_guard guard{lock_};
    if (ring_.empty()) return -FI_EAGAIN;
    return ring_.error_next() ? -FI_EAVAIL : 0;
}

namespace {

// A longer entry begins like a shorter one.
void convert(const Completion& from, fi_cq_entry& to) noexcept { to = {from.context}; }
void convert(const Completion& from, fi_cq_msg_entry& to) noexcept { to = {from.context, from.flags, from.len}; }
void convert(const Completion& from, fi_cq_data_entry& to) noexcept {
    to = {from.context, from.flags, from.len, from.buf, from.data};
}
void convert(const Completion& from, fi_cq_tagged_entry& to) noexcept {
    to = {from.context, from.flags, from.len, from.buf, from.data, from.tag};
}

} // namespace

template <class CqEntry>
ssize_t Cq::pop(CqEntry* ret_entries, std::size_t count, fi_addr_t* ret_sources) noexcept {
    const std::lock_guard guard{lock_};
    std::size_t done = 0;
    for (; done < count && !ring_.empty() && !ring_.error_next(); ++done) {
        convert(ring_.front(), ret_entries[done]);
        if (ret_sources != nullptr) ret_sources[done] = ring_.front().source;
        ring_.pop();
    }
    if (done > 0) return static_cast<ssize_t>(done);
    return ring_.error_next() ? -FI_EAVAIL : -FI_EAGAIN;
}

template <class CqEntry>
ssize_t Cq::read(CqEntry* ret_entries, std::size_t count, fi_addr_t* ret_sources) noexcept {
    if (count == 0) { // "Only make progress."
        progress();
        return peek();
    }
    ssize_t got = pop(ret_entries, count, ret_sources);
    if (got == -FI_EAGAIN) {
        progress();
        got = pop(ret_entries, count, ret_sources);
        if (got == -FI_EAGAIN) {
            patience_.found_nothing(params().yield_after);
            return got;
        }
    }
    patience_.found();
    return got;
}

namespace {

// What libfabric 1.20 put at the end of the struct.
struct ErrEntry120 {
    fi_cq_err_entry entry;
    fi_addr_t src_addr;
};

// As much of the struct as the application's libfabric had when it was compiled.
void fill_error(const Failure& failure, nvlf_addr* source, std::uint32_t api_version, fi_cq_err_entry* to) noexcept {
    to->op_context = failure.c.context;
    to->flags = failure.c.flags;
    to->len = failure.c.len;
    to->buf = failure.c.buf;
    to->data = failure.c.data;
    to->tag = failure.c.tag;
    to->olen = failure.olen;
    to->err = failure.err;
    to->prov_errno = failure.prov_errno;
    const std::size_t bytes = failure.source.magic != 0 ? sizeof *source : 0;
    if (api_version < FI_VERSION(1, 5)) {
        to->err_data = bytes != 0 ? source : nullptr;
        return;
    }
    if (to->err_data_size != 0 && to->err_data != nullptr) { // The application's own buffer.
        to->err_data_size = std::min(to->err_data_size, bytes);
        std::memcpy(to->err_data, source, to->err_data_size);
    } else {
        to->err_data = bytes != 0 ? source : nullptr;
        to->err_data_size = bytes;
    }
    if (api_version >= FI_VERSION(1, 20)) reinterpret_cast<ErrEntry120*>(to)->src_addr = failure.c.source;
}

} // namespace

ssize_t Cq::read_error(fi_cq_err_entry* entry) noexcept {
    if (entry == nullptr) return -FI_EINVAL;
    const std::lock_guard guard{lock_};
    if (!ring_.error_next()) return -FI_EAGAIN;
    last_failure_ = ring_.pop_error();
    fill_error(last_failure_, &last_failure_.source, domain.fabric.api_version, entry);
    return 1;
}

int Cq::try_wait() noexcept {
    return begin_try_wait(
        waitable(),
        [](void* self) noexcept -> ssize_t {
            Cq& cq = *static_cast<Cq*>(self);
            cq.endpoints.progress();
            return cq.peek();
        },
        this);
}

template <class CqEntry>
struct CqCalls {
    static ssize_t read(fid_cq* fid, void* buf, std::size_t count) { return readfrom(fid, buf, count, nullptr); }

    static ssize_t readfrom(fid_cq* fid, void* buf, std::size_t count, fi_addr_t* ret_sources) {
        if (buf == nullptr && count > 0) return -FI_EINVAL;
        return cq_of(fid).read(static_cast<CqEntry*>(buf), count, ret_sources);
    }

    static ssize_t sread(fid_cq* fid, void* buf, std::size_t count, const void* cond, int timeout) {
        return sreadfrom(fid, buf, count, nullptr, cond, timeout);
    }

    struct Args {
        Cq& cq;
        CqEntry* entries;
        std::size_t count;
        fi_addr_t* sources;
        std::size_t threshold;
    };

    static ssize_t sreadfrom(fid_cq* fid, void* buf, std::size_t count, fi_addr_t* ret_sources, const void* condition,
                             int timeout) {
        Cq& cq = cq_of(fid);
        if (!cq.wait.can_block() || (buf == nullptr && count > 0)) return -FI_EINVAL;
        Args args{cq, static_cast<CqEntry*>(buf), count, ret_sources, 1};
        if (cq.wait_cond == FI_CQ_COND_THRESHOLD && condition != nullptr)
            args.threshold = *static_cast<const std::size_t*>(condition);
        if (args.threshold > 1) return sread_many(args, timeout);
        const Look look = [](void* self) noexcept -> ssize_t {
            const Args& a = *static_cast<Args*>(self);
            ssize_t got = a.cq.pop(a.entries, a.count, a.sources);
            if (got != -FI_EAGAIN) return got;
            a.cq.progress();
            return a.cq.pop(a.entries, a.count, a.sources);
        };
        return block(cq.waitable(), look, &args, timeout, -FI_EAGAIN);
    }

    // Until so many entries wait, or an error does. Who is signalled or timed out gets those that are there.
    static ssize_t sread_many(Args& args, int timeout) {
        const Look look = [](void* self) noexcept -> ssize_t {
            const Args& a = *static_cast<Args*>(self);
            if (!a.cq.holds(a.threshold)) a.cq.progress();
            return a.cq.holds(a.threshold) ? 0 : -FI_EAGAIN;
        };
        const ssize_t waited = block(args.cq.waitable(), look, &args, timeout, -FI_EAGAIN);
        const ssize_t got = args.cq.pop(args.entries, args.count, args.sources);
        return got == -FI_EAGAIN && waited != 0 ? waited : got;
    }

    static fi_ops_cq ops;
};

namespace {

ssize_t cq_readerr(fid_cq* fid, fi_cq_err_entry* entry, std::uint64_t flags) {
    return flags == 0 ? cq_of(fid).read_error(entry) : -FI_EBADFLAGS;
}

int cq_signal(fid_cq* fid) {
    Cq& cq = cq_of(fid);
    if (!cq.wait.can_signal()) return -FI_EINVAL;
    cq.wait.signal();
    return 0;
}

// prov_errno is an errno of the driver below.
const char* cq_strerror(fid_cq*, int prov_errno, const void*, char* buf, std::size_t len) {
    const char* text = fi_strerror(prov_errno);
    if (buf == nullptr || len == 0) return text;
    std::strncpy(buf, text, len - 1);
    buf[len - 1] = '\0';
    return buf;
}

int cq_close(fid* object) {
    Cq& cq = cq_of(reinterpret_cast<fid_cq*>(object));
    if (cq.refs.load(std::memory_order_acquire) != 0) return -FI_EBUSY;
    leave_wait_set(cq.wait, *object);
    cq.domain.cqs.fetch_sub(1, std::memory_order_acq_rel);
    cq.domain.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &cq;
    return 0;
}

int cq_control(fid* object, int command, void* arg) {
    return cq_of(reinterpret_cast<fid_cq*>(object)).wait.control(command, arg);
}

fi_ops cq_fid_ops{sizeof(fi_ops), cq_close, no_bind, cq_control, no_ops_open, no_tostr, no_ops_set};

fi_ops_cq* ops_of(enum fi_cq_format format) noexcept {
    switch (format) {
    case FI_CQ_FORMAT_UNSPEC:
    case FI_CQ_FORMAT_CONTEXT: return &CqCalls<fi_cq_entry>::ops;
    case FI_CQ_FORMAT_MSG: return &CqCalls<fi_cq_msg_entry>::ops;
    case FI_CQ_FORMAT_DATA: return &CqCalls<fi_cq_data_entry>::ops;
    case FI_CQ_FORMAT_TAGGED: return &CqCalls<fi_cq_tagged_entry>::ops;
    }
    return nullptr;
}

} // namespace

template <class CqEntry>
fi_ops_cq CqCalls<CqEntry>::ops{
    .size = sizeof(fi_ops_cq),
    .read = CqCalls::read,
    .readfrom = CqCalls::readfrom,
    .readerr = cq_readerr,
    .sread = CqCalls::sread,
    .sreadfrom = CqCalls::sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

int cq_open(fid_domain* fid, fi_cq_attr* attr, fid_cq** ret_cq, void* context) noexcept try {
    if (attr == nullptr || ret_cq == nullptr) return -FI_EINVAL;
    if ((attr->flags & ~FI_AFFINITY) != 0) return -FI_EBADFLAGS;
    fi_ops_cq* const ops = ops_of(attr->format);
    if (ops == nullptr) return -FI_EINVAL;
    if (attr->wait_obj != FI_WAIT_NONE && attr->wait_cond > FI_CQ_COND_THRESHOLD) return -FI_EINVAL;
    // The size is what must fit at least: memory is taken as it fills.
    const std::size_t limit = std::max(attr->size, params().cq_limit);
    if (limit > cq_size_limit) return -FI_EINVAL;
    constexpr std::size_t fewest = 64, most = 1024; // One to sixteen pages.
    const std::size_t entries = attr->size != 0 ? std::clamp(attr->size, fewest, most) : most;

    Domain& domain = domain_of(fid);
    auto cq = std::make_unique<Cq>(domain, entries, limit + 1); // One entry is never used.
    cq->wait_cond = attr->wait_cond;
    if (const int ret = cq->wait.open(attr->wait_obj, attr->wait_set); ret != 0) return ret;
    cq->fid = {.fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = &cq_fid_ops}, .ops = ops};
    if (const int ret = join_wait_set(cq->wait, cq->fid.fid); ret != 0) return ret;
    if (domain.cqs.fetch_add(1, std::memory_order_acq_rel) >= cqs_per_domain) {
        domain.cqs.fetch_sub(1, std::memory_order_acq_rel);
        leave_wait_set(cq->wait, cq->fid.fid);
        return -FI_EMFILE;
    }
    domain.refs.fetch_add(1, std::memory_order_acq_rel);
    if (attr->format == FI_CQ_FORMAT_UNSPEC) attr->format = FI_CQ_FORMAT_CONTEXT;
    *ret_cq = &cq.release()->fid;
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

} // namespace nvlf::ofi
