// SPDX-License-Identifier: MIT OR GPL-2.0-only
// stranger.hpp - a peer that stands on libnvlf and writes what it likes into its own channel.
//
// It speaks the provider's language (wire.hpp) without the provider. The endpoint that it bothers is libfabric's.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/lane.hpp"
#include "conformance/provider/two_endpoints.hpp"
#include "nvlf/nvlf.h"
#include "provider/directory.hpp"
#include "provider/wire.hpp"

namespace nvlf::test {

namespace wire = nvlf::ofi::wire;

inline nvlf_slot slot_of(std::uint8_t op, std::uint8_t flags, std::uint16_t length, std::uint64_t tag) {
    nvlf_slot slot{};
    slot.op = op;
    slot.flags = flags;
    slot.len = length;
    slot.tag = tag;
    return slot;
}

// Calls of libnvlf that must succeed for there to be a test at all.
inline void must(int result, const char* what) {
    BOOST_REQUIRE_MESSAGE(result >= 0, what << ": " << std::strerror(-result));
}

class Stranger {
public:
    // Nobody's acquaintance yet.
    Stranger() {
        must(nvlf_open(nullptr, &fabric_), "nvlf_open");
        must(nvlf_ep_publish(fabric_, 0, 0, region_bytes, &ep_), "nvlf_ep_publish");
    }
    explicit Stranger(const Side& victim) : Stranger{} { meet(victim.name()); }
    ~Stranger() {
        die();
        if (kept_ != nullptr) ::munmap(kept_, sizeof(nvlf_lane) + 4096);
    }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;

    void meet(const std::vector<char>& victim) {
        nvlf_addr address{};
        std::memcpy(&address, victim.data(), sizeof address);
        must(nvlf_ep_connect(ep_, &address, &channel_), "nvlf_ep_connect");
        lane_ = nvlf_channel_tx(channel_);
    }

    [[nodiscard]] std::vector<char> name() const {
        std::vector<char> bytes(sizeof(nvlf_addr));
        std::memcpy(bytes.data(), nvlf_ep_addr(ep_), bytes.size());
        return bytes;
    }

    // As the provider does: who wants to may copy from our memory, and knows by this that it is ours.
    void show_proof() {
        auto* const region = reinterpret_cast<std::byte*>(nvlf_ep_region(ep_));
        auto& directory = *reinterpret_cast<ofi::Directory*>(region + ofi::directory_offset);
        proof_ = {1, 2};
        directory.proof = {proof_, reinterpret_cast<std::uintptr_t>(proof_.data())};
        std::atomic_ref{directory.magic}.store(ofi::directory_magic, std::memory_order_release);
    }

    // What the victim says, slot by slot.
    std::optional<nvlf_slot> hear() {
        if (!ears_) ears_.emplace(*nvlf_channel_rx(channel_));
        nvlf_slot slot;
        if (!ears_->pop(slot)) return std::nullopt;
        (void)ears_->give_credit();
        return slot;
    }

    [[nodiscard]] nvlf_lane& lane() const { return *lane_; }
    [[nodiscard]] nvlf_lane& other_lane() const { return *nvlf_channel_rx(channel_); }

    [[nodiscard]] bool room() const {
        return sent_ - std::atomic_ref{lane_->credit.slots}.load(std::memory_order_acquire) < NVLF_LANE_SLOTS;
    }

    // A slot with this header, and no more.
    template <class Header>
    void say(std::uint8_t op, const Header& header, std::uint8_t flags = 0, std::uint64_t tag = 0) {
        nvlf_slot slot = slot_of(op, flags, sizeof header, tag);
        wire::put(slot, header);
        publish(slot);
    }

    void publish(nvlf_slot slot) {
        nvlf_slot& to = lane_->slot[sent_ % NVLF_LANE_SLOTS];
        std::memcpy(reinterpret_cast<char*>(&to) + sizeof to.seq,
                    reinterpret_cast<const char*>(&slot) + sizeof slot.seq, sizeof slot - sizeof slot.seq);
        std::atomic_ref{to.seq}.store(static_cast<std::uint32_t>(++sent_), std::memory_order_release);
    }

    // Publishes the same slot until the victim takes no more of it or `most` are sent. The number sent.
    std::size_t flood(const nvlf_slot& slot, std::size_t most, fid_cq* victim) {
        std::size_t count = 0;
        for (int idle = 0; idle < 1000 && count < most;) {
            ++idle;
            for (; room() && count < most; ++count, idle = 0) publish(slot);
            (void)fi_cq_read(victim, nullptr, 0);
        }
        return count;
    }

    // A second mapping of the lane, which outlives our endpoint.
    void keep_lane() {
        auto* const page = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(lane_) & ~std::uintptr_t{4095});
        const auto offset = reinterpret_cast<char*>(lane_) - page;
        kept_ = ::mremap(page, 0, sizeof(nvlf_lane) + 4096, MREMAP_MAYMOVE); // Of length 0: copies a shared mapping.
        BOOST_REQUIRE(kept_ != MAP_FAILED);
        lane_ = reinterpret_cast<nvlf_lane*>(static_cast<char*>(kept_) + offset);
    }

    void die() {
        nvlf_channel_put(std::exchange(channel_, nullptr));
        (void)nvlf_ep_put(std::exchange(ep_, nullptr));
        (void)nvlf_close(std::exchange(fabric_, nullptr));
    }

    void scribble(std::mt19937_64& random) {
        for (int i = 0; i < 64; ++i) lane_->data[random() % NVLF_LANE_DATA] = static_cast<std::uint8_t>(random());
        nvlf_lane* const other = nvlf_channel_rx(channel_);
        other->credit.slots = random() % 4 == 0 ? random() : random() % 512;
        other->credit.bytes = random() % 4 == 0 ? random() : random() % NVLF_LANE_DATA;
        for (nvlf_lane* const lane : {lane_, other}) std::atomic_ref{lane->credit.user[0]}.store(random());
        nvlf_region* const region = nvlf_ep_region(ep_);
        std::atomic_ref{region->armed}.store(static_cast<std::uint32_t>(random()), std::memory_order_release);
    }

private:
    static constexpr std::uint64_t region_bytes = 64U << 10; // As the provider's.

    nvlf_fabric* fabric_ = nullptr;
    nvlf_ep* ep_ = nullptr;
    nvlf_channel* channel_ = nullptr;
    nvlf_lane* lane_ = nullptr;
    void* kept_ = nullptr;
    std::uint64_t sent_ = 0;
    std::array<std::uint64_t, 2> proof_{};
    std::optional<LaneConsumer> ears_;
};

// A message of each protocol from a to b, and no other event on the way.
inline void talk(TwoEndpoints& pair, unsigned seed) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{100'000}}) {
        const auto out = pattern(bytes, seed);
        std::vector<char> in(bytes);
        check(fi_trecv(pair.b.ep.get(), in.data(), bytes, nullptr, pair.to_a, ~seed, 0, &in), "trecv");
        pair.post("tsend",
                  [&] { return fi_tsend(pair.a.ep.get(), out.data(), bytes, nullptr, pair.to_b, ~seed, &in); });
        const Event got = pair.wait(pair.b, "receive");
        BOOST_REQUIRE_EQUAL(got.error, 0);
        BOOST_REQUIRE(got.entry.op_context == &in);
        BOOST_REQUIRE_EQUAL(pair.wait(pair.a, "send").error, 0);
        BOOST_REQUIRE(in == out);
    }
}

} // namespace nvlf::test
