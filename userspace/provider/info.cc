// SPDX-License-Identifier: MIT OR GPL-2.0-only
// info.cc - what we offer, the test of what an application asks for, and the answer made of both. See info.hpp.
//
// A check that refuses says which and why at FI_LOG_LEVEL=info: fi_getinfo's own answer is a bare "no data".
#include "info.hpp"

#include <rdma/fi_errno.h>

#include "address.hpp"
#include "av.hpp"
#include "cntr.hpp"
#include "cq.hpp"
#include "mr.hpp"
#include "params.hpp"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

// Capabilities that an application must ask for; the others come for free and are always given. DIRECTED_RECV is among
// the first because receives would otherwise have to look at a source that the application never meant to set, SOURCE_ERR
// because it makes errors of messages that come in well.
constexpr std::uint64_t primary_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_COLLECTIVE | FI_DIRECTED_RECV |
                                       FI_HMEM | FI_NAMED_RX_CTX | FI_SOURCE_ERR;
constexpr std::size_t eps_per_context = NVLF_MAX_ENDPOINTS_PER_FILE; // As many as a domain has.
constexpr std::uint64_t message_directions = FI_SEND | FI_RECV;
constexpr std::uint64_t rma_directions = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t directions = message_directions | rma_directions;

int refuse(const char* what, unsigned long long wanted, unsigned long long offered) noexcept {
    FI_INFO(&provider, FI_LOG_CORE, "%s: 0x%llx wanted, 0x%llx offered\n", what, wanted, offered);
    return -FI_ENODATA;
}

// The application's bits must be among ours.
bool subset(std::uint64_t wanted, std::uint64_t offered) noexcept { return (wanted & ~offered) == 0; }

// Of what we offer (`ours`: the whole, or one attribute's part), what the application gets. `asked` is the attribute's
// own wish, `general` what stands in fi_info.caps already.
std::uint64_t granted_caps(std::uint64_t ours, std::uint64_t general, std::uint64_t asked) noexcept {
    const std::uint64_t base = asked != 0 ? asked : general;
    std::uint64_t caps = (base & ours & (primary_caps | directions)) | (ours & ~(primary_caps | directions));
    // Who names no direction means all of them.
    if ((caps & (FI_MSG | FI_TAGGED)) != 0 && (base & message_directions) == 0) caps |= ours & message_directions;
    if ((caps & (FI_RMA | FI_ATOMIC)) != 0 && (base & rma_directions) == 0) caps |= ours & rma_directions;
    // Nothing to tell of: peers may not come near its memory.
    if ((caps & (FI_REMOTE_READ | FI_REMOTE_WRITE)) == 0) caps &= ~FI_RMA_EVENT;
    return caps;
}

// How much the application promises to serialise by itself; we need no promise. 0: no such model.
int thread_level(enum fi_threading threading) noexcept {
    switch (threading) {
    case FI_THREAD_SAFE: return 1;
    case FI_THREAD_FID: return 2;
    case FI_THREAD_ENDPOINT: return 3;
    case FI_THREAD_COMPLETION: return 4;
    case FI_THREAD_DOMAIN: return 5;
    case FI_THREAD_UNSPEC: return 6;
    }
    return 0;
}

// 3 is FI_PROGRESS_CONTROL_UNIFIED of libfabric 2, which asks for less than manual progress.
bool progress_ok(enum fi_progress progress) noexcept {
    return progress == FI_PROGRESS_UNSPEC || progress == FI_PROGRESS_AUTO || progress == FI_PROGRESS_MANUAL ||
           static_cast<int>(progress) == 3;
}

bool mr_mode_ok(std::uint32_t version, int mode) noexcept {
    // The old enumeration stands alone.
    if (version < FI_VERSION(1, 5)) return mode == FI_MR_UNSPEC || mode == FI_MR_BASIC || mode == FI_MR_SCALABLE;
    if ((mode & FI_MR_BASIC) != 0) return mode == FI_MR_BASIC;
    if ((mode & FI_MR_SCALABLE) != 0) return mode == FI_MR_SCALABLE;
    return true; // We require nothing.
}

