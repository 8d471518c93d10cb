// SPDX-License-Identifier: MIT OR GPL-2.0-only
// memory.hpp - device memory, its fabric addresses, and the tokens by which others reach it.
//
// An allocation is one sealed memfd. It lives as long as anybody can have been told its address: until its owner has
// freed it (or died) and its last importer has released it (or died). Only then do its addresses and its share of the
// device's HBM become free. Tokens end when the owner frees; so does nvlfd's own descriptor, as nobody can ask for
// another one.
//
// Memory that was made by name has no owner who could free it: it lives from its first importer to its last, and nvlfd
// keeps its descriptor and its name so long.
//
// Tokens are 256 random bits. They are looked up by hash and compared by memcmp: what the timing gives away about a
// token is worth nothing to somebody who would have to guess its first 64 bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "daemon/arena.hpp"
#include "daemon/placement.hpp"
#include "daemon/state_region.hpp"
#include "nvlf/ioctl.h"

namespace nvlf::daemon {

using ClientId = std::uint64_t; // In the order of arrival, never used again. 0: nobody.
using Token = std::array<std::uint8_t, NVLF_TOKEN_LEN>;
// Fills the bytes, or says why not. Injected, so that a fuzzer's run can be repeated.
using Random = std::function<Errno(std::span<std::byte>)>;

struct Memory {
    std::uint64_t fla = 0;
    std::uint64_t bytes = 0;
    std::uint32_t device = 0;
    Fd fd; // Closed once freed.
    ClientId owner = 0;
    bool freed = false;
    std::string name;          // Empty: reached by token only.
    std::uint32_t regions = 0; // Endpoints whose region this is.
    std::vector<Token> exports;
    std::set<std::pair<ClientId, std::uint32_t>> importers; // With the importer's handle.
};

struct Export {
    Memory* memory = nullptr;
    std::uint32_t access = 0;
    std::uint32_t scope = 0;
    std::uint32_t scope_index = 0;
};

class MemoryTable {
public:
    MemoryTable(StateRegion& state, const Placement& placement, std::uint64_t arena_bytes)
        : state_{state}, placement_{placement}, arena_{arena_base, arena_bytes} {}

    [[nodiscard]] const Arena& arena() const noexcept { return arena_; }
    [[nodiscard]] std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(table_.size()); }
    [[nodiscard]] std::uint64_t allocated_bytes() const noexcept { return allocated_bytes_; }

    // `bytes` in whole pages. ENOSPC, EMFILE, ENOMEM.
    [[nodiscard]] Result<Memory*> allocate(std::uint32_t device, std::uint64_t bytes, ClientId owner);
    // As allocate, under a name that find_name does not find; `payer` is relieved when it is gone. To be given its first
    // importer at once, or to abandon().
    [[nodiscard]] Result<Memory*> allocate_named(const std::string& name, std::uint32_t device, std::uint64_t bytes,
                                                 ClientId payer);
    [[nodiscard]] Memory* find_name(const std::string& name) const;
    // Named memory that was never handed out. Relieves nobody.
    void abandon(Memory& memory);
    // Ends the owner's hold: tokens and descriptor go. The memory itself goes with it unless it has importers.
    void free(Memory& memory);
    void add_importer(Memory& memory, ClientId client, std::uint32_t handle) {
        memory.importers.emplace(client, handle);
    }
    void drop_importer(Memory& memory, ClientId client, std::uint32_t handle);

    [[nodiscard]] Result<Token> make_token(const Export& what, const Random& random);
    [[nodiscard]] const Export* find(const Token& token) const;

    // Called with an allocation just before it is gone for good.
    std::function<void(const Memory&)> on_gone;

private:
    struct TokenHash {
        std::size_t operator()(const Token& token) const noexcept {
            std::size_t hash = 0;
            std::memcpy(&hash, token.data(), sizeof hash); // Random bits are their own hash.
            return hash;
        }
    };
    void end_if_unused(Memory& memory);

    StateRegion& state_;
    const Placement& placement_;
    Arena arena_;
    std::unordered_map<std::uint64_t, Memory> table_; // By address. Nodes stay where they are, so Memory& stays good.
    std::unordered_map<Token, Export, TokenHash> tokens_;
    std::unordered_map<std::string, Memory*> names_;
    std::uint64_t allocated_bytes_ = 0;
};

} // namespace nvlf::daemon
