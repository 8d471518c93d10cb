// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "cma.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "base/cancel.hpp"
#include "directory.hpp"
#include "params.hpp"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

// The kernel pins pages by the batch and copies while it holds them; a call longer than this only keeps us from
// everything else.
constexpr std::size_t call_bytes = 16U << 20;

// Asking each time would cost a fifth of a small copy.
constexpr auto believed = std::chrono::microseconds{100};

// The number of a process in our PID namespace, as our own /proc has it. 0: it has none here, or is gone.
::pid_t number_of(int process) noexcept {
    char path[40];
    std::snprintf(path, sizeof path, "/proc/self/fdinfo/%d", process);
    const Fd file{::open(path, O_RDONLY | O_CLOEXEC)};
    char text[512];
    const ssize_t got = file ? ::read(file.get(), text, sizeof text - 1) : -1;
    if (got <= 0) return 0;
    text[got] = '\0';
    const char* at = std::strstr(text, "\nPid:\t");
    if (at == nullptr) return 0;
    int number = 0;
    std::from_chars(at + std::strlen("\nPid:\t"), text + got, number);
    return number > 0 ? number : 0;
}

// The pieces of [offset, offset + bytes), after those that are there already.
template <std::size_t N>
std::size_t pieces(const Buffers& buffers, std::size_t offset, std::size_t bytes, std::array<iovec, N>& iov,
                   std::size_t count) noexcept {
    buffers.each(offset, bytes, [&](std::byte* at, std::size_t part) { iov[count++] = {at, part}; });
    return count;
}

} // namespace

bool make_proof(std::array<std::uint64_t, 2>& kept, MemoryProof& ret_shown) noexcept {
    if (::getrandom(kept.data(), sizeof kept, 0) != static_cast<ssize_t>(sizeof kept)) return false;
    ret_shown = {kept, reinterpret_cast<std::uintptr_t>(kept.data())};
    return true;
}

[[gnu::cold]] bool Cma::probe(const ::nvlf_channel* channel) noexcept {
    if (!params().cma) return false;
    const Uncancellable whole;
    const Errno error = open(channel);
    if (error == Errno{EAGAIN}) return false; // It is not up yet: ask again.
    state_ = error.failed() ? State::refused : State::works;
    const nvlf_addr& peer = *nvlf_channel_peer(channel);
    if (error.failed())
        FI_INFO(&provider, FI_LOG_EP_CTRL, "endpoint %u: no copies between address spaces: %s\n", peer.endpoint,
                std::strerror(error.value()));
    return !error.failed();
}

// A real attempt: reads nothing but the proof.
Errno Cma::open(const ::nvlf_channel* channel) noexcept {
    std::size_t bytes = 0;
    const auto* region = reinterpret_cast<const std::byte*>(nvlf_channel_region(channel, &bytes));
    if (bytes < directory_offset + sizeof(Directory)) return Errno{EOPNOTSUPP};
    const auto& directory = *reinterpret_cast<const Directory*>(region + directory_offset);
    // acquire: the rest of the head was written before.
    if (std::atomic_ref{const_cast<std::uint64_t&>(directory.magic)}.load(std::memory_order_acquire) != directory_magic)
        return Errno{EAGAIN};
    std::memcpy(&proof_, &directory.proof, sizeof proof_);
    if (proof_.at == 0) return Errno{EOPNOTSUPP};
    int process = -1;
    if (const int error = nvlf_channel_process(channel, &process); error != 0) return Errno{-error};
    process_.reset(process);
    pid_ = number_of(process);
    if (pid_ == 0) return Errno{ESRCH};
    return read({}, 0, {}, 0, 0);
}

bool Cma::alive() noexcept {
    const auto now = Clock::now();
    if (now < alive_until_) return true;
    const Uncancellable whole;
    pollfd process{process_.get(), POLLIN, 0};
    alive_until_ = now + believed;
    return ::poll(&process, 1, 0) == 0;
}

Errno Cma::read(const Buffers& to, std::size_t to_at, const Buffers& from, std::size_t from_at,
                std::size_t bytes) noexcept {
    std::size_t done = 0;
    do {
        const auto now = Clock::now();
        const std::size_t proof_bytes = now < proved_until_ ? 0 : sizeof proof_.bytes;
        const std::size_t part = std::min(bytes - done, call_bytes);
        std::array<std::uint64_t, 2> proof{};
        std::array<iovec, iov_limit + 1> here{};
        std::array<iovec, iov_limit + 1> there{};
        here[0] = {proof.data(), proof_bytes};
        there[0] = {reinterpret_cast<void*>(proof_.at), proof_bytes};
        const std::size_t ours = pieces(to, to_at + done, part, here, 1);
        const std::size_t theirs = pieces(from, from_at + done, part, there, 1);
        const ssize_t got = ::process_vm_readv(pid_, here.data(), ours, there.data(), theirs, 0);
        if (got < 0 && (errno != EFAULT || proof_bytes > 0)) return failed(last_errno());
        if (proof_bytes > 0) {
            // Without it, none of this is what we took it for.
            if (got < static_cast<ssize_t>(proof_bytes) || proof != proof_.bytes) return failed(Errno{ESRCH});
            proved_until_ = now + believed;
        }
        // Fewer than wanted: the rest cannot be read.
        if (got != static_cast<ssize_t>(proof_bytes + part)) return Errno{EFAULT};
        done += part;
    } while (done < bytes);
    return {};
}

Errno Cma::write(const Buffers& from, std::size_t from_at, const Buffers& to, std::size_t to_at,
                 std::size_t bytes) noexcept {
    for (std::size_t done = 0; done < bytes;) {
        const std::size_t part = std::min(bytes - done, call_bytes);
        std::array<iovec, iov_limit> here{};
        std::array<iovec, iov_limit> there{};
        const std::size_t ours = pieces(from, from_at + done, part, here, 0);
        const std::size_t theirs = pieces(to, to_at + done, part, there, 0);
        if (!alive()) return failed(Errno{ESRCH});
        const ssize_t put = ::process_vm_writev(pid_, here.data(), ours, there.data(), theirs, 0);
        if (put < 0) return failed(last_errno());
        if (put != static_cast<ssize_t>(part)) return Errno{EFAULT};
        done += part;
    }
    return {};
}

} // namespace nvlf::ofi