// "Mirror": an application that can live with the three bits of "basic" gets those it names, because it is prepared for
// them and often insists; nobody gets what it did not offer. But who offers FI_MR_LOCAL, too, has listed all that it
// copes with, for providers that need such things, and gets the bits cleared which we do not need, as the manual has it.
// FI_MR_HMEM comes back with FI_HMEM: the registration is where we find out that "device memory" is the fabric's.
int granted_mr_mode(std::uint32_t version, int wanted, std::uint64_t caps) noexcept {
    if (version < FI_VERSION(1, 5)) return wanted == FI_MR_UNSPEC ? FI_MR_SCALABLE : wanted;
    if (wanted == FI_MR_BASIC || wanted == FI_MR_SCALABLE) return wanted;
    const int hmem = (caps & FI_HMEM) != 0 ? wanted & FI_MR_HMEM : 0;
    return ((wanted & FI_MR_LOCAL) != 0 ? 0 : wanted & mr_mode_basic_bits) | hmem;
}

int check_domain(std::uint32_t version, const fi_domain_attr& attr) noexcept {
    if (thread_level(attr.threading) == 0) return refuse("threading", attr.threading, FI_THREAD_SAFE);
    if (!progress_ok(attr.control_progress))
        return refuse("control progress", attr.control_progress, FI_PROGRESS_MANUAL);
    if (!progress_ok(attr.data_progress)) return refuse("data progress", attr.data_progress, FI_PROGRESS_MANUAL);
    if (attr.resource_mgmt > FI_RM_ENABLED) return refuse("resource management", attr.resource_mgmt, FI_RM_ENABLED);
    if (attr.av_type > FI_AV_TABLE) return refuse("av type", attr.av_type, FI_AV_TABLE);
    if (attr.cq_data_size > cq_data_size) return refuse("cq_data_size", attr.cq_data_size, cq_data_size);
    if (attr.mr_key_size > mr_key_size) return refuse("mr_key_size", attr.mr_key_size, mr_key_size);
    if (!mr_mode_ok(version, attr.mr_mode))
        return refuse("mr_mode", static_cast<unsigned>(attr.mr_mode), static_cast<unsigned>(mr_mode_bits_known));
    if (attr.max_ep_tx_ctx > contexts_per_ep) return refuse("max_ep_tx_ctx", attr.max_ep_tx_ctx, contexts_per_ep);
    if (attr.max_ep_rx_ctx > contexts_per_ep) return refuse("max_ep_rx_ctx", attr.max_ep_rx_ctx, contexts_per_ep);
    if (attr.max_ep_stx_ctx > eps_per_context) return refuse("max_ep_stx_ctx", attr.max_ep_stx_ctx, eps_per_context);
    if (attr.max_ep_srx_ctx > eps_per_context) return refuse("max_ep_srx_ctx", attr.max_ep_srx_ctx, eps_per_context);
    if (attr.cq_cnt > cqs_per_domain) return refuse("cq_cnt", attr.cq_cnt, cqs_per_domain);
    if (attr.ep_cnt > NVLF_MAX_ENDPOINTS_PER_FILE) return refuse("ep_cnt", attr.ep_cnt, NVLF_MAX_ENDPOINTS_PER_FILE);
    if (version < FI_VERSION(1, 5)) return 0; // What follows came with 1.5; an older struct has no such fields.
    if (attr.cntr_cnt > cntrs_per_domain) return refuse("cntr_cnt", attr.cntr_cnt, cntrs_per_domain);
    if (attr.mr_iov_limit > mr_iov_limit) return refuse("mr_iov_limit", attr.mr_iov_limit, mr_iov_limit);
    if (!subset(attr.caps, domain_caps)) return refuse("domain caps", attr.caps, domain_caps);
    if (attr.auth_key_size != 0) return refuse("auth_key_size", attr.auth_key_size, 0);
    if (attr.max_err_data > sizeof(nvlf_addr)) return refuse("max_err_data", attr.max_err_data, sizeof(nvlf_addr));
    if (attr.mr_cnt > mr_limit) return refuse("mr_cnt", attr.mr_cnt, mr_limit);
    return 0;
}

bool ctx_cnt_ok(std::size_t contexts) noexcept { return contexts <= contexts_per_ep || contexts == FI_SHARED_CONTEXT; }

