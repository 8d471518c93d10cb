// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Operations that wait for a counter: triggered, and in the domain's queue of deferred work.
#include <deque>

#include "soak/errand.hpp"

namespace nvlf::soak {

void triggered_operations(Random& random) {
    Corner c{random, {.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_TRIGGER}};
    fid_cntr* const trigger = c.lasting_counter();
    constexpr std::size_t count = 6;
    std::array<fi_triggered_context, count> contexts{};
    std::array<std::uint64_t, count> out{}, in{};
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = random();
        check(fi_trecv(c.ep[1].get(), &in[i], 8, nullptr, FI_ADDR_UNSPEC, i, 0, &in[i]), "trecv");
        contexts[i].event_type = FI_TRIGGER_THRESHOLD;
        contexts[i].trigger.threshold = {trigger, i + 1};
        const iovec whole{&out[i], 8};
        const fi_msg_tagged msg{&whole, nullptr, 1, c.to[1], i, 0, &contexts[i], 0};
        check(fi_tsendmsg(c.ep[0].get(), &msg, FI_TRIGGER | FI_COMPLETION), "triggered send");
    }
    for (std::size_t i = 0; i < count; ++i) {
        check(fi_cntr_add(trigger, 1), "fi_cntr_add");
        for (int told = 0; told < 2; ++told) (void)c.next("a triggered send");
        require(in[i] == out[i] && (i + 1 == count || in[i + 1] == 0), "a triggered send came at another time");
    }
}

namespace {

// Work with what it refers to.
struct Job {
    fi_deferred_work work{};
    iovec iov{};
    fi_op_tagged tagged{};
    fi_op_rma rma{};
    fi_rma_iov remote{};
    fi_op_cntr cntr{};
};

// Whatever is still queued goes before what it refers to, also when the errand breaks off: a counter that queued work
// refers to cannot be closed.
struct Flush {
    fid_domain* domain;
    ~Flush() { (void)fi_control(&domain->fid, FI_FLUSH_WORK, nullptr); }
};

} // namespace

void deferred_work(Random& random) {
    Corner c{random, {.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER}};
    fid_cntr *const trigger = c.lasting_counter(), *const done = c.lasting_counter(),
                    *const other = c.lasting_counter();
    std::deque<Job> jobs;
    const Flush flush{c.domain.get()};
    const auto job = [&](std::uint64_t threshold, enum fi_op_type type) -> Job& {
        Job& j = jobs.emplace_back();
        j.work.threshold = threshold;
        j.work.triggering_cntr = trigger;
        j.work.completion_cntr = done;
        j.work.op_type = type;
        return j;
    };
    const auto queue = [&](Job& j) { check(fi_control(&c.domain->fid, FI_QUEUE_WORK, &j.work), "FI_QUEUE_WORK"); };
    std::uint64_t out = random(), in = 0, back = 0;
    std::vector<char> memory(64);
    const auto mr = c.registered(memory, 3);
    const std::uint64_t at = c.remote(mr, memory.data(), memory.data());
    const auto message = [&](Job& j, std::uint64_t& word, std::size_t from, fi_addr_t peer) {
        j.iov = {&word, 8};
        j.tagged = {c.ep[from].get(), {&j.iov, nullptr, 1, peer, 9, 0, &j, 0}, 0};
        j.work.op.tagged = &j.tagged;
        queue(j);
    };
    const auto one_sided = [&](Job& j, std::uint64_t& word) {
        j.iov = {&word, 8};
        j.remote = {at, 8, fi_mr_key(mr.get())};
        j.rma = {c.ep[0].get(), {&j.iov, nullptr, 1, c.to[1], &j.remote, 1, &j, 0}, 0};
        j.work.op.rma = &j.rma;
        queue(j);
    };
    message(job(1, FI_OP_TRECV), in, 1, FI_ADDR_UNSPEC);
    message(job(2, FI_OP_TSEND), out, 0, c.to[1]);
    one_sided(job(3, FI_OP_WRITE), out);
    one_sided(job(4, FI_OP_READ), back);
    Job& count = job(5, FI_OP_CNTR_ADD);
    count.cntr = {other, 3};
    count.work.op.cntr = &count.cntr;
    count.work.completion_cntr = nullptr;
    queue(count);
    Job& never = job(1000, FI_OP_CNTR_SET);
    never.cntr = {other, 99};
    never.work.op.cntr = &never.cntr;
    never.work.completion_cntr = nullptr;
    queue(never);
    for (std::uint64_t step = 1; step <= 5; ++step) {
        check(fi_cntr_add(trigger, 1), "fi_cntr_add");
        const std::uint64_t ended = step == 1 ? 0 : std::min<std::uint64_t>(step, 4);
        c.until("deferred work", [&] {
            require(fi_cntr_readerr(done) == 0, "deferred work failed");
            (void)fi_cntr_read(trigger);
            return fi_cntr_read(done) == ended && (step < 5 || fi_cntr_read(other) == 3);
        });
    }
    require(in == out && back == out, "deferred work brought something else");
    check(fi_control(&c.domain->fid, FI_CANCEL_WORK, &never.work), "FI_CANCEL_WORK");
    check(fi_control(&c.domain->fid, FI_FLUSH_WORK, nullptr), "FI_FLUSH_WORK");
    require(fi_cntr_read(other) == 3, "flushed work was done");
}

} // namespace nvlf::soak
