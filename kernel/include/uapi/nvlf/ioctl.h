/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * ioctl.h - what a client may ask of the carrier of a fabric.
 *
 * There are two carriers and one contract. nvlf.ko takes these structs by ioctl on /dev/nvlf; nvlfd takes the same
 * structs in a SOCK_SEQPACKET message, after a struct nvlf_msg that names the command. The carrier says who exists, who
 * may map what, and who died. It is never on the data path.
 *
 * Rules
 *  - Each struct starts with `size`, which the caller sets to sizeof of the struct that it was compiled with. A struct
 *    may grow at its tail. A carrier that knows less answers E2BIG if the bytes it does not know are not zero, and
 *    ignores them otherwise; a carrier that knows more takes the missing tail as zero. The reply has the caller's size.
 *  - Fields named reserved, and flags nobody defined, must be zero.
 *  - Results are written only on success, except GET_INFO's `abi`.
 *  - A field named *_fd is a descriptor, NVLF_NO_FD where there is none. Those which the carrier returns are new, close
 *    on exec, and belong to the caller. On the socket the field holds the index into the message's SCM_RIGHTS array.
 *  - Whatever a client owns ends with its open file: memory, exports, imports, endpoints. What it has mapped stays
 *    mapped in whoever mapped it; the fabric addresses are not given out again before the last importer is gone.
 *
 * Errors, the same meaning in every command
 *
 *   errno            it means
 *   E2BIG            the struct is larger than known here and its unknown tail is not zero
 *   EINVAL           the struct is too small, a reserved field or an unknown flag is set, a value is out of its range
 *   EPROTO           (socket) the message is not a struct nvlf_msg and the struct that its command takes
 *   EPROTONOSUPPORT  the ABI major version wanted is not the one spoken here
 *   EOPNOTSUPP       the command, or this use of it, is known and not offered by this carrier
 *   ENOTTY           no such command
 *   ENODEV           no device, switch or link with this index
 *   ENOENT           no such handle, endpoint or service; the path does not exist
 *   EACCES           the token is not one, or grants less than is asked
 *   EPERM            the caller does not own the fabric (ADMIN_*, GET_CLIENT)
 *   EADDRINUSE       another endpoint of the device has this service name
 *   ESTALE           the address is that of an endpoint that is gone
 *   EXDEV            the address is of another fabric
 *   EHOSTDOWN        the device that should do it is down
 *   ENOSPC           the device's HBM, or the fabric's address arena, has no room of that size
 *   EDQUOT           the client's quota of bytes, or of objects, is used up
 *   EMFILE           a limit of the fabric, or of descriptors in the carrier, is reached; or a guest (NVLF_CAP_GUEST) asks
 *                    for more than to look around
 *   ENOMEM           the host has no memory for it
 *   EBUSY            it is in use: an endpoint's region cannot be freed, a channel to oneself exists once
 *   EAGAIN           (EP_ACCEPT) there is nothing to accept now
 *   EEXIST           the channel between the two endpoints was made before; both ends hold it
 */
#ifndef NVLF_IOCTL_H
#define NVLF_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#include "nvlf/device.h"

#define NVLF_NO_FD 0xffffffffU
#define NVLF_TOKEN_LEN 32
#define NVLF_PAGE_SIZE (2ULL << 20) /* Fabric addresses are handed out in pages of 2 MiB, as NVLink fabric memory is. */

#define NVLF_IOC_TYPE 0xb7 /* Free in Documentation/userspace-api/ioctl/ioctl-number.rst. */

#define NVLF_CMD_GET_INFO 0x00
#define NVLF_CMD_GET_DEVICE 0x01
#define NVLF_CMD_GET_SWITCH 0x02
#define NVLF_CMD_GET_LINK 0x03
#define NVLF_CMD_GET_PATH 0x04
#define NVLF_CMD_GET_STATE 0x05
#define NVLF_CMD_GET_CLIENT 0x06
#define NVLF_CMD_ATTACH 0x10
#define NVLF_CMD_MEM_ALLOC 0x20
#define NVLF_CMD_MEM_FREE 0x21
#define NVLF_CMD_MEM_EXPORT 0x22
#define NVLF_CMD_MEM_IMPORT 0x23
#define NVLF_CMD_MEM_RELEASE 0x24
#define NVLF_CMD_MEM_OPEN 0x25
#define NVLF_CMD_EP_PUBLISH 0x30
#define NVLF_CMD_EP_WITHDRAW 0x31
#define NVLF_CMD_EP_LOOKUP 0x32
#define NVLF_CMD_EP_CONNECT 0x33
#define NVLF_CMD_EP_ACCEPT 0x34
#define NVLF_CMD_EP_PROCESS 0x35
#define NVLF_CMD_EVENTS 0x40
#define NVLF_CMD_ADMIN_STATE 0x80
#define NVLF_CMD_ADMIN_CLOCK 0x81
#define NVLF_CMD_ADMIN_LIMIT 0x82
#define NVLF_CMD_ADMIN_TOPOLOGY 0x83
#define NVLF_CMD_ADMIN_DOWN 0x84

