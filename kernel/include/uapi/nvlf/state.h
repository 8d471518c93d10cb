/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * state.h - what everybody may read of the fabric without asking.
 *
 * GET_STATE hands out two regions. The *state* region is written by the carrier alone and mapped read-only by clients:
 * the topology, and one word an endpoint which says whether it lives. The *shared* region is written by everybody: the
 * occupancy and the counters of each directed link.
 *
 * The state region is also a file format: nvlfd writes one for each preset when it is built, and a process that asks
 * "which devices would there be?" while no fabric runs reads that instead.
 *
 * Entries of the arrays keep their size within a major version: what is new gets an array of its own, by a new offset at
 * the header's tail.
 *
 * Readers take offsets and counts from the header once, check them against the size of their mapping, and only then
 * use them. Words that change while the fabric runs are marked "live": read those with one atomic load.
 */
#ifndef NVLF_STATE_H
#define NVLF_STATE_H

#include "nvlf/device.h"

#define NVLF_STATE_MAGIC 0x54534c56U /* "VLST" */

/*
 * Life of an endpoint. `epoch` is that of the living endpoint with this id, 0 when there is none: a peer that holds an
 * address whose epoch differs holds the address of a dead endpoint. `notices` counts reasons for the endpoint's owner
 * to look up from its lanes: a channel to accept, a peer that died. It wraps; compare for inequality. Both are live.
 */
struct nvlf_state_endpoint {
	__u32 epoch;
	__u32 notices;
};

/* Starts the state region. Every *_off is from the start of the region, in bytes, a multiple of 64. */
struct nvlf_state {
	__u32 magic;
	__u32 abi; /* NVLF_ABI_VERSION of the writer. */
	__u64 bytes; /* Of the whole region. */
	__u64 changes; /* Live: bumped after any change to a device, switch or link below. */
	__u32 serving; /* Live: 1 while the carrier serves, 0 once it has said goodbye; 0 in a file. */
	__u32 nodes;
	__u32 device_count;
	__u32 switch_count;
	__u32 link_count;
	__u32 endpoint_count; /* Entries in the endpoint table: the limit in force, not the number alive. */
	__u32 assumed; /* Hardware figures in the topology whose standing is "assumed". */
	__u32 figures; /* Hardware figures in all. */
	__u64 device_off;
	__u64 switch_off;
	__u64 link_off;
	__u64 endpoint_off;
	char topology[NVLF_MODEL_LEN];
	__u8 uuid[16];
};

/*
 * Starts at directed_link * 64 in the shared region. Whoever moves data advances these with atomic adds; nobody trusts
 * them: they time and count, they never bound an access.
 */
struct nvlf_link_shared {
	__u64 busy_until_ps; /* Fabric time at which the link is free again. Stays 0 while the clock is off. */
	__u64 bytes;
	__u64 packets;
	__u64 crc_errors;
	__u64 replays;
	__u64 recoveries;
	__u64 reserved[2];
};

/* The layout is the contract: it does not follow from whoever compiles it. */
NVLF_ASSERT_SIZE(nvlf_state_endpoint, 8);
NVLF_ASSERT_SIZE(nvlf_state, 152);
NVLF_ASSERT_SIZE(nvlf_link_shared, 64);

#endif
