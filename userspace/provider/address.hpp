// SPDX-License-Identifier: MIT OR GPL-2.0-only
// address.hpp - endpoint addresses as libfabric sees them.
//
// An address is a struct nvlf_addr: 32 bytes of fixed size, so that arrays for fi_av_insert have a fixed stride and
// every client's name buffer holds one. It is not text: the FI_ADDR_STR of other providers leaves the stride of such
// arrays to be guessed. What people type (node and service) becomes a *service address*, which names an endpoint that
// need not exist yet and is resolved by the carrier on first contact.
//
//   node     NULL, "", "localhost", a name or an address of this host   the fabric of this process
//            "gpu0", "trn0:svc"                                    a device of it, with a service after the colon
//   service  a decimal number, or a name                                 nvlf_service()
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "nvlf/nvlf.h"

namespace nvlf::ofi {

// Values with the uppermost bit set are the providers' own; "NV" tells ours from another's.
inline constexpr std::uint32_t addr_nvlf = 0x80000000U | NVLF_ADDR_MAGIC;

static_assert(sizeof(nvlf_addr) == 32);

// Formats of fi_info.addr_format that we take. Unspecified means "yours".
[[nodiscard]] constexpr bool addr_format_ok(std::uint32_t format) noexcept {
    return format == 0 || format == addr_nvlf;
}

[[nodiscard]] constexpr bool addr_valid(const nvlf_addr& addr) noexcept {
    return addr.magic == NVLF_ADDR_MAGIC && addr.version == NVLF_ADDR_VERSION &&
           (addr.endpoint != 0 || addr.epoch != 0 || addr.service != 0);
}

[[nodiscard]] bool addr_equal(const nvlf_addr& a, const nvlf_addr& b) noexcept;

// A service address; `fabric` 0 stands for the fabric on which it is used.
[[nodiscard]] nvlf_addr service_addr(std::uint64_t fabric, std::uint32_t device, std::uint64_t service) noexcept;

// "nvlf://trn0/17.3?service=42"-like text for people and logs; not parsed by anything.
[[nodiscard]] std::string addr_text(const nvlf_addr& addr);

struct Target {
    std::uint32_t device = NVLF_DEVICE_ANY;
    std::uint64_t service = 0;
};

// What a node and a service name on the fabric whose state is given. EADDRNOTAVAIL: the node is no host and no device
// of ours.
[[nodiscard]] Result<Target> resolve(const nvlf_state& state, const char* node, const char* service);

} // namespace nvlf::ofi