/* Size is not encoded: the struct says it. */
#define NVLF_IOC(cmd) _IO(NVLF_IOC_TYPE, cmd)

/* Capability bits of GET_INFO. */
#define NVLF_CAP_MEMFD (1ULL << 0)	    /* Memory descriptors are memfds. */
#define NVLF_CAP_DMABUF (1ULL << 1)	    /* Memory descriptors are dma-bufs. */
#define NVLF_CAP_CLOCK_REALTIME (1ULL << 2) /* ADMIN_CLOCK takes NVLF_CLOCK_REALTIME. */
#define NVLF_CAP_CLOCK_VIRTUAL (1ULL << 3)
#define NVLF_CAP_SET_TOPOLOGY (1ULL << 4) /* ADMIN_TOPOLOGY is offered. */
#define NVLF_CAP_DOWN (1ULL << 5)	  /* ADMIN_DOWN is offered. */
#define NVLF_CAP_ON_DEMAND (1ULL << 6)	  /* The fabric ends by itself some time after its last client. */
#define NVLF_CAP_GUEST (1ULL << 7)	  /* This file came over the limit of clients: GET_*, and ADMIN_* if the owner's. */

#define NVLF_CLOCK_OFF 0
#define NVLF_CLOCK_REALTIME 1
#define NVLF_CLOCK_VIRTUAL 2

/*
 * GET_INFO - the fabric as a whole. `abi_wanted` is the caller's NVLF_ABI_VERSION; with another major version the
 * answer is EPROTONOSUPPORT, and `abi` says what is spoken here.
 */
struct nvlf_ioc_info {
	__u32 size;
	__u32 abi_wanted;
	/* out */
	__u32 abi;
	__u32 clock; /* NVLF_CLOCK_* */
	char fabric[NVLF_NAME_LEN];
	char topology[NVLF_MODEL_LEN];
	__u8 uuid[16];
	__aligned_u64 epoch; /* Differs each time a fabric of this name is brought up. */
	__aligned_u64 caps;  /* NVLF_CAP_* */
	__aligned_u64 arena_base;
	__aligned_u64 arena_bytes;
	__aligned_u64 page_bytes;
	__aligned_u64 dilation_ppm; /* 1000000: fabric time passes as fast as host time. */
	__u32 nodes;
	__u32 devices;
	__u32 switches;
	__u32 links;
	__u32 clients;
	__u32 endpoints;
	__u32 allocations;
	__u32 max_clients;
	__u32 max_endpoints;
	__u32 max_endpoints_per_file;
	__u32 max_allocations;
	__u32 max_imports_per_file;
	__u32 max_pending_accepts;
	__u32 assumed; /* Hardware figures that are assumed, of `figures` in all. */
	__u32 figures;
	__u32 server_pid;	      /* In the carrier's own PID namespace; 0 for the kernel. */
	__aligned_u64 quota_bytes;    /* Memory that one open file may allocate. */
	__aligned_u64 allocated_bytes; /* By all. */
};

/* GET_DEVICE, GET_SWITCH, GET_LINK - one object by index. ENODEV past the end. */
struct nvlf_ioc_device {
	__u32 size;
	__u32 index;
	struct nvlf_device device; /* out */
};

struct nvlf_ioc_switch {
	__u32 size;
	__u32 index;
	struct nvlf_switch sw; /* out */
};

struct nvlf_ioc_link {
	__u32 size;
	__u32 index;
	struct nvlf_link link; /* out */
};

/*
 * GET_PATH - how traffic goes from one device to another now. Parallel links and planes count as one path: `width` of
 * them, together `rate`. hop[] lists the directed links of the first. ENOENT when nothing is left between the two.
 * From a device to itself: no hops, rate 0.
 */
struct nvlf_ioc_path {
	__u32 size;
	__u32 src;
	__u32 dst;
	__u32 hops; /* out, and all that follows */
	__u32 width;
	__u32 switches; /* Switches on the path. */
	__aligned_u64 rate;
	__aligned_u64 latency_ps; /* Links and switches; no engine start-up. */
	__u32 hop[NVLF_MAX_HOPS];
};

