// SPDX-License-Identifier: MIT OR GPL-2.0-only
// deferred_work.hpp - fi_control on a domain: FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK (fi_trigger(3)).
#pragma once

#include <rdma/fabric.h>

struct fi_deferred_work;

namespace nvlf::ofi {

struct Domain;

// 0 or -FI_E*: as the call of the same operation would answer, and -FI_ENOSYS for what cannot be deferred. Everything but
// the data buffers is copied.
[[nodiscard]] int queue_work(Domain& domain, const ::fi_deferred_work* work) noexcept;
// -FI_ENOENT: it has started, or was never queued.
[[nodiscard]] int cancel_work(Domain& domain, const ::fi_deferred_work* work) noexcept;
// `cntr`: only what it triggers; nullptr: all.
[[nodiscard]] int flush_work(Domain& domain, ::fid* cntr) noexcept;

} // namespace nvlf::ofi
