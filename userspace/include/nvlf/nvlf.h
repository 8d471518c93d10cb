/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * nvlf.h - libnvlf, the userspace driver of an NVLink Fusion fabric.
 *
 * A program opens a fabric, attaches to a device, allocates memory on any device, hands out tokens for it and imports
 * others' by token. All devices share one address space: memory lies at its fabric linear address (FLA) in every
 * process, so a pointer made on a GPU node is good on a Trainium node. Endpoints are for those who write message
 * libraries: each pair shares a channel of two lanes (nvlf/lane.h) in which nobody else takes part.
 *
 * Conventions
 *  - Functions return >= 0 on success and a negative errno otherwise; they do not touch `errno`, do not print, do not
 *    throw, do not install signal handlers, and do not abort. The table of the errnos of the contract is in
 *    nvlf/ioctl.h; below, only what is particular is listed. Each function may answer
 *      -EINVAL      an argument is NULL or out of range
 *      -ENOMEM, -EMFILE  this process has no memory or no descriptor left
 *      -ENODEV      the fabric's carrier is gone: every further call says so
 *      -EPROTO      the carrier said something impossible; it then counts as gone
 *      -ETIMEDOUT   it did not answer in 10 s; it then counts as gone
 *      -EOWNERDEAD  this process was forked from the one that opened the fabric, see below
 *  - ret_* arguments come last and are untouched on failure.
 *  - Functions that ask the carrier block for one round trip to it (tens of microseconds); those that do not are
 *    marked "local".
 *  - An object may be used by several threads at once unless stated otherwise. Closing it while another thread
 *    uses it is the caller's mistake.
 *  - close and put functions accept NULL.
 *  - After fork() an open fabric is the parent's alone. In the child, which may put and close what it inherited, all
 *    that asks the carrier answers -EOWNERDEAD; memory that was mapped stays readable and writable. The child may open
 *    the fabric anew.
 *
 * Environment: NVLF_DIR (socket directory), NVLF_FABRIC (name, default "default"), NVLF_DEVICE (device that
 * nvlf_attach(ANY) takes, by name or index), NVLF_TOPOLOGY (preset or file for a fabric started on demand), NVLF_NVLFD
 * (path of the daemon), NVLF_ON_DEMAND=0 (never start a daemon).
 */
#ifndef NVLF_NVLF_H
#define NVLF_NVLF_H

#include <stddef.h>
#include <stdint.h>

#include "nvlf/device.h"
#include "nvlf/ioctl.h"
#include "nvlf/lane.h"
#include "nvlf/state.h"

