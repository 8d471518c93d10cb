// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "soak/traffic.hpp"

#include <algorithm>
#include <cstring>

namespace nvlf::soak {
namespace {

constexpr std::size_t largest = std::size_t{300} << 10;
constexpr std::size_t receives_wanted = 24;
constexpr std::size_t under_way_limit = 256;
constexpr auto hang = std::chrono::seconds{60};
constexpr auto grace = std::chrono::seconds{10}; // From a death's first sign to the board's being turned.
constexpr std::size_t counter_at = 0, area_at = 64;

struct Heading {
    std::uint32_t magic;
    std::uint32_t from;
    std::uint64_t life;
    std::uint64_t number;
    std::uint64_t bytes;
};
constexpr std::uint32_t magic = 0x4c56'4e53;

char byte_of(std::uint64_t seed, std::size_t at) noexcept {
    return static_cast<char>((seed * 0x9e3779b97f4a7c15ULL >> 56) + at * 7 + (at >> 8));
}
void fill(char* to, std::size_t bytes, std::uint64_t seed) noexcept {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = byte_of(seed, i);
}
bool holds(const char* at, std::size_t bytes, std::uint64_t seed) noexcept {
    for (std::size_t i = 0; i < bytes; ++i)
        if (at[i] != byte_of(seed, i)) return false;
    return true;
}

// Small ones mostly, and every protocol's ends.
std::size_t draw_size(Random& random, std::size_t limit) {
    constexpr std::size_t ends[] = {0, 1, 8, 48, 49, 4096, 4097, 16384, 16385, 32768, 65536, std::size_t{256} << 10};
    if (chance(random, 40)) return std::min(limit, ends[draw(random, std::size(ends))]);
    return draw(random, std::min(limit, std::size_t{1} << draw(random, 19)) + 1);
}

// Up to four parts that together are the buffer.
std::size_t split(Random& random, std::vector<char>& buffer, std::array<iovec, 4>& ret_parts) {
    const std::size_t count = 1 + draw(random, 4);
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t left = buffer.size() - at;
        const std::size_t bytes = i + 1 == count ? left : draw(random, left + 1);
        ret_parts[i] = {buffer.data() + at, bytes};
        at += bytes;
    }
    return count;
}

std::string text(const char* what, int error) { return std::string{what} + ": " + fi_strerror(error); }

bool is_departure(int error) {
    return error == FI_ECONNABORTED || error == FI_EHOSTUNREACH || error == FI_ECONNRESET || error == FI_EKEYREJECTED ||
           error == FI_ENOTCONN;
}

} // namespace

Traffic::Traffic(Board& board, Station& station, unsigned me, std::uint64_t life)
    : board_{board}, station_{station}, me_{me}, life_{life}, in_order_{life % 4 < 2} {}

void Traffic::act(Random& random) {
    const std::uint64_t lot = draw(random, 100);
    if (lot < 12) send(random, true);
    else if (lot < 22) send(random, false);
    else if (lot < 30) receive(random, true);
    else if (lot < 37) receive(random, false);
    else if (lot < 38 && in_order_) multi_receive(random);
    else if (lot < 44) touch_window(random);
    else if (lot < 49) count_up(random);
    else if (lot < 51) peek(random);
    else if (lot < 52) cancel(random);
    else poll(random);
}

// ---- Peers -----------------------------------------------------------------------------------------------------------

// Looks at its card; true when there is somebody whom we have an address for. Holds the lock.
bool Traffic::meet(Peer& peer, unsigned index) {
    std::uint64_t version = 0;
    const auto presence = board_.cards[index].read(version);
    if (!presence) return false;
    if (version == peer.version) return true;
    if (peer.address != FI_ADDR_NOTAVAIL) (void)fi_av_remove(station_.av.get(), &peer.address, 1, 0);
    const fi_addr_t none = FI_ADDR_NOTAVAIL;
    peer = Peer{};
    peer.address = none;
    // Refused when it is of another fabric: nvlfd was replaced, and we have not noticed yet.
    if (fi_av_insert(station_.av.get(), presence->name.data(), 1, &peer.address, 0, nullptr) != 1) {
        peer.address = none;
        return false;
    }
    peer.version = version;
    peer.presence = *presence;
    return true;
}