/* GET_STATE - the two regions of state.h. The first descriptor maps read-only. */
struct nvlf_ioc_state {
	__u32 size;
	__u32 state_fd; /* out, and all that follows */
	__u32 shared_fd;
	__u32 reserved;
	__aligned_u64 state_bytes;
	__aligned_u64 shared_bytes;
};

/* GET_CLIENT - who uses the fabric: the index-th open file, in the order of arrival. For the owner of the fabric. */
struct nvlf_ioc_client {
	__u32 size;
	__u32 index;
	__u32 pid; /* out, and all that follows; in the carrier's PID namespace, 0 when not visible there. */
	__u32 uid;
	__u32 device; /* NVLF_DEVICE_ANY while not attached. */
	__u32 endpoints;
	__u32 allocations;
	__u32 imports;
	__aligned_u64 bytes;
	char command[NVLF_NAME_LEN]; /* Name of the program. */
};

/* ATTACH - the device for which this open file acts, or NVLF_DEVICE_ANY for the one with the fewest clients. */
struct nvlf_ioc_attach {
	__u32 size;
	__u32 device; /* in, out */
};

/*
 * MEM_ALLOC - memory on a device, at a fabric address, zeroed. `bytes` is rounded up to NVLF_PAGE_SIZE. `mem_fd` maps
 * it from offset 0, shared, readable and writable; its size cannot be changed.
 */
struct nvlf_ioc_mem_alloc {
	__u32 size;
	__u32 device;
	__aligned_u64 bytes; /* in: wanted; out: rounded */
	__u32 flags;	     /* None defined. */
	__u32 handle;	     /* out, and all that follows */
	__aligned_u64 fla;
	__u32 mem_fd;
	__u32 reserved;
};

/* MEM_FREE, MEM_RELEASE - gives back what MEM_ALLOC, or MEM_IMPORT and MEM_OPEN, gave. Freeing ends all exports. */
struct nvlf_ioc_mem_free {
	__u32 size;
	__u32 handle;
};

#define NVLF_ACCESS_READ 1U
#define NVLF_ACCESS_WRITE 2U
#define NVLF_ACCESS_ATOMIC 4U

#define NVLF_SCOPE_FABRIC 0U /* Whoever has the token. */
#define NVLF_SCOPE_NODE 1U   /* ... and is attached to a device of the node `scope_index`. */
#define NVLF_SCOPE_DEVICE 2U /* ... and is attached to the device `scope_index`. */

/* MEM_EXPORT - a token that lets others import the memory. WRITE and ATOMIC each include READ. */
struct nvlf_ioc_mem_export {
	__u32 size;
	__u32 handle;
	__u32 access; /* NVLF_ACCESS_* */
	__u32 scope;
	__u32 scope_index;
	__u32 reserved;
	__u8 token[NVLF_TOKEN_LEN]; /* out */
};

/* MEM_IMPORT - memory by token. Without WRITE and ATOMIC in `access` the descriptor cannot be mapped writable. */
struct nvlf_ioc_mem_import {
	__u32 size;
	__u32 reserved;
	__u8 token[NVLF_TOKEN_LEN];
	__aligned_u64 fla; /* out, and all that follows */
	__aligned_u64 bytes;
	__u32 handle;
	__u32 device;
	__u32 access;
	__u32 mem_fd;
};

/*
 * MEM_OPEN - memory by name, for processes that have no way to tell each other a token. It belongs to nobody: memory and
 * name live as long as an open file has it open, and end with the last. With NVLF_OPEN_CREATE it is made when there is
 * none of that name, on `device`, of `bytes`, and counts to its maker's quota; else `device` and `bytes` are out only,
 * and ENOENT says that there is none. `access` is what the caller wants: without WRITE and ATOMIC the descriptor cannot
 * be mapped writable. Given back by MEM_RELEASE.
 */
#define NVLF_OPEN_CREATE 1U
#define NVLF_MEM_NAME_LEN 64 /* Includes the NUL. */

struct nvlf_ioc_mem_open {
	__u32 size;
	__u32 flags; /* NVLF_OPEN_* */
	__u32 device; /* in, out */
	__u32 access; /* NVLF_ACCESS_* */
	__aligned_u64 bytes; /* in: wanted; out: rounded, what it has */
	char name[NVLF_MEM_NAME_LEN];
	__aligned_u64 fla; /* out, and all that follows */
	__u32 handle;
	__u32 mem_fd;
	__u32 created; /* 1: by this call. */
	__u32 reserved;
};

