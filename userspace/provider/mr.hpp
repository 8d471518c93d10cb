// SPDX-License-Identifier: MIT OR GPL-2.0-only
// mr.hpp - memory registrations, and the table in which the target of a one-sided operation finds them.
//
// The key, the address and the length come from a peer: nothing is touched before resolve() has bounded them, and its
// arithmetic cannot overflow. How a peer names a byte is the application's choice at fi_getinfo: by virtual address
// (FI_MR_VIRT_ADDR) or by offset from the start of the registration.
#pragma once

#include <rdma/fi_domain.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "lock.hpp"

namespace nvlf::ofi {

struct Domain;

inline constexpr std::size_t mr_iov_limit = 4;
inline constexpr std::size_t mr_limit = 1U << 20; // Registrations of a domain.

struct Mr {
    explicit Mr(Domain& d) noexcept : domain{d} {}

    fid_mr fid{};
    Domain& domain;
    std::array<iovec, mr_iov_limit> iov{};
    std::size_t iov_count = 0;
    std::uint64_t length = 0; // Of all pieces.
    std::uint64_t key = 0;
    std::uint64_t access = 0; // FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE
};

inline Mr& mr_of(fid_mr* fid) noexcept { return *reinterpret_cast<Mr*>(fid); }

class MrTable {
public:
    explicit MrTable(bool locked, bool virtual_addresses) noexcept : lock_{locked}, virtual_{virtual_addresses} {}

    // ENOKEY: the key is taken. EMFILE: mr_limit is reached.
    [[nodiscard]] Errno add(Mr& mr) noexcept;
    // Adds it under an unguessable key.
    [[nodiscard]] Errno add_with_new_key(Mr& mr) noexcept;
    void remove(const Mr& mr) noexcept;

    // All of them, in no order. For endpoints that come later than they.
    [[nodiscard]] std::vector<const Mr*> all() const;

    // The registration under `key`, nullptr when there is none. It stays good until the application closes it.
    [[nodiscard]] const Mr* find(std::uint64_t key) const noexcept;

    // Where a peer that names `key` and `addr` may touch `len` bytes with all rights in `access`. FI_EKEYREJECTED: no such
    // key, or the range is not within one piece of it. EACCES: a right is missing.
    [[nodiscard]] Result<void*> resolve(std::uint64_t key, std::uint64_t addr, std::uint64_t len,
                                        std::uint64_t access) const noexcept;

private:
    mutable SpinLock lock_;
    const bool virtual_;
    std::unordered_map<std::uint64_t, Mr*> by_key_;
};

// Where `addr` (virtual, or an offset) lies in a registration; nullptr when [addr, addr + len) is not within a piece.
[[nodiscard]] void* mr_locate(const Mr& mr, std::uint64_t addr, std::uint64_t len, bool virtual_addresses) noexcept;

extern fi_ops_mr mr_ops; // Of the domain: fi_mr_reg and friends.

} // namespace nvlf::ofi
