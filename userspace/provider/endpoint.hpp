// SPDX-License-Identifier: MIT OR GPL-2.0-only
// endpoint.hpp - an RDM endpoint: the libfabric object, and the engine behind it.
//
// The engine is a set of peers (peer.hpp), the contexts on whose account messages go out and come in (tx_context.hpp,
// rx_context.hpp) and the operations in flight. It moves only when the application calls: a send publishes slots at
// once, and progress() reads every peer's lane, answers, and pushes what waits. Its parts lie in files of their own:
//
//   endpoint.cc  the object: open, bind, enable, close; ep_calls.cc what aliases and contexts answer alike
//   scalable_ep.cc shared_context.cc   several contexts of one endpoint, one of several endpoints
//   peers.cc     first contact, acceptance, death
//   send.cc      messages out: eager, rendezvous, streams, answers
//   express.hpp  the short way of a small message, out and in
//   incoming.cc  messages in, as they come out of a lane
//   receive.cc   receives posted, called back, matched
//   unexpected.cc  messages that came before their receive
//   delivery.cc  receives filled, and told of; multi-receive
//   fetch.cc     large messages copied by their receiver
//   direct.cc    reads and writes on fabric memory, by the initiator alone
//   across.cc    those on ordinary memory, where the kernel lets the initiator copy
//   onesided.cc  those on other memory, at both ends
//   events.cc    telling the target of a one-sided operation
//   progress.cc  slots in: the dispatch, and waiting
//   update.cc    atomic operations, at both ends
//   waiting.cc   the order of operations, and those that may not start yet
//   collectives.hpp  collectives, on top of all this
//   msg.cc tagged.cc rma.cc atomic.cc   libfabric's call forms, turned into the few requests below
//
// Lock order: endpoint, then completion queue or counter. Everything below enable() holds lock(), which is none at all
// under FI_THREAD_DOMAIN.
#pragma once

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "av.hpp"
#include "cntr.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "endpoint_api.hpp"
#include "ep_fid.hpp"
#include "eq.hpp"
#include "info.hpp"
#include "lock.hpp"
#include "match.hpp"
#include "nvlf/nvlf.h"
#include "peer.hpp"
#include "requests.hpp"
#include "rx_context.hpp"
#include "tx_context.hpp"
#include "wire.hpp"

namespace nvlf::ofi {

// Largest message that fi_inject takes, and that needs no completion to be forgotten.
inline constexpr std::size_t inject_limit = inject_size;
// Largest message that is pushed without asking; above it a receive must be waiting first.
inline constexpr std::size_t eager_limit = 16384;
static_assert(inject_limit + max_msg_prefix <= eager_limit && eager_limit <= piece_bytes);
// Bytes of the elements of one atomic operation: both its operands fit a piece.
inline constexpr std::size_t atomic_limit = piece_bytes / 2;
// Operations of one endpoint that have not ended.
inline constexpr std::size_t tx_limit = 65536;
// Part of the region that peers map read-only; only what is touched costs memory.
inline constexpr std::uint64_t region_bytes = 64u << 10;

// The orders that cost something, so that an application has to ask for them (fi_tx_attr.msg_order). The others hold in
// any case.
struct Ordering {
    bool write_after_read = false;
    bool send_after_read = false;
    bool one_sided_after_send = false;

    explicit Ordering(const fi_tx_attr* attr) noexcept {
        if (attr == nullptr) return;
        write_after_read = (attr->msg_order & (FI_ORDER_WAR | FI_ORDER_RMA_WAR)) != 0;
        send_after_read = (attr->msg_order & FI_ORDER_SAR) != 0;
        one_sided_after_send = (attr->msg_order & (FI_ORDER_RAS | FI_ORDER_WAS)) != 0;
    }
};

struct Collectives;

struct SharedRx;
struct SharedTx;

struct Endpoint : EpFid {
    using Clock = std::chrono::steady_clock;

