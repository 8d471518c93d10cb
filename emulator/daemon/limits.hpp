// SPDX-License-Identifier: MIT OR GPL-2.0-only
// limits.hpp - everything that grows on a client's wish, and how far.
//
// The first group is the contract's: NVLF_MAX_* of device.h, lowered by ADMIN_LIMIT. The second is nvlfd's own: things
// the contract leaves to the carrier, bounded so that no client costs the others their share. All of them are checked
// where the thing grows.
#pragma once

#include <cstdint>

#include "nvlf/ioctl.h"

namespace nvlf::daemon {

struct Limits {
    std::uint32_t clients = NVLF_MAX_CLIENTS;
    std::uint32_t endpoints = NVLF_MAX_ENDPOINTS;
    std::uint32_t endpoints_per_file = NVLF_MAX_ENDPOINTS_PER_FILE;
    std::uint32_t allocations = NVLF_MAX_ALLOCATIONS;
    std::uint32_t imports_per_file = NVLF_MAX_IMPORTS_PER_FILE;
    std::uint32_t pending_accepts = NVLF_MAX_PENDING_ACCEPTS;
    std::uint64_t quota_bytes = 1ULL << 40;

    // Descriptors that nvlfd keeps for one client: one an allocation, two an endpoint, one an offered channel, one an
    // event stream. main() sets half of RLIMIT_NOFILE, so that one client cannot take them all.
    std::uint32_t descriptors_per_file = 8192;
    // Tokens alive of one client: as many as it could need to export all that there is once.
    std::uint32_t exports_per_file = NVLF_MAX_ALLOCATIONS;
    // Channels begun by one client, and by all. About 200 bytes of nvlfd each, once accepted.
    std::uint32_t channels_per_file = 65536;
    std::uint32_t channels = 1U << 20;
    // Offers kept beyond the end of their makers. Three descriptors each that no client is charged for: main() lowers it
    // so that all of them take a quarter of RLIMIT_NOFILE at most.
    std::uint32_t left_offers = 1024;
    // Connections beyond `clients`.
    std::uint32_t guests = 16;
};

} // namespace nvlf::daemon