int check_ep(const fi_ep_attr& attr) noexcept {
    if (attr.type != FI_EP_UNSPEC && attr.type != FI_EP_RDM) return refuse("endpoint type", attr.type, FI_EP_RDM);
    if (attr.protocol != FI_PROTO_UNSPEC && attr.protocol != protocol_nvlf)
        return refuse("protocol", attr.protocol, protocol_nvlf);
    if (attr.protocol_version > protocol_version)
        return refuse("protocol version", attr.protocol_version, protocol_version);
    if (attr.max_msg_size > max_msg_size) return refuse("max_msg_size", attr.max_msg_size, max_msg_size);
    if (!ctx_cnt_ok(attr.tx_ctx_cnt)) return refuse("tx_ctx_cnt", attr.tx_ctx_cnt, contexts_per_ep);
    if (!ctx_cnt_ok(attr.rx_ctx_cnt)) return refuse("rx_ctx_cnt", attr.rx_ctx_cnt, contexts_per_ep);
    if (attr.auth_key_size != 0) return refuse("auth_key_size", attr.auth_key_size, 0);
    return 0;
}

// Capabilities of the other direction are no mistake in tx_attr and rx_attr: applications copy fi_info.caps there.
int check_tx(const fi_tx_attr& attr) noexcept {
    if (!subset(attr.caps, all_caps)) return refuse("tx caps", attr.caps, tx_caps);
    if (!subset(attr.op_flags, tx_op_flags)) return refuse("tx op_flags", attr.op_flags, tx_op_flags);
    if (!subset(attr.msg_order, msg_order)) return refuse("tx msg_order", attr.msg_order, msg_order);
    if (attr.comp_order != FI_ORDER_NONE) return refuse("tx comp_order", attr.comp_order, FI_ORDER_NONE);
    if (attr.inject_size > inject_size) return refuse("inject_size", attr.inject_size, inject_size);
    if (attr.size > queue_size) return refuse("tx size", attr.size, queue_size);
    if (attr.iov_limit > iov_limit) return refuse("tx iov_limit", attr.iov_limit, iov_limit);
    if (attr.rma_iov_limit > rma_iov_limit) return refuse("rma_iov_limit", attr.rma_iov_limit, rma_iov_limit);
    return 0;
}

int check_rx(const fi_rx_attr& attr) noexcept {
    if (!subset(attr.caps, all_caps)) return refuse("rx caps", attr.caps, rx_caps);
    if (!subset(attr.op_flags, rx_op_flags)) return refuse("rx op_flags", attr.op_flags, rx_op_flags);
    if (!subset(attr.msg_order, msg_order)) return refuse("rx msg_order", attr.msg_order, msg_order);
    if (attr.comp_order != FI_ORDER_NONE) return refuse("rx comp_order", attr.comp_order, FI_ORDER_NONE);
    if (attr.size > queue_size) return refuse("rx size", attr.size, queue_size);
    if (attr.iov_limit > iov_limit) return refuse("rx iov_limit", attr.iov_limit, iov_limit);
    return 0; // total_buffered_recv: unexpected messages are kept in any case.
}

// What an application sets comes back as it set it; 0 asks for our value.
template <class T>
constexpr T or_ours(T wanted, T ours) noexcept {
    return wanted != T{} ? wanted : ours;
}

void fill_domain(std::uint32_t version, const fi_domain_attr* hints, fi_domain_attr& attr,
                 std::uint64_t caps) noexcept {
    const fi_domain_attr none{};
    const fi_domain_attr& want = hints != nullptr ? *hints : none;
    attr.threading = or_ours(want.threading, FI_THREAD_SAFE);
    attr.control_progress = progress_for(want.control_progress);
    attr.data_progress = progress_for(want.data_progress);
    attr.resource_mgmt = FI_RM_ENABLED;
    attr.av_type = or_ours(want.av_type, FI_AV_UNSPEC);
    attr.mr_mode = granted_mr_mode(version, want.mr_mode, caps);
    attr.mr_key_size = mr_key_size;
    attr.cq_data_size = cq_data_size;
    attr.cq_cnt = cqs_per_domain;
    attr.ep_cnt = NVLF_MAX_ENDPOINTS_PER_FILE;
    attr.tx_ctx_cnt = or_ours(want.tx_ctx_cnt, std::size_t{NVLF_MAX_ENDPOINTS_PER_FILE});
    attr.rx_ctx_cnt = or_ours(want.rx_ctx_cnt, std::size_t{NVLF_MAX_ENDPOINTS_PER_FILE});
    attr.max_ep_tx_ctx = contexts_per_ep;
    attr.max_ep_rx_ctx = contexts_per_ep;
    attr.max_ep_stx_ctx = eps_per_context;
    attr.max_ep_srx_ctx = eps_per_context;
    attr.cntr_cnt = cntrs_per_domain;
    attr.mr_iov_limit = mr_iov_limit;
    attr.caps = domain_caps;
    attr.mode = 0;
    attr.max_err_data = sizeof(nvlf_addr);
    attr.mr_cnt = mr_limit;
}