#ifdef __cplusplus
#define NVLF_NOEXCEPT noexcept
extern "C" {
#else
#define NVLF_NOEXCEPT
#endif

#define NVLF_API __attribute__((visibility("default")))

#define NVLF_VERSION_MAJOR 0
#define NVLF_VERSION_MINOR 1
#define NVLF_VERSION_PATCH 0

struct nvlf_fabric;   /* An open fabric: one client of its carrier. */
struct nvlf_mem;      /* Memory, allocated or imported. */
struct nvlf_ep;       /* A published endpoint. */
struct nvlf_channel;  /* What an endpoint shares with one peer. */
struct nvlf_snapshot; /* A view of a fabric's topology, running or not. */

/* ---- The fabric ------------------------------------------------------------------------------------------------ */

#define NVLF_OPEN_NO_START 1U /* Do not start a daemon on demand: -ENOENT when no fabric runs. */
#define NVLF_OPEN_GUEST 2U    /* To look around and administer will do, where the limit of clients is reached. */

struct nvlf_open_args {
    uint32_t size;        /* sizeof(struct nvlf_open_args) */
    uint32_t flags;       /* NVLF_OPEN_* */
    const char* fabric;   /* NULL: NVLF_FABRIC, else "default". */
    const char* dir;      /* NULL: NVLF_DIR, else $XDG_RUNTIME_DIR/nvlf, else nvlf-<uid> in the temporary folder. */
    const char* topology; /* For a daemon started on demand. NULL: NVLF_TOPOLOGY, else the default preset. */
};

/*
 * Opens a fabric, starting its daemon on demand unless told not to; `args` may be NULL. On failure nvlf_open_error()
 * in the same thread tells in words what was tried and what to do.
 *  -ENOENT           no such fabric runs, and none was to be started; or no daemon binary was found
 *  -EACCES           the socket directory or the socket belongs to somebody else, or its mode lets others in
 *  -ENAMETOOLONG     the fabric's name or the directory is too long for a socket's address
 *  -EPROTONOSUPPORT  the daemon speaks another major version of the contract
 *  -EMFILE           the fabric has as many clients as it may (and NVLF_OPEN_GUEST was not given)
 *  -ETIMEDOUT        the daemon did not answer in 10 s
 */
NVLF_API int nvlf_open(const struct nvlf_open_args* args, struct nvlf_fabric** ret_fabric) NVLF_NOEXCEPT;

/* Local. Why the last nvlf_open or nvlf_snapshot_open of this thread failed. Valid until the thread's next call. */
NVLF_API const char* nvlf_open_error(void) NVLF_NOEXCEPT;

/*
 * Ends the client. Its memory, imports, endpoints and channels must have been put before: -EBUSY otherwise, and nothing
 * happened. (The end of the process needs none of that.)
 */
NVLF_API int nvlf_close(struct nvlf_fabric* fabric) NVLF_NOEXCEPT;

/* GET_INFO. */
NVLF_API int nvlf_get_info(struct nvlf_fabric* fabric, struct nvlf_ioc_info* ret_info) NVLF_NOEXCEPT;

/* Local. The state region, valid until nvlf_close, its length in *ret_bytes. Read live words with atomic loads. */
NVLF_API const struct nvlf_state* nvlf_state_region(struct nvlf_fabric* fabric, size_t* ret_bytes) NVLF_NOEXCEPT;

/* Local. The shared region: one nvlf_link_shared a directed link, *ret_count of them. Valid until nvlf_close. */
NVLF_API struct nvlf_link_shared* nvlf_shared_region(struct nvlf_fabric* fabric, size_t* ret_count) NVLF_NOEXCEPT;

/*
 * Local, no system call. 1 while the carrier serves, 0 when it has said goodbye or an earlier call found it gone. A daemon
 * that was killed is noticed by nvlf_poll_alive only.
 */
NVLF_API int nvlf_alive(struct nvlf_fabric* fabric) NVLF_NOEXCEPT;

/* As nvlf_alive, with one poll() on the connection always: notices a carrier that was killed. */
NVLF_API int nvlf_poll_alive(struct nvlf_fabric* fabric) NVLF_NOEXCEPT;

/* ---- Devices and paths ----------------------------------------------------------------------------------------- */

NVLF_API int nvlf_get_device(struct nvlf_fabric* fabric, uint32_t index, struct nvlf_device* ret_device) NVLF_NOEXCEPT;
NVLF_API int nvlf_get_switch(struct nvlf_fabric* fabric, uint32_t index, struct nvlf_switch* ret_switch) NVLF_NOEXCEPT;
NVLF_API int nvlf_get_link(struct nvlf_fabric* fabric, uint32_t index, struct nvlf_link* ret_link) NVLF_NOEXCEPT;

/* Finds a device by name ("trn0") or decimal index. -ENODEV when there is none. */
NVLF_API int nvlf_find_device(struct nvlf_fabric* fabric, const char* name, uint32_t* ret_index) NVLF_NOEXCEPT;

/* GET_PATH: `size`, `src` and `dst` are set by the call. -ENOENT when nothing connects the two. */
NVLF_API int nvlf_get_path(struct nvlf_fabric* fabric, uint32_t src, uint32_t dst,
                           struct nvlf_ioc_path* ret_path) NVLF_NOEXCEPT;

/*
 * The device for which this process acts. NVLF_DEVICE_ANY: NVLF_DEVICE of the environment, else the local rank that a
 * launcher gave (OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID, PMI_LOCAL_RANK) modulo the number of
 * devices, else the device with the fewest clients. -EHOSTDOWN when it is down; -EINVAL when the environment names none.
 */
NVLF_API int nvlf_attach(struct nvlf_fabric* fabric, uint32_t device, uint32_t* ret_device) NVLF_NOEXCEPT;

/* GET_CLIENT and the ADMIN_* commands. For the owner of the fabric: -EPERM otherwise. */
NVLF_API int nvlf_get_client(struct nvlf_fabric* fabric, uint32_t index,
                             struct nvlf_ioc_client* ret_client) NVLF_NOEXCEPT;
NVLF_API int nvlf_admin_state(struct nvlf_fabric* fabric, uint32_t object, uint32_t index, uint32_t state,
                              uint32_t width_up) NVLF_NOEXCEPT;
NVLF_API int nvlf_admin_clock(struct nvlf_fabric* fabric, uint32_t clock, uint64_t dilation_ppm) NVLF_NOEXCEPT;
NVLF_API int nvlf_admin_limit(struct nvlf_fabric* fabric, uint32_t limit, uint64_t value) NVLF_NOEXCEPT;
NVLF_API int nvlf_admin_down(struct nvlf_fabric* fabric, uint32_t flags) NVLF_NOEXCEPT;

/* ---- A view without taking part --------------------------------------------------------------------------------- */

/*
 * What devices are there, or would be? With a fabric running, its state region; otherwise the image of the preset
 * `args->topology` (NVLF_TOPOLOGY, the default preset) that was installed with the library. Never starts anything and
 * leaves no client behind. -ENOENT: no fabric runs and there is no image of that name (a topology *file* has none).
 */
NVLF_API int nvlf_snapshot_open(const struct nvlf_open_args* args, struct nvlf_snapshot** ret_snapshot) NVLF_NOEXCEPT;
NVLF_API void nvlf_snapshot_close(struct nvlf_snapshot* snapshot) NVLF_NOEXCEPT;

/* Local. The region (serving = 0 when it is an image); checked: offsets and counts in it are within *ret_bytes. */
NVLF_API const struct nvlf_state* nvlf_snapshot_state(const struct nvlf_snapshot* snapshot,
                                                      size_t* ret_bytes) NVLF_NOEXCEPT;

/* Local. Descriptor arrays within a checked state region, as long as its counts say. */
NVLF_API const struct nvlf_device* nvlf_state_devices(const struct nvlf_state* state) NVLF_NOEXCEPT;
NVLF_API const struct nvlf_switch* nvlf_state_switches(const struct nvlf_state* state) NVLF_NOEXCEPT;
NVLF_API const struct nvlf_link* nvlf_state_links(const struct nvlf_state* state) NVLF_NOEXCEPT;
NVLF_API const struct nvlf_state_endpoint* nvlf_state_endpoints(const struct nvlf_state* state) NVLF_NOEXCEPT;

/*
 * Local. The device that nvlf_attach(NVLF_DEVICE_ANY) would take on this state; same rules, same errors. For callers
 * that must tell before they attach.
 */
NVLF_API int nvlf_state_pick_device(const struct nvlf_state* state, uint32_t* ret_device) NVLF_NOEXCEPT;

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

/* Memory on `device`, zeroed, `bytes` rounded up to 2 MiB. -ENOSPC, -EDQUOT, -EMFILE, -EHOSTDOWN. */
NVLF_API int nvlf_mem_alloc(struct nvlf_fabric* fabric, uint32_t device, uint64_t bytes, uint32_t flags,
                            struct nvlf_mem** ret_mem) NVLF_NOEXCEPT;

/* A token for this memory, which must have been allocated here: -EPERM on imported memory. */
NVLF_API int nvlf_mem_export(struct nvlf_mem* mem, uint32_t access, uint8_t ret_token[NVLF_TOKEN_LEN]) NVLF_NOEXCEPT;

/* Memory by token. -EACCES: not a token of this fabric, or its memory is gone, or its scope leaves us out. */
NVLF_API int nvlf_mem_import(struct nvlf_fabric* fabric, const uint8_t token[NVLF_TOKEN_LEN],
                             struct nvlf_mem** ret_mem) NVLF_NOEXCEPT;

/*
 * Memory by name, shared by all who open it (MEM_OPEN): it lives as long as one of them has it open. With NVLF_OPEN_CREATE
 * in `flags` it is made when there is none, on `device`, of `bytes`; both are ignored otherwise. 1 when this call made it,
 * 0 when it was there; -ENOENT there is none, -ENAMETOOLONG, and the errnos of nvlf_mem_alloc. Cannot be exported.
 */
NVLF_API int nvlf_mem_open(struct nvlf_fabric* fabric, const char* name, uint32_t access, uint32_t flags,
                           uint32_t device, uint64_t bytes, struct nvlf_mem** ret_mem) NVLF_NOEXCEPT;

/*
 * Gives back a reference; with the last one the memory is unmapped and freed or released. Pointers into it become
 * invalid, unless the same memory is mapped through another nvlf_mem; importers elsewhere keep what they mapped. The
 * object is gone whatever is returned.
 */
NVLF_API int nvlf_mem_put(struct nvlf_mem* mem) NVLF_NOEXCEPT;

/*
 * Maps the memory and answers a pointer that is its fabric address, the same in each process. Where this process could
 * not reserve the fabric's arena (nvlf_translates() = 1) the pointer differs from the address. Repeated calls answer
 * the same pointer. Imported memory without WRITE and ATOMIC is mapped read-only.
 */
NVLF_API int nvlf_mem_map(struct nvlf_mem* mem, void** ret_ptr) NVLF_NOEXCEPT;

/* Local. */
NVLF_API uint64_t nvlf_mem_fla(const struct nvlf_mem* mem) NVLF_NOEXCEPT;
NVLF_API uint64_t nvlf_mem_bytes(const struct nvlf_mem* mem) NVLF_NOEXCEPT;
NVLF_API uint32_t nvlf_mem_device(const struct nvlf_mem* mem) NVLF_NOEXCEPT;
NVLF_API uint32_t nvlf_mem_access(const struct nvlf_mem* mem) NVLF_NOEXCEPT;

/* Local. The memory's descriptor, for those who map it themselves (a dma-buf or memfd importer). Owned by `mem`. */
NVLF_API int nvlf_mem_fd(const struct nvlf_mem* mem) NVLF_NOEXCEPT;

/*
 * Local. The mapped memory that holds all of [ptr, ptr + bytes), whichever open fabric of this process mapped it, with
 * a reference that the caller gives back by nvlf_mem_put. -ENOENT when there is none.
 */
NVLF_API int nvlf_mem_find(const void* ptr, uint64_t bytes, struct nvlf_mem** ret_mem) NVLF_NOEXCEPT;

/*
 * Local. The mapped memory whose object `fd` refers to (nvlf_mem_fd, a duplicate of it, or one that was passed on), with a
 * reference as above. -ENOENT when there is none, -EBADF.
 */
NVLF_API int nvlf_mem_find_fd(int fd, struct nvlf_mem** ret_mem) NVLF_NOEXCEPT;

/* Local. The fabric on which this memory was allocated or imported. */
NVLF_API struct nvlf_fabric* nvlf_mem_fabric(const struct nvlf_mem* mem) NVLF_NOEXCEPT;

/* Local. 1 when pointers and fabric addresses differ in this process, 0 when they are one. */
NVLF_API int nvlf_translates(const struct nvlf_fabric* fabric) NVLF_NOEXCEPT;

/* Local. The pointer for a fabric address, NULL when no mapped memory holds all of [fla, fla + bytes); the reverse, 0. */
NVLF_API void* nvlf_ptr(struct nvlf_fabric* fabric, uint64_t fla, uint64_t bytes) NVLF_NOEXCEPT;
NVLF_API uint64_t nvlf_fla(struct nvlf_fabric* fabric, const void* ptr) NVLF_NOEXCEPT;

/* ---- Endpoints and channels ------------------------------------------------------------------------------------ */

/*
 * Publishes an endpoint on `device`. `service` is a name unique on the device, or 0 (see nvlf_service). The library
 * allocates the region of `region_bytes` (at least sizeof(struct nvlf_region)), fills in its header, and maps it
 * writable here: nvlf_ep_region. -EADDRINUSE, -EMFILE.
 */
NVLF_API int nvlf_ep_publish(struct nvlf_fabric* fabric, uint32_t device, uint64_t service, uint64_t region_bytes,
                             struct nvlf_ep** ret_ep) NVLF_NOEXCEPT;

/* Withdraws it. Its channels must have been put: -EBUSY. */
NVLF_API int nvlf_ep_put(struct nvlf_ep* ep) NVLF_NOEXCEPT;

/* Local. Both live as long as the endpoint. */
NVLF_API const struct nvlf_addr* nvlf_ep_addr(const struct nvlf_ep* ep) NVLF_NOEXCEPT;
NVLF_API struct nvlf_region* nvlf_ep_region(const struct nvlf_ep* ep) NVLF_NOEXCEPT;

/* Local. The service number of a name: a decimal number stands for itself; other names hash to >= 2^63. NULL, "": 0. */
NVLF_API uint64_t nvlf_service(const char* name) NVLF_NOEXCEPT;

/* EP_LOOKUP: completes or confirms *addr. -ENOENT no such service, -ESTALE gone, -EXDEV another fabric's. */
NVLF_API int nvlf_ep_lookup(struct nvlf_fabric* fabric, struct nvlf_addr* addr) NVLF_NOEXCEPT;

/*
 * EP_CONNECT. -ENOENT, -ESTALE, -EXDEV as above; -EEXIST when the two have a channel already. An endpoint may connect to
 * itself, once (-EBUSY): both lanes are then the same one.
 */
NVLF_API int nvlf_ep_connect(struct nvlf_ep* ep, const struct nvlf_addr* peer,
                             struct nvlf_channel** ret_channel) NVLF_NOEXCEPT;

/* EP_ACCEPT: the oldest offer. -EAGAIN when nobody waits; nvlf_ep_notices tells when to ask. */
NVLF_API int nvlf_ep_accept(struct nvlf_ep* ep, struct nvlf_channel** ret_channel) NVLF_NOEXCEPT;

/* Local, one load. Changes when there may be a channel to accept or a peer died. */
NVLF_API uint32_t nvlf_ep_notices(const struct nvlf_ep* ep) NVLF_NOEXCEPT;

/* Gives up this end. The two endpoints get no other channel: putting it is for the end of an endpoint or of its peer. */
NVLF_API void nvlf_channel_put(struct nvlf_channel* channel) NVLF_NOEXCEPT;

/* Local. Live as long as the channel. tx is the lane to produce into, rx that to consume from. */
NVLF_API const struct nvlf_addr* nvlf_channel_peer(const struct nvlf_channel* channel) NVLF_NOEXCEPT;
NVLF_API struct nvlf_lane* nvlf_channel_tx(const struct nvlf_channel* channel) NVLF_NOEXCEPT;
NVLF_API struct nvlf_lane* nvlf_channel_rx(const struct nvlf_channel* channel) NVLF_NOEXCEPT;

/* Local. The peer's region, mapped read-only and written by a stranger. Lives as long as the channel. */
NVLF_API const struct nvlf_region* nvlf_channel_region(const struct nvlf_channel* channel,
                                                       size_t* ret_bytes) NVLF_NOEXCEPT;

/* Local, one load. 1 while the peer lives (and the carrier would say otherwise), 0 when it is gone for good. */
NVLF_API int nvlf_channel_alive(const struct nvlf_channel* channel) NVLF_NOEXCEPT;

/*
 * EP_PROCESS: a pidfd of the peer's process, which the caller closes. It is the kernel's word, not the peer's: what one
 * needs to know before one copies between address spaces (process_vm_readv(2)). -ESTALE the peer is gone, -EOPNOTSUPP
 * or -ENOTTY the carrier cannot tell, -EMFILE no descriptor is left.
 */
NVLF_API int nvlf_channel_process(const struct nvlf_channel* channel, int* ret_fd) NVLF_NOEXCEPT;

/* ---- Sleeping and waking ---------------------------------------------------------------------------------------- */

/*
 * Producer: call after publishing slots. Local while the peer is awake (one load); else one write() to its doorbell,
 * at most once for each time that it falls asleep. One thread at a time a channel.
 */
NVLF_API void nvlf_channel_notify(struct nvlf_channel* channel) NVLF_NOEXCEPT;

/*
 * Consumer: a descriptor that polls readable when a doorbell rang, an event waits or the carrier is gone. To sleep: arm,
 * look at every lane and at nvlf_ep_notices once more, then poll. Disarm afterwards: it also drains the doorbell.
 * One thread at a time an endpoint. Cost of arm: one membarrier() system call, a few microseconds.
 */
NVLF_API int nvlf_ep_wait_fd(const struct nvlf_ep* ep) NVLF_NOEXCEPT;
NVLF_API void nvlf_ep_arm(struct nvlf_ep* ep) NVLF_NOEXCEPT;
NVLF_API void nvlf_ep_disarm(struct nvlf_ep* ep) NVLF_NOEXCEPT;

/* Rings the endpoint's own doorbell, to wake a thread that sleeps on its descriptor (fi_cq_signal). */
NVLF_API void nvlf_ep_ring(struct nvlf_ep* ep) NVLF_NOEXCEPT;

/* ---- Events ---------------------------------------------------------------------------------------------------- */

/* The events named in `mask` (NVLF_EVENT_*) from now on. */
NVLF_API int nvlf_events(struct nvlf_fabric* fabric, uint32_t mask) NVLF_NOEXCEPT;

/*
 * Local. Polls readable when nvlf_event_read would answer; owned by the fabric, until the next nvlf_events.
 * -ENOENT before nvlf_events.
 */
NVLF_API int nvlf_event_fd(const struct nvlf_fabric* fabric) NVLF_NOEXCEPT;

/* Local. One event. -EAGAIN when none waits, -ENODEV when the carrier is gone. */
NVLF_API int nvlf_event_read(struct nvlf_fabric* fabric, struct nvlf_event* ret_event) NVLF_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
