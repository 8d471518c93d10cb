// SPDX-License-Identifier: MIT OR GPL-2.0-only
// collectives.hpp - fi_collective(3) at one endpoint: the groups that it joined, and the collectives under way.
//
// A collective is a schedule (coll_schedule.hpp) of messages between members. They travel in the endpoint's lanes like all
// others, but in a matching space of their own, where a message is known by its sender and its key (coll_key.hpp); what
// is large is announced and streams by the engine's rendezvous. Nothing here blocks: a call carries its schedule as far
// as that goes, and Endpoint::progress() goes on.
//
//   coll_group.cc    joining, leaving, whom we talk to
//   coll_op.cc       a schedule carried out, to its end or to its failure
//   coll_message.cc  messages out, and in
//   coll_calls.cc    libfabric's calls
//
// A failure never leaves anybody waiting, and nobody needs a clock for that. Who waits for a message of a member has a
// channel to it, and so is told of its death. Who fails for whatever reason tells all members with whom it has to do in
// this collective; these fail and do likewise. So who waits either has a living member before it that will still send,
// or hears. From a failed collective on the group is of no use; what was called before it ends on its own merits.
//
// Everything holds the endpoint's lock.
#pragma once

#include <rdma/fi_collective.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "av_set.hpp"
#include "coll_key.hpp"
#include "coll_schedule.hpp"
#include "endpoint.hpp"

namespace nvlf::ofi {

struct Collectives;
struct CollOp;

// Groups that an endpoint is in at a time.
inline constexpr std::size_t groups_limit = 65536;

struct Member {
    fi_addr_t fi_addr = FI_ADDR_NOTAVAIL; // As the application names it, to name the root.
    nvlf_addr address{};
    Peer* peer = nullptr;         // Once met; also after its death.
    const CollOp* told = nullptr; // Who told it last of its failure.
};

struct Group {
    enum class State : std::uint8_t { joining, open, failed };

    explicit Group(Collectives& at) noexcept : home{at} {}

    fid_mc fid{};
    Collectives& home;
    State state = State::joining;
    bool resolved = false; // All members are endpoints by now, not services that nobody offers yet.
    bool closed = false;   // By the application; it remains while operations of it do.
    std::vector<Member> members;
    std::uint32_t rank = 0;
    std::uint64_t collectives = 0; // As AvSet's.
    std::uint64_t tag = 0;
    std::uint64_t key = 0;
    std::uint32_t sequence = 0;    // Of the next collective.
    std::uint32_t broken_from = 0; // With `error`: collectives from this one on fail.
    int error = 0;
    std::uint32_t operations = 0;
    std::uint64_t proposed = 0; // What joining agrees on: the leader's number for the group,
    std::uint64_t agreed = 0;   // as all know it in the end.

    [[nodiscard]] Place place() const noexcept { return {rank, static_cast<std::uint32_t>(members.size())}; }
    [[nodiscard]] const Member* member(const nvlf_addr& address) const noexcept;
};

struct CollOp : ListHook {
    Group* group = nullptr;
    TxContext* account = nullptr;
    Schedule schedule;
    std::uint64_t tag = 0;
    std::uint64_t key = 0; // Without a message's number.
    void* context = nullptr;
    std::uint64_t flags = 0;
    bool join = false;
    bool stalled = false;        // A step waits for room, for memory or for a first contact: to be tried again.
    bool failing = false;        // It has been called off; then what follows is still to do:
    bool told = false;           // members were told,
    bool reported = false;       // and so was the application.
    std::uint32_t announced = 0; // Large messages that members may still fetch from the caller's buffers.
    std::size_t stage_at = 0;    // Steps of the present stage:
    std::size_t stage_end = 0;   // from, to
    std::size_t open = 0;        // So many of them have not ended.
    int error = 0;
    nvlf_addr culprit{};

    void fail(int why, const nvlf_addr& who = {}) noexcept {
        if (error != 0) return;
        error = why;
        culprit = who;
    }
};

struct Collectives {
    explicit Collectives(Endpoint& endpoint) noexcept : ep{endpoint} {}
    Collectives(const Collectives&) = delete;
    Collectives& operator=(const Collectives&) = delete;
    ~Collectives();

    // ---- What the endpoint's engine calls. ----

