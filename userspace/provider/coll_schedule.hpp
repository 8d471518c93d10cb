// SPDX-License-Identifier: MIT OR GPL-2.0-only
// coll_schedule.hpp - what one member of a group does for a collective: messages to send and to receive, and what to
// compute in between.
//
// A schedule is made when the collective is called, by arithmetic alone: every member knows the group's size, its own
// rank and the arguments, and these determine who sends what to whom. It is a list of steps in stages. The steps of a
// stage begin in their order, local ones are done as they begin, and the next stage begins when all messages of this one
// have gone and come. Nothing here knows endpoints; coll_op.cc carries a schedule out, and a test can do so in memory.
//
// Which algorithm is taken depends on sizes. While the price of a message counts (small data), the fewest rounds win:
// dissemination, binomial trees, doubling. Where the price of a byte counts, everybody sends and receives all the time,
// and no byte more often than it must: rings. Both ends must choose alike, so only what all members know may decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "reduction.hpp"

namespace nvlf::ofi {

struct CollOp;

struct Step {
    enum class Kind : std::uint8_t { send, receive, reduce, copy };
    enum class State : std::uint8_t { waiting, in_flight, done };

    Kind kind = Kind::copy;
    State state = State::waiting;
    std::uint16_t number = 0; // Names the message among all between these two members in this collective.
    std::uint32_t stage = 0;
    std::uint32_t rank = 0;          // With whom.
    std::byte* to = nullptr;         // receive, reduce, copy
    const std::byte* from = nullptr; // send, reduce, copy
    std::size_t bytes = 0;
    CollOp* op = nullptr; // Whose step it is, once it is carried out.
};

// What a step may be numbered; above it lies what is no message of a schedule.
inline constexpr std::uint16_t step_number_limit = 0xfff0;

struct Schedule {
    std::vector<Step> steps;
    std::vector<std::unique_ptr<std::byte[]>> scratch; // What steps point to, besides the caller's buffers.
    Reduction reduce = nullptr;
    std::size_t element = 1; // Bytes of one.
};

// The group, from one member's point of view.
struct Place {
    std::uint32_t rank = 0;
    std::uint32_t size = 1;
};

// Data of a collective: `count` elements of `element` bytes. Of broadcast and of reductions it is the whole vector, of
// the others (and of what each gets from reduce_scatter) one member's part.
struct Elements {
    std::size_t count = 0;
    std::size_t element = 1;
    [[nodiscard]] std::size_t bytes() const noexcept { return count * element; }
};

// Each throws bad_alloc. Buffers may be nullptr where fi_collective(3) gives them no meaning. They may be one and the
// same, or be parts of each other: what is still to be read is not overwritten.
[[nodiscard]] Schedule plan_barrier(Place place);
[[nodiscard]] Schedule plan_broadcast(Place place, std::uint32_t root, Elements data, std::byte* buffer);
[[nodiscard]] Schedule plan_allreduce(Place place, Elements data, const std::byte* from, std::byte* to, Reduction op);
[[nodiscard]] Schedule plan_reduce(Place place, std::uint32_t root, Elements data, const std::byte* from, std::byte* to,
                                   Reduction op);
[[nodiscard]] Schedule plan_reduce_scatter(Place place, Elements part, const std::byte* from, std::byte* to,
                                           Reduction op);
[[nodiscard]] Schedule plan_allgather(Place place, Elements part, const std::byte* from, std::byte* to);
[[nodiscard]] Schedule plan_alltoall(Place place, Elements part, const std::byte* from, std::byte* to);
[[nodiscard]] Schedule plan_scatter(Place place, std::uint32_t root, Elements part, const std::byte* from,
                                    std::byte* to);
[[nodiscard]] Schedule plan_gather(Place place, std::uint32_t root, Elements part, const std::byte* from,
                                   std::byte* to);

} // namespace nvlf::ofi