void fill_ep(const fi_ep_attr* hints, fi_ep_attr& attr, std::uint64_t caps, std::uint64_t order) noexcept {
    const fi_ep_attr none{};
    const fi_ep_attr& want = hints != nullptr ? *hints : none;
    attr.type = FI_EP_RDM;
    attr.protocol = protocol_nvlf;
    attr.protocol_version = protocol_version;
    attr.max_msg_size = max_msg_size;
    if ((caps & (FI_RMA | FI_ATOMIC)) != 0) { // Orders hold for any size, or not at all.
        attr.max_order_raw_size = or_ours(want.max_order_raw_size, SIZE_MAX);
        attr.max_order_waw_size = or_ours(want.max_order_waw_size, SIZE_MAX);
        attr.max_order_war_size = (order & FI_ORDER_WAR) != 0 ? or_ours(want.max_order_war_size, SIZE_MAX) : 0;
    }
    attr.mem_tag_format = (caps & FI_TAGGED) != 0 ? or_ours(want.mem_tag_format, mem_tag_format) : mem_tag_format;
    attr.tx_ctx_cnt = or_ours(want.tx_ctx_cnt, std::size_t{1});
    attr.rx_ctx_cnt = or_ours(want.rx_ctx_cnt, std::size_t{1});
}

// The application's wish for orders; a size up to which writes follow reads is one, too. Without hints: all there are.
std::uint64_t granted_order(const fi_info* hints) noexcept {
    if (hints == nullptr) return msg_order;
    std::uint64_t order = free_order;
    if (hints->tx_attr != nullptr) order |= hints->tx_attr->msg_order;
    if (hints->rx_attr != nullptr) order |= hints->rx_attr->msg_order;
    if (hints->ep_attr != nullptr && hints->ep_attr->max_order_war_size != 0) order |= FI_ORDER_WAR;
    // These come together.
    constexpr std::uint64_t after_read = FI_ORDER_WAR | FI_ORDER_RMA_WAR, after_send = FI_ORDER_RAS | FI_ORDER_WAS;
    if ((order & after_read) != 0) order |= after_read;
    if ((order & after_send) != 0) order |= after_send;
    return order;
}

void fill_tx(const fi_tx_attr* hints, fi_tx_attr& attr, std::uint64_t caps, std::uint64_t order) noexcept {
    const fi_tx_attr none{};
    const fi_tx_attr& want = hints != nullptr ? *hints : none;
    attr.caps = granted_caps(tx_caps, caps, want.caps);
    attr.mode = 0;
    attr.op_flags = want.op_flags;
    attr.msg_order = order;
    attr.comp_order = FI_ORDER_NONE;
    attr.inject_size = or_ours(want.inject_size, inject_size);
    attr.size = or_ours(want.size, queue_size);
    attr.iov_limit = or_ours(want.iov_limit, iov_limit);
    attr.rma_iov_limit = or_ours(want.rma_iov_limit, rma_iov_limit);
    attr.tclass = want.tclass;
}

void fill_rx(const fi_rx_attr* hints, fi_rx_attr& attr, std::uint64_t caps, std::uint64_t order) noexcept {
    const fi_rx_attr none{};
    const fi_rx_attr& want = hints != nullptr ? *hints : none;
    attr.caps = granted_caps(rx_caps, caps, want.caps);
    attr.mode = 0;
    attr.op_flags = want.op_flags;
    attr.msg_order = order;
    attr.comp_order = FI_ORDER_NONE;
    attr.total_buffered_recv = want.total_buffered_recv;
    attr.size = or_ours(want.size, queue_size);
    attr.iov_limit = or_ours(want.iov_limit, iov_limit);
}