std::uint64_t Traffic::remote(const Peer& peer, std::size_t offset) const {
    return peer.presence.base + (me_ * 2 + life_ % 2) * slice_bytes + offset;
}

std::string Traffic::text_of(Kind kind) {
    const char* const names[] = {"send", "receive", "multi-receive", "write", "read", "fetch-and-add", "peek"};
    return names[static_cast<int>(kind)];
}

// ---- The book --------------------------------------------------------------------------------------------------------

Traffic::Op* Traffic::open(Kind kind, const Peer* peer, unsigned index) {
    auto op = std::make_unique<Op>();
    op->kind = kind;
    op->peer = index;
    op->peer_version = peer != nullptr ? peer->version : 0;
    op->number = next_number_++;
    Op* const raw = op.get();
    book_.emplace(raw, std::move(op));
    return raw;
}

std::unique_ptr<Traffic::Op> Traffic::close(void* context, const char* how) {
    const std::lock_guard guard{lock_};
    const auto it = book_.find(context);
    if (it == book_.end()) {
        const auto last = last_.find(context);
        throw Finding{std::string{how} +
                      ": a completion of an operation that is not under way; the last one with that context was a " +
                      (last == last_.end() ? "?" : last->second)};
    }
    auto op = std::move(it->second);
    book_.erase(it);
    last_[context] = text_of(op->kind) + " with " + how;
    return op;
}

bool Traffic::is_multi(void* context) {
    const std::lock_guard guard{lock_};
    const auto it = book_.find(context);
    return it != book_.end() && it->second->kind == Kind::multi;
}

// After the call that starts an operation. What was not taken never began.
void Traffic::posted(ssize_t result, Op* op) {
    if (result == 0) return;
    const auto taken_back = close(op, "a refusal");
    settle(*taken_back, false);
    if (result == -FI_EAGAIN) return;
    if (result == -FI_ENODEV) throw FabricGone{"a call says so"};
    excuse(*taken_back, static_cast<int>(-result));
}

// What a peer's record says of an operation that has ended.
void Traffic::settle(Op& op, bool done) {
    const std::lock_guard guard{lock_};
    if (op.kind == Kind::receive || op.kind == Kind::multi) --receives_;
    Peer& peer = peers_[op.peer];
    if (peer.version != op.peer_version) return;
    if (op.kind == Kind::write || op.kind == Kind::read) peer.window_busy = false;
    if (op.kind == Kind::write) {
        peer.pattern = done ? op.number : 0;
        peer.pattern_at = op.offset;
        peer.pattern_bytes = op.buffer.size();
    }
    if (op.kind == Kind::fetch_add) {
        peer.counter_busy = false;
        if (!done) peer.counter_known = false;
    }
}

void Traffic::excuse(const Op& op, int error) {
    const std::string what = text_of(op.kind) + ": " + fi_strerror(error);
    if (!is_departure(error)) throw Finding{what};
    if (op.kind == Kind::receive || op.kind == Kind::multi || op.kind == Kind::peek) return; // Whoever it came from.
    board_.count(Count::peer_gone);
    const std::lock_guard guard{lock_};
    suspicions_.push_back({op.peer, op.peer_version, what, Clock::now()});
}

void Traffic::review() {
    const std::lock_guard guard{lock_};
    const auto now = Clock::now();
    while (!suspicions_.empty()) {
        const Suspicion& first = suspicions_.front();
        if (board_.cards[first.peer].version() == first.version) {
            if (now - first.since < grace) break;
            throw Finding{first.what + ", but the peer is there"};
        }
        suspicions_.pop_front();
    }
    for (const auto& [context, op] : book_) {
        if (op->kind == Kind::receive || op->kind == Kind::multi || now - op->since < hang) continue;
        throw Finding{"a " + text_of(op->kind) + " on process " + std::to_string(op->peer) + " hangs; its peer is " +
                      (board_.cards[op->peer].version() == op->peer_version ? "there" : "gone")};
    }
}

// ---- Messages --------------------------------------------------------------------------------------------------------

