// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Programs that others wrote, where they are installed: Open MPI, over us and over its own shared memory (vader), and UCX.
// Each run is a start of processes anew, which is why these rows come last and are few.
#pragma once

#include "table.hpp"
#include "team.hpp"

namespace nvlf::bench {

// The ground must outlive the table.
void add_others(Table& table, const Ground& ground);

} // namespace nvlf::bench
