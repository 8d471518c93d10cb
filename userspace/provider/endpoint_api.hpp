// SPDX-License-Identifier: MIT OR GPL-2.0-only
// endpoint_api.hpp - what the queues, the counters and the domain ask of an endpoint, and nothing more.
//
// Progress happens in calls on completion objects, or in those of the thread that stands for them (progress_thread.hpp).
// These know endpoints only by this file, endpoints know them by cq.hpp, cntr.hpp and domain.hpp.
#pragma once

#include <rdma/fi_endpoint.h>

namespace nvlf::ofi {

struct Endpoint;
struct Mr;

// fi_endpoint. The domain and the info have been checked for NULL.
int endpoint_open(fid_domain* domain, fi_info* info, fid_ep** ret_ep, void* context) noexcept;
// fi_scalable_ep, which checks by itself.
int scalable_ep_open(fid_domain* domain, fi_info* info, fid_ep** ret_sep, void* context) noexcept;

// Handles what waits in the lanes, and what was waiting for room in them. Takes the endpoint's lock: the caller holds at
// most the lock of a list of endpoints. Harmless before FI_ENABLE.
void endpoint_progress(Endpoint& endpoint) noexcept;

// Sleeping. The descriptor polls readable when the endpoint must be looked at; -1 before FI_ENABLE. To sleep: arm, see
// that it is not ready, poll, disarm. Several threads may do so at a time (one in a CQ, another in a counter), so calls
// nest: the endpoint stays armed, its doorbell working, until the last of them disarms.
int endpoint_wait_fd(const Endpoint& endpoint) noexcept;
void endpoint_arm(Endpoint& endpoint) noexcept;
[[nodiscard]] bool endpoint_ready(Endpoint& endpoint) noexcept; // Is there something for endpoint_progress to do?
void endpoint_disarm(Endpoint& endpoint) noexcept;

// A registration has appeared (added), or goes and is found no more by Domain::mrs: endpoints publish those in fabric
// memory to their peers, for one-sided access. After the call for one that goes, its memory must not be touched. Called
// with the domain's list of endpoints locked, and no other lock.
void endpoint_mr_changed(Endpoint& endpoint, const Mr& mr, bool added) noexcept;

} // namespace nvlf::ofi
