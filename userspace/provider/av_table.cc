// SPDX-License-Identifier: MIT OR GPL-2.0-only
// av_table.cc - see av_table.hpp.
#include "av_table.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <new>

namespace nvlf::ofi {
namespace {

constexpr std::uint64_t table_version = 0x31'42'54'56'41'46'4c'56; // "VLFAVTB1"
constexpr std::size_t header_bytes = 64;
constexpr std::size_t slot_bytes = 40;

constexpr std::size_t bytes_for(std::size_t entries, bool shared) noexcept {
    return header_bytes + entries * (slot_bytes + (shared ? sizeof(fi_addr_t) : 0));
}

// Raises or lowers a word that others change, too.
template <class Better>
void settle(std::atomic<std::uint64_t>& word, std::uint64_t value, Better better) noexcept {
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    while (better(value, seen) && !word.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {}
}

} // namespace

AvTable::~AvTable() {
    mapping_.reset();
    if (memory_ != nullptr) (void)nvlf_mem_put(memory_);
    if (private_ != nullptr) (void)::munmap(private_, bytes_for(capacity_, false));
}

void AvTable::place(void* base, std::size_t entries) noexcept {
    auto* const bytes = static_cast<std::byte*>(base);
    capacity_ = entries;
    header_ = reinterpret_cast<Header*>(bytes);
    changes_ = &header_->changes;
    slots_ = reinterpret_cast<Slot*>(bytes + header_bytes);
    indices_ = reinterpret_cast<std::atomic<fi_addr_t>*>(bytes + header_bytes + entries * slot_bytes);
}

// Address space for the most there may be: only what is used costs memory, and nothing ever moves.
Errno AvTable::open_private() noexcept {
    void* const base = ::mmap(nullptr, bytes_for(av_limit, false), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return Errno{ENOMEM};
    private_ = base;
    place(base, av_limit);
    return Errno{};
}

Errno AvTable::open_shared(nvlf_fabric* fabric, std::uint32_t device, const char* name, std::size_t entries,
                           bool only_read) noexcept {
    char full[NVLF_MEM_NAME_LEN];
    if (std::snprintf(full, sizeof full, "av/%s", name) >= static_cast<int>(sizeof full)) return Errno{EINVAL};
    const std::uint32_t access = only_read ? NVLF_ACCESS_READ : NVLF_ACCESS_READ | NVLF_ACCESS_WRITE;
    const int ret = nvlf_mem_open(fabric, full, access, only_read ? 0 : NVLF_OPEN_CREATE, device,
                                  bytes_for(std::max(entries, av_shared_size), true), &memory_);
    if (ret < 0) return Errno{-ret};
    // Not where the fabric would have it: there may be two of us in one process, with different rights.
    const std::size_t bytes = nvlf_mem_bytes(memory_);
    auto mapped =
        Mapping::map(nvlf_mem_fd(memory_), bytes, only_read ? Mapping::Access::read : Mapping::Access::read_write);
    if (!mapped) return mapped.error();
    mapping_ = *std::move(mapped);
    read_only_ = only_read;
    place(mapping_.data(), std::min(av_limit, (bytes - header_bytes) / (slot_bytes + sizeof(fi_addr_t))));
    std::uint64_t version = header_->version.load(std::memory_order_relaxed);
    if (version == 0 && !only_read && header_->version.compare_exchange_strong(version, table_version)) return Errno{};
    return version == 0 || version == table_version ? Errno{} : Errno{EINVAL};
}

// Ours to write, unless it is in use or somebody was faster.
bool AvTable::take(Slot& slot, std::uint64_t& ret_state) noexcept {
    std::uint64_t state = slot.state.load(std::memory_order_relaxed);
    if ((state & state_mask) != state_free) return false;
    ret_state = state;
    return slot.state.compare_exchange_strong(state, state | state_writing, std::memory_order_relaxed);
}

Result<fi_addr_t> AvTable::insert(const nvlf_addr& addr) noexcept {
    std::array<std::uint64_t, sizeof addr / 8> words;
    std::memcpy(words.data(), &addr, sizeof addr);
    const std::uint64_t hint = header_->first_free.load(std::memory_order_relaxed);
    for (std::size_t index = hint < capacity_ ? hint : 0; index < capacity_; ++index) {
        Slot& slot = slots_[index];
        std::uint64_t state = 0;
        if (!take(slot, state)) continue;
        // So that no reader sees a word of these under the state that it was free with.
        std::atomic_thread_fence(std::memory_order_release);
        for (std::size_t i = 0; i < words.size(); ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
        if (shared()) indices_[index].store(index, std::memory_order_relaxed);
        settle(header_->end, index + 1, [](auto mine, auto theirs) { return mine > theirs; });
        slot.state.store(state | state_used, std::memory_order_release);
        std::uint64_t expected = hint; // A removal that lowered it meanwhile knows better.
        header_->first_free.compare_exchange_strong(expected, index + 1, std::memory_order_relaxed);
        return index;
    }
    return Errno{EMFILE};
}

std::optional<nvlf_addr> AvTable::remove(fi_addr_t index) noexcept {
    nvlf_addr addr;
    if (index >= capacity_) return std::nullopt;
    Slot& slot = slots_[index];
    std::uint64_t state = slot.state.load(std::memory_order_acquire);
    if ((state & state_mask) != state_used || !lookup(index, addr)) return std::nullopt;
    // To the next generation's "free".
    if (!slot.state.compare_exchange_strong(state, (state | state_mask) + 1, std::memory_order_acq_rel))
        return std::nullopt;
    if (shared()) indices_[index].store(FI_ADDR_NOTAVAIL, std::memory_order_relaxed);
    settle(header_->first_free, index, [](auto mine, auto theirs) { return mine < theirs; });
    return addr;
}

bool AvTable::lookup(fi_addr_t index, nvlf_addr& ret_addr) const noexcept {
    if (index >= capacity_) return false;
    const Slot& slot = slots_[index];
    const std::uint64_t state = slot.state.load(std::memory_order_acquire); // Pairs with the release in insert.
    if ((state & state_mask) != state_used) return false;
    std::array<std::uint64_t, sizeof ret_addr / 8> words;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = slot.words[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    // Removed while we copied: then it is not there.
    if (slot.state.load(std::memory_order_relaxed) != state) return false;
    std::memcpy(&ret_addr, words.data(), sizeof ret_addr);
    return true;
}

std::size_t AvTable::end() const noexcept {
    return std::min<std::uint64_t>(header_->end.load(std::memory_order_acquire), capacity_);
}

std::uint64_t AvTable::state(std::size_t index) const noexcept {
    const std::uint64_t state = slots_[index].state.load(std::memory_order_acquire);
    return (state & state_mask) == state_used ? state : 0;
}

} // namespace nvlf::ofi