    Domain& domain;
    std::uint64_t caps = 0;
    const Ordering order;
    std::uint64_t msg_order = 0;                 // Of transmits, as it was opened with.
    std::uint64_t service = 0;                   // Name under which it is published; 0: none.
    std::uint32_t host = htonl(INADDR_LOOPBACK); // Of its name, where that is an FI_SOCKADDR_IN; in network order.
    Generation generation;
    std::atomic<int> mrs{0};              // Registrations bound to it: it must outlive them.
    std::array<std::uint64_t, 2> proof{}; // That memory is ours (cma.hpp).
    int armed = 0;                        // Sleepers.

    // With so many transmit and receive contexts. Throws bad_alloc.
    Endpoint(Domain& d, const fi_info& info, std::size_t transmit, std::size_t receive);
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;
    ~Endpoint();

    // endpoint.cc
    [[nodiscard]] int bind(::fid* object, std::uint64_t flags) noexcept;
    [[nodiscard]] int enable() noexcept;
    void take_name(const void* source) noexcept;
    [[nodiscard]] int publish() noexcept;
    [[nodiscard]] int publish_port(std::uint64_t port) noexcept;
    [[nodiscard]] int name(void* address, std::size_t* bytes) const noexcept;
    [[nodiscard]] bool busy() const noexcept; // Something that the application still holds depends on it.
    [[nodiscard]] int join() noexcept;
    void leave() noexcept;
    void disown(const TxContext& context) noexcept; // Under lock(): its operations end in silence.
    // f(TxContext or RxBinding) for all of them.
    template <class F>
    void each_side(F&& f) {
        for (TxContext& side : tx_contexts) f(side);
        for (RxBinding& side : rx_bindings) f(side);
    }
    [[nodiscard]] bool inherited() const noexcept { return generation.inherited(); }
    [[nodiscard]] bool may_send() const noexcept { return ep != nullptr && av != nullptr; }

    // send.cc, onesided.cc, update.cc: 0 or -FI_E*
    [[nodiscard]] ssize_t send(const SendRequest& request) noexcept;
    [[nodiscard]] inline bool send_express(const ExpressSend& message) noexcept; // express.hpp
    [[nodiscard]] ssize_t one_sided(const RmaRequest& request) noexcept;
    [[nodiscard]] ssize_t atomic(const AtomicRequest& request) noexcept;

    // progress.cc
    void progress() noexcept;
    [[nodiscard]] bool ready() noexcept;

    // Everything from here on is the engine's, under lock().
    [[nodiscard]] SpinLock& lock() const noexcept { return store->lock; }

    // peers.cc
    [[nodiscard]] Peer* peer_for(fi_addr_t to, ssize_t& error) noexcept {
        const fi_addr_t index = to & av_mask;
        if (is_live(index)) [[likely]]
            return by_addr[index];
        return contact(index, error);
    }
    // The upper bits of an address may name a receive context there (fi_rx_addr); the others are the peer's index.
    [[nodiscard]] std::uint32_t target_of(fi_addr_t to) const noexcept {
        return (to & ~av_mask) == 0 ? 0 : static_cast<std::uint32_t>(to >> (64 - av->rx_ctx_bits));
    }
    [[nodiscard]] Peer* contact(fi_addr_t to, ssize_t& error) noexcept;
    [[nodiscard]] Peer* known(const nvlf_addr& address) noexcept;
    [[nodiscard]] int connect(nvlf_addr address, Peer*& ret_peer) noexcept;
    [[nodiscard]] ssize_t not_there_yet(fi_addr_t to) noexcept;
    [[nodiscard]] ssize_t refused(const nvlf_addr& address, int error) noexcept;
    [[nodiscard]] bool alone() const noexcept;
    [[nodiscard]] bool is_live(fi_addr_t to) const noexcept {
        return to < by_addr.size() && by_addr[to] != nullptr && by_addr[to]->up() &&
               av_changes_now->load(std::memory_order_acquire) == av_changes;
    }
    void forget_stale_addresses() noexcept;
    [[nodiscard]] Peer* adopt(::nvlf_channel* channel) noexcept;
    void accept_all() noexcept;
    void see_notices() noexcept {
        const std::uint32_t notices = nvlf_ep_notices(ep);
        if (notices == notices_seen) [[likely]]
            return;
        notices_seen = notices; // Before we look: what changes from now on is seen next time.
        check_peers();
    }
    void check_peers() noexcept;
    void fail_peer(Peer& peer, int error) noexcept;
    void bury() noexcept;
    void fail_all(int error) noexcept;
    [[nodiscard]] int gone(fi_addr_t source) noexcept;
    [[nodiscard]] fi_addr_t source_of(Peer& peer) noexcept;       // To match by: its lowest index.
    [[nodiscard]] fi_addr_t reported_source(Peer& peer) noexcept; // To tell the application.
    void say_bye() noexcept;

