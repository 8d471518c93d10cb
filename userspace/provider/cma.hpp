// SPDX-License-Identifier: MIT OR GPL-2.0-only
// cma.hpp - copying between our memory and a peer's by one system call ("cross memory attach").
//
// process_vm_readv(2) moves what lies in ordinary memory with one copy instead of two, and without the other end's
// processor. Whether the kernel lets us is known only by trying it on that very peer (containers, user namespaces, Yama,
// seccomp filters), so each peer is tried once and what it answered is remembered; nothing depends on it.
//
// Whose memory? A process id is a number that can be false, mean another process in another PID namespace, or be given
// to somebody else. Three things stand between us and a stranger's memory:
//
//   - The process is the kernel's word: the carrier hands out a pidfd taken when the peer connected, and our own /proc
//     says which number that is here. A peer names addresses, and those are looked up in its own memory: it cannot make
//     us read from or write to a third process.
//   - Reads also read a proof: 16 random bytes that the peer's endpoint shows in its region and keeps in private memory.
//     One call resolves the number once, so what came with the right proof came from that process. A number that was given
//     to somebody else, a program replaced by exec and an endpoint that was closed fail there. For 100 us it is believed:
//     the process would have to end, and as many processes as there are numbers be made, in that time.
//   - A write cannot prove anything in the same call. It asks the pidfd, likewise once in 100 us.
//
// What a peer can do with this: make us read garbage of its own into a buffer that waits for its message.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "buffers.hpp"
#include "nvlf/nvlf.h"

namespace nvlf::ofi {

// Shown in the endpoint's region; `at` is where the same bytes lie in its private memory. 0: nothing is shown.
struct MemoryProof {
    std::array<std::uint64_t, 2> bytes;
    std::uint64_t at;
};

class Cma {
public:
    // Whether copies are worth trying. The first question asks the carrier and tries: tens of microseconds.
    [[nodiscard]] bool usable(const ::nvlf_channel* channel) noexcept {
        return state_ == State::works || (state_ == State::untried && probe(channel));
    }
    [[nodiscard]] bool works() const noexcept { return state_ == State::works; }
    // Copy `bytes` from the peer's memory into ours, or the other way. The buffers are as `Buffers::each` walks them from
    // their offsets. Fails as a whole. EFAULT is about these addresses; after any other failure the peer is not usable any
    // more.
    [[nodiscard]] Errno read(const Buffers& to, std::size_t to_at, const Buffers& from, std::size_t from_at,
                             std::size_t bytes) noexcept;
    [[nodiscard]] Errno write(const Buffers& from, std::size_t from_at, const Buffers& to, std::size_t to_at,
                              std::size_t bytes) noexcept;

private:
    using Clock = std::chrono::steady_clock;
    enum class State : std::uint8_t { untried, works, refused };

    [[nodiscard]] bool probe(const ::nvlf_channel* channel) noexcept;
    [[nodiscard]] Errno open(const ::nvlf_channel* channel) noexcept;
    [[nodiscard]] bool alive() noexcept;
    // Remembers a failure that will not pass.
    [[nodiscard]] Errno failed(Errno error) noexcept {
        if (error != Errno{EFAULT}) state_ = State::refused;
        return error;
    }

    State state_ = State::untried;
    ::pid_t pid_ = 0; // In our PID namespace.
    Fd process_;
    Clock::time_point proved_until_{}; // As far as we know.
    Clock::time_point alive_until_{};
    MemoryProof proof_{}; // Our copy.
};

// Fills in the proof of an endpoint of ours: random bytes, which lie in private memory at `kept`. False: there are none.
[[nodiscard]] bool make_proof(std::array<std::uint64_t, 2>& kept, MemoryProof& ret_shown) noexcept;

} // namespace nvlf::ofi
