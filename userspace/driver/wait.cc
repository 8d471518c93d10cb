// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Sleeping and waking. The hard part of this library.
//
// A producer publishes a slot and then looks whether the consumer sleeps; a consumer that goes to sleep says so and then
// looks for slots. If each of the two could see the old state of the other, a message would lie in a lane and its
// consumer would sleep for good. Both would need a full fence between their store and their load - and the producer's
// would cost some 20 ns for each message sent, to guard against something that happens when nobody sends.
//
// So the consumer pays for both. After it has said that it sleeps it issues membarrier(GLOBAL_EXPEDITED), which makes
// every CPU that runs a registered process execute a full fence. Where in the producer's program that fence falls, either
// its slot was published before it (and the consumer's look, which comes after the membarrier, finds it), or its look at
// `armed` comes after it (and finds that the consumer sleeps). The producer only keeps the compiler from swapping the two.
//
// Two cases in which the producer fences for itself: its process could not register (then the barrier does not reach it),
// or the consumer could not issue it (it says so by NVLF_REGION_FENCE). Both are known when the channel is made.
//
// `armed` counts: odd while asleep. So a producer that has rung for one sleep knows the next from it, and rings at most
// once for each.
#include <linux/membarrier.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "base/cancel.hpp"
#include "driver/channel.hpp"
#include "driver/endpoint.hpp"

using namespace nvlf;

namespace {

void full_fence() noexcept {
#if defined(__x86_64__)
    // A locked instruction is a full fence here and cheaper than mfence; and unlike a fence, ThreadSanitizer knows it.
    std::atomic<int> nothing{0};
    nothing.exchange(1, std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void set_armed(nvlf_region& region, std::uint32_t value) noexcept {
    // release on disarming would be enough; on arming, what orders it is the fence or the membarrier that follows.
    __atomic_store_n(&region.armed, value, __ATOMIC_RELEASE);
}

// Adds 1 to an eventfd. Its being full is as good as having added: it is readable either way.
void ring(int doorbell) noexcept {
    const Uncancellable whole;
    const std::uint64_t one = 1;
    ssize_t written = 0;
    do {
        written = ::write(doorbell, &one, sizeof one);
    } while (written < 0 && errno == EINTR);
}

// Empties the doorbell. Not by read(): a peer shares its file status and can switch off O_NONBLOCK, whereupon a read of a
// doorbell that yet another peer has just drained would block for ever. RWF_NOWAIT is this call's own.
void drain_doorbell(int doorbell) noexcept {
    std::uint64_t count = 0;
    const iovec iov{&count, sizeof count};
    const ssize_t got = ::preadv2(doorbell, &iov, 1, -1, RWF_NOWAIT);
    if (got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) // Before Linux 5.8: eventfds did not know it.
        [[maybe_unused]]
        const ssize_t ignored = ::read(doorbell, &count, sizeof count);
}

// A socket of ours and the carrier's alone.
void drain_notice(int notice) noexcept {
    std::array<char, 256> nothing;
    while (::read(notice, nothing.data(), nothing.size()) > 0) {}
}

// The producer's cold path. The value is remembered first: ringing once for each sleep is enough.
[[gnu::cold, gnu::noinline]] void wake(nvlf_channel& channel, std::uint32_t armed) noexcept {
    channel.rung = armed;
    ring(channel.doorbell.get());
}

} // namespace

void nvlf_channel_notify(nvlf_channel* channel) noexcept {
    if (channel == nullptr) return;
    if (channel->fence) [[unlikely]]
        full_fence();
    else std::atomic_signal_fence(std::memory_order_seq_cst); // For the compiler; see above.
    const std::uint32_t armed = load_relaxed(*channel->armed);
    if ((armed & 1) != 0 && armed != channel->rung) [[unlikely]]
        wake(*channel, armed);
}

int nvlf_ep_wait_fd(const nvlf_ep* ep) noexcept { return ep != nullptr ? ep->wait.get() : -EINVAL; }

void nvlf_ep_arm(nvlf_ep* ep) noexcept {
    if (ep == nullptr || ep->fabric->carrier->in_forked_child()) return;
    set_armed(*ep->region, (ep->region->armed + 1) | 1);
    // Without the system call (it was refused between registration and now, by a sandbox that came up) producers that
    // rely on it could miss us; fencing our own side is then all that can be done. See the header on who relies.
    if (!ep->fabric->membarrier || ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0) full_fence();
}

void nvlf_ep_disarm(nvlf_ep* ep) noexcept {
    if (ep == nullptr || ep->fabric->carrier->in_forked_child()) return;
    const Uncancellable whole;
    if ((ep->region->armed & 1) != 0) set_armed(*ep->region, ep->region->armed + 1);
    std::array<epoll_event, 4> ready;
    const int count = ::epoll_wait(ep->wait.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
        const int fd = ready[static_cast<std::size_t>(i)].data.fd;
        if (fd == ep->doorbell.get()) drain_doorbell(fd);
        if (fd == ep->notice.get()) drain_notice(fd);
    }
}

void nvlf_ep_ring(nvlf_ep* ep) noexcept {
    if (ep != nullptr && !ep->fabric->carrier->in_forked_child()) ring(ep->doorbell.get());
}
