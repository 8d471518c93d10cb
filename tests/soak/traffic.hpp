// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Random operations among the endpoints of a soak, and the judge of what came of them.
//
// A message says who sent it and which one it is, and its bytes follow from that; so do the bytes that are written to a
// peer's window and read back. A counter in each peer's window is ours alone: what fetch-and-add answers is known. An
// operation may fail only if its peer has gone meanwhile; that is looked up on the board, for a while, because a death is
// noticed by the fabric before the board is turned. Whatever takes longer than a minute hangs.
//
// Several threads may drive one Traffic: libfabric is called without our lock, which guards the book of what is under way.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "soak/board.hpp"
#include "soak/station.hpp"

namespace nvlf::soak {

using Clock = std::chrono::steady_clock;

// Something happened that must not.
struct Finding : std::runtime_error {
    using std::runtime_error::runtime_error;
};
// The fabric is gone. The supervisor knows whether it should be.
struct FabricGone : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Traffic {
public:
    Traffic(Board& board, Station& station, unsigned me, std::uint64_t life);

    // One random thing. Throws Finding or FabricGone.
    void act(Random& random);
    // The judgements that had to wait.
    void review();

private:
    enum class Kind { send, receive, multi, write, read, fetch_add, peek };
    struct Op {
        Kind kind = Kind::send;
        unsigned peer = 0;
        std::uint64_t peer_version = 0; // Of its card when the operation began.
        std::uint64_t number = 0;       // Of the message, or of the pattern.
        std::size_t offset = 0;         // In the slice.
        std::vector<char> buffer;
        bool cancelled = false;
        Clock::time_point since = Clock::now();
    };
    struct Peer {
        std::uint64_t version = 0;
        fi_addr_t address = FI_ADDR_NOTAVAIL;
        Presence presence;
        bool window_busy = false; // A write or a read of ours is under way there.
        bool counter_busy = false;
        bool counter_known = false;
        std::uint64_t counter = 0;
        std::uint64_t pattern = 0; // Last written; 0: none.
        std::size_t pattern_at = 0, pattern_bytes = 0;
    };
    struct Suspicion {
        unsigned peer;
        std::uint64_t version;
        std::string what;
        Clock::time_point since;
    };

    void send(Random& random, bool tagged);
    void receive(Random& random, bool tagged);
    void multi_receive(Random& random);
    void touch_window(Random& random);
    void count_up(Random& random);
    void peek(Random& random);
    void cancel(Random& random);
    void poll(Random& random);

    [[nodiscard]] static std::string text_of(Kind kind);
    [[nodiscard]] bool meet(Peer& peer, unsigned index);
    [[nodiscard]] Op* open(Kind kind, const Peer* peer, unsigned index);
    [[nodiscard]] std::unique_ptr<Op> close(void* context, const char* how);
    [[nodiscard]] bool is_multi(void* context);
    void posted(ssize_t result, Op* op);
    void complete(const fi_cq_tagged_entry& entry);
    void fail(const fi_cq_err_entry& failure);
    void settle(Op& op, bool done);
    void excuse(const Op& op, int error);
    void check_message(const char* bytes, std::size_t length) const;
    [[nodiscard]] std::uint64_t remote(const Peer& peer, std::size_t offset) const;

    Board& board_;
    Station& station_;
    const unsigned me_;
    const std::uint64_t life_;
    const bool in_order_; // Completions are looked at one after the other: else there are no multi-receives.
    std::mutex poll_lock_;
    std::mutex lock_; // What follows.
    std::array<Peer, max_processes> peers_;
    std::unordered_map<void*, std::unique_ptr<Op>> book_;
    std::deque<Suspicion> suspicions_;
    std::unordered_map<void*, std::string> last_; // What became of the last operation with a context.
    std::size_t receives_ = 0;
    std::uint64_t next_number_ = 1;
};

} // namespace nvlf::soak
