// SPDX-License-Identifier: MIT OR GPL-2.0-only
// poll_set.cc - see poll_set.hpp.
//
// A queue is told of as long as it is not empty; a counter when it has changed since the set last told of it, whoever
// read it in between. Each call begins behind the member at which the last one stopped, so that an array too short for all
// does not starve those at its end.
#include "poll_set.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "cntr.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "none.hpp"
#include "params.hpp"

namespace nvlf::ofi {
namespace {

class PollSet {
public:
    explicit PollSet(Domain& d) noexcept : domain{d}, lock_{d.locks()} {}

    fid_poll fid{};
    Domain& domain;

    int add(::fid& object) noexcept try {
        std::atomic<int>* const refs = refs_of(object);
        if (refs == nullptr) return -FI_EINVAL;
        const std::lock_guard guard{lock_};
        if (find(object) != members_.end()) return -FI_EALREADY;
        members_.push_back({&object});
        refs->fetch_add(1, std::memory_order_acq_rel);
        return 0;
    } catch (const std::bad_alloc&) {
        return -FI_ENOMEM;
    }

    int remove(::fid& object) noexcept {
        const std::lock_guard guard{lock_};
        const auto member = find(object);
        if (member == members_.end()) return -FI_ENOENT;
        members_.erase(member);
        refs_of(object)->fetch_sub(1, std::memory_order_acq_rel);
        return 0;
    }

    bool empty() noexcept {
        const std::lock_guard guard{lock_};
        return members_.empty();
    }

    int poll(void** ret_contexts, int room) noexcept {
        const std::lock_guard guard{lock_};
        int found = 0;
        const std::size_t first = next_;
        for (std::size_t i = 0; i < members_.size() && found < room; ++i) {
            Member& member = members_[(first + i) % members_.size()];
            next_ = (first + i + 1) % members_.size();
            if (has_news(member)) ret_contexts[found++] = member.object->context;
        }
        if (found > 0) patience_.found();
        else patience_.found_nothing(params().yield_after);
        return found;
    }

private:
    struct Member {
        ::fid* object;
        std::uint64_t value = 0; // Of a counter, as last told.
        std::uint64_t errors = 0;
    };

    // Of what may enter this set; nullptr: it may not.
    std::atomic<int>* refs_of(::fid& object) const noexcept {
        if (object.fclass == FI_CLASS_CQ) {
            Cq& cq = cq_of(reinterpret_cast<fid_cq*>(&object));
            return &cq.domain == &domain ? &cq.refs : nullptr;
        }
        if (object.fclass == FI_CLASS_CNTR) {
            Cntr& cntr = cntr_of(reinterpret_cast<fid_cntr*>(&object));
            return &cntr.domain == &domain ? &cntr.refs : nullptr;
        }
        return nullptr;
    }

    std::vector<Member>::iterator find(const ::fid& object) noexcept {
        return std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.object == &object; });
    }

    static bool has_news(Member& member) noexcept {
        if (member.object->fclass == FI_CLASS_CQ) {
            Cq& cq = cq_of(reinterpret_cast<fid_cq*>(member.object));
            cq.progress();
            return cq.peek() != -FI_EAGAIN;
        }
        Cntr& cntr = cntr_of(reinterpret_cast<fid_cntr*>(member.object));
        cntr.progress();
        const std::uint64_t value = cntr.value.load(std::memory_order_acquire);
        const std::uint64_t errors = cntr.errors.load(std::memory_order_acquire);
        const bool changed = value != member.value || errors != member.errors;
        member.value = value;
        member.errors = errors;
        return changed;
    }

    SpinLock lock_;
    std::vector<Member> members_;
    std::size_t next_ = 0; // Where the next call begins.
    Patience patience_;
};

PollSet& poll_set_of(fid_poll* fid) noexcept { return *reinterpret_cast<PollSet*>(fid); }

int poll_set_poll(fid_poll* fid, void** ret_contexts, int count) {
    if (count < 0 || (ret_contexts == nullptr && count > 0)) return -FI_EINVAL;
    return poll_set_of(fid).poll(ret_contexts, count);
}

int poll_set_add(fid_poll* fid, ::fid* object, std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    return object != nullptr ? poll_set_of(fid).add(*object) : -FI_EINVAL;
}

int poll_set_del(fid_poll* fid, ::fid* object, std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    return object != nullptr ? poll_set_of(fid).remove(*object) : -FI_EINVAL;
}

int poll_set_close(fid* object) {
    PollSet& set = poll_set_of(reinterpret_cast<fid_poll*>(object));
    if (!set.empty()) return -FI_EBUSY;
    set.domain.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &set;
    return 0;
}

fi_ops poll_set_fid_ops{sizeof(fi_ops), poll_set_close, no_bind, no_control, no_ops_open, no_tostr, no_ops_set};
fi_ops_poll poll_set_ops{sizeof(fi_ops_poll), poll_set_poll, poll_set_add, poll_set_del};

} // namespace

int poll_set_open(fid_domain* fid, fi_poll_attr* attr, fid_poll** ret_set) noexcept {
    if (attr == nullptr || ret_set == nullptr) return -FI_EINVAL;
    if (attr->flags != 0) return -FI_EBADFLAGS;
    Domain& domain = domain_of(fid);
    auto* const set = new (std::nothrow) PollSet{domain};
    if (set == nullptr) return -FI_ENOMEM;
    set->fid = {.fid = {.fclass = FI_CLASS_POLL, .context = nullptr, .ops = &poll_set_fid_ops}, .ops = &poll_set_ops};
    domain.refs.fetch_add(1, std::memory_order_acq_rel);
    *ret_set = &set->fid;
    return 0;
}

} // namespace nvlf::ofi