/*
 * EP_PUBLISH - an endpoint on a device. `region` is the handle of memory of the caller's that starts with a struct
 * nvlf_region: whoever connects gets it read-only. `doorbell_fd` is an eventfd that peers signal. `notice_fd` polls
 * readable after `notices` in the endpoint's state word changed, and hung up when the carrier is gone; read() it to
 * the end (EAGAIN) and throw away what it says. The two differ because a peer can make a shared eventfd block, which
 * the carrier must never do.
 */
struct nvlf_ioc_ep_publish {
	__u32 size;
	__u32 device;
	__aligned_u64 service; /* Unique on the device; 0: none. */
	__u32 region;
	__u32 flags; /* None defined. */
	__u32 doorbell_fd; /* out, and all that follows */
	__u32 notice_fd;
	struct nvlf_addr addr;
};

/* EP_WITHDRAW - ends an endpoint of the caller's; its peers are told. */
struct nvlf_ioc_ep_withdraw {
	__u32 size;
	__u32 endpoint;
};

/* EP_LOOKUP - completes a service address, or confirms that an endpoint lives (ESTALE when it does not). */
struct nvlf_ioc_ep_lookup {
	__u32 size;
	__u32 reserved;
	struct nvlf_addr addr; /* in, out */
};

/*
 * EP_CONNECT - first contact between the caller's `endpoint` and the endpoint at `addr`. Makes the channel of lane.h
 * and offers it to the other side, which takes it with EP_ACCEPT; messages may be sent at once. When the other side
 * was first, this takes its offer: either way both then hold the one channel, and EEXIST says that the caller has it
 * already. An endpoint may connect to itself: `side` is then 0, and both lanes are its own.
 *
 * EP_ACCEPT - takes the oldest offer to the caller's `endpoint`, EAGAIN when there is none. `addr` is out only. The maker of an
 * offer may be gone by then (state.h says so): what it had sent is in the channel.
 */
struct nvlf_ioc_ep_connect {
	__u32 size;
	__u32 endpoint;
	struct nvlf_addr addr; /* in, out: complete */
	__u32 side;	       /* out, and all that follows: this end produces into lane `side`. */
	__u32 channel_fd;
	__u32 region_fd; /* The peer's region, read-only. */
	__u32 doorbell_fd;
	__aligned_u64 channel_bytes;
	__aligned_u64 region_bytes;
};

/*
 * EP_PROCESS - who a peer is to the kernel, for those who would copy between address spaces: `process_fd` is a pidfd of
 * the process that opened the file to which the endpoint at `addr` (complete) belongs. It is the kernel's word, given
 * when that file was opened, and not the peer's. Only for whoever has a channel with the peer, ENOENT otherwise;
 * EOPNOTSUPP where the host cannot tell. Holding it grants nothing: what may be done to that process is the kernel's
 * to decide, as for anybody.
 */
struct nvlf_ioc_ep_process {
	__u32 size;
	__u32 endpoint;
	struct nvlf_addr addr;
	__u32 process_fd; /* out */
	__u32 reserved;
};

/*
 * EVENTS - a descriptor that is readable when an event waits; each read() takes one struct nvlf_event. A second call
 * replaces the first descriptor. It is at its end (read() = 0, POLLHUP) when the carrier is gone. Events are told as
 * they happen and may be lost when nobody reads (`lost` counts them); the state region never loses any.
 */
#define NVLF_EVENT_ENDPOINT (1U << 0) /* A peer of an endpoint of this file is gone. */
#define NVLF_EVENT_LINK (1U << 1)
#define NVLF_EVENT_DEVICE (1U << 2)
#define NVLF_EVENT_SWITCH (1U << 3)
#define NVLF_EVENT_MEMORY (1U << 4) /* Memory that this file imported was freed by its owner. */
#define NVLF_EVENT_FABRIC (1U << 5) /* The clock changed, or the fabric goes down. */

struct nvlf_ioc_events {
	__u32 size;
	__u32 mask;
	__u32 event_fd; /* out */
	__u32 reserved;
};

struct nvlf_event {
	__u32 type;  /* One NVLF_EVENT_* */
	__u32 index; /* Of the endpoint, link, device or switch; handle of the memory. */
	__u32 state; /* NVLF_STATE_* of links, devices, switches. */
	__u32 lost;  /* Events that did not fit since the last one that did. */
	struct nvlf_addr addr; /* NVLF_EVENT_ENDPOINT: the peer's. */
};

/* ADMIN_STATE - takes a link, device or switch down or up; `width_up` for a link that lost lanes, else 0. */
struct nvlf_ioc_admin_state {
	__u32 size;
	__u32 object; /* NVLF_OBJECT_* */
	__u32 index;
	__u32 state;
	__u32 width_up;
	__u32 reserved;
};