    // send.cc
    [[nodiscard]] TxOp* begin(Peer& peer, const SendRequest& request, TxOp::Kind kind) noexcept;
    [[nodiscard]] ssize_t no_room(Peer& peer, Errno why) noexcept;
    [[nodiscard]] ssize_t start(Peer& peer, const SendRequest& request) noexcept;
    [[nodiscard]] ssize_t send_eager(Peer& peer, const SendRequest& request) noexcept;
    [[nodiscard]] ssize_t send_large(Peer& peer, const SendRequest& request) noexcept;
    void answer(Peer& peer, const nvlf_slot& slot) noexcept;
    template <class Header>
    void answer(Peer& peer, wire::Op op, const Header& header) noexcept {
        nvlf_slot slot{};
        slot.op = op;
        wire::put(slot, header);
        answer(peer, slot);
    }
    void pump(Peer& peer) noexcept;
    [[nodiscard]] bool push_piece(Peer& peer, TxOp& op) noexcept;
    void start_stream(Peer& peer, TxOp& op) noexcept;
    void on_cts(Peer& peer, const nvlf_slot& slot) noexcept;
    void on_ack(Peer& peer, const nvlf_slot& slot) noexcept;
    void finish(TxOp& op, int error) noexcept;
    void maybe_finish(TxOp& op) noexcept;

    // incoming.cc
    // nullptr: we have no such receive context.
    [[nodiscard]] RxBinding* binding_for(std::uint64_t context) noexcept {
        return context < rx_bindings.size() ? &rx_bindings[context] : nullptr;
    }
    [[nodiscard]] const std::byte* read_header(const nvlf_slot& slot, Envelope& ret_message) noexcept;
    [[nodiscard]] bool refuse(const Envelope& message, const nvlf_slot& slot) noexcept;
    [[nodiscard]] inline bool take_express(Peer& peer, const nvlf_slot& slot) noexcept; // express.hpp
    [[nodiscard]] bool on_msg(Peer& peer, const nvlf_slot& slot) noexcept;
    [[nodiscard]] bool on_rts(Peer& peer, const nvlf_slot& slot) noexcept;
    [[nodiscard]] bool on_data(Peer& peer, const nvlf_slot& slot) noexcept;

    // fetch.cc
    void fetch(RxOp& op, std::span<const std::byte> pieces) noexcept;
    [[nodiscard]] bool fetch_step(RxOp& op) noexcept;
    void fetch_on(Peer& peer) noexcept;
    bool ask(RxOp& op) noexcept;
    bool end_fetch(RxOp& op) noexcept;
    void share(RxOp& op) noexcept;
    [[nodiscard]] bool share_step(RxOp& op) noexcept;
    void unshare(Peer& peer) noexcept;
    void on_share(Peer& peer, const nvlf_slot& slot) noexcept;
    void help_on(Peer& peer) noexcept;

    // across.cc
    [[nodiscard]] bool try_across(Peer& peer, const RmaRequest& request) noexcept;

    // direct.cc
    using Places = std::array<std::byte*, iov_limit>;
    [[nodiscard]] bool reach(Peer& peer, std::span<const RmaSegment> segments, std::uint64_t access, Places& ret_at,
                             std::uint64_t& ret_events) noexcept;
    [[nodiscard]] bool reach_across(const Peer& peer, std::span<const RmaSegment> segments, std::uint64_t access,
                                    Buffers& ret_there, std::uint64_t& ret_events) const noexcept;
    [[nodiscard]] bool try_direct(Peer& peer, const RmaRequest& request) noexcept;
    // `events`: the access to the segments of which the target wants to hear.
    [[nodiscard]] static bool notifies(const RmaRequest& request, std::uint64_t events) noexcept {
        return (request.flags & FI_REMOTE_CQ_DATA) != 0 ||
               (events & (request.write ? FI_REMOTE_WRITE : FI_REMOTE_READ)) != 0;
    }
    [[nodiscard]] static bool may_notify(Peer& peer, const RmaRequest& request, std::uint64_t events) noexcept {
        return !notifies(request, events) || !peer.tx.room(0, control_reserve).failed();
    }
    void finish_direct(Peer& peer, const RmaRequest& request, std::uint64_t events) noexcept;

