/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * fi_nvlf.h - what libfabric's provider "nvlf" offers beside libfabric: memory of the fabric's devices.
 *
 * Remote access to ordinary memory goes through the target's processor. Memory of the fabric is mapped by the peer, and
 * then a write is a store and an atomic operation an instruction of the initiator's; the target does nothing. So what is to
 * be reached fast is allocated from the fabric. An application that links libnvlf uses nvlf_mem_alloc (nvlf/nvlf.h); one
 * that knows only libfabric does the same through this table, which it gets from an open domain or fabric:
 *
 *     struct nvlf_fi_ops_v1 *ops;
 *     if (fi_open_ops(&domain->fid, NVLF_FI_OPS_V1, 0, (void **)&ops, NULL) == 0)
 *         ops->alloc(domain, NVLF_DEVICE_ANY, bytes, &mem, &ptr);   (then fi_mr_reg(domain, ptr, bytes, ...) as ever)
 *
 * With another provider fi_open_ops answers -FI_ENOSYS, and the application goes on with malloc.
 *
 * Conventions: functions return 0 or a negative FI_E* code, are safe to call from several threads, and leave their ret_*
 * arguments alone on failure. Each may answer -FI_EINVAL (an argument is NULL, out of range, or no domain of this provider),
 * -FI_ENOMEM, -FI_EMFILE, -FI_ENODEV (the fabric is gone), -EOWNERDEAD (in a forked child, the domain is its parent's).
 */
#ifndef NVLF_FI_NVLF_H
#define NVLF_FI_NVLF_H

#include <stddef.h>
#include <stdint.h>

#include "nvlf/device.h"
#include "nvlf/ioctl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For fi_open_ops. The table lives as long as the provider is loaded. */
#define NVLF_FI_OPS_V1 "nvlf ops v1"

struct fid_domain;

/* Memory of a device, allocated or imported through a domain. It keeps the domain from being closed (-FI_EBUSY). */
struct nvlf_fi_mem;

/* Where an address of this process lies in the fabric. */
struct nvlf_fi_place {
    void* base;      /* First byte of the allocation, */
    uint64_t bytes;  /* its length, */
    uint64_t fla;    /* and its fabric address: the same in each process, and base itself in most. */
    uint32_t device; /* Index of the device that it is on. */
    uint32_t access; /* NVLF_ACCESS_*: what this process may do with it. */
    int32_t iface;   /* As fi_mr_attr.iface names the device's kind (FI_HMEM_CUDA, FI_HMEM_NEURON), */
    int32_t ordinal; /* and fi_mr_attr.device: its number among the devices of that kind. */
};

struct nvlf_fi_ops_v1 {
    size_t size; /* Of the table as the provider knows it: look before you call what lies beyond the first version. */

    /*
     * Zeroed memory on a device (NVLF_DEVICE_ANY: the domain's own), `bytes` rounded up to 2 MiB, mapped. A round trip to
     * the fabric's daemon, tens of microseconds. -FI_ENOSPC: the device is full. -EDQUOT: this client may have no
     * more. -FI_EHOSTDOWN: the device is down.
     */
    int (*alloc)(struct fid_domain* domain, uint32_t device, uint64_t bytes, struct nvlf_fi_mem** ret_mem,
                 void** ret_ptr);

    /*
     * Gives memory back, allocated or imported. Registrations of it must be closed before; importers elsewhere keep what
     * they mapped. NULL does nothing.
     */
    int (*free)(struct nvlf_fi_mem* mem);

    /*
     * A token by which another process of this fabric imports the memory, with the rights `access` (NVLF_ACCESS_*). Send
     * it by whatever means, it is a secret like a key. Needs no registration. -FI_EPERM: the memory was imported itself.
     */
    int (*export_token)(struct nvlf_fi_mem* mem, uint32_t access, uint8_t ret_token[NVLF_TOKEN_LEN]);

    /*
     * Maps the memory behind a token: at the same address in each process, read-only without NVLF_ACCESS_WRITE or _ATOMIC.
     * -FI_EACCES: no such token in this fabric.
     */
    int (*import_token)(struct fid_domain* domain, const uint8_t token[NVLF_TOKEN_LEN], struct nvlf_fi_mem** ret_mem,
                        void** ret_ptr);

    /* The memory's descriptor (for mmap, or FI_MR_DMABUF), which stays the memory's. Does not block. */
    int (*descriptor)(const struct nvlf_fi_mem* mem, int* ret_fd);

    /*
     * Where [ptr, ptr + bytes) lies in the domain's fabric, whoever of this process mapped it there. Does not block.
     * -FI_ENOENT: not in memory of that fabric, or not in one allocation.
     */
    int (*query)(struct fid_domain* domain, const void* ptr, uint64_t bytes, struct nvlf_fi_place* ret_place);

    /* Index of the device for which a domain acts. Does not block. */
    int (*domain_device)(struct fid_domain* domain, uint32_t* ret_device);

    /* A device by its index, counted from 0, as it is now. A round trip. -FI_EINVAL past the last one. */
    int (*device)(struct fid_domain* domain, uint32_t index, struct nvlf_device* ret_device);
};

#ifdef __cplusplus
}
#endif

#endif