/* ADMIN_CLOCK - see the capability bits for the clocks offered. */
struct nvlf_ioc_admin_clock {
	__u32 size;
	__u32 clock;
	__aligned_u64 dilation_ppm;
};

/* ADMIN_LIMIT - lowers or raises a limit up to its maximum; what already exists stays. */
#define NVLF_LIMIT_CLIENTS 1
#define NVLF_LIMIT_ENDPOINTS 2
#define NVLF_LIMIT_ENDPOINTS_PER_FILE 3
#define NVLF_LIMIT_ALLOCATIONS 4
#define NVLF_LIMIT_IMPORTS_PER_FILE 5
#define NVLF_LIMIT_PENDING_ACCEPTS 6
#define NVLF_LIMIT_QUOTA_BYTES 7

struct nvlf_ioc_admin_limit {
	__u32 size;
	__u32 limit;
	__aligned_u64 value;
};

/* ADMIN_TOPOLOGY - replaces the topology by the state image in `image_fd` (state.h as a file); EBUSY with clients. */
struct nvlf_ioc_admin_topology {
	__u32 size;
	__u32 image_fd;
};

/* ADMIN_DOWN - ends the fabric. Without NVLF_DOWN_FORCE, EBUSY while there are clients other than the caller. */
#define NVLF_DOWN_FORCE 1U

struct nvlf_ioc_admin_down {
	__u32 size;
	__u32 flags;
};

/*
 * The socket. A message is a struct nvlf_msg followed by the command's struct; requests are answered in order, with the
 * same `cmd` and `tag`, and `error` 0 or the errno. An error reply to a message that could not be understood has cmd
 * and tag as far as they could be read, and no struct. At most NVLF_MSG_FDS descriptors go with a message, and a
 * message is at most NVLF_MSG_BYTES long.
 */
#define NVLF_MSG_MAGIC 0x4d464c4eU /* "NLFM" */
#define NVLF_MSG_BYTES 1024
#define NVLF_MSG_FDS 4

struct nvlf_msg {
	__u32 magic;
	__u32 cmd;   /* NVLF_CMD_* */
	__u32 tag;   /* The caller's; comes back. */
	__u32 error; /* 0 in a request; a positive errno in a reply. */
};

/* The layout is the contract: it does not follow from whoever compiles it. */
NVLF_ASSERT_SIZE(nvlf_ioc_info, 240);
NVLF_ASSERT_SIZE(nvlf_ioc_device, 144);
NVLF_ASSERT_SIZE(nvlf_ioc_switch, 112);
NVLF_ASSERT_SIZE(nvlf_ioc_link, 88);
NVLF_ASSERT_SIZE(nvlf_ioc_path, 104);
NVLF_ASSERT_SIZE(nvlf_ioc_state, 32);
NVLF_ASSERT_SIZE(nvlf_ioc_client, 72);
NVLF_ASSERT_SIZE(nvlf_ioc_attach, 8);
NVLF_ASSERT_SIZE(nvlf_ioc_mem_alloc, 40);
NVLF_ASSERT_SIZE(nvlf_ioc_mem_free, 8);
NVLF_ASSERT_SIZE(nvlf_ioc_mem_export, 56);
NVLF_ASSERT_SIZE(nvlf_ioc_mem_import, 72);
NVLF_ASSERT_SIZE(nvlf_ioc_mem_open, 112);
NVLF_ASSERT_SIZE(nvlf_ioc_ep_publish, 64);
NVLF_ASSERT_SIZE(nvlf_ioc_ep_withdraw, 8);
NVLF_ASSERT_SIZE(nvlf_ioc_ep_lookup, 40);
NVLF_ASSERT_SIZE(nvlf_ioc_ep_connect, 72);
NVLF_ASSERT_SIZE(nvlf_ioc_ep_process, 48);
NVLF_ASSERT_SIZE(nvlf_ioc_events, 16);
NVLF_ASSERT_SIZE(nvlf_event, 48);
NVLF_ASSERT_SIZE(nvlf_ioc_admin_state, 24);
NVLF_ASSERT_SIZE(nvlf_ioc_admin_clock, 16);
NVLF_ASSERT_SIZE(nvlf_ioc_admin_limit, 16);
NVLF_ASSERT_SIZE(nvlf_ioc_admin_topology, 8);
NVLF_ASSERT_SIZE(nvlf_ioc_admin_down, 8);
NVLF_ASSERT_SIZE(nvlf_msg, 16);

#endif
