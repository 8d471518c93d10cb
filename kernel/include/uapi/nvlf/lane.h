/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * lane.h - the shared memory through which two endpoints talk.
 *
 * First contact between two endpoints makes a *channel*: one memory object mapped by exactly those two, holding two
 * lanes, one a direction. So a peer that writes nonsense damages its own channel and nobody else's, and when one end
 * dies the whole channel is dropped: nothing is ever cleaned and used again.
 *
 * A lane is a single-producer single-consumer ring of 64-byte slots beside a ring of bytes:
 *
 *   channel:  | header page | lane 0: side 0 -> side 1 | lane 1: side 1 -> side 0 |
 *   lane:     | credit line, 128 B apart from | slots: NVLF_LANE_SLOTS x 64 B | data: NVLF_LANE_DATA bytes |
 *
 * A slot carries its own publication word, so that a small message moves with one cache-line transfer and there is no
 * shared producer cursor. Slot number n (free-running) lies at n mod NVLF_LANE_SLOTS and is published by storing
 * seq = (__u32)(n + 1) with release after everything else in it. What does not fit into a slot goes to the data ring
 * first; the slot then says where. Both rings are given back by the consumer through `credit`, free-running counts
 * that it stores with release every so often.
 *
 * Layouts are fixed by this header: neither end believes a size that it reads from the channel.
 */
#ifndef NVLF_LANE_H
#define NVLF_LANE_H

#include <linux/types.h>

#include "nvlf/device.h"

#define NVLF_SLOT_DATA 48
#define NVLF_LANE_SLOTS 256	 /* Power of two. */
#define NVLF_LANE_DATA (1 << 17) /* Bytes, a power of two. */

struct nvlf_slot {
	__u32 seq; /* Publication word, see above. */
	__u16 len; /* Bytes used in data[]. */
	__u8 op;   /* Meaning of the rest; the carrier does not look at it. */
	__u8 flags;
	__u64 tag;
	__u8 data[NVLF_SLOT_DATA];
};

/* Written by the consumer, read by the producer. */
struct nvlf_lane_credit {
	__u64 slots; /* Slots consumed since the start. */
	__u64 bytes; /* Data ring position up to which the consumer is done. */
	__u64 reserved[6];
	__u64 user[8]; /* A cache line of its own, written by both ends: for what their libraries agree on. */
};

struct nvlf_lane {
	struct nvlf_lane_credit credit;
	struct nvlf_slot slot[NVLF_LANE_SLOTS];
	__u8 data[NVLF_LANE_DATA];
};

#define NVLF_CHANNEL_MAGIC 0x48434c56U /* "VLCH" */
#define NVLF_CHANNEL_HEADER 4096

/* First bytes of a channel, for people with a debugger; no program takes a decision by it. */
struct nvlf_channel_header {
	__u32 magic;
	__u32 abi;
	__u32 endpoint[2]; /* Of side 0 and side 1. */
	__u32 epoch[2];
};

#define NVLF_CHANNEL_LANE_OFF(lane) (NVLF_CHANNEL_HEADER + (lane) * sizeof(struct nvlf_lane))
#define NVLF_CHANNEL_BYTES NVLF_CHANNEL_LANE_OFF(2)

/*
 * The first bytes of an endpoint's region, which its owner writes and its peers map read-only.
 *
 * `armed` is odd while the owner sleeps: a producer that published a slot and then reads an odd value it has not seen
 * before writes to the owner's doorbell, once. Between the producer's two steps there is no fence: the owner issues
 * membarrier(GLOBAL_EXPEDITED) after arming and before it looks a last time. Where it cannot, it sets
 * NVLF_REGION_FENCE for good before it publishes the endpoint, and producers fence.
 */
#define NVLF_REGION_MAGIC 0x4745524cU /* "LREG" */
#define NVLF_REGION_FENCE 1U

struct nvlf_region {
	__u32 magic;
	__u32 abi;
	__u32 flags; /* NVLF_REGION_*; constant once published. */
	__u32 user_off; /* Where the owner's library keeps its own tables; 0: nowhere. */
	__u64 reserved[6];
	__u32 armed; /* On a cache line of its own. */
	__u32 reserved2[15];
};

/* The layout is the contract: it does not follow from whoever compiles it. */
NVLF_ASSERT_SIZE(nvlf_slot, 64);
NVLF_ASSERT_SIZE(nvlf_lane_credit, 128);
NVLF_ASSERT_SIZE(nvlf_lane, 147584);
NVLF_ASSERT_SIZE(nvlf_channel_header, 24);
NVLF_ASSERT_SIZE(nvlf_region, 128);

#endif
