// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "driver/memory.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

using namespace nvlf;

namespace {

// What MEM_ALLOC, MEM_IMPORT and MEM_OPEN answer alike.
struct Answer {
    Fd fd;
    std::uint64_t fla;
    std::uint64_t bytes;
    std::uint32_t handle;
    std::uint32_t device;
    std::uint32_t access;
};

bool sound(const nvlf_fabric& fabric, const Answer& answer, std::uint64_t at_least) noexcept {
    const std::uint64_t page = fabric.info.page_bytes;
    return answer.fd && answer.bytes != 0 && answer.bytes >= at_least && answer.bytes % page == 0 &&
           answer.fla % page == 0 && fabric.arena->holds(answer.fla, answer.bytes) &&
           answer.device < fabric.region().device_count &&
           (answer.access & ~(NVLF_ACCESS_READ | NVLF_ACCESS_WRITE | NVLF_ACCESS_ATOMIC)) == 0 && answer.access != 0 &&
           mappable(fabric.info, answer.fd.get());
}

void fill(nvlf_mem& mem, Answer&& answer, bool imported) noexcept {
    mem.arena = mem.fabric->arena;
    mem.fd = std::move(answer.fd);
    mem.fla = answer.fla;
    mem.bytes = answer.bytes;
    mem.handle = answer.handle;
    mem.device = answer.device;
    mem.access = answer.access;
    mem.imported = imported;
}

int give_back(nvlf_fabric& fabric, std::uint32_t handle, bool imported) noexcept {
    nvlf_ioc_mem_free body{};
    body.handle = handle;
    return fabric.carrier->ask(imported ? NVLF_CMD_MEM_RELEASE : NVLF_CMD_MEM_FREE, body).negative();
}

} // namespace

int nvlf_mem_alloc(nvlf_fabric* fabric, uint32_t device, uint64_t bytes, uint32_t flags, nvlf_mem** ret_mem) noexcept {
    if (fabric == nullptr || ret_mem == nullptr || bytes == 0 || flags != 0) return -EINVAL;
    return guarded([&] {
        // The object first: once the carrier has allocated, nothing may fail for want of memory.
        auto mem = std::make_unique<nvlf_mem>(*fabric);
        nvlf_ioc_mem_alloc body{};
        body.device = device;
        body.bytes = bytes;
        const Errno error = fabric->carrier->ask(NVLF_CMD_MEM_ALLOC, body);
        if (error == Errno{EMFILE} && body.handle != 0) static_cast<void>(give_back(*fabric, body.handle, false));
        if (error.failed()) return error.negative();
        Answer answer{take_fd(body.mem_fd), body.fla,    body.bytes,
                      body.handle,          body.device, NVLF_ACCESS_READ | NVLF_ACCESS_WRITE | NVLF_ACCESS_ATOMIC};
        if (!sound(*fabric, answer, bytes)) return nonsense(*fabric);
        fill(*mem, std::move(answer), false);
        *ret_mem = mem.release();
        return 0;
    });
}

int nvlf_mem_import(nvlf_fabric* fabric, const uint8_t token[NVLF_TOKEN_LEN], nvlf_mem** ret_mem) noexcept {
    if (fabric == nullptr || token == nullptr || ret_mem == nullptr) return -EINVAL;
    return guarded([&] {
        auto mem = std::make_unique<nvlf_mem>(*fabric);
        nvlf_ioc_mem_import body{};
        std::copy_n(token, NVLF_TOKEN_LEN, body.token);
        const Errno error = fabric->carrier->ask(NVLF_CMD_MEM_IMPORT, body);
        if (error == Errno{EMFILE} && body.handle != 0) static_cast<void>(give_back(*fabric, body.handle, true));
        if (error.failed()) return error.negative();
        Answer answer{take_fd(body.mem_fd), body.fla, body.bytes, body.handle, body.device, body.access};
        if (!sound(*fabric, answer, 1)) return nonsense(*fabric);
        fill(*mem, std::move(answer), true);
        *ret_mem = mem.release();
        return 0;
    });
}

int nvlf_mem_open(nvlf_fabric* fabric, const char* name, uint32_t access, uint32_t flags, uint32_t device,
                  uint64_t bytes, nvlf_mem** ret_mem) noexcept {
    if (fabric == nullptr || name == nullptr || ret_mem == nullptr) return -EINVAL;
    const std::size_t length = std::strlen(name);
    if (length >= NVLF_MEM_NAME_LEN) return -ENAMETOOLONG;
    return guarded([&] {
        auto mem = std::make_unique<nvlf_mem>(*fabric);
        nvlf_ioc_mem_open body{};
        std::copy_n(name, length, body.name);
        body.access = access;
        body.flags = flags;
        body.device = device;
        body.bytes = bytes;
        const Errno error = fabric->carrier->ask(NVLF_CMD_MEM_OPEN, body);
        if (error == Errno{EMFILE} && body.handle != 0) static_cast<void>(give_back(*fabric, body.handle, true));
        if (error.failed()) return error.negative();
        const bool created = body.created != 0;
        Answer answer{take_fd(body.mem_fd), body.fla, body.bytes, body.handle, body.device, body.access};
        if (!sound(*fabric, answer, created ? bytes : 1)) return nonsense(*fabric);
        fill(*mem, std::move(answer), true);
        *ret_mem = mem.release();
        return created ? 1 : 0;
    });
}

