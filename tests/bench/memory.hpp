// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Memory that one-sided operations reach, from malloc or from the fabric, and how to name it to a peer.
#pragma once

#include "endpoint.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

namespace nvlf::bench {

inline constexpr std::size_t memory_bytes = std::size_t{4} << 20; // The largest size of any row.

struct RemoteMemory {
    std::uint64_t address = 0;
    std::uint64_t key = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RemoteMemory, address, key)

class Memory {
public:
    // By "malloc", or "fabric": on a device. Throws NotOffered when the provider has none.
    Memory(const Endpoint& endpoint, const std::string& kind);

    [[nodiscard]] std::byte* data() const noexcept { return bytes_.get(); }
    [[nodiscard]] RemoteMemory remote() const;

private:
    std::shared_ptr<std::byte> bytes_; // Whatever allocated it, its deleter gives it back.
    FidPtr<fid_mr> registration_;
    bool by_address_;
};

using Memories = std::map<std::string, Memory>;

// All kinds that the provider knows.
[[nodiscard]] Memories register_memories(const Endpoint& endpoint);

} // namespace nvlf::bench
