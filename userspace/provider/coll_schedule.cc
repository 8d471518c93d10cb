// SPDX-License-Identifier: MIT OR GPL-2.0-only
// coll_schedule.cc - see coll_schedule.hpp.
#include "coll_schedule.hpp"

#include <algorithm>
#include <bit>
#include <functional>

namespace nvlf::ofi {
namespace {

// From here on a vector is worth cutting into pieces that travel on a ring. Below it a message costs more than its bytes;
// the figure is that of a message that still fits the lane in one piece.
constexpr std::size_t ring_bytes = 32u << 10;
// Parts up to this size are all exchanged at once; larger ones in rounds, so that each lane is used by one at a time.
constexpr std::size_t at_once_bytes = 16u << 10;

class Planner {
public:
    explicit Planner(Place place, std::size_t element = 1, Reduction op = nullptr)
        : me_{place.rank}, size_{place.size} {
        plan_.element = element;
        plan_.reduce = op;
    }

    // The steps that follow begin when those so far have ended.
    void next() noexcept { ++stage_; }

    void send(std::uint32_t to, std::uint32_t number, const std::byte* from, std::size_t bytes) {
        plan_.steps.push_back({.kind = Step::Kind::send,
                               .number = static_cast<std::uint16_t>(number),
                               .stage = stage_,
                               .rank = to,
                               .from = from,
                               .bytes = bytes});
    }
    void receive(std::uint32_t from, std::uint32_t number, std::byte* to, std::size_t bytes) {
        plan_.steps.push_back({.kind = Step::Kind::receive,
                               .number = static_cast<std::uint16_t>(number),
                               .stage = stage_,
                               .rank = from,
                               .to = to,
                               .bytes = bytes});
    }
    void reduce(std::byte* into, const std::byte* from, std::size_t bytes) {
        if (bytes > 0)
            plan_.steps.push_back(
                {.kind = Step::Kind::reduce, .stage = stage_, .to = into, .from = from, .bytes = bytes});
    }
    void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
        if (bytes > 0 && to != from)
            plan_.steps.push_back({.kind = Step::Kind::copy, .stage = stage_, .to = to, .from = from, .bytes = bytes});
    }

    [[nodiscard]] std::byte* scratch(std::size_t bytes) {
        plan_.scratch.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
        return plan_.scratch.back().get();
    }

    // Neighbours `distance` ranks on, and back.
    [[nodiscard]] std::uint32_t after(std::uint32_t distance) const noexcept { return (me_ + distance) % size_; }
    [[nodiscard]] std::uint32_t before(std::uint32_t distance) const noexcept {
        return (me_ + size_ - distance % size_) % size_;
    }

    // Every member has its block of `buffer`, and gets the others' round the ring. `at(i)` is where block i begins.
    // `first` is the block that this member has.
    template <class At>
    void ring_gather(std::uint32_t first, std::uint32_t number, std::byte* buffer, At&& at) {
        for (std::uint32_t round = 0; round + 1 < size_; ++round) {
            const std::uint32_t out = (first + size_ - round) % size_;
            const std::uint32_t in = (out + size_ - 1) % size_;
            next();
            send(after(1), number + round, buffer + at(out), at(out + 1) - at(out));
            receive(before(1), number + round, buffer + at(in), at(in + 1) - at(in));
        }
    }

    [[nodiscard]] Schedule take() noexcept { return std::move(plan_); }

private:
    Schedule plan_;
    std::uint32_t me_;
    std::uint32_t size_;
    std::uint32_t stage_ = 0;
};

[[nodiscard]] bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) noexcept {
    return a_bytes > 0 && b_bytes > 0 && std::less{}(a, b + b_bytes) && std::less{}(b, a + a_bytes);
}

// Where block `i` of `blocks` begins when `data` is cut as evenly as whole elements allow.
[[nodiscard]] std::size_t block_start(Elements data, std::uint32_t i, std::uint32_t blocks) noexcept {
    const std::size_t each = data.count / blocks;
    const std::size_t larger = data.count % blocks; // So many have one more.
    return (each * i + std::min<std::size_t>(i, larger)) * data.element;
}

// ---- Broadcast -------------------------------------------------------------------------------------------------------

void binomial_broadcast(Planner& plan, Place place, std::uint32_t root, std::byte* buffer, std::size_t bytes) {
    const std::uint32_t me = (place.rank + place.size - root) % place.size; // Counted from the root.
    // Who is `me` without its lowest bit sends to me; I send to whom I am that.
    std::uint32_t bit = 1;
    while (bit < place.size && (me & bit) == 0) bit <<= 1;
    if (me != 0) plan.receive((me - bit + root) % place.size, 0, buffer, bytes);
    plan.next();
    for (bit >>= 1; bit > 0; bit >>= 1)
        if (me + bit < place.size) plan.send((me + bit + root) % place.size, 0, buffer, bytes);
}

