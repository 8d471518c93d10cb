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
    std::uint32_t wait_spin_us = 20;             // How long a blocking call polls before it sleeps.
    std::uint32_t yield_after = 1000;            // Reads in a row that find nothing before each yields; 0: never.
    std::size_t cq_limit = std::size_t{1} << 20; // Entries to which a completion queue may grow.
    std::uint32_t connect_timeout_ms = 30'000;   // How long a send waits for a service that is not there yet.
    std::size_t unexpected_limit = 64U << 20;    // Bytes of unmatched messages that an endpoint keeps.
    bool cma = true;                             // Copy between address spaces where the kernel allows it.
    std::size_t rma_copy_from = 4096;            // Least one-sided transfer that is worth a system call.
    std::size_t share_from = 24U << 10;          // Least message that both ends copy.
    std::size_t msg_prefix = 0;                  // Bytes asked of who offers FI_MSG_PREFIX.
    bool progress_thread = false;                // Automatic progress for those who did not ask for it, too.
};

// Defines the parameters and reads the environment. Called once, by fi_prov_ini.
void params_init() noexcept;

[[nodiscard]] const Params& params() noexcept;

// "64k", "1M", "2g", "0x1000": a number, with binary suffixes. False when it is something else or does not fit.
[[nodiscard]] bool parse_size(const char* text, std::size_t& ret_size) noexcept;

} // namespace nvlf::ofi
