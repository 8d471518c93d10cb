/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * device.h - the nouns of the fabric, as every part of the stack sees them.
 *
 * A fabric has nodes; a node hosts devices (GPUs, Trainium chips); devices and switches have ports; a link joins two
 * ports. The same fixed-size descriptors answer the GET_* commands of ioctl.h and lie in the read-only state region of
 * state.h, so that a reader that has the region needs no command.
 *
 * Units are in the names or beside them: bytes, bytes per second, picoseconds. Strings are UTF-8, NUL-terminated and
 * zero-padded to the end of their array. No struct here has implicit padding.
 */
#ifndef NVLF_DEVICE_H
#define NVLF_DEVICE_H

#include <linux/types.h>

#ifdef __cplusplus
#define NVLF_ASSERT_SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes), #type)
#else
#define NVLF_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#endif

/* Version of the whole contract (ioctl.h, device.h, lane.h, state.h): same major = compatible, minor only grows. */
#define NVLF_ABI_MAJOR 1
#define NVLF_ABI_MINOR 1
#define NVLF_ABI_VERSION ((NVLF_ABI_MAJOR << 16) | NVLF_ABI_MINOR)

#define NVLF_NAME_LEN 32  /* Names of devices, switches, fabrics; includes the NUL. */
#define NVLF_MODEL_LEN 48 /* "NVIDIA Rubin", "AWS Trainium4"; includes the NUL. */

/*
 * Limits. The carrier enforces each where the thing grows and reports the ones in force in GET_INFO; an installation
 * may lower them, never raise them.
 */
#define NVLF_MAX_DEVICES 4096
#define NVLF_MAX_SWITCHES 1024
#define NVLF_MAX_LINKS 65536 /* Undirected links; a directed link is 2 * link + direction. */
#define NVLF_MAX_HOPS 16     /* Directed links on one path. */
#define NVLF_MAX_CLIENTS 4096
#define NVLF_MAX_ENDPOINTS 65536
#define NVLF_MAX_ENDPOINTS_PER_FILE 256
#define NVLF_MAX_ALLOCATIONS 65536
#define NVLF_MAX_IMPORTS_PER_FILE 65536
#define NVLF_MAX_PENDING_ACCEPTS 4096 /* Channels offered to one endpoint and not yet accepted. */

/* A device index that means "whichever": in ATTACH the least used, in EP_LOOKUP any. */
#define NVLF_DEVICE_ANY 0xffffffffU

/* What an index in a link end, a fault or an event refers to. */
#define NVLF_OBJECT_DEVICE 1
#define NVLF_OBJECT_SWITCH 2
#define NVLF_OBJECT_LINK 3
#define NVLF_OBJECT_ENDPOINT 4
#define NVLF_OBJECT_MEMORY 5

/* Vendor families; decides which engines move the data, not what the device may do on the fabric. */
#define NVLF_DEVICE_NVIDIA 1
#define NVLF_DEVICE_TRAINIUM 2

/* States of devices, switches and links. */
#define NVLF_STATE_UP 1
#define NVLF_STATE_DEGRADED 2 /* Works with fewer lanes or more errors than it was built for. */
#define NVLF_STATE_DOWN 3

/* Link protocols. */
#define NVLF_LINK_NVLINK 1
#define NVLF_LINK_NEURONLINK 2
#define NVLF_LINK_PCIE 3
#define NVLF_LINK_C2C 4
#define NVLF_LINK_EFA 5

/* One GPU or Trainium chip. `numa_node` is where the emulator backs its memory, 0xffffffff when it does not matter. */
struct nvlf_device {
	char name[NVLF_NAME_LEN];
	char model[NVLF_MODEL_LEN];
	__u32 index;
	__u32 kind;  /* NVLF_DEVICE_NVIDIA ... */
	__u32 node;  /* Index of the node that hosts it. */
	__u32 state; /* NVLF_STATE_* */
	__u32 ports;
	__u32 numa_node;
	__u32 clients; /* Open files attached to it now. */
	__u32 reserved;
	__u64 hbm_bytes;
	__u64 hbm_used;
	__u64 rate; /* Payload bytes per second and direction, summed over its links. */
};

struct nvlf_switch {
	char name[NVLF_NAME_LEN];
	char model[NVLF_MODEL_LEN];
	__u32 index;
	__u32 plane; /* Switches of one plane see the same devices; traffic is sprayed over planes. */
	__u32 ports;
	__u32 state;
	__u64 latency_ps; /* Port to port. */
};

/* One end of a link. */
struct nvlf_link_end {
	__u32 object; /* NVLF_OBJECT_DEVICE or NVLF_OBJECT_SWITCH */
	__u32 index;
	__u32 port;
	__u32 reserved;
};

/* A full-duplex link; figures are for one direction. Directed link 2 * index goes from end[0] to end[1]. */
struct nvlf_link {
	struct nvlf_link_end end[2];
	__u32 index;
	__u32 protocol; /* NVLF_LINK_* */
	__u32 generation; /* 6 for NVLink 6. */
	__u32 width;	  /* Lanes it was built with. */
	__u32 width_up;	  /* Lanes in use. */
	__u32 state;
	__u64 rate;	/* Payload bytes per second at full width. */
	__u64 raw_rate; /* Line bytes per second, as `nvidia-smi nvlink -s` prints it. */
	__u64 latency_ps;
};

/*
 * The address of an endpoint: comparable with memcmp, fixed at 32 bytes, made by the carrier alone. The epoch changes
 * whenever an endpoint id is used again, so that an address never reaches the successor of the endpoint it was made for.
 *
 * A *service address* names an endpoint that may not exist yet: device NVLF_DEVICE_ANY or a device, endpoint and epoch
 * 0, service not 0. EP_LOOKUP and EP_CONNECT resolve it. fabric 0 means "the fabric that I am asked on".
 */
#define NVLF_ADDR_MAGIC 0x4e56 /* "NV" */
#define NVLF_ADDR_VERSION 1

struct nvlf_addr {
	__u16 magic;
	__u16 version;
	__u32 device;
	__u64 fabric; /* Low 64 bits of the fabric's UUID. */
	__u32 endpoint;
	__u32 epoch;
	__u64 service;
};

/* The layout is the contract: it does not follow from whoever compiles it. */
NVLF_ASSERT_SIZE(nvlf_device, 136);
NVLF_ASSERT_SIZE(nvlf_switch, 104);
NVLF_ASSERT_SIZE(nvlf_link_end, 16);
NVLF_ASSERT_SIZE(nvlf_link, 80);
NVLF_ASSERT_SIZE(nvlf_addr, 32);

#endif
