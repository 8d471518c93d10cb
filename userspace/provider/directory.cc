// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "directory.hpp"

#include <atomic>

namespace nvlf::ofi {
namespace {

// Keys are small numbers or random; multiplied by 2^64 over the golden ratio, both spread.
std::uint32_t place(std::uint64_t key, std::uint32_t probe) noexcept {
    return (static_cast<std::uint32_t>(key * 0x9e3779b97f4a7c15ULL >> 32) + probe) % directory_slots;
}

std::uint64_t load(const std::uint64_t& word, std::memory_order order) noexcept {
    return std::atomic_ref{const_cast<std::uint64_t&>(word)}.load(order);
}

void store(DirectorySlot& slot, const DirectoryEntry* entry) noexcept {
    const std::uint64_t before = slot.sequence;
    std::atomic_ref{slot.sequence}.store(before + 1, std::memory_order_release);
    std::array<std::uint64_t, sizeof(DirectoryEntry) / 8> words{};
    if (entry != nullptr) std::memcpy(words.data(), entry, sizeof words);
    // release: no word may become visible before the odd sequence that announces it.
    for (std::size_t i = 0; i < words.size(); ++i)
        std::atomic_ref{slot.words[i]}.store(words[i], std::memory_order_release);
    std::atomic_ref{slot.sequence}.store(before + 2, std::memory_order_release);
}

// `bytes` 0: the slot is free. The first word is the key, the third the length.
bool holds(const DirectorySlot& slot, std::uint64_t key) noexcept { return slot.words[2] != 0 && slot.words[0] == key; }

} // namespace

bool directory_add(Directory& directory, const DirectoryEntry& entry) noexcept {
    for (std::uint32_t probe = 0; probe < directory_probes; ++probe) {
        DirectorySlot& slot = directory.slot[place(entry.key, probe)];
        if (slot.words[2] != 0) continue;
        store(slot, &entry);
        return true;
    }
    return false;
}

void directory_remove(Directory& directory, std::uint64_t key) noexcept {
    for (std::uint32_t probe = 0; probe < directory_probes; ++probe) {
        DirectorySlot& slot = directory.slot[place(key, probe)];
        if (holds(slot, key)) return store(slot, nullptr);
    }
}

std::optional<DirectoryHit> directory_find(const Directory& directory, std::uint64_t key) noexcept {
    for (std::uint32_t probe = 0; probe < directory_probes; ++probe) {
        const DirectorySlot& slot = directory.slot[place(key, probe)];
        const std::uint64_t sequence = load(slot.sequence, std::memory_order_acquire);
        if (sequence == 0 || sequence % 2 == 1) continue;
        std::array<std::uint64_t, sizeof(DirectoryEntry) / 8> words;
        for (std::size_t i = 0; i < words.size(); ++i) words[i] = load(slot.words[i], std::memory_order_acquire);
        if (load(slot.sequence, std::memory_order_acquire) != sequence) continue;
        DirectoryHit hit{.entry = {}, .sequence_at = &slot.sequence, .sequence = sequence};
        std::memcpy(&hit.entry, words.data(), sizeof hit.entry);
        if (hit.entry.bytes != 0 && hit.entry.key == key) return hit;
    }
    return std::nullopt;
}

} // namespace nvlf::ofi
