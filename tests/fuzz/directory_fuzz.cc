// SPDX-License-Identifier: MIT OR GPL-2.0-only
// directory_fuzz - a look into a peer's directory of registrations, which holds whatever the fuzzer likes.
//
// The input is the key to look for, then the directory's slots. What is too short is laid over them again and again: an
// input of one slot fills every neighbourhood, and a mutation need not know where a key belongs. The directory is a
// heap block of exactly its size, so ASan sees a look beside it; a write to it, which would be a crash in the
// read-only mapping of a real peer, shows by comparison.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
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
    auto* const slots = reinterpret_cast<std::uint8_t*>(directory->slot);
    for (std::size_t at = 0; at < sizeof directory->slot; at += size)
        std::memcpy(slots + at, data, std::min(size, sizeof directory->slot - at));
    const auto before = std::make_unique<Directory>(*directory);

    if (const auto hit = directory_find(*directory, key)) {
        const auto* const holder =
            std::find_if(std::begin(directory->slot), std::end(directory->slot),
                         [&](const DirectorySlot& slot) { return &slot.sequence == hit->sequence_at; });
        require(holder != std::end(directory->slot));
        const DirectorySlot& slot = *holder;
        require(hit->sequence == slot.sequence && hit->sequence != 0 && hit->sequence % 2 == 0);
        require(hit->entry.key == key && hit->entry.bytes != 0);
        require(std::memcmp(&hit->entry, slot.words.data(), sizeof hit->entry) == 0);
    }
    require(std::memcmp(directory.get(), before.get(), sizeof(Directory)) == 0);
    return 0;
}