    // onesided.cc
    [[nodiscard]] ssize_t start(Peer& peer, const RmaRequest& request) noexcept;
    [[nodiscard]] bool on_applied(Peer& peer, const nvlf_slot& slot) noexcept;
    void tell_applied(Peer& peer) noexcept;
    [[nodiscard]] bool on_write(Peer& peer, const nvlf_slot& slot) noexcept;
    [[nodiscard]] bool on_read(Peer& peer, const nvlf_slot& slot) noexcept;
    [[nodiscard]] bool on_read_data(Peer& peer, const nvlf_slot& slot) noexcept;
    [[nodiscard]] bool push_write(Peer& peer, TxOp& op) noexcept;
    [[nodiscard]] bool push_response(Peer& peer, TxOp& op) noexcept;
    [[nodiscard]] bool ask_next_segment(Peer& peer, TxOp& op) noexcept;

    // update.cc
    [[nodiscard]] ssize_t start(Peer& peer, const AtomicRequest& request) noexcept;
    [[nodiscard]] bool try_direct(Peer& peer, const AtomicRequest& request) noexcept;
    [[nodiscard]] ssize_t push_atomic(Peer& peer, const AtomicRequest& request) noexcept;
    [[nodiscard]] bool on_atomic(Peer& peer, const nvlf_slot& slot) noexcept;
    [[nodiscard]] bool on_result(Peer& peer, const nvlf_slot& slot) noexcept;
    [[nodiscard]] bool push_result(Peer& peer, TxOp& op) noexcept;
    [[nodiscard]] TxOp* begin_result(Peer& peer, std::uint64_t id, std::size_t bytes) noexcept;

    // waiting.cc
    template <class Request>
    [[nodiscard]] ssize_t post_one_sided(const Request& request) noexcept;
    template <class Request>
    [[nodiscard]] ssize_t start_or_wait(Peer& peer, const Request& request) noexcept;
    template <class Request>
    [[nodiscard]] bool must_wait(const Peer& peer, const Request& request) const noexcept;
    [[nodiscard]] bool may_go_direct(Peer& peer) const noexcept {
        if (peer.one_sided == 0 && peer.fence == 0 && !order.one_sided_after_send) [[likely]]
            return true;
        return caught_up(peer);
    }
    [[nodiscard]] bool caught_up(Peer& peer) const noexcept;
    void run_waiting(Peer& peer) noexcept;
    void fail_waiting(Peer& peer, int error) noexcept;
    [[nodiscard]] bool can_run_waiting(Peer& peer) const noexcept;
    void began(TxOp& op) noexcept;
    void all_published(TxOp& op) noexcept;
    void ended(TxOp& op) noexcept;

    // events.cc
    [[nodiscard]] std::uint64_t events_of(const Mr& mr) const noexcept;
    [[nodiscard]] std::uint64_t counted_access() const noexcept;
    [[nodiscard]] bool wants_notify(std::uint64_t key, std::uint64_t access) const noexcept;
    void notify(Peer& peer, std::uint64_t access, std::span<const RmaSegment> segments, std::uint64_t bytes,
                const std::uint64_t* cq_data, std::uint32_t target = 0) noexcept;
    [[nodiscard]] bool on_notify(Peer& peer, const nvlf_slot& slot) noexcept;
    void count_access(std::uint64_t access, std::span<const RmaSegment> segments) noexcept;

    // progress.cc: drop_peer and broken answer true, for the slot is dealt with.
    bool drop_peer(Peer& peer, int error) noexcept;
    bool broken(Peer& peer) noexcept { return drop_peer(peer, FI_ECONNABORTED); }
    [[nodiscard]] bool drain(Peer& peer, unsigned limit) noexcept;
    void drain_all() noexcept;
    [[nodiscard]] bool dispatch(Peer& peer, const nvlf_slot& slot) noexcept;
    void look_around(bool busy) noexcept;