int nvlf_mem_export(nvlf_mem* mem, uint32_t access, uint8_t ret_token[NVLF_TOKEN_LEN]) noexcept {
    if (mem == nullptr || ret_token == nullptr) return -EINVAL;
    if (mem->imported) return -EPERM;
    nvlf_ioc_mem_export body{};
    body.handle = mem->handle;
    body.access = access;
    body.scope = NVLF_SCOPE_FABRIC;
    if (const Errno error = mem->fabric->carrier->ask(NVLF_CMD_MEM_EXPORT, body); error.failed())
        return error.negative();
    std::copy_n(body.token, NVLF_TOKEN_LEN, ret_token);
    return 0;
}

int nvlf_mem_put(nvlf_mem* mem) noexcept {
    if (mem == nullptr) return 0;
    // acq_rel: what other holders did with the memory comes before its end.
    if (mem->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return 0;
    const std::unique_ptr<nvlf_mem> owned{mem};
    // Unmapped before it is given back: afterwards its address may belong to somebody else.
    address_space().forget(*mem);
    const int error = give_back(*mem->fabric, mem->handle, mem->imported);
    // A carrier that is gone has taken everything back, and a forked child never owned it.
    return error == -ENODEV || error == -EOWNERDEAD ? 0 : error;
}

int nvlf_mem_map(nvlf_mem* mem, void** ret_ptr) noexcept {
    if (mem == nullptr || ret_ptr == nullptr) return -EINVAL;
    return guarded([&] {
        const Result<void*> ptr = address_space().map(*mem);
        if (ptr.error() == Errno{EPROTO}) return nonsense(*mem->fabric);
        if (!ptr) return ptr.error().negative();
        *ret_ptr = *ptr;
        return 0;
    });
}

uint64_t nvlf_mem_fla(const nvlf_mem* mem) noexcept { return mem != nullptr ? mem->fla : 0; }
uint64_t nvlf_mem_bytes(const nvlf_mem* mem) noexcept { return mem != nullptr ? mem->bytes : 0; }
uint32_t nvlf_mem_device(const nvlf_mem* mem) noexcept { return mem != nullptr ? mem->device : NVLF_DEVICE_ANY; }
uint32_t nvlf_mem_access(const nvlf_mem* mem) noexcept { return mem != nullptr ? mem->access : 0; }
int nvlf_mem_fd(const nvlf_mem* mem) noexcept { return mem != nullptr ? mem->fd.get() : -EINVAL; }
nvlf_fabric* nvlf_mem_fabric(const nvlf_mem* mem) noexcept { return mem != nullptr ? mem->fabric.get() : nullptr; }

int nvlf_mem_find(const void* ptr, uint64_t bytes, nvlf_mem** ret_mem) noexcept {
    if (ptr == nullptr || ret_mem == nullptr) return -EINVAL;
    nvlf_mem* mem = address_space().find(reinterpret_cast<std::uintptr_t>(ptr), bytes);
    if (mem == nullptr) return -ENOENT;
    *ret_mem = mem;
    return 0;
}

int nvlf_mem_find_fd(int fd, nvlf_mem** ret_mem) noexcept {
    if (ret_mem == nullptr) return -EINVAL;
    struct stat st {};
    if (::fstat(fd, &st) != 0) return last_errno().negative();
    nvlf_mem* mem = address_space().find_object(st.st_dev, st.st_ino);
    if (mem == nullptr) return -ENOENT;
    *ret_mem = mem;
    return 0;
}

int nvlf_translates(const nvlf_fabric* fabric) noexcept {
    return fabric != nullptr ? static_cast<int>(!fabric->arena->reserved()) : -EINVAL;
}

void* nvlf_ptr(nvlf_fabric* fabric, uint64_t fla, uint64_t bytes) noexcept {
    if (fabric == nullptr) return nullptr;
    return reinterpret_cast<void*>(address_space().pointer(fabric->arena->uuid(), fla, bytes));
}

uint64_t nvlf_fla(nvlf_fabric* fabric, const void* ptr) noexcept {
    if (fabric == nullptr || ptr == nullptr) return 0;
    return address_space().address(fabric->arena->uuid(), reinterpret_cast<std::uintptr_t>(ptr));
}
