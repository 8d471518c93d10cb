// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See lane.hpp.
#include "lane.hpp"

#include "base/lane.hpp"
#include "beside.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

namespace nvlf::bench {
namespace {

void send_slot(LaneProducer& producer, std::uint64_t i) {
    while (producer.room(0).failed()) {}
    nvlf_slot& slot = producer.slot();
    slot.tag = i;
    slot.len = 8;
    std::memcpy(slot.data, &i, sizeof i);
    producer.publish();
}

nvlf_slot take_slot(LaneConsumer& consumer) {
    nvlf_slot slot;
    while (!consumer.pop(slot)) {}
    consumer.release();
    return slot;
}

} // namespace

Figures lane_trip(const Processors& processors, std::uint64_t trips) {
    auto lanes = std::make_unique<std::array<nvlf_lane, 2>>();
    return beside(
        processors,
        [&] {
            LaneProducer there{(*lanes)[0]};
            LaneConsumer back{(*lanes)[1]};
            RoundTrips times{trips};
            times.start();
            for (std::uint64_t i = 0; i < trips; ++i) {
                send_slot(there, i);
                (void)take_slot(back);
                times.stamp();
            }
            return times.half();
        },
        [&] {
            LaneConsumer in{(*lanes)[0]};
            LaneProducer out{(*lanes)[1]};
            for (std::uint64_t i = 0; i < trips; ++i) send_slot(out, take_slot(in).tag);
        });
}

Figures lane_stream(const Processors& processors, std::uint64_t slots) {
    auto lane = std::make_unique<nvlf_lane>();
    return beside(
        processors,
        [&] {
            LaneProducer producer{*lane};
            const auto start = Clock::now();
            for (std::uint64_t i = 0; i < slots; ++i) send_slot(producer, i);
            // Credits come in batches of 64: to the last that will.
            while (std::atomic_ref{lane->credit.slots}.load(std::memory_order_acquire) < slots / 64 * 64) {}
            return Figures{ns_between(start, Clock::now()) / static_cast<double>(slots), 0};
        },
        [&] {
            LaneConsumer consumer{*lane};
            for (std::uint64_t i = 0; i < slots; ++i) (void)take_slot(consumer);
        });
}

Figures lane_pieces(const Processors& processors, std::uint64_t pieces) {
    auto lane = std::make_unique<nvlf_lane>();
    return beside(
        processors,
        [&] {
            LaneProducer producer{*lane};
            std::vector<std::byte> from(lane_piece, std::byte{1});
            const auto start = Clock::now();
            for (std::uint64_t i = 0; i < pieces; ++i) {
                while (producer.room(lane_piece).failed()) {}
                std::memcpy(producer.payload(lane_piece), from.data(), lane_piece);
                producer.publish();
            }
            return Figures{ns_between(start, Clock::now()) / static_cast<double>(pieces), 0};
        },
        [&] {
            LaneConsumer consumer{*lane};
            std::vector<std::byte> to(lane_piece);
            for (std::uint64_t i = 0; i < pieces; ++i) {
                (void)take_slot(consumer);
                const auto payload = consumer.payload(lane_piece);
                std::memcpy(to.data(), payload->data(), payload->size());
                consumer.give_credit();
            }
        });
}

} // namespace nvlf::bench
