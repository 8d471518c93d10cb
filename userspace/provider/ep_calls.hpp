// SPDX-License-Identifier: MIT OR GPL-2.0-only
// ep_calls.hpp - the calls that are the same for all that is a fid_ep: options, default flags, aliases, cancelling.
#pragma once

#include <cstdint>

#include "ep_fid.hpp"

namespace nvlf::ofi {

// What is not there (a receive context, an endpoint with a name) answers -FI_ENOPROTOOPT or -FI_ENOSYS.
ssize_t ep_cancel(::fid* object, void* context);
int ep_getopt(::fid* object, int level, int name, void* value, std::size_t* bytes);
int ep_setopt(::fid* object, int level, int name, const void* value, std::size_t bytes);
ssize_t ep_rx_size_left(fid_ep* ep);
int ep_getname(::fid* object, void* address, std::size_t* bytes);

// FI_GETOPSFLAG, FI_SETOPSFLAG, FI_ALIAS; -FI_ENOSYS for what is not among them.
[[nodiscard]] int ep_control_common(EpFid& ep, int command, void* arg) noexcept;

extern fi_ops_ep ep_ops;    // All that a fid_ep has, but for the contexts of a scalable endpoint.
extern fi_ops_cm ep_cm_ops; // A name, and collectives to join.

} // namespace nvlf::ofi