// The root hands out blocks, and these go round.
void ring_broadcast(Planner& plan, Place place, std::uint32_t root, Elements data, std::byte* buffer) {
    const auto at = [&](std::uint32_t i) { return block_start(data, i, place.size); };
    const std::uint32_t me = (place.rank + place.size - root) % place.size;
    if (me != 0) plan.receive(root, 0, buffer + at(me), at(me + 1) - at(me));
    else
        for (std::uint32_t i = 1; i < place.size; ++i)
            plan.send((i + root) % place.size, 0, buffer + at(i), at(i + 1) - at(i));
    plan.ring_gather(me, 1, buffer, at);
}

// ---- Allreduce -------------------------------------------------------------------------------------------------------

// In each round all members exchange what they have with one twice as far away. Of a group that is no power of two, the
// members in excess hand theirs to a neighbour first, and are told at the end.
void doubling_allreduce(Planner& plan, Place place, std::byte* to, std::size_t bytes) {
    constexpr std::uint32_t told_at_the_end = 64; // More rounds than there are.
    const std::uint32_t power = std::bit_floor(place.size);
    const std::uint32_t excess = place.size - power;
    const bool paired = place.rank < 2 * excess;
    std::byte* const theirs = plan.scratch(bytes);
    if (paired && place.rank % 2 == 0) {
        plan.send(place.rank + 1, 0, to, bytes);
        plan.next();
        plan.receive(place.rank + 1, told_at_the_end, to, bytes);
        return;
    }
    if (paired) {
        plan.receive(place.rank - 1, 0, theirs, bytes);
        plan.next();
        plan.reduce(to, theirs, bytes);
    }
    const std::uint32_t me = paired ? place.rank / 2 : place.rank - excess;
    std::uint32_t number = 1;
    for (std::uint32_t bit = 1; bit < power; bit <<= 1, ++number) {
        const std::uint32_t partner = me ^ bit;
        const std::uint32_t rank = partner < excess ? 2 * partner + 1 : partner + excess;
        plan.send(rank, number, to, bytes);
        plan.receive(rank, number, theirs, bytes);
        plan.next();
        plan.reduce(to, theirs, bytes);
    }
    if (paired) plan.send(place.rank - 1, told_at_the_end, to, bytes);
}

// Blocks go round and grow into sums; then the sums go round.
void ring_allreduce(Planner& plan, Place place, Elements data, std::byte* to) {
    const auto at = [&](std::uint32_t i) { return block_start(data, i, place.size); };
    std::byte* const theirs = plan.scratch(at(1)); // The first block is as large as any.
    for (std::uint32_t round = 0; round + 1 < place.size; ++round) {
        const std::uint32_t out = plan.before(round);
        const std::uint32_t in = plan.before(round + 1);
        plan.send(plan.after(1), round, to + at(out), at(out + 1) - at(out));
        plan.receive(plan.before(1), round, theirs, at(in + 1) - at(in));
        plan.next();
        plan.reduce(to + at(in), theirs, at(in + 1) - at(in));
    }
    plan.ring_gather(plan.after(1), place.size, to, at);
}

// ---- Allgather -------------------------------------------------------------------------------------------------------

// What a member has doubles in each round. Blocks lie in the order in which they come, from its own on, and are put into
// the order of ranks at the end.
void doubling_allgather(Planner& plan, Place place, std::size_t bytes, const std::byte* from, std::byte* to) {
    std::byte* const blocks = plan.scratch(bytes * place.size);
    plan.copy(blocks, from, bytes);
    std::uint32_t number = 0;
    for (std::uint32_t have = 1; have < place.size; have <<= 1, ++number) {
        const std::size_t more = std::min(have, place.size - have) * bytes;
        plan.send(plan.before(have), number, blocks, more);
        plan.receive(plan.after(have), number, blocks + have * bytes, more);
        plan.next();
    }
    const std::size_t upper = (place.size - place.rank) * bytes; // From our own rank on.
    plan.copy(to + place.rank * bytes, blocks, upper);
    plan.copy(to, blocks + upper, place.rank * bytes);
}

} // namespace

// After round k each has heard, at first or second hand, of 2^k members.
Schedule plan_barrier(Place place) {
    Planner plan{place};
    std::uint32_t number = 0;
    for (std::uint32_t distance = 1; distance < place.size; distance <<= 1, ++number) {
        plan.send(plan.after(distance), number, nullptr, 0);
        plan.receive(plan.before(distance), number, nullptr, 0);
        plan.next();
    }
    return plan.take();
}

Schedule plan_broadcast(Place place, std::uint32_t root, Elements data, std::byte* buffer) {
    Planner plan{place};
    if (place.size > 2 && data.bytes() >= ring_bytes) ring_broadcast(plan, place, root, data, buffer);
    else binomial_broadcast(plan, place, root, buffer, data.bytes());
    return plan.take();
}