void Traffic::send(Random& random, bool tagged) {
    const auto index = static_cast<unsigned>(draw(random, max_processes));
    Op* op = nullptr;
    fi_addr_t to = FI_ADDR_UNSPEC;
    {
        const std::lock_guard guard{lock_};
        Peer& peer = peers_[index];
        if (book_.size() > under_way_limit || !meet(peer, index)) return;
        op = open(Kind::send, &peer, index);
        to = peer.address;
    }
    op->buffer.resize(draw_size(random, largest));
    Heading heading{magic, me_, life_, op->number, op->buffer.size()};
    if (op->buffer.size() >= sizeof heading) {
        fill(op->buffer.data() + sizeof heading, op->buffer.size() - sizeof heading, op->number);
        std::memcpy(op->buffer.data(), &heading, sizeof heading);
    } else {
        fill(op->buffer.data(), op->buffer.size(), op->buffer.size());
    }
    fid_ep* const ep = station_.ep.get();
    const std::uint64_t tag = draw(random, 4);
    char* const data = op->buffer.data();
    const std::size_t bytes = op->buffer.size();
    const std::uint64_t form = draw(random, 5);
    if (form == 0 && bytes <= station_.info->tx_attr->inject_size) {
        const ssize_t result = tagged ? fi_tinject(ep, data, bytes, to, tag) : fi_inject(ep, data, bytes, to);
        if (result == 0) { // It has no completion.
            board_.count(Count::sent);
            (void)close(op, "an injection");
            return;
        }
        return posted(result, op);
    }
    if (form == 1) {
        std::array<iovec, 4> parts{};
        const std::size_t count = split(random, op->buffer, parts);
        return posted(tagged ? fi_tsendv(ep, parts.data(), nullptr, count, to, tag, op)
                             : fi_sendv(ep, parts.data(), nullptr, count, to, op),
                      op);
    }
    if (form == 2)
        return posted(tagged ? fi_tsenddata(ep, data, bytes, nullptr, op->number, to, tag, op)
                             : fi_senddata(ep, data, bytes, nullptr, op->number, to, op),
                      op);
    posted(tagged ? fi_tsend(ep, data, bytes, nullptr, to, tag, op) : fi_send(ep, data, bytes, nullptr, to, op), op);
}

void Traffic::receive(Random& random, bool tagged) {
    Op* op = nullptr;
    {
        const std::lock_guard guard{lock_};
        if (receives_ >= receives_wanted * 2) return;
        ++receives_;
        op = open(Kind::receive, nullptr, 0);
    }
    op->buffer.resize(chance(random, 90) ? largest : draw_size(random, largest));
    fid_ep* const ep = station_.ep.get();
    // Of some tags only, but never so that a tag has nobody waiting for long.
    const std::uint64_t ignore = chance(random, 70) ? ~std::uint64_t{0} : 0;
    if (chance(random, 30)) {
        std::array<iovec, 4> parts{};
        const std::size_t count = split(random, op->buffer, parts);
        return posted(tagged ? fi_trecvv(ep, parts.data(), nullptr, count, FI_ADDR_UNSPEC, draw(random, 4), ignore, op)
                             : fi_recvv(ep, parts.data(), nullptr, count, FI_ADDR_UNSPEC, op),
                      op);
    }
    posted(tagged ? fi_trecv(ep, op->buffer.data(), op->buffer.size(), nullptr, FI_ADDR_UNSPEC, draw(random, 4), ignore,
                             op)
                  : fi_recv(ep, op->buffer.data(), op->buffer.size(), nullptr, FI_ADDR_UNSPEC, op),
           op);
}

void Traffic::multi_receive(Random& random) {
    Op* op = nullptr;
    {
        const std::lock_guard guard{lock_};
        if (receives_ >= receives_wanted) return;
        ++receives_;
        op = open(Kind::multi, nullptr, 0);
    }
    op->buffer.resize(largest * (1 + draw(random, 3)));
    const iovec buffer{op->buffer.data(), op->buffer.size()};
    fi_msg message{};
    message.msg_iov = &buffer;
    message.iov_count = 1;
    message.addr = FI_ADDR_UNSPEC;
    message.context = op;
    posted(fi_recvmsg(station_.ep.get(), &message, FI_MULTI_RECV | FI_COMPLETION), op);
}

void Traffic::peek(Random& random) {
    Op* op = nullptr;
    {
        const std::lock_guard guard{lock_};
        op = open(Kind::peek, nullptr, 0);
    }
    fi_msg_tagged message{};
    message.addr = FI_ADDR_UNSPEC;
    message.tag = draw(random, 4);
    message.context = op;
    posted(fi_trecvmsg(station_.ep.get(), &message, FI_PEEK | FI_COMPLETION), op);
}

