// SPDX-License-Identifier: MIT OR GPL-2.0-only
// poll_set.hpp - fi_poll: driving several queues and counters by one call that tells which of them to read.
#pragma once

#include <rdma/fi_domain.h>

namespace nvlf::ofi {

int poll_set_open(fid_domain* domain, fi_poll_attr* attr, fid_poll** ret_set) noexcept;

} // namespace nvlf::ofi
