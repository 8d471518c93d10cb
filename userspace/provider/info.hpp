// SPDX-License-Identifier: MIT OR GPL-2.0-only
// info.hpp - what the provider offers, and whether that is what an application wants.
//
// The rules of fi_getinfo are the core's own providers' (prov/util): capabilities and orders are sets of which the
// application takes a part, threading and progress are levels, sizes are upper bounds which are answered as asked. What
// an application demanded must come back as it demanded it, because clients compare.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

#include "av.hpp"
#include "buffers.hpp"
#include "nvlf/nvlf.h"

namespace nvlf::ofi {

inline constexpr std::uint32_t protocol_nvlf = 0x80000000U | 1; // Uppermost bit: a provider's own.
inline constexpr std::uint32_t protocol_version = 1;

inline constexpr std::size_t inject_size = 4096;
inline constexpr std::size_t max_msg_prefix = 256; // Limits of messages do not count it.
inline constexpr std::size_t rma_iov_limit = iov_limit;
inline constexpr std::size_t queue_size = 1024; // Of a transmit and a receive context.
inline constexpr std::size_t contexts_per_ep = std::size_t{1} << rx_ctx_bits_limit; // Of either kind.
inline constexpr std::size_t cq_data_size = sizeof(std::uint64_t);
inline constexpr std::size_t mr_key_size = sizeof(std::uint64_t);
// More than a process can address, less than what makes sums of four lengths overflow.
inline constexpr std::size_t max_msg_size = std::size_t{1} << 40;
// Every bit is a field of its own: any mask may be used.
inline constexpr std::uint64_t mem_tag_format = 0xaaaaaaaaaaaaaaaaULL;

inline constexpr std::uint64_t tx_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_COLLECTIVE | FI_HMEM | FI_FENCE |
                                         FI_NAMED_RX_CTX | FI_TRIGGER | FI_SEND | FI_READ | FI_WRITE;
inline constexpr std::uint64_t rx_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_COLLECTIVE | FI_HMEM | FI_RECV |
                                         FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SOURCE | FI_SOURCE_ERR |
                                         FI_DIRECTED_RECV | FI_MULTI_RECV | FI_TRIGGER | FI_RMA_EVENT;
inline constexpr std::uint64_t domain_caps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV | FI_AV_USER_ID;
inline constexpr std::uint64_t all_caps = tx_caps | rx_caps | domain_caps;

inline constexpr std::uint64_t tx_op_flags =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
// Of these, what only the receiver can tell. Its answer means both: that the message found a receive, and is there.
inline constexpr std::uint64_t acknowledged_flags = FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
inline constexpr std::uint64_t rx_op_flags = FI_COMPLETION | FI_MULTI_RECV;
// Orders that hold in any case,
inline constexpr std::uint64_t free_order =
    FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW |
    FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
// and with those that an application has to ask for (waiting.cc), which are all there are.
inline constexpr std::uint64_t msg_order =
    free_order | FI_ORDER_WAR | FI_ORDER_RMA_WAR | FI_ORDER_SAR | FI_ORDER_RAS | FI_ORDER_WAS;

// Modes of memory registration. We require none. The first three say how peers name memory: by virtual address, with
// pages behind it, with keys of ours ("basic"), or else by offset with the application's keys.
inline constexpr int mr_mode_basic_bits = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
// All that a domain honours when it is opened with it. Those that are duties of the application towards a provider which
// needs them are never granted, but an application may impose them on itself.
inline constexpr int mr_mode_bits_known = mr_mode_basic_bits | FI_MR_LOCAL | FI_MR_RAW | FI_MR_MMU_NOTIFY |
                                          FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_COLLECTIVE;

// fi_getinfo.
int getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
            fi_info** ret_info) noexcept;

// 0, or -FI_ENODATA when it asks for more than we offer. NULL attributes ask for nothing. For hints, and for the infos
// that fi_domain and fi_endpoint are called with, because an application may have edited them.
[[nodiscard]] int check_info(std::uint32_t version, const fi_info& info) noexcept;

// Sets everything but names and addresses: what we offer, as far as the hints (may be NULL) want it.
void fill_info(std::uint32_t version, const fi_info* hints, fi_info& info) noexcept;

// The same for one context of an endpoint or domain with these capabilities.
[[nodiscard]] int check_tx_attr(const fi_tx_attr& attr, std::uint64_t caps) noexcept;
[[nodiscard]] int check_rx_attr(const fi_rx_attr& attr, std::uint64_t caps) noexcept;
void fill_tx_attr(fi_tx_attr& attr, std::uint64_t caps, std::uint64_t order) noexcept;
void fill_rx_attr(fi_rx_attr& attr, std::uint64_t caps) noexcept;

// What an application gets that wants this progress. FI_PROGRESS_AUTO costs a thread (progress_thread.hpp): it must be asked
// for, in the hints or by FI_NVLF_PROGRESS_THREAD.
[[nodiscard]] enum fi_progress progress_for(enum fi_progress wanted) noexcept;

// The FI_MR_* bits that an application's mr_mode asks for, the old enumeration (FI_MR_BASIC, FI_MR_SCALABLE) resolved.
[[nodiscard]] std::uint64_t mr_mode_bits(int mr_mode) noexcept;

// A network interface of our device for fi_info.nic; nullptr: no memory. Released by fi_freeinfo.
[[nodiscard]] fid_nic* nic_new(const nvlf_device& device) noexcept;

} // namespace nvlf::ofi
