// SPDX-License-Identifier: MIT OR GPL-2.0-only
// provider.hpp - what libfabric's core holds of us; its address is the handle of the logging and parameter calls.
//
// Log with FI_WARN(&provider, FI_LOG_DOMAIN, "...") and friends: one line, naming the object, the operation, the cause.
#pragma once

#include <errno.h>

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

namespace nvlf::ofi {

extern fi_provider provider;

} // namespace nvlf::ofi
