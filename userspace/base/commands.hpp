// SPDX-License-Identifier: MIT OR GPL-2.0-only
// commands.hpp - the table of the contract: each command, the size of its struct, and where descriptors lie in it.
//
// Both ends of the control socket walk this one table, so a command cannot mean two things. On the wire a descriptor
// field holds an index into the message's SCM_RIGHTS array; the receiving end puts the real descriptor in its place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "nvlf/ioctl.h"

namespace nvlf {

struct Command {
    std::uint32_t cmd;
    std::uint32_t size; // Of the struct, as this build knows it.
    const char* name;
    std::array<std::uint16_t, 3> fd_at; // Offsets of __u32 descriptor fields; 0 ends the list (offset 0 is `size`).
    bool fds_from_client;               // The descriptors go to the carrier rather than come from it.
};

namespace detail {
template <class T>
constexpr Command command(std::uint32_t cmd, const char* name, std::array<std::uint16_t, 3> fd_at = {},
                          bool fds_from_client = false) {
    return {cmd, sizeof(T), name, fd_at, fds_from_client};
}
} // namespace detail

#define NVLF_AT(type, field) static_cast<std::uint16_t>(offsetof(type, field))
inline constexpr std::array commands{
    detail::command<nvlf_ioc_info>(NVLF_CMD_GET_INFO, "GET_INFO"),
    detail::command<nvlf_ioc_device>(NVLF_CMD_GET_DEVICE, "GET_DEVICE"),
    detail::command<nvlf_ioc_switch>(NVLF_CMD_GET_SWITCH, "GET_SWITCH"),
    detail::command<nvlf_ioc_link>(NVLF_CMD_GET_LINK, "GET_LINK"),
    detail::command<nvlf_ioc_path>(NVLF_CMD_GET_PATH, "GET_PATH"),
    detail::command<nvlf_ioc_state>(NVLF_CMD_GET_STATE, "GET_STATE",
                                    {NVLF_AT(nvlf_ioc_state, state_fd), NVLF_AT(nvlf_ioc_state, shared_fd)}),
    detail::command<nvlf_ioc_client>(NVLF_CMD_GET_CLIENT, "GET_CLIENT"),
    detail::command<nvlf_ioc_attach>(NVLF_CMD_ATTACH, "ATTACH"),
    detail::command<nvlf_ioc_mem_alloc>(NVLF_CMD_MEM_ALLOC, "MEM_ALLOC", {NVLF_AT(nvlf_ioc_mem_alloc, mem_fd)}),
    detail::command<nvlf_ioc_mem_free>(NVLF_CMD_MEM_FREE, "MEM_FREE"),
    detail::command<nvlf_ioc_mem_export>(NVLF_CMD_MEM_EXPORT, "MEM_EXPORT"),
    detail::command<nvlf_ioc_mem_import>(NVLF_CMD_MEM_IMPORT, "MEM_IMPORT", {NVLF_AT(nvlf_ioc_mem_import, mem_fd)}),
    detail::command<nvlf_ioc_mem_free>(NVLF_CMD_MEM_RELEASE, "MEM_RELEASE"),
    detail::command<nvlf_ioc_mem_open>(NVLF_CMD_MEM_OPEN, "MEM_OPEN", {NVLF_AT(nvlf_ioc_mem_open, mem_fd)}),
    detail::command<nvlf_ioc_ep_publish>(
        NVLF_CMD_EP_PUBLISH, "EP_PUBLISH",
        {NVLF_AT(nvlf_ioc_ep_publish, doorbell_fd), NVLF_AT(nvlf_ioc_ep_publish, notice_fd)}),
    detail::command<nvlf_ioc_ep_withdraw>(NVLF_CMD_EP_WITHDRAW, "EP_WITHDRAW"),
    detail::command<nvlf_ioc_ep_lookup>(NVLF_CMD_EP_LOOKUP, "EP_LOOKUP"),
    detail::command<nvlf_ioc_ep_connect>(NVLF_CMD_EP_CONNECT, "EP_CONNECT",
                                         {NVLF_AT(nvlf_ioc_ep_connect, channel_fd),
                                          NVLF_AT(nvlf_ioc_ep_connect, region_fd),
                                          NVLF_AT(nvlf_ioc_ep_connect, doorbell_fd)}),
    detail::command<nvlf_ioc_ep_connect>(NVLF_CMD_EP_ACCEPT, "EP_ACCEPT",
                                         {NVLF_AT(nvlf_ioc_ep_connect, channel_fd),
                                          NVLF_AT(nvlf_ioc_ep_connect, region_fd),
                                          NVLF_AT(nvlf_ioc_ep_connect, doorbell_fd)}),
    detail::command<nvlf_ioc_ep_process>(NVLF_CMD_EP_PROCESS, "EP_PROCESS", {NVLF_AT(nvlf_ioc_ep_process, process_fd)}),
    detail::command<nvlf_ioc_events>(NVLF_CMD_EVENTS, "EVENTS", {NVLF_AT(nvlf_ioc_events, event_fd)}),
    detail::command<nvlf_ioc_admin_state>(NVLF_CMD_ADMIN_STATE, "ADMIN_STATE"),
    detail::command<nvlf_ioc_admin_clock>(NVLF_CMD_ADMIN_CLOCK, "ADMIN_CLOCK"),
    detail::command<nvlf_ioc_admin_limit>(NVLF_CMD_ADMIN_LIMIT, "ADMIN_LIMIT"),
    detail::command<nvlf_ioc_admin_topology>(NVLF_CMD_ADMIN_TOPOLOGY, "ADMIN_TOPOLOGY",
                                             {NVLF_AT(nvlf_ioc_admin_topology, image_fd)}, true),
    detail::command<nvlf_ioc_admin_down>(NVLF_CMD_ADMIN_DOWN, "ADMIN_DOWN"),
};
#undef NVLF_AT

// nullptr: no such command.
[[nodiscard]] constexpr const Command* find_command(std::uint32_t cmd) noexcept {
    for (const Command& c : commands)
        if (c.cmd == cmd) return &c;
    return nullptr;
}

} // namespace nvlf