    // What every call touches, side by side.
    RxStore* store = &own_store; // Or that of the shared receive context.
    ::nvlf_ep* ep = nullptr;     // Published by enable().
    std::vector<Peer*> live;     // Those that are up.
    std::vector<Peer*> by_addr;  // By fi_addr_t.
    Av* av = nullptr;
    fi_addr_t av_mask = ~fi_addr_t{0}; // Of an address, what is an index of `av`.
    const std::atomic<std::uint32_t>* av_changes_now = nullptr;
    std::uint32_t av_changes = 0; // Of the address vector, when by_addr was true.
    std::uint32_t notices_seen = 0;
    std::uint32_t idle_polls = 0;
    bool to_accept = false;                   // The carrier holds channels for us that we had no room for.
    bool to_bury = false;                     // A peer is gone whose channel is still mapped.
    std::vector<RxBinding> rx_bindings;       // By number of the receive context, and at their places for good.
    std::unique_ptr<Collectives> collectives; // Only with FI_COLLECTIVE.

    Eq* eq = nullptr;
    bool eq_drives = false; // Reads of it drive the endpoint: it tells of groups that were joined.
    RxStore own_store;
    std::vector<std::unique_ptr<RxContext>> own_contexts;
    std::vector<TxContext> tx_contexts; // By number, likewise.
    TxContext nobody;                   // Of operations whose context was closed.
    SharedTx* shared_tx = nullptr;      // Bound to it,
    SharedRx* shared_rx = nullptr;      // and whose store is ours.
    bool wants_shared_tx = false;       // Must be bound to it before it is enabled.
    bool wants_shared_rx = false;

    std::vector<std::unique_ptr<Peer>> peers;             // All that ever were.
    std::unordered_map<std::uint64_t, Peer*> by_endpoint; // By endpoint id and epoch.
    int dead = 0;                                         // FI_E* once the fabric is gone: nothing works any more.

    std::unordered_map<std::uint64_t, ::nvlf_mem*> published; // By key: registrations in our directory.

    Pool<TxOp> tx_ops{tx_limit};
    std::size_t waiting_ops = 0;     // With all peers.
    std::size_t waiting_answers = 0; // Likewise: in their `control`.
    Pool<TxOp> responses{tx_limit};  // Apart: a peer that only asks must not use up what the application sends with.

    Clock::time_point next_look{};             // When to ask whether the carrier still lives.
    fi_addr_t contact_addr = FI_ADDR_NOTAVAIL; // Service that could not be resolved yet,
    Clock::time_point contact_next{};          // when to try again,
    Clock::time_point contact_until{};         // and when to give up.
};

// The payload that follows a header in a slot, or lies in the ring. False: no honest peer sends such lengths. To be called
// once for a slot; what it answers is the peer's memory, or the caller's copy of the slot.
[[nodiscard]] inline bool payload_of(Peer& peer, const nvlf_slot& slot, std::size_t header,
                                     std::span<const std::byte>& ret_payload) noexcept {
    if ((slot.flags & wire::flag_ring) != 0) {
        auto ring = peer.rx.payload(slot.len);
        if (ring) ret_payload = *ring;
        return static_cast<bool>(ring);
    }
    if (slot.len < header || slot.len > NVLF_SLOT_DATA) return false;
    ret_payload = std::as_bytes(std::span{slot.data}).subspan(header, slot.len - header);
    return true;
}

// Makes the endpoint's region ready for registrations (direct.cc).
void open_directory(Endpoint& endpoint) noexcept;

extern fi_ops_msg msg_ops, msg_send_ops, msg_receive_ops;
extern fi_ops_tagged tagged_ops, tagged_send_ops, tagged_receive_ops;
extern fi_ops_rma rma_ops;
extern fi_ops_atomic atomic_ops;

// fi_query_atomic (atomic.cc).
int query_atomic(fid_domain* domain, enum fi_datatype datatype, enum fi_op op, fi_atomic_attr* attr,
                 std::uint64_t flags);

} // namespace nvlf::ofi
