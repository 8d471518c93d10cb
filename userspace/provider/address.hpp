// SPDX-License-Identifier: MIT OR GPL-2.0-only
// address.hpp - endpoint addresses as libfabric sees them.
//
// An address is a struct nvlf_addr: 32 bytes of fixed size, so that arrays for fi_av_insert have a fixed stride and
// every client's name buffer holds one. It is not text: the FI_ADDR_STR of other providers leaves the stride of such
// arrays to be guessed. What people type (node and service) becomes a *service address*, which names an endpoint that
// need not exist yet and is resolved by the carrier on first contact.
//
// For applications that insist on FI_SOCKADDR_IN such an address is an IPv4 address of this host with the service as its
// port. Nothing else fits in it, so there a port is of one endpoint of the fabric, on whichever device.
//
//   node     NULL, "", "localhost", a name or an address of this host   the fabric of this process
//            "gpu0", "trn0:svc"                                    a device of it, with a service after the colon
//            "nvlf://any?service=7"                                what addr_text() printed (FI_ADDR_STR)
//   service  a decimal number, or a name                                 nvlf_service()
#pragma once

#include <netinet/in.h>
#include <rdma/fabric.h>

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
    return format == FI_FORMAT_UNSPEC || format == addr_nvlf || format == FI_SOCKADDR || format == FI_SOCKADDR_IN;
}
// What is answered to who asked for one of these: addr_nvlf or FI_SOCKADDR_IN.
[[nodiscard]] constexpr std::uint32_t addr_format_for(std::uint32_t asked) noexcept {
    return asked == FI_SOCKADDR || asked == FI_SOCKADDR_IN ? std::uint32_t{FI_SOCKADDR_IN} : addr_nvlf;
}
[[nodiscard]] constexpr std::size_t addr_bytes(std::uint32_t format) noexcept {
    return format == FI_SOCKADDR_IN ? sizeof(sockaddr_in) : sizeof(nvlf_addr);
}

[[nodiscard]] constexpr bool addr_valid(const nvlf_addr& addr) noexcept {
    return addr.magic == NVLF_ADDR_MAGIC && addr.version == NVLF_ADDR_VERSION &&
           (addr.endpoint != 0 || addr.epoch != 0 || addr.service != 0);
}

[[nodiscard]] bool addr_equal(const nvlf_addr& a, const nvlf_addr& b) noexcept;

// A service address; `fabric` 0 stands for the fabric on which it is used.
[[nodiscard]] nvlf_addr service_addr(std::uint64_t fabric, std::uint32_t device, std::uint64_t service) noexcept;

// An address as an application has it: what it means, and by which IPv4 address of this host (in network order) it said
// so, which counts in FI_SOCKADDR_IN only.
struct Address {
    nvlf_addr addr{};
    std::uint32_t host = htonl(INADDR_LOOPBACK);
};

// From addr_bytes(format) bytes. EINVAL: they are no address; EADDRNOTAVAIL: one of another host.
[[nodiscard]] Result<Address> read_addr(std::uint32_t format, const void* bytes) noexcept;
// Into as many.
void write_addr(std::uint32_t format, const Address& address, void* ret_bytes) noexcept;

// "nvlf://abc/0/17.3?service=42": fabric, device, endpoint and epoch, service, as far as the address says.
[[nodiscard]] std::string addr_text(const nvlf_addr& addr);
// "fi_sockaddr_in://127.0.0.1:7", or the above.
[[nodiscard]] std::string addr_text(std::uint32_t format, const Address& address);

// What a node and a service name on the fabric whose state is given; without a service, an address of a device or of
// whichever. EADDRNOTAVAIL: the node is no host and no device of ours. EINVAL: it names a service, and so does `service`.
[[nodiscard]] Result<Address> resolve(const nvlf_state& state, const char* node, const char* service);

} // namespace nvlf::ofi
