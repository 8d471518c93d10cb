// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A carrier for one test and ways to open it. Everything else in this folder uses nvlf/nvlf.h alone.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "nvlf/nvlf.h"
#include "support/fabric_daemon.hpp"

namespace nvlf::test {

struct Closer {
    void operator()(nvlf_fabric* fabric) const noexcept { nvlf_close(fabric); }
    void operator()(nvlf_mem* mem) const noexcept { nvlf_mem_put(mem); }
    void operator()(nvlf_ep* ep) const noexcept { nvlf_ep_put(ep); }
    void operator()(nvlf_channel* channel) const noexcept { nvlf_channel_put(channel); }
    void operator()(nvlf_snapshot* snapshot) const noexcept { nvlf_snapshot_close(snapshot); }
};
using Fabric = std::unique_ptr<nvlf_fabric, Closer>;
using Mem = std::unique_ptr<nvlf_mem, Closer>;
using Ep = std::unique_ptr<nvlf_ep, Closer>;
using Channel = std::unique_ptr<nvlf_channel, Closer>;
using Snapshot = std::unique_ptr<nvlf_snapshot, Closer>;

[[noreturn]] inline void failed(const char* what, int error) {
    throw std::runtime_error{std::string{what} + " answered " + std::to_string(error) + ' ' + nvlf_open_error()};
}

// Never starts one: a test that finds none has failed.
inline nvlf_open_args args_for(const FabricDaemon& daemon) {
    return {sizeof(nvlf_open_args), NVLF_OPEN_NO_START, daemon.fabric().c_str(), daemon.dir().c_str(), nullptr};
}

inline Fabric open_fabric(const FabricDaemon& daemon) {
    const nvlf_open_args args = args_for(daemon);
    nvlf_fabric* fabric = nullptr;
    if (const int error = nvlf_open(&args, &fabric); error != 0) failed("nvlf_open", error);
    return Fabric{fabric};
}

inline Mem alloc(const Fabric& fabric, std::uint32_t device = 0, std::uint64_t bytes = NVLF_PAGE_SIZE) {
    nvlf_mem* mem = nullptr;
    if (const int error = nvlf_mem_alloc(fabric.get(), device, bytes, 0, &mem); error != 0)
        failed("nvlf_mem_alloc", error);
    return Mem{mem};
}

inline Mem import_token(const Fabric& fabric, const std::uint8_t* token) {
    nvlf_mem* mem = nullptr;
    if (const int error = nvlf_mem_import(fabric.get(), token, &mem); error != 0) failed("nvlf_mem_import", error);
    return Mem{mem};
}

inline void* map(const Mem& mem) {
    void* ptr = nullptr;
    if (const int error = nvlf_mem_map(mem.get(), &ptr); error != 0) failed("nvlf_mem_map", error);
    return ptr;
}

inline Ep publish(const Fabric& fabric, std::uint32_t device = 0, std::uint64_t service = 0) {
    nvlf_ep* ep = nullptr;
    if (const int error = nvlf_ep_publish(fabric.get(), device, service, 4096, &ep); error != 0)
        failed("nvlf_ep_publish", error);
    return Ep{ep};
}

inline Channel connect(const Ep& from, const Ep& to) {
    nvlf_channel* channel = nullptr;
    if (const int error = nvlf_ep_connect(from.get(), nvlf_ep_addr(to.get()), &channel); error != 0)
        failed("nvlf_ep_connect", error);
    return Channel{channel};
}

inline Channel accept(const Ep& ep) {
    nvlf_channel* channel = nullptr;
    if (const int error = nvlf_ep_accept(ep.get(), &channel); error != 0) failed("nvlf_ep_accept", error);
    return Channel{channel};
}

} // namespace nvlf::test
