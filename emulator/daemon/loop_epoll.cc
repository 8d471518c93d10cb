// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <sys/epoll.h>

#include <array>

#include "base/fd.hpp"
#include "daemon/loop.hpp"

namespace nvlf::daemon {
namespace {

class EpollLoop final : public Loop {
public:
    explicit EpollLoop(Fd epoll) : epoll_{std::move(epoll)} {}

    Errno add(int fd, std::uint64_t key, Interest interest) override {
        return control(EPOLL_CTL_ADD, fd, key, interest);
    }
    Errno change(int fd, std::uint64_t key, Interest interest) override {
        return control(EPOLL_CTL_MOD, fd, key, interest);
    }
    void remove(int fd, std::uint64_t) override { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

    Errno wait(std::optional<std::uint32_t> milliseconds, std::vector<Ready>& ready) override {
        std::array<epoll_event, 64> events;
        const int bound = milliseconds ? static_cast<int>(*milliseconds) : -1;
        const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), bound);
        if (count < 0) return errno == EINTR ? Errno{} : last_errno();
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
            const std::uint32_t e = events[i].events;
            ready.push_back({events[i].data.u64, (e & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0, (e & EPOLLOUT) != 0});
        }
        return Errno{};
    }

    const char* name() const noexcept override { return "epoll"; }

private:
    Errno control(int operation, int fd, std::uint64_t key, Interest interest) {
        epoll_event event{};
        event.events = interest == Interest::read ? EPOLLIN : EPOLLIN | EPOLLOUT;
        event.data.u64 = key;
        return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0 ? Errno{} : last_errno();
    }

    Fd epoll_;
};

} // namespace

Result<std::unique_ptr<Loop>> make_epoll_loop() {
    Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
    if (!epoll) return last_errno();
    return std::unique_ptr<Loop>{std::make_unique<EpollLoop>(std::move(epoll))};
}

} // namespace nvlf::daemon