void Traffic::cancel(Random& random) {
    // Under the lock, or another thread might see the operation end and begin another one in its place.
    const std::lock_guard guard{lock_};
    if (book_.empty()) return;
    auto it = book_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(draw(random, std::min<std::size_t>(book_.size(), 16))));
    if (it->second->kind != Kind::receive && it->second->kind != Kind::multi) return;
    it->second->cancelled = true;
    (void)fi_cancel(&station_.ep->fid, it->first); // It may have completed meanwhile.
}

void Traffic::check_message(const char* bytes, std::size_t length) const {
    Heading heading;
    if (length < sizeof heading) {
        if (!holds(bytes, length, length)) throw Finding{"a short message is garbled"};
        return;
    }
    std::memcpy(&heading, bytes, sizeof heading);
    if (heading.magic != magic || heading.bytes != length)
        throw Finding{"a message of " + std::to_string(length) + " bytes says that it has " +
                      std::to_string(heading.bytes) + (heading.magic != magic ? ", and is none of ours" : "")};
    if (!holds(bytes + sizeof heading, length - sizeof heading, heading.number)) throw Finding{"a message is garbled"};
}

// ---- Windows ---------------------------------------------------------------------------------------------------------

// Writes, and the next time reads what was written.
void Traffic::touch_window(Random& random) {
    const auto index = static_cast<unsigned>(draw(random, max_processes));
    Op* op = nullptr;
    fi_addr_t to = FI_ADDR_UNSPEC;
    std::uint64_t address = 0, key = 0;
    {
        const std::lock_guard guard{lock_};
        Peer& peer = peers_[index];
        if (!meet(peer, index) || peer.window_busy) return;
        peer.window_busy = true;
        const bool reads = peer.pattern != 0 && chance(random, 60);
        op = open(reads ? Kind::read : Kind::write, &peer, index);
        if (reads) {
            op->number = peer.pattern;
            op->offset = peer.pattern_at;
            op->buffer.resize(peer.pattern_bytes);
        } else {
            op->buffer.resize(draw_size(random, slice_bytes - area_at));
            op->offset = area_at + draw(random, slice_bytes - area_at - op->buffer.size() + 1);
            fill(op->buffer.data(), op->buffer.size(), op->number);
        }
        to = peer.address;
        address = remote(peer, op->offset);
        key = peer.presence.key;
    }
    std::array<iovec, 4> parts{};
    const std::size_t count = split(random, op->buffer, parts);
    fid_ep* const ep = station_.ep.get();
    if (op->kind == Kind::read) return posted(fi_readv(ep, parts.data(), nullptr, count, to, address, key, op), op);
    // Read back over the same path or another: only what is delivered may be relied on.
    fi_rma_iov target{address, op->buffer.size(), key};
    fi_msg_rma message{};
    message.msg_iov = parts.data();
    message.iov_count = count;
    message.addr = to;
    message.rma_iov = &target;
    message.rma_iov_count = 1;
    message.context = op;
    posted(fi_writemsg(ep, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION), op);
}

void Traffic::count_up(Random& random) {
    if (!station_.atomics) return;
    const auto index = static_cast<unsigned>(draw(random, max_processes));
    Op* op = nullptr;
    fi_addr_t to = FI_ADDR_UNSPEC;
    std::uint64_t address = 0, key = 0;
    {
        const std::lock_guard guard{lock_};
        Peer& peer = peers_[index];
        if (!meet(peer, index) || peer.counter_busy) return;
        peer.counter_busy = true;
        op = open(Kind::fetch_add, &peer, index);
        op->buffer.resize(16); // One to add, and what was there.
        to = peer.address;
        address = remote(peer, counter_at);
        key = peer.presence.key;
    }
    const std::uint64_t one = 1;
    std::memcpy(op->buffer.data(), &one, sizeof one);
    std::memset(op->buffer.data() + 8, 0x5a, 8); // So that an answer that never came is told from a zero.
    posted(fi_fetch_atomic(station_.ep.get(), op->buffer.data(), 1, nullptr, op->buffer.data() + 8, nullptr, to,
                           address, key, FI_UINT64, FI_SUM, op),
           op);
}

// ---- Completions -----------------------------------------------------------------------------------------------------