    void progress() noexcept {
        if (!active.empty()) [[unlikely]]
            run_all();
    }
    [[nodiscard]] bool ready() noexcept; // Is there something for progress() to do, besides what lies in lanes?
    // A message, whole or announced; see Endpoint::on_msg and on_rts. False: it cannot be taken in yet.
    [[nodiscard]] bool on_message(Peer& peer, const nvlf_slot& slot) noexcept;
    [[nodiscard]] bool on_announced(const Envelope& message, std::span<const std::byte> pieces) noexcept;
    void sent(const TxOp& tx, int error) noexcept;
    void received(const RxOp& rx, int error) noexcept;
    void peer_failed(Peer& peer, int error) noexcept;
    void mourn() noexcept; // Marks the peers whose records are still needed.
    void fail_all(int error) noexcept;

    // ---- coll_group.cc ----

    [[nodiscard]] int join(fi_addr_t parent, const AvSet& set, fid_mc** ret_mc, void* context);
    void close(Group& group) noexcept;
    [[nodiscard]] Group* find(fi_addr_t address) noexcept;
    [[nodiscard]] bool any_group() const noexcept; // That the application has not closed.
    [[nodiscard]] int resolve(Group& group) noexcept;
    void begin_join(CollOp& op);
    void end_join(CollOp& op) noexcept;
    [[nodiscard]] Peer* reach(Member& member, ssize_t& error) noexcept;
    [[nodiscard]] Group* group_of(std::uint64_t tag, std::uint64_t key, bool also_closed = false) noexcept;
    void release(Group& group) noexcept;

    // ---- coll_op.cc ----

    // Throws bad_alloc, and then nothing has happened.
    void start(Group& group, Schedule&& schedule, TxContext& account, void* context, std::uint64_t flags);
    void run_all() noexcept;
    void run(CollOp& op) noexcept;
    [[nodiscard]] bool open_stage(CollOp& op) noexcept;
    void begin_steps(CollOp& op) noexcept;
    void begin(CollOp& op, Step& step) noexcept;
    void done(Step& step) noexcept;
    void give_up(CollOp& op) noexcept;
    [[nodiscard]] bool tell(CollOp& op) noexcept;
    void report(CollOp& op) noexcept;
    void end(CollOp& op) noexcept;
    void break_group(Group& group, std::uint32_t from, int error, const nvlf_addr& who) noexcept;

    // ---- coll_message.cc ----

    void begin_send(CollOp& op, Step& step) noexcept;
    void begin_receive(CollOp& op, Step& step) noexcept;
    [[nodiscard]] ssize_t push(Peer& peer, std::uint64_t tag, std::uint64_t key, const std::byte* from,
                               std::size_t bytes) noexcept;
    void take(RxOp& rx, const Envelope& message, std::span<const std::byte> payload) noexcept;
    [[nodiscard]] RxOp* match(const Envelope& message) noexcept;
    [[nodiscard]] Unexpected* find_kept(const nvlf_addr& from, std::uint64_t tag, std::uint64_t key) noexcept;
    [[nodiscard]] bool expected(const Envelope& message) noexcept;
    void refuse(const Envelope& message) noexcept;
    [[nodiscard]] bool on_abort(const Envelope& message, std::uint32_t code) noexcept;
    void sort_out() noexcept;
    void abort(Peer& peer, std::uint64_t tag, std::uint64_t key, int error) noexcept;
    void cancel_messages(CollOp& op) noexcept;
    void take_back(CollOp& op, const Peer& from) noexcept;
    void drop_send(TxOp& tx) noexcept;

    // Messages that wait for a step are kept and accounted for as those that wait for a receive.
    [[nodiscard]] RxContext& context() const noexcept { return *ep.rx_bindings.front().context; }

    Endpoint& ep;
    MatchQueue queue;
    boost::intrusive::list<CollOp, boost::intrusive::constant_time_size<false>> active;
    std::size_t operations = 0; // In `active`.
    std::uint32_t joining = 0;  // Of these, joins.

    struct Slot {
        std::unique_ptr<Group> group;
        std::uint32_t generation = 0;
    };
    std::vector<Slot> groups;
    std::uint64_t led = 0;                                  // Groups that we ever led.
    std::unordered_map<std::uint64_t, std::uint64_t> joins; // By hash of the members: how often they joined.
    Endpoint::Clock::time_point next_resolve{};             // When to ask again for services that nobody offers.
};

extern fi_ops_collective collective_ops;

// fi_join_collective, by way of fi_join.
int join_collective(fid_ep* ep, const void* address, std::uint64_t flags, fid_mc** ret_mc, void* context) noexcept;

// fi_query_collective
int query_collective(fid_domain* domain, enum fi_collective_op collective, fi_collective_attr* attr,
                     std::uint64_t flags) noexcept;

} // namespace nvlf::ofi
