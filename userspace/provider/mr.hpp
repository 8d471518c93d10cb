// SPDX-License-Identifier: MIT OR GPL-2.0-only
// mr.hpp - memory registrations, and the table in which the target of a one-sided operation finds them.
//
// The key, the address and the length come from a peer: nothing is touched before resolve() has bounded them, and its
// arithmetic cannot overflow. How a peer names a byte is the application's choice at fi_getinfo: by virtual address
// (FI_MR_VIRT_ADDR) or by offset from the start of the registration.
//
// A registration holds its key from the start, but is found only while it is enabled. Usually that is at once; with
// FI_MR_ENDPOINT, or FI_MR_RMA_EVENT and a counter to come, it is when the application says so (fi_mr_enable).
#pragma once

#include <rdma/fi_domain.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mapping.hpp"
#include "base/result.hpp"
#include "buffers.hpp"
#include "fabric_memory.hpp"
#include "lock.hpp"

namespace nvlf::ofi {

struct Cntr;
struct Domain;
struct Endpoint;

inline constexpr std::size_t mr_iov_limit = iov_limit; // Pieces: a range across them is a list of buffers.
inline constexpr std::size_t mr_limit = 1U << 20;      // Registrations of a domain.

struct Mr {
    explicit Mr(Domain& d) noexcept : domain{d} {}

    fid_mr fid{};
    Domain& domain;
    std::array<iovec, mr_iov_limit> iov{};             // Where the pieces lie in this process,
    std::array<std::uint64_t, mr_iov_limit> address{}; // and the virtual addresses by which peers name them.
    std::size_t iov_count = 0;
    std::uint64_t length = 0; // Of all pieces.
    std::uint64_t key = 0;
    std::uint64_t access = 0; // FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE
    // Of memory that was registered by descriptor: our mapping of it, or the fabric's memory that it is. Else neither.
    Mapping mapping;
    MemRef memory;

    // Set by fi_mr_bind, before it is enabled or, where nothing asks for that order, at any time before fi_close. The
    // table's lock guards them against operations.
    bool starts_disabled = false; // Everything is bound before it is enabled.
    bool enabled = false;
    std::vector<Endpoint*> endpoints;  // Through which it may be reached; none: through all of the domain.
    Cntr* remote_write_cntr = nullptr; // Counts what peers write here (FI_RMA_EVENT).
};

inline Mr& mr_of(fid_mr* fid) noexcept { return *reinterpret_cast<Mr*>(fid); }

// May peers reach it through this endpoint?
[[nodiscard]] bool mr_reachable(const Mr& mr, const Endpoint* through) noexcept;

class MrTable {
public:
    explicit MrTable(bool locked, bool virtual_addresses) noexcept : lock_{locked}, virtual_{virtual_addresses} {}

    // ENOKEY: the key is taken. EMFILE: mr_limit is reached.
    [[nodiscard]] Errno add(Mr& mr) noexcept;
    // Adds it under an unguessable key.
    [[nodiscard]] Errno add_with_new_key(Mr& mr) noexcept;
    void remove(const Mr& mr) noexcept;
    // Changes what operations look at: f(), while none of them looks.
    template <class F>
    void change(F&& f) {
        const std::lock_guard guard{lock_};
        f();
    }

    // All of them, in no order. For endpoints that come later than they.
    [[nodiscard]] std::vector<const Mr*> all() const;

    // The registration under `key`, nullptr when there is none. It stays good until the application closes it.
    [[nodiscard]] const Mr* find(std::uint64_t key) const noexcept;

    // f(mr) for the registration under `key`, if there is one: nobody binds anything to it meanwhile.
    template <class F>
    void look_at(std::uint64_t key, F&& f) const {
        const std::lock_guard guard{lock_};
        if (const auto found = by_key_.find(key); found != by_key_.end()) f(*found->second);
    }

    // Where a peer that names `key` and `addr` may touch `len` bytes with all rights in `access`, coming through the
    // endpoint `through`. FI_EKEYREJECTED: no such key there, or a part of the range is outside of it. EACCES: a right is
    // missing.
    [[nodiscard]] Result<Buffers> resolve(std::uint64_t key, std::uint64_t addr, std::uint64_t len,
                                          std::uint64_t access, const Endpoint* through) const noexcept;

private:
    mutable SpinLock lock_;
    const bool virtual_;
    std::unordered_map<std::uint64_t, Mr*> by_key_;
};

// Where [addr, addr + len) lies, `addr` being virtual or an offset; nothing when a part of it is outside. By offset pieces
// follow each other; by virtual address only those do whose addresses do.
[[nodiscard]] std::optional<Buffers> mr_locate(const Mr& mr, std::uint64_t addr, std::uint64_t len,
                                               bool virtual_addresses) noexcept;

extern fi_ops_mr mr_ops; // Of the domain: fi_mr_reg and friends.

} // namespace nvlf::ofi