void Traffic::poll(Random& random) {
    // What is read by several threads is looked at in any order. Of a multi-receive the last completion must come last.
    std::unique_lock one_at_a_time{poll_lock_, std::defer_lock};
    if (in_order_) one_at_a_time.lock();
    std::array<fi_cq_tagged_entry, 16> entries{};
    const std::size_t room = 1 + draw(random, entries.size());
    const bool sleeps = station_.blocks && chance(random, 5);
    const ssize_t n =
        sleeps ? fi_cq_sread(station_.cq.get(), entries.data(), room, nullptr, static_cast<int>(draw(random, 5)))
               : fi_cq_read(station_.cq.get(), entries.data(), room);
    if (n == -FI_EAGAIN || n == -FI_EINTR) return;
    if (n == -FI_EAVAIL) {
        fi_cq_err_entry failure{};
        const ssize_t got = fi_cq_readerr(station_.cq.get(), &failure, 0);
        if (got == 1) fail(failure);
        else if (got != -FI_EAGAIN) throw Finding{text("fi_cq_readerr", static_cast<int>(-got))};
        return; // Another thread may have been faster.
    }
    if (n == -FI_ENODEV) throw FabricGone{"the queue says so"};
    if (n < 0) throw Finding{text("fi_cq_read", static_cast<int>(-n))};
    for (ssize_t i = 0; i < n; ++i) complete(entries[static_cast<std::size_t>(i)]);
}

void Traffic::complete(const fi_cq_tagged_entry& entry) {
    if ((entry.flags & FI_MULTI_RECV) == 0) {
        // A message within a buffer that stays posted.
        if (is_multi(entry.op_context)) {
            board_.count(Count::received);
            return check_message(static_cast<const char*>(entry.buf), entry.len);
        }
    }
    const auto op = close(entry.op_context, "a completion");
    switch (op->kind) {
    case Kind::send: board_.count(Count::sent); break;
    case Kind::receive:
        board_.count(Count::received);
        check_message(op->buffer.data(), entry.len);
        break;
    case Kind::multi:
        if (entry.len > 0 || entry.buf != nullptr) check_message(static_cast<const char*>(entry.buf), entry.len);
        board_.count(Count::received);
        break;
    case Kind::write: board_.count(Count::written); break;
    case Kind::read:
        board_.count(Count::read);
        if (!holds(op->buffer.data(), op->buffer.size(), op->number))
            throw Finding{"what was written reads differently"};
        break;
    case Kind::fetch_add: {
        board_.count(Count::atomics);
        std::uint64_t was = 0;
        std::memcpy(&was, op->buffer.data() + 8, sizeof was);
        const std::lock_guard guard{lock_};
        Peer& peer = peers_[op->peer];
        if (peer.version != op->peer_version) break;
        if (peer.counter_known && was != peer.counter)
            throw Finding{"our counter at process " + std::to_string(op->peer) + " says " + std::to_string(was) +
                          ", not " + std::to_string(peer.counter)};
        peer.counter = was + 1;
        peer.counter_known = true;
        break;
    }
    case Kind::peek: board_.count(Count::peeked); break;
    }
    settle(*op, true);
}

void Traffic::fail(const fi_cq_err_entry& failure) {
    if (failure.err == FI_ENODEV) throw FabricGone{"a completion says so"};
    {
        // One message of a multi-receive that did not fit or did not come; the buffer may stay posted.
        if ((failure.flags & FI_MULTI_RECV) == 0 && failure.err != FI_ECANCELED && is_multi(failure.op_context)) {
            board_.count(Count::truncated);
            return;
        }
    }
    // An injected message that had to wait for its turn, and whose receiver died: of failures one hears in any case.
    if (failure.op_context == nullptr && (failure.flags & FI_SEND) != 0 && is_departure(failure.err)) {
        board_.count(Count::peer_gone);
        return;
    }
    const auto op = close(failure.op_context, fi_strerror(failure.err));
    settle(*op, false);
    if (op->kind == Kind::peek && failure.err == FI_ENOMSG) return;
    if (op->cancelled && failure.err == FI_ECANCELED) {
        board_.count(Count::cancelled);
        return;
    }
    const bool receives = op->kind == Kind::receive || op->kind == Kind::multi;
    if (receives && failure.err == FI_ETRUNC) board_.count(Count::truncated);
    else excuse(*op, failure.err);
}

} // namespace nvlf::soak
