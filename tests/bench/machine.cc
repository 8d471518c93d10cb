// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See machine.hpp.
#include "machine.hpp"

#include "beside.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace nvlf::bench {
namespace {

struct alignas(128) Line { // Apart from its neighbour also for the prefetcher, which fetches lines in pairs.
    std::atomic<std::uint64_t> word{0};
};

class EventFd {
public:
    EventFd() : fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
        if (fd_ < 0) throw std::system_error{errno, std::generic_category(), "eventfd"};
    }
    ~EventFd() { ::close(fd_); }
    EventFd(const EventFd&) = delete;
    EventFd& operator=(const EventFd&) = delete;

    void ring() const {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
    }
    void sleep() const {
        pollfd waited{.fd = fd_, .events = POLLIN, .revents = 0};
        while (::poll(&waited, 1, -1) != 1) {}
        std::uint64_t count = 0;
        [[maybe_unused]] const auto got = ::read(fd_, &count, sizeof count);
    }

private:
    int fd_;
};

} // namespace

Figures cache_line(const Processors& processors, std::uint64_t trips) {
    auto lines = std::make_unique<std::array<Line, 2>>();
    auto& [there, back] = *lines;
    return beside(
        processors,
        [&] {
            RoundTrips times{trips};
            times.start();
            for (std::uint64_t i = 1; i <= trips; ++i) {
                there.word.store(i, std::memory_order_release);
                while (back.word.load(std::memory_order_acquire) != i) {}
                times.stamp();
            }
            return times.half();
        },
        [&] {
            for (std::uint64_t i = 1; i <= trips; ++i) {
                while (there.word.load(std::memory_order_acquire) != i) {}
                back.word.store(i, std::memory_order_release);
            }
        });
}

Figures memory_copy(const Processors& processors, std::size_t bytes, std::uint64_t copies) {
    return beside(
        processors,
        [&] {
            std::vector<std::byte> from(bytes, std::byte{1});
            std::vector<std::byte> to(bytes);
            const auto start = Clock::now();
            for (std::uint64_t i = 0; i < copies; ++i) {
                std::memcpy(to.data(), from.data(), bytes);
                asm volatile("" : : "r"(to.data()) : "memory"); // Or the copies would be one.
            }
            return Figures{ns_between(start, Clock::now()) / static_cast<double>(copies), 0};
        },
        [] {});
}

Figures eventfd_wake(const Processors& processors, std::uint64_t trips) {
    constexpr std::chrono::microseconds pause{50}; // In which the other one has fallen asleep.
    const EventFd bell;
    auto answer = std::make_unique<Line>();
    return beside(
        processors,
        [&] {
            RoundTrips times{trips};
            for (std::uint64_t i = 1; i <= trips; ++i) {
                for (const auto until = Clock::now() + pause; Clock::now() < until;) {}
                times.start();
                bell.ring();
                while (answer->word.load(std::memory_order_acquire) != i) {}
                times.stamp();
            }
            return times.whole();
        },
        [&] {
            for (std::uint64_t i = 1; i <= trips; ++i) {
                bell.sleep();
                answer->word.store(i, std::memory_order_release);
            }
        });
}

} // namespace nvlf::bench
