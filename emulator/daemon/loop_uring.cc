// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Polls that are armed once and armed again at the next wait(). A pending poll holds the file it polls: remove() must
// cancel it, or the peer of a socket that we closed would not see it closed.
#include <liburing.h>
#include <poll.h>

#include <unordered_map>

#include "daemon/loop.hpp"

namespace nvlf::daemon {
namespace {

constexpr unsigned ring_entries = 256; // Submissions between two waits; more are submitted early.

class UringLoop final : public Loop {
public:
    UringLoop() = default;
    UringLoop(const UringLoop&) = delete;
    UringLoop& operator=(const UringLoop&) = delete;
    ~UringLoop() override {
        if (open_) io_uring_queue_exit(&ring_);
    }

    [[nodiscard]] Errno open() {
        const int result = io_uring_queue_init(ring_entries, &ring_, 0);
        if (result < 0) return Errno{-result};
        open_ = true;
        // Without it wait() would need a timeout of its own in the ring. Linux 5.11.
        return (ring_.features & IORING_FEAT_EXT_ARG) != 0 ? Errno{} : Errno{ENOSYS};
    }

    Errno add(int fd, std::uint64_t key, Interest interest) override {
        watches_[key] = {fd, interest, 0};
        to_arm_.push_back(key);
        return Errno{};
    }

    Errno change(int fd, std::uint64_t key, Interest interest) override {
        const auto it = watches_.find(key);
        if (it == watches_.end()) return Errno{ENOENT};
        if (it->second.armed_as != 0) cancel(it->second.armed_as);
        it->second = {fd, interest, 0};
        to_arm_.push_back(key);
        return Errno{};
    }

    void remove(int, std::uint64_t key) override {
        const auto it = watches_.find(key);
        if (it == watches_.end()) return;
        if (it->second.armed_as != 0) cancel(it->second.armed_as);
        watches_.erase(it);
    }

    Errno wait(std::optional<std::uint32_t> milliseconds, std::vector<Ready>& ready) override {
        if (const Errno e = arm(); e.failed()) return e;
        io_uring_cqe* first = nullptr;
        __kernel_timespec bound{};
        if (milliseconds) {
            bound.tv_sec = *milliseconds / 1000;
            bound.tv_nsec = static_cast<long long>(*milliseconds % 1000) * 1000000;
        }
        const int result =
            io_uring_submit_and_wait_timeout(&ring_, &first, 1, milliseconds ? &bound : nullptr, nullptr);
        // EBUSY, EAGAIN: completions must be taken before more can be submitted, which is what happens next.
        if (result < 0 && result != -ETIME && result != -EINTR && result != -EBUSY && result != -EAGAIN)
            return Errno{-result};
        unsigned head = 0;
        unsigned seen = 0;
        io_uring_cqe* cqe = nullptr;
        io_uring_for_each_cqe(&ring_, head, cqe) {
            ++seen;
            take(*cqe, ready);
        }
        io_uring_cq_advance(&ring_, seen);
        return Errno{};
    }

    const char* name() const noexcept override { return "io_uring"; }

private:
    struct Watch {
        int fd;
        Interest interest;
        std::uint64_t armed_as; // user_data of the pending poll; 0: none.
    };

    io_uring_sqe* entry() {
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        if (sqe != nullptr) return sqe;
        io_uring_submit(&ring_);
        return io_uring_get_sqe(&ring_);
    }

    void cancel(std::uint64_t armed_as) {
        polls_.erase(armed_as);
        io_uring_sqe* sqe = entry();
        if (sqe == nullptr) return; // Cannot be: submitting empties the queue. The poll would be ignored when it fires.
        io_uring_prep_poll_remove(sqe, armed_as);
        io_uring_sqe_set_data64(sqe, 0);
    }

    Errno arm() {
        for (const std::uint64_t key : to_arm_) {
            const auto it = watches_.find(key);
            if (it == watches_.end() || it->second.armed_as != 0) continue;
            io_uring_sqe* sqe = entry();
            if (sqe == nullptr) return Errno{EBUSY};
            const unsigned events = it->second.interest == Interest::read ? POLLIN : POLLIN | POLLOUT;
            io_uring_prep_poll_add(sqe, it->second.fd, events);
            it->second.armed_as = ++last_poll_;
            io_uring_sqe_set_data64(sqe, last_poll_);
            polls_.emplace(last_poll_, key);
        }
        to_arm_.clear();
        return Errno{};
    }

    void take(const io_uring_cqe& cqe, std::vector<Ready>& ready) {
        const auto poll = polls_.find(cqe.user_data);
        if (poll == polls_.end()) return; // A cancellation, or what was cancelled.
        const std::uint64_t key = poll->second;
        polls_.erase(poll);
        watches_.at(key).armed_as = 0;
        to_arm_.push_back(key);
        // A poll that failed is reported as readable: reading then says what is wrong.
        const unsigned events = cqe.res < 0 ? POLLERR : static_cast<unsigned>(cqe.res);
        ready.push_back({key, (events & (POLLIN | POLLHUP | POLLERR)) != 0, (events & POLLOUT) != 0});
    }

    io_uring ring_{};
    bool open_ = false;
    std::unordered_map<std::uint64_t, Watch> watches_;       // By key.
    std::unordered_map<std::uint64_t, std::uint64_t> polls_; // user_data to key, while pending.
    std::uint64_t last_poll_ = 0;
    std::vector<std::uint64_t> to_arm_;
};

} // namespace

Result<std::unique_ptr<Loop>> make_uring_loop() {
    auto loop = std::make_unique<UringLoop>();
    if (const Errno e = loop->open(); e.failed()) return e;
    return std::unique_ptr<Loop>{std::move(loop)};
}

} // namespace nvlf::daemon
