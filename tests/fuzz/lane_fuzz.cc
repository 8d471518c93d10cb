// SPDX-License-Identifier: MIT OR GPL-2.0-only
// lane_fuzz - a consumer and a producer whose other end writes whatever the fuzzer likes into the shared lane.
//
// The input is a script: bytes choose between scribbling on the lane (slots, sequence words, credit) and calls of our
// own ends. Nothing may be touched outside the lane (ASan sees to that: it is a heap block of exactly its size), and what
// the consumer is handed must lie within it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/lane.hpp"

namespace {

struct Script {
    const std::uint8_t* at;
    const std::uint8_t* end;

    template <class T>
    T take() {
        T value{};
        const std::size_t bytes = std::min<std::size_t>(sizeof value, static_cast<std::size_t>(end - at));
        std::memcpy(&value, at, bytes);
        at += bytes;
        return value;
    }
};

void require(bool holds) {
    if (!holds) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    auto lane = std::make_unique<nvlf_lane>();
    nvlf::LaneConsumer consumer{*lane};
    nvlf::LaneProducer producer{*lane};
    Script script{data, data + size};
    std::uint64_t sum = 0;
    while (script.at < script.end) {
        switch (script.take<std::uint8_t>() % 7) {
        case 0: { // The peer publishes a slot, made up but for its sequence word.
            nvlf_slot& slot = lane->slot[consumer.consumed() % NVLF_LANE_SLOTS];
            slot = script.take<nvlf_slot>();
            slot.seq = static_cast<std::uint32_t>(consumer.consumed() + 1);
            break;
        }
        case 1: { // It scribbles anywhere.
            const std::size_t at = script.take<std::uint32_t>() % (sizeof *lane - 8);
            const auto word = script.take<std::uint64_t>();
            std::memcpy(reinterpret_cast<std::byte*>(lane.get()) + at, &word, sizeof word);
            break;
        }
        case 2: { // We take a slot, and the payload that it claims to have.
            nvlf_slot slot;
            if (!consumer.pop(slot)) break;
            std::uint32_t bytes = 0;
            std::memcpy(&bytes, slot.data, sizeof bytes);
            if (auto payload = consumer.payload(slot.flags % 2 == 0 ? slot.len : bytes)) {
                const auto* first = reinterpret_cast<const std::uint8_t*>(payload->data());
                require(first >= lane->data && first + payload->size() <= lane->data + NVLF_LANE_DATA);
                for (const std::byte b : *payload) sum += static_cast<std::uint8_t>(b);
            }
            consumer.release();
            break;
        }
        case 3: consumer.give_credit(); break;
        case 4: { // We send, as far as the credit we are told allows.
            const std::uint32_t bytes = script.take<std::uint32_t>() % (nvlf::lane_data_max + 2);
            if (producer.room(bytes).failed()) break;
            std::memset(producer.payload(bytes), 0x5a, bytes);
            producer.slot().tag = sum;
            producer.publish();
            break;
        }
        case 5: { // It gives credit that looks sane.
            lane->credit.slots = producer.published() - script.take<std::uint8_t>();
            lane->credit.bytes += script.take<std::uint16_t>();
            break;
        }
        default: (void)consumer.ready(); break;
        }
    }
    return 0;
}
