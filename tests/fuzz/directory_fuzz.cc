// SPDX-License-Identifier: MIT OR GPL-2.0-only
// directory_fuzz - a look into a peer's directory of registrations, which holds whatever the fuzzer likes.
//
// The input is the key to look for, then the directory. What is too short is laid over it again and again, so that an
// input of one slot fills every neighbourhood and a mutation need not know where a key belongs. The directory is a heap
// block of exactly its size, so ASan sees a look beside it; a write to it, which would be a crash in the read-only mapping
// of a real peer, shows by comparison.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "directory.hpp"

using namespace nvlf::ofi;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::uint64_t key = 0;
    if (size <= sizeof key) return 0;
    std::memcpy(&key, data, sizeof key);
    data += sizeof key;
    size -= sizeof key;

    const auto directory = std::make_unique<Directory>();
    auto* const bytes = reinterpret_cast<std::uint8_t*>(directory.get());
    for (std::size_t at = 0; at < sizeof(Directory); at += size)
        std::memcpy(bytes + at, data, std::min(size, sizeof(Directory) - at));
    const auto before = std::make_unique<Directory>(*directory);

    if (const auto hit = directory_find(*directory, key)) {
        const auto* const word = reinterpret_cast<const std::uint8_t*>(hit->sequence_at);
        require(word >= bytes && word < bytes + sizeof(Directory));
        const auto offset = static_cast<std::size_t>(word - bytes);
        require(offset % sizeof(DirectorySlot) == 0);
        const DirectorySlot& slot = directory->slot[offset / sizeof(DirectorySlot)];
        require(hit->sequence == slot.sequence && hit->sequence != 0 && hit->sequence % 2 == 0);
        require(hit->entry.key == key && hit->entry.bytes != 0);
        require(std::memcmp(&hit->entry, slot.words.data(), sizeof hit->entry) == 0);
    }
    require(std::memcmp(directory.get(), before.get(), sizeof(Directory)) == 0);
    return 0;
}
