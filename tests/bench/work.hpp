// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What teams do. Every member of a team calls the same function with the same job; the answer of the first one counts.
// Each checks that what was moved arrived as it was sent: a fast way to move something else is no result.
#pragma once

#include "figures.hpp"
#include "job.hpp"
#include "member.hpp"

namespace nvlf::bench {

[[nodiscard]] Figures ping_pong(Member& member, const Job& job); // Half a round trip of a tagged message; teams of two.
[[nodiscard]] Figures stream(Member& member, const Job& job);    // Tagged messages, one after the other; teams of two.
[[nodiscard]] Figures inject(Member& member, const Job& job);    // The same by fi_tinject, without completions.
[[nodiscard]] Figures wake(Member& member, const Job& job); // To one that sleeps on its queue's descriptor, and back.
[[nodiscard]] Figures all_to_all(Member& member, const Job& job); // One round, in which everybody sends to everybody.

[[nodiscard]] Figures write(Member& member, const Job& job); // One-sided, many in flight; teams of two.
[[nodiscard]] Figures read(Member& member, const Job& job);
[[nodiscard]] Figures add(Member& member, const Job& job); // Atomics on one word of 8 bytes.
[[nodiscard]] Figures fetch_add(Member& member, const Job& job);

// Shared memory behind one more endpoint that does nothing, in bytes.
[[nodiscard]] Figures footprint(Member& member, const Job& job);

} // namespace nvlf::bench