Schedule plan_allreduce(Place place, Elements data, const std::byte* from, std::byte* to, Reduction op) {
    Planner plan{place, data.element, op};
    plan.copy(to, from, data.bytes());
    if (place.size == 1) return plan.take();
    if (place.size > 2 && data.bytes() >= ring_bytes) ring_allreduce(plan, place, data, to);
    else doubling_allreduce(plan, place, to, data.bytes());
    return plan.take();
}

// A binomial tree, from the leaves to the root.
Schedule plan_reduce(Place place, std::uint32_t root, Elements data, const std::byte* from, std::byte* to,
                     Reduction op) {
    Planner plan{place, data.element, op};
    const std::size_t bytes = data.bytes();
    const std::uint32_t me = (place.rank + place.size - root) % place.size; // Counted from the root.
    const bool leaf = me % 2 == 1 || me + 1 == place.size;
    const std::byte* mine = from;
    std::byte* sum = nullptr;
    std::byte* theirs = nullptr;
    if (me == 0) mine = sum = to;
    else if (!leaf) mine = sum = plan.scratch(bytes);
    if (sum != nullptr) plan.copy(sum, from, bytes);
    if (!leaf) theirs = plan.scratch(bytes);
    for (std::uint32_t bit = 1; bit < place.size; bit <<= 1) {
        if ((me & bit) != 0) {
            plan.send((me - bit + root) % place.size, 0, mine, bytes);
            break;
        }
        if (me + bit >= place.size) continue;
        plan.receive((me + bit + root) % place.size, 0, theirs, bytes);
        plan.next();
        plan.reduce(sum, theirs, bytes);
    }
    return plan.take();
}

// Each sends every other one the part that is that one's, straight from its own vector.
Schedule plan_reduce_scatter(Place place, Elements part, const std::byte* from, std::byte* to, Reduction op) {
    Planner plan{place, part.element, op};
    const std::size_t bytes = part.bytes();
    const bool in_place = overlap(from, bytes * place.size, to, bytes);
    std::byte* const sum = in_place ? plan.scratch(bytes) : to;
    plan.copy(sum, from + place.rank * bytes, bytes);
    std::byte* const theirs = place.size > 1 ? plan.scratch(bytes) : nullptr;
    for (std::uint32_t distance = 1; distance < place.size; ++distance) {
        plan.send(plan.after(distance), 0, from + plan.after(distance) * bytes, bytes);
        plan.receive(plan.before(distance), 0, theirs, bytes);
        plan.next();
        plan.reduce(sum, theirs, bytes);
    }
    plan.copy(to, sum, bytes);
    return plan.take();
}

Schedule plan_allgather(Place place, Elements part, const std::byte* from, std::byte* to) {
    Planner plan{place};
    const std::size_t bytes = part.bytes();
    if (place.size > 2 && bytes * place.size < ring_bytes) {
        doubling_allgather(plan, place, bytes, from, to);
    } else {
        plan.copy(to + place.rank * bytes, from, bytes);
        plan.ring_gather(place.rank, 0, to, [bytes](std::uint32_t i) { return i * bytes; });
    }
    return plan.take();
}

Schedule plan_alltoall(Place place, Elements part, const std::byte* from, std::byte* to) {
    Planner plan{place};
    const std::size_t bytes = part.bytes();
    if (overlap(from, bytes * place.size, to, bytes * place.size)) {
        std::byte* const kept = plan.scratch(bytes * place.size);
        plan.copy(kept, from, bytes * place.size);
        from = kept;
    }
    plan.copy(to + place.rank * bytes, from + place.rank * bytes, bytes);
    for (std::uint32_t distance = 1; distance < place.size; ++distance) {
        plan.send(plan.after(distance), 0, from + plan.after(distance) * bytes, bytes);
        plan.receive(plan.before(distance), 0, to + plan.before(distance) * bytes, bytes);
        if (bytes > at_once_bytes) plan.next();
    }
    return plan.take();
}

// The root sends to each: in a lane of its own, to which no relay would bring it faster.
Schedule plan_scatter(Place place, std::uint32_t root, Elements part, const std::byte* from, std::byte* to) {
    Planner plan{place};
    const std::size_t bytes = part.bytes();
    if (place.rank != root) {
        plan.receive(root, 0, to, bytes);
        return plan.take();
    }
    for (std::uint32_t i = 0; i < place.size; ++i)
        if (i != root) plan.send(i, 0, from + i * bytes, bytes);
    plan.next(); // `to` may be part of `from`.
    plan.copy(to, from + root * bytes, bytes);
    return plan.take();
}

Schedule plan_gather(Place place, std::uint32_t root, Elements part, const std::byte* from, std::byte* to) {
    Planner plan{place};
    const std::size_t bytes = part.bytes();
    if (place.rank != root) {
        plan.send(root, 0, from, bytes);
        return plan.take();
    }
    plan.copy(to + root * bytes, from, bytes); // First: `from` may be part of `to`.
    for (std::uint32_t i = 0; i < place.size; ++i)
        if (i != root) plan.receive(i, 0, to + i * bytes, bytes);
    return plan.take();
}

} // namespace nvlf::ofi
