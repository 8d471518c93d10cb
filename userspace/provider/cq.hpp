// SPDX-License-Identifier: MIT OR GPL-2.0-only
// cq.hpp - completion queues.
//
// Completions are never lost in silence. The ring grows when it is full, to params().cq_limit entries; errors lie in it
// in the order in which they happened; and should it be unable to grow, the queue says so by an error entry FI_EOVERRUN
// that follows the last completion which it could keep.
//
// Readers take what is there, and only when there is nothing do they drive the endpoints: the cost of progress is then
// paid once for many completions.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "domain.hpp"
#include "lock.hpp"
#include "nvlf/device.h"
#include "wait.hpp"

namespace nvlf::ofi {

struct Completion {
    void* context = nullptr;
    std::uint64_t flags = 0;
    std::size_t len = 0;
    void* buf = nullptr;
    std::uint64_t data = 0;
    std::uint64_t tag = 0;
    fi_addr_t source = FI_ADDR_NOTAVAIL;
};

struct Failure {
    Completion c;
    int err = 0; // FI_E*, positive.
    std::size_t olen = 0;
    int prov_errno = 0; // An errno, or 0.
    nvlf_addr source{}; // Of the peer, as far as it is known; magic 0 when it is not.
};

// The queue itself: what was pushed, in order. Not locked.
class CompletionRing {
public:
    // Throws bad_alloc. `limit` is a number of entries; both are rounded up to powers of two.
    CompletionRing(std::size_t entries, std::size_t limit);
    ~CompletionRing();
    CompletionRing(const CompletionRing&) = delete;
    CompletionRing& operator=(const CompletionRing&) = delete;

    void push(const Completion& completion) noexcept {
        if (tail_ - head_ >= mask_ && !make_room()) [[unlikely]]
            return;
        // One by one: a completion that is put together on the stack and copied as a whole is read back before it is written.
        Entry& entry = ring_[tail_ & mask_];
        entry.completion.context = completion.context;
        entry.completion.flags = completion.flags;
        entry.completion.len = completion.len;
        entry.completion.buf = completion.buf;
        entry.completion.data = completion.data;
        entry.completion.tag = completion.tag;
        entry.completion.source = completion.source;
        entry.failure = nullptr;
        ++tail_;
    }
    void push_error(const Failure& failure) noexcept;

    [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
    [[nodiscard]] std::size_t size() const noexcept { return tail_ - head_; }
    // As much as others may put in: the other half is for what the application asked for itself.
    [[nodiscard]] bool crowded() const noexcept { return size() >= limit_ / 2; }
    [[nodiscard]] bool any_error() const noexcept { return errors_ > 0; }
    [[nodiscard]] bool error_next() const noexcept { return !empty() && ring_[head_ & mask_].failure != nullptr; }
    // The next completion: only when not empty and no error is next.
    [[nodiscard]] const Completion& front() const noexcept { return ring_[head_ & mask_].completion; }
    void pop() noexcept { ++head_; }
    // The next error: only when error_next().
    [[nodiscard]] Failure pop_error() noexcept;

private:
    // One cache line.
    struct Entry {
        Completion completion;
        Failure* failure; // Not NULL: an error. Owned, unless it is overrun_.
    };
    static_assert(sizeof(Entry) == 64);

    // False: there is none, and the completion at hand is lost. One entry is always kept free, for saying so.
    [[gnu::cold]] [[nodiscard]] bool make_room() noexcept;
    void mark_overrun() noexcept;

    std::unique_ptr<Entry[]> ring_;
    std::size_t mask_;
    std::size_t limit_;
    std::size_t head_ = 0; // Free-running.
    std::size_t tail_ = 0;
    std::size_t errors_ = 0; // Entries with a failure.
    Failure overrun_;
    bool overrun_queued_ = false;
};

inline constexpr std::size_t cq_size_limit = std::size_t{1}
                                             << 30; // Entries; FI_NVLF_CQ_LIMIT sets the usual, lower one.

struct Cq {
    Cq(Domain& d, std::size_t entries, std::size_t limit);

    fid_cq fid{};
    Domain& domain;
    std::atomic<int> refs{0}; // Endpoints bound to it, from fi_ep_bind to fi_close.

    void push(const Completion& completion) noexcept {
        lock_.lock();
        ring_.push(completion);
        lock_.unlock();
        wait.notify();
    }
    void push_error(const Failure& failure) noexcept;
    // For completions that peers cause without end and nobody posted anything for: not now.
    [[nodiscard]] bool crowded() noexcept {
        lock_.lock();
        const bool is = ring_.crowded();
        lock_.unlock();
        return is;
    }

    // Whom reads drive, from FI_ENABLE (the endpoint's descriptor exists by then) to fi_close. Counted. 0 or -FI_E*.
    [[nodiscard]] int add_endpoint(Endpoint& endpoint) noexcept { return endpoints.add(endpoint, wait); }
    void remove_endpoint(Endpoint& endpoint) noexcept { endpoints.remove(endpoint, wait); }

    // Makes sleepers look again.
    void wake() noexcept { wait.notify(); }

    // fi_cq_read in one of its formats: fi_cq_entry to fi_cq_tagged_entry.
    template <class CqEntry>
    ssize_t read(CqEntry* ret_entries, std::size_t count, fi_addr_t* ret_sources) noexcept;
    ssize_t read_error(fi_cq_err_entry* entry) noexcept;
    [[nodiscard]] int try_wait() noexcept;                  // fi_trywait: 0 or -FI_E*.
    [[nodiscard]] bool holds(std::size_t entries) noexcept; // So many at least, or an error.
    [[nodiscard]] ssize_t peek() noexcept;                  // 0 when a completion is next, -FI_EAVAIL, -FI_EAGAIN
    void progress() noexcept;
    [[nodiscard]] Waitable waitable() noexcept { return {wait, &endpoints, domain.nvlf}; }

    WaitObject wait;
    EndpointList endpoints;
    enum fi_cq_wait_cond wait_cond = FI_CQ_COND_NONE;

private:
    template <class CqEntry>
    ssize_t pop(CqEntry* ret_entries, std::size_t count, fi_addr_t* ret_sources) noexcept;
    template <class CqEntry>
    friend struct CqCalls;

    SpinLock lock_;
    CompletionRing ring_;
    Patience patience_;
    Failure last_failure_; // Its source is what err_data of the last error entry points to.
};

inline Cq& cq_of(fid_cq* fid) noexcept { return *reinterpret_cast<Cq*>(fid); }

int cq_open(fid_domain* domain, fi_cq_attr* attr, fid_cq** ret_cq, void* context) noexcept;

} // namespace nvlf::ofi
