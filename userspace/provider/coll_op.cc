// SPDX-License-Identifier: MIT OR GPL-2.0-only
// coll_op.cc - a collective under way: its schedule carried out stage by stage, to its end or to its failure.
//
// Messages that end, peers that die and aborts that come in only take note in the operation; run() draws the conclusions,
// after all lanes have been read. So nothing is sent, and nobody fails, in the middle of somebody else's list.
#include <rdma/fi_errno.h>

#include <cstring>
#include <memory>

#include "collectives.hpp"

namespace nvlf::ofi {

void Collectives::start(Group& group, Schedule&& schedule, TxContext& account, void* context, std::uint64_t flags) {
    auto op = std::make_unique<CollOp>();
    op->group = &group;
    op->account = &account;
    op->schedule = std::move(schedule);
    op->tag = group.tag;
    op->key = coll::with_sequence(group.key, group.sequence);
    op->context = context;
    op->flags = flags;
    if (group.error != 0 && coll::not_before(group.sequence, group.broken_from)) op->error = group.error;
    ++group.sequence;
    ++group.operations;
    ++operations;
    active.push_back(*op);
    run(*op.release());
}

void Collectives::run_all() noexcept {
    for (auto it = active.begin(); it != active.end();) {
        CollOp& op = *it++; // It may go.
        if (op.open == 0 || op.stalled || op.error != 0) run(op);
    }
}

// As far as it goes. The operation may be gone afterwards.
void Collectives::run(CollOp& op) noexcept {
    while (op.error == 0) {
        if (op.join && !op.group->resolved) {
            end_join(op); // Or rather: sees whether it can begin.
            if (op.error == 0 && !op.group->resolved) return;
            continue;
        }
        if (op.open == 0 && !open_stage(op)) {
            if (op.join) end_join(op);
            report(op);
            return end(op);
        }
        begin_steps(op);
        if (op.error == 0 && op.open > 0) return;
    }
    if (!op.failing) give_up(op);
    if (!op.told) op.told = tell(op);
    if (!op.reported && op.announced == 0) report(op);
    if (op.told && op.reported) end(op);
}

// False: the last stage is over.
bool Collectives::open_stage(CollOp& op) noexcept {
    std::vector<Step>& steps = op.schedule.steps;
    op.stage_at = op.stage_end;
    while (op.stage_end < steps.size() && steps[op.stage_end].stage == steps[op.stage_at].stage) ++op.stage_end;
    op.open = op.stage_end - op.stage_at;
    op.stalled = true; // None has begun.
    return op.open > 0;
}

void Collectives::begin_steps(CollOp& op) noexcept {
    if (!op.stalled) return;
    op.stalled = false;
    for (std::size_t i = op.stage_at; i < op.stage_end && op.error == 0; ++i) {
        Step& step = op.schedule.steps[i];
        if (step.state != Step::State::waiting) continue;
        step.op = &op;
        begin(op, step);
    }
}

void Collectives::begin(CollOp& op, Step& step) noexcept {
    switch (step.kind) {
    case Step::Kind::send: return begin_send(op, step);
    case Step::Kind::receive: return begin_receive(op, step);
    case Step::Kind::reduce:
        op.schedule.reduce(step.to, step.from, step.bytes / op.schedule.element);
        return done(step);
    case Step::Kind::copy: std::memmove(step.to, step.from, step.bytes); return done(step);
    }
}

void Collectives::done(Step& step) noexcept {
    step.state = Step::State::done;
    --step.op->open;
}

// Calls everything off that can be. What was announced to a member cannot: it may be copying from the caller's buffer just
// now, and must not get what the caller puts there next. So the failure is reported when these have been fetched, or were
// given up by their receivers, who hear of the failure and answer without their application's help.
[[gnu::cold]] void Collectives::give_up(CollOp& op) noexcept {
    op.failing = true;
    cancel_messages(op);
    op.open = 0;
    op.stalled = false;
    op.stage_at = 0; // Of telling: the next step whose partner is to be told.
    Group& group = *op.group;
    if (op.join) end_join(op);
    else break_group(group, coll::sequence_of(op.key), op.error, op.culprit);
    sort_out();
}

// Collectives from this one on are of no use any more.
void Collectives::break_group(Group& group, std::uint32_t from, int error, const nvlf_addr& who) noexcept {
    if (group.error == 0 || !coll::not_before(from, group.broken_from)) {
        group.error = error;
        group.broken_from = from;
    }
    for (CollOp& op : active)
        if (op.group == &group && !op.join && coll::not_before(coll::sequence_of(op.key), from)) op.fail(error, who);
}

// Tells everybody with whom the operation had to do. False: somebody could not be met yet.
[[gnu::cold]] bool Collectives::tell(CollOp& op) noexcept {
    for (; op.stage_at < op.schedule.steps.size(); ++op.stage_at) {
        const Step& step = op.schedule.steps[op.stage_at];
        if (step.kind != Step::Kind::send && step.kind != Step::Kind::receive) continue;
        Member& member = op.group->members[step.rank];
        if (member.told == &op) continue;
        ssize_t error = 0;
        if (Peer* peer = reach(member, error); peer != nullptr) abort(*peer, op.tag, op.key, op.error);
        else if (error == -FI_EAGAIN) return false;
        member.told = &op;
    }
    return true;
}

void Collectives::report(CollOp& op) noexcept {
    op.reported = true;
    if (op.join) return; // That was told to the event queue.
    const TxContext& account = *op.account;
    if (account.write_cntr != nullptr) {
        if (op.error == 0) account.write_cntr->add(1);
        else account.write_cntr->add_error(1);
    }
    if (account.cq == nullptr) return;
    if (op.error != 0)
        account.cq->push_error(
            {.c = {.context = op.context, .flags = FI_COLLECTIVE}, .err = op.error, .source = op.culprit});
    else if (!account.selective || (op.flags & FI_COMPLETION) != 0)
        account.cq->push({.context = op.context, .flags = FI_COLLECTIVE});
}

void Collectives::end(CollOp& op) noexcept {
    Group& group = *op.group;
    for (Member& member : group.members)
        if (member.told == &op) member.told = nullptr;
    active.erase(active.iterator_to(op));
    --operations;
    delete &op;
    --group.operations;
    release(group);
}

bool Collectives::ready() noexcept {
    for (CollOp& op : active) {
        if (op.failing && op.told && op.announced > 0) continue; // Members answer in their lanes.
        if (op.error != 0 || op.open == 0) return true;
        if (!op.stalled) continue;
        for (std::size_t i = op.stage_at; i < op.stage_end; ++i) {
            const Step& step = op.schedule.steps[i];
            if (step.state != Step::State::waiting) continue;
            // What waits for room is rung for; what waits for anything else is not.
            Peer* const peer = op.group->members[step.rank].peer;
            if (step.kind != Step::Kind::send || peer == nullptr || !peer->up()) return true;
            if (!peer->tx.room(piece_bytes, control_reserve).failed()) return true;
        }
    }
    return false;
}

} // namespace nvlf::ofi
