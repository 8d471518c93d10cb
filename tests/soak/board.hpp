// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the processes of a soak tell each other outside the fabric: who is there, under which address, with which window.
//
// One card a process, in memory that all of them share. A card's version is even while its owner has an endpoint and odd
// while it has none or changes it; it only grows, so that "the peer I sent to is gone" is "its version is another one".
// When a process was killed, its card is turned by whoever killed it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>

namespace nvlf::soak {

inline constexpr unsigned max_processes = 8;
inline constexpr std::size_t slice_bytes = std::size_t{128} << 10;
// Each process has two slices in each window and changes between them from life to life: the last words of a life that
// was cut short may still be on their way into the other one.
inline constexpr unsigned slices = max_processes * 2;
inline constexpr std::size_t window_bytes = slice_bytes * slices;

struct Presence {
    std::array<char, 64> name{};
    std::uint64_t name_bytes = 0;
    std::uint64_t key = 0;  // Of the window,
    std::uint64_t base = 0; // and its remote address.
    std::uint64_t life = 0;
};

class Card {
public:
    [[nodiscard]] std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }

    void show(const Presence& presence) noexcept {
        Words words;
        std::memcpy(words.data(), &presence, sizeof presence);
        for (std::size_t i = 0; i < words.size(); ++i) words_[i].store(words[i], std::memory_order_relaxed);
        version_.store((version() | 1) + 1, std::memory_order_release);
    }
    void turn() noexcept { version_.store(version() | 1, std::memory_order_release); }

    // Nothing while nobody is there.
    [[nodiscard]] std::optional<Presence> read(std::uint64_t& ret_version) const noexcept {
        ret_version = version();
        if (ret_version == 0 || ret_version % 2 == 1) return std::nullopt;
        Words words;
        for (std::size_t i = 0; i < words.size(); ++i) words[i] = words_[i].load(std::memory_order_acquire);
        if (version() != ret_version) return std::nullopt;
        Presence presence;
        std::memcpy(static_cast<void*>(&presence), words.data(), sizeof presence);
        return presence;
    }

private:
    using Words = std::array<std::uint64_t, sizeof(Presence) / 8>;
    std::atomic<std::uint64_t> version_{0};
    std::array<std::atomic<std::uint64_t>, sizeof(Presence) / 8> words_{};
};

// What was done, for the report.
enum class Count { sent, received, truncated, written, read, atomics, peeked, cancelled, peer_gone, lives, end };

// Kinds of errands (errand.hpp).
inline constexpr std::size_t errand_count = 14;

struct Board {
    std::array<Card, max_processes> cards{};
    std::array<std::atomic<std::uint64_t>, errand_count> errands{}; // How often each was run to its end.
    std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Count::end)> counts{};

    void count(Count what) noexcept { counts[static_cast<std::size_t>(what)].fetch_add(1, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t get(Count what) const noexcept {
        return counts[static_cast<std::size_t>(what)].load(std::memory_order_relaxed);
    }
};

} // namespace nvlf::soak
