// SPDX-License-Identifier: MIT OR GPL-2.0-only
// params.hpp - what a user may tune by FI_NVLF_* in the environment; `fi_info -e` prints names and explanations.
//
// Read once, when libfabric loads the provider, and constant from then on. A value that makes no sense is reported and
// replaced by the default: a misspelt tuning knob must not take the fabric away.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvlf::ofi {

struct Params {
    std::uint32_t wait_spin_us = 20;          // How long a blocking call polls before it sleeps.
    std::uint32_t yield_after = 1000;         // Reads in a row that find nothing before a read yields; 0: never.
    std::size_t cq_limit = 1U << 20;          // Entries to which a completion queue may grow.
    std::size_t unexpected_limit = 64U << 20; // Bytes of unexpected messages that an endpoint keeps in its heap.
    std::size_t rendezvous_threshold = 0;     // Payload from which the receiver pulls; 0: chosen by the endpoint.
    bool use_cma = true;                      // process_vm_readv where a try on the peer succeeds.
};

// Defines the parameters and reads the environment. Called once, by fi_prov_ini.
void params_init() noexcept;

[[nodiscard]] const Params& params() noexcept;

// "64k", "1M", "2g", "0x1000": bytes, with binary suffixes. False when it is something else or does not fit.
[[nodiscard]] bool parse_bytes(const char* text, std::size_t& ret_bytes) noexcept;

} // namespace nvlf::ofi