// We need no prefix, but an application that can give one is a thing to test. It travels with the message: nobody may look
// at what is in it.
void ask_for_prefix(fi_info& info) noexcept {
    if (params().msg_prefix == 0) return;
    info.mode |= FI_MSG_PREFIX;
    info.tx_attr->mode |= FI_MSG_PREFIX;
    info.rx_attr->mode |= FI_MSG_PREFIX;
    info.ep_attr->msg_prefix_size = params().msg_prefix;
}

} // namespace

int check_info(std::uint32_t version, const fi_info& info) noexcept {
    // The type first: most probes by layered providers end here.
    if (info.ep_attr != nullptr) {
        if (const int ret = check_ep(*info.ep_attr); ret != 0) return ret;
    }
    if (!subset(info.caps, all_caps)) return refuse("caps", info.caps, all_caps);
    if (!addr_format_ok(info.addr_format)) return refuse("address format", info.addr_format, addr_nvlf);
    if (info.domain_attr != nullptr) {
        if (const int ret = check_domain(version, *info.domain_attr); ret != 0) return ret;
    }
    if (info.tx_attr != nullptr) {
        if (const int ret = check_tx(*info.tx_attr); ret != 0) return ret;
    }
    if (info.rx_attr != nullptr) {
        if (const int ret = check_rx(*info.rx_attr); ret != 0) return ret;
    }
    return 0;
}

void fill_info(std::uint32_t version, const fi_info* hints, fi_info& info) noexcept {
    info.caps = hints != nullptr && hints->caps != 0 ? granted_caps(all_caps, 0, hints->caps) : all_caps;
    info.mode = 0;
    info.addr_format = addr_format_for(hints != nullptr ? hints->addr_format : 0);
    info.handle = hints != nullptr ? hints->handle : nullptr;
    fill_domain(version, hints != nullptr ? hints->domain_attr : nullptr, *info.domain_attr, info.caps);
    const std::uint64_t order = granted_order(hints);
    fill_ep(hints != nullptr ? hints->ep_attr : nullptr, *info.ep_attr, info.caps, order);
    fill_tx(hints != nullptr ? hints->tx_attr : nullptr, *info.tx_attr, info.caps, order);
    fill_rx(hints != nullptr ? hints->rx_attr : nullptr, *info.rx_attr, info.caps, order);
    if (hints != nullptr && (hints->mode & FI_MSG_PREFIX) != 0) ask_for_prefix(info);
}

// An application that expects manual progress does with automatic one as well.
enum fi_progress progress_for(enum fi_progress wanted) noexcept {
    return params().progress_thread ? FI_PROGRESS_AUTO : wanted != FI_PROGRESS_UNSPEC ? wanted : FI_PROGRESS_MANUAL;
}

std::uint64_t mr_mode_bits(int mr_mode) noexcept {
    if (mr_mode == FI_MR_BASIC) return mr_mode_basic_bits;
    if (mr_mode == FI_MR_SCALABLE) return 0;
    return static_cast<std::uint64_t>(mr_mode) & mr_mode_bits_known;
}

int check_tx_attr(const fi_tx_attr& attr, std::uint64_t caps) noexcept {
    const int ret = check_tx(attr);
    return ret == 0 && !subset(attr.caps & tx_caps, caps) ? refuse("tx context caps", attr.caps, caps) : ret;
}

int check_rx_attr(const fi_rx_attr& attr, std::uint64_t caps) noexcept {
    const int ret = check_rx(attr);
    return ret == 0 && !subset(attr.caps & rx_caps, caps) ? refuse("rx context caps", attr.caps, caps) : ret;
}

void fill_tx_attr(fi_tx_attr& attr, std::uint64_t caps, std::uint64_t order) noexcept {
    const fi_tx_attr wanted = attr;
    fill_tx(&wanted, attr, caps, order);
}

void fill_rx_attr(fi_rx_attr& attr, std::uint64_t caps) noexcept {
    const fi_rx_attr wanted = attr;
    fill_rx(&wanted, attr, caps, free_order | wanted.msg_order);
}

} // namespace nvlf::ofi
