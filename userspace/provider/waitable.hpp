// SPDX-License-Identifier: MIT OR GPL-2.0-only
// waitable.hpp - completion queues, counters and event queues as what they have in common: something may have come.
//
// Poll sets, wait sets and fi_trywait take any of them, as a bare fid. What differs between the three is decided here,
// by the class that the fid names; a fid of another class answers as each function says.
#pragma once

#include <rdma/fi_eq.h>

#include <optional>

#include "wait.hpp"

namespace nvlf::ofi {

// Nothing: it is none of the three.
[[nodiscard]] std::optional<Waitable> waitable_of(fid& object) noexcept;

// Ends what try_wait began, if that is still on.
void stop_waiting(fid& object) noexcept;

// fi_trywait of one of them. Before several are tried all are to be stopped: a doorbell that two of them share is
// silenced only when neither waits, and would wake the application for ever. -FI_EINVAL also for what is none.
[[nodiscard]] int try_wait(fid& object) noexcept;

// Drives what the object drives. True: there is something to read, for a counter something that was not read yet.
[[nodiscard]] bool look_for_news(fid& object) noexcept;

} // namespace nvlf::ofi
