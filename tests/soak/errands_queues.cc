// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Completion queues of every format and every way to wait, counters likewise, event queues, poll sets and wait sets.
#include <poll.h>

#include <cstring>

#include "soak/errand.hpp"

namespace nvlf::soak {
namespace {

constexpr int bound_ms = 60'000;

// A word from the first endpoint to the second.
void send_word(Corner& c, std::uint64_t& out, std::uint64_t& in) {
    check(fi_recv(c.ep[1].get(), &in, 8, nullptr, FI_ADDR_UNSPEC, &in), "recv");
    c.post("inject", [&] { return fi_inject(c.ep[0].get(), &out, 8, c.to[1]); });
}

void sleep_on_descriptor(Corner& c, fid* object) {
    int fd = -1;
    check(fi_control(object, FI_GETWAIT, &fd), "FI_GETWAIT");
    const int ready = fi_trywait(c.fabric.get(), &object, 1);
    if (ready == -FI_EAGAIN) return;
    check(ready, "fi_trywait");
    pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
    require(::poll(&polled, 1, bound_ms) == 1, "a descriptor stays silent");
}

// The one completion that there is to be, in one of the ways to read it; its context.
void* read_by(Corner& c, unsigned way, void* entries, std::size_t& ret_bytes) {
    constexpr std::size_t sizes[] = {0, sizeof(fi_cq_entry), sizeof(fi_cq_msg_entry), sizeof(fi_cq_data_entry),
                                     sizeof(fi_cq_tagged_entry)};
    ret_bytes = sizes[c.how.format];
    fi_addr_t source = FI_ADDR_UNSPEC;
    ssize_t n = -FI_EAGAIN;
    const bool may_sleep = c.how.wait == FI_WAIT_UNSPEC || c.how.wait == FI_WAIT_FD;
    c.until("a completion", [&] {
        if (way == 2 && may_sleep) n = fi_cq_sread(c.cq.get(), entries, 1, nullptr, bound_ms);
        else if (way == 3 && may_sleep) n = fi_cq_sreadfrom(c.cq.get(), entries, 1, &source, nullptr, bound_ms);
        else if (way == 1) n = fi_cq_readfrom(c.cq.get(), entries, 1, &source);
        else {
            if (way == 4 && c.how.wait == FI_WAIT_FD) sleep_on_descriptor(c, &c.cq->fid);
            n = fi_cq_read(c.cq.get(), entries, 1);
        }
        return n != -FI_EAGAIN;
    });
    if (n == -FI_EAVAIL) {
        fi_cq_err_entry failure{};
        check(fi_cq_readerr(c.cq.get(), &failure, 0), "fi_cq_readerr");
        throw test::FabricError{"completion", failure.err};
    }
    check(n, "fi_cq_read");
    return static_cast<fi_cq_entry*>(entries)->op_context; // All formats begin with it.
}

} // namespace

void queues_and_counters(Random& random) {
    constexpr enum fi_wait_obj waits[] = {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD};
    constexpr enum fi_cq_format formats[] = {FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA,
                                             FI_CQ_FORMAT_TAGGED};
    Corner c{random,
             {.wait = waits[draw(random, 4)], .format = formats[draw(random, 4)], .counted = FI_RECV | FI_SEND}};
    for (std::uint64_t i = 0; i < 10; ++i) {
        std::uint64_t out = random(), in = 0;
        send_word(c, out, in);
        fi_cq_tagged_entry entry{};
        std::size_t bytes = 0;
        require(read_by(c, static_cast<unsigned>(draw(random, 5)), &entry, bytes) == &in, "another operation ended");
        require(bytes < sizeof(fi_cq_msg_entry) || entry.len == 8, "the length is another one");
        require(in == out, "a word differs");
        // What was injected and what was received.
        check(fi_cntr_wait(c.cntr.get(), 2 * (i + 1), bound_ms), "fi_cntr_wait");
        require(fi_cntr_read(c.cntr.get()) == 2 * (i + 1), "a counter has another value");
    }
    if (c.how.wait == FI_WAIT_UNSPEC || c.how.wait == FI_WAIT_FD) {
        fi_cq_tagged_entry entry{};
        check(fi_cq_signal(c.cq.get()), "fi_cq_signal");
        require(fi_cq_sread(c.cq.get(), &entry, 1, nullptr, bound_ms) == -FI_EAGAIN, "a signal ends no waiting");
    }
    require(fi_cq_strerror(c.cq.get(), FI_EINVAL, nullptr, nullptr, 0) != nullptr, "an error has no name");
    check(fi_cntr_set(c.cntr.get(), 5), "fi_cntr_set"), check(fi_cntr_add(c.cntr.get(), 2), "fi_cntr_add");
    check(fi_cntr_seterr(c.cntr.get(), 1), "fi_cntr_seterr"), check(fi_cntr_adderr(c.cntr.get(), 1), "fi_cntr_adderr");
    require(fi_cntr_read(c.cntr.get()) == 7 && fi_cntr_readerr(c.cntr.get()) == 2, "a counter cannot be set");
}

void event_queue(Random& random) {
    Corner c{random};
    // One's own event.
    fi_eq_entry written{&c.cq->fid, &c, random()}, read{};
    check(fi_eq_write(c.eq.get(), FI_NOTIFY, &written, sizeof written, 0), "fi_eq_write");
    std::uint32_t event = 0;
    check(fi_eq_sread(c.eq.get(), &event, &read, sizeof read, bound_ms, 0), "fi_eq_sread");
    require(event == FI_NOTIFY && read.data == written.data, "an event differs");
    require(fi_eq_read(c.eq.get(), &event, &read, sizeof read, 0) == -FI_EAGAIN, "an event comes twice");
    // Those of an address vector that works in the background.
    fi_av_attr attr{};
    attr.type = FI_AV_MAP;
    attr.flags = FI_EVENT;
    const auto av =
        open_object<fid_av>("fi_av_open", [&](fid_av** a) { return fi_av_open(c.domain.get(), &attr, a, nullptr); });
    check(fi_av_bind(av.get(), &c.eq->fid, 0), "fi_av_bind");
    std::array<char, 64> name{};
    std::size_t size = name.size();
    check(fi_getname(&c.ep[0]->fid, name.data(), &size), "fi_getname");
    fi_addr_t address = 0;
    check(fi_av_insert(av.get(), name.data(), 1, &address, 0, &c), "fi_av_insert");
    check(fi_eq_sread(c.eq.get(), &event, &read, sizeof read, bound_ms, 0), "fi_eq_sread");
    require(event == FI_AV_COMPLETE && read.context == &c && read.data == 1, "an insertion is told of differently");
    // An address that there cannot be is told as an error.
    std::array<char, 64> nonsense{};
    (void)fi_av_insert(av.get(), nonsense.data(), 1, &address, 0, &c);
    fi_eq_err_entry failure{};
    c.until("a refused address", [&] { return fi_eq_readerr(c.eq.get(), &failure, 0) > 0; });
    require(failure.context == &c && fi_eq_strerror(c.eq.get(), failure.prov_errno, nullptr, nullptr, 0) != nullptr,
            "a refused address is told of differently");
}

void poll_and_wait_sets(Random& random) {
    Corner c{random, {.counted = FI_RECV}};
    fi_poll_attr attr{};
    const auto set =
        open_object<fid_poll>("fi_poll_open", [&](fid_poll** p) { return fi_poll_open(c.domain.get(), &attr, p); });
    c.cq->fid.context = &c.cq;
    check(fi_poll_add(set.get(), &c.cq->fid, 0), "fi_poll_add");
    std::uint64_t out = random(), in = 0;
    send_word(c, out, in);
    void* context = nullptr;
    c.until("a poll set", [&] { return check(fi_poll(set.get(), &context, 1), "fi_poll") == 1; });
    require(context == &c.cq, "a poll set tells of another object");
    (void)c.next("a word");
    check(fi_poll_del(set.get(), &c.cq->fid, 0), "fi_poll_del");

    fi_wait_attr wait_attr{};
    wait_attr.wait_obj = chance(random, 50) ? FI_WAIT_FD : FI_WAIT_UNSPEC;
    const auto wait = open_object<fid_wait>("fi_wait_open",
                                            [&](fid_wait** w) { return fi_wait_open(c.fabric.get(), &wait_attr, w); });
    const auto counted = c.counter(FI_WAIT_SET, wait.get());
    fi_eq_attr eq_attr{};
    eq_attr.flags = FI_WRITE;
    eq_attr.wait_obj = FI_WAIT_SET;
    eq_attr.wait_set = wait.get();
    const auto eq =
        open_object<fid_eq>("fi_eq_open", [&](fid_eq** e) { return fi_eq_open(c.fabric.get(), &eq_attr, e, nullptr); });
    fi_eq_entry written{&eq->fid, nullptr, random()}, read{};
    check(fi_eq_write(eq.get(), FI_NOTIFY, &written, sizeof written, 0), "fi_eq_write");
    check(fi_wait(wait.get(), bound_ms), "fi_wait");
    std::uint32_t event = 0;
    check(fi_eq_read(eq.get(), &event, &read, sizeof read, 0), "fi_eq_read");
    require(event == FI_NOTIFY && read.data == written.data, "an event differs");
}

} // namespace nvlf::soak
