// SPDX-License-Identifier: MIT OR GPL-2.0-only
// lane_test - both ends of a lane: what arrives, in which order, what happens at the edges, and what a hostile other end
// can and cannot do. The threaded tests are the ones that ThreadSanitizer watches.
#define BOOST_TEST_MODULE lane
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/lane.hpp"

namespace {

using namespace nvlf;

struct Lane {
    std::unique_ptr<nvlf_lane> memory = std::make_unique<nvlf_lane>(); // Zeroed, as a new channel is.
    LaneProducer producer{*memory};
    LaneConsumer consumer{*memory};

    void push(std::uint64_t tag) {
        BOOST_REQUIRE(!producer.room(0).failed());
        producer.slot().tag = tag;
        producer.publish();
    }
};

// Byte i of a payload of this seed.
std::byte pattern(std::uint64_t seed, std::size_t i) { return static_cast<std::byte>((seed * 131 + i * 7) & 0xff); }

void push_payload(LaneProducer& producer, std::uint64_t seed, std::uint32_t bytes) {
    std::byte* to = producer.payload(bytes);
    for (std::uint32_t i = 0; i < bytes; ++i) to[i] = pattern(seed, i);
    nvlf_slot& slot = producer.slot();
    slot.tag = seed;
    std::memcpy(slot.data, &bytes, sizeof bytes);
    producer.publish();
}

// False when any byte is wrong.
bool take_payload(LaneConsumer& consumer, const nvlf_slot& slot) {
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, slot.data, sizeof bytes);
    const auto payload = consumer.payload(bytes);
    if (!payload) return false;
    bool good = payload->size() == bytes;
    for (std::uint32_t i = 0; i < bytes; ++i) good = good && (*payload)[i] == pattern(slot.tag, i);
    consumer.release();
    return good;
}

} // namespace

BOOST_AUTO_TEST_CASE(an_empty_lane_has_nothing_to_pop) {
    Lane lane;
    nvlf_slot slot;
    BOOST_TEST(!lane.consumer.ready());
    BOOST_TEST(!lane.consumer.pop(slot));
}

BOOST_AUTO_TEST_CASE(slots_arrive_in_order_across_many_wraps) {
    Lane lane;
    nvlf_slot slot;
    for (std::uint64_t i = 0; i < 10 * NVLF_LANE_SLOTS; ++i) {
        lane.push(i);
        BOOST_REQUIRE(lane.consumer.pop(slot));
        BOOST_REQUIRE_EQUAL(slot.tag, i);
        lane.consumer.release();
    }
}

BOOST_AUTO_TEST_CASE(a_full_ring_says_again_and_goes_on_after_a_quarter_is_consumed) {
    Lane lane;
    for (std::uint64_t i = 0; i < NVLF_LANE_SLOTS; ++i) lane.push(i);
    BOOST_CHECK(lane.producer.room(0) == Errno{EAGAIN});
    nvlf_slot slot;
    for (std::uint64_t i = 0; i + 1 < NVLF_LANE_SLOTS / 4; ++i) {
        BOOST_REQUIRE(lane.consumer.pop(slot));
        BOOST_TEST(!lane.consumer.release());
    }
    BOOST_CHECK(lane.producer.room(0) == Errno{EAGAIN}); // Credit comes a quarter at a time,
    BOOST_REQUIRE(lane.consumer.pop(slot));
    BOOST_CHECK(lane.producer.room(0) == Errno{EAGAIN}); // and not for what is still being looked at.
    BOOST_TEST(lane.consumer.release());
    BOOST_CHECK(lane.producer.room(0) == Errno{});
}

BOOST_AUTO_TEST_CASE(a_producer_can_tell_what_has_been_dealt_with) {
    Lane lane;
    nvlf_slot slot;
    BOOST_TEST(lane.producer.consumed(0));
    lane.push(0);
    lane.push(1);
    BOOST_TEST(!lane.producer.consumed(1));
    BOOST_REQUIRE(lane.consumer.pop(slot));
    BOOST_TEST(!lane.producer.consumed(1));
    lane.consumer.give_credit();
    BOOST_TEST(lane.producer.consumed(1));
    BOOST_TEST(!lane.producer.consumed(2));
}

BOOST_AUTO_TEST_CASE(an_idle_consumer_gives_back_all_and_says_so_once) {
    Lane lane;
    nvlf_slot slot;
    lane.push(1);
    BOOST_TEST(!lane.consumer.give_credit());
    BOOST_REQUIRE(lane.consumer.pop(slot));
    BOOST_TEST(lane.consumer.give_credit());
    BOOST_TEST(!lane.consumer.give_credit());
    BOOST_TEST(lane.memory->credit.slots == 1U);
}

BOOST_AUTO_TEST_CASE(credit_given_in_the_middle_of_a_batch_is_told_to_whoever_wakes_the_producer) {
    Lane lane;
    nvlf_slot slot;
    for (std::uint64_t i = 0; i < NVLF_LANE_SLOTS / 4; ++i) lane.push(i);
    for (std::uint64_t i = 0; i < NVLF_LANE_SLOTS / 4; ++i) BOOST_REQUIRE(lane.consumer.pop(slot));
    BOOST_TEST(lane.consumer.release());
}

BOOST_AUTO_TEST_CASE(slots_kept_back_are_there_for_those_who_may_not_wait) {
    Lane lane;
    constexpr std::uint32_t reserve = 32;
    std::uint64_t sent = 0;
    while (!lane.producer.room(0, reserve).failed()) lane.push(sent++);
    BOOST_TEST(sent == NVLF_LANE_SLOTS - reserve);
    for (std::uint32_t i = 0; i < reserve; ++i) lane.push(sent++);
    BOOST_CHECK(lane.producer.room(0) == Errno{EAGAIN});
}

BOOST_AUTO_TEST_CASE(payloads_of_every_size_survive_wherever_they_fall) {
    Lane lane;
    std::mt19937 random{7};
    std::uniform_int_distribution<std::uint32_t> size{1, lane_data_max};
    nvlf_slot slot;
    for (std::uint64_t i = 0; i < 2000; ++i) {
        const std::uint32_t bytes = i == 0 ? lane_data_max : size(random);
        BOOST_REQUIRE(lane.producer.room(bytes) == Errno{}); // Half the ring always fits an empty one.
        push_payload(lane.producer, i, bytes);
        BOOST_REQUIRE(lane.consumer.pop(slot));
        BOOST_REQUIRE(take_payload(lane.consumer, slot));
        lane.consumer.give_credit();
    }
}

BOOST_AUTO_TEST_CASE(a_payload_over_half_the_ring_is_refused_at_both_ends) {
    Lane lane;
    BOOST_CHECK(lane.producer.room(lane_data_max + 1) == Errno{EMSGSIZE});
    BOOST_CHECK(lane.producer.room(lane_data_max) == Errno{});
    BOOST_CHECK(lane.consumer.payload(lane_data_max + 1).error() == Errno{EPROTO});
}

BOOST_AUTO_TEST_CASE(a_full_data_ring_says_again_while_slots_are_free) {
    Lane lane;
    int pushed = 0;
    while (!lane.producer.room(32768).failed()) {
        push_payload(lane.producer, 1, 32768);
        ++pushed;
    }
    BOOST_TEST(pushed == NVLF_LANE_DATA / 32768);
    BOOST_CHECK(lane.producer.room(0) == Errno{});
    BOOST_CHECK(lane.producer.room(1) == Errno{EAGAIN});
}

BOOST_AUTO_TEST_CASE(credit_for_what_was_never_sent_is_eproto_not_an_overrun) {
    for (const std::uint64_t lie : {std::uint64_t{NVLF_LANE_SLOTS + 1}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        Lane lane;
        for (std::uint64_t i = 0; i < NVLF_LANE_SLOTS; ++i) lane.push(i);
        lane.memory->credit.slots = lie;
        BOOST_CHECK(lane.producer.room(0) == Errno{EPROTO});
    }
    Lane lane;
    while (!lane.producer.room(32768).failed()) push_payload(lane.producer, 1, 32768);
    lane.memory->credit.bytes = NVLF_LANE_DATA + 64;
    BOOST_CHECK(lane.producer.room(64) == Errno{EPROTO});
}

BOOST_AUTO_TEST_CASE(a_slot_rewritten_after_it_was_popped_does_not_change_our_copy) {
    Lane lane;
    lane.push(42);
    nvlf_slot slot;
    BOOST_REQUIRE(lane.consumer.pop(slot));
    lane.memory->slot[0].tag = 666;
    BOOST_TEST(slot.tag == 42U);
}

BOOST_AUTO_TEST_CASE(sequence_words_that_were_made_up_are_not_taken_for_slots) {
    Lane lane;
    nvlf_slot slot;
    for (const std::uint32_t lie : {0U, 2U, NVLF_LANE_SLOTS + 1U, ~0U}) {
        lane.memory->slot[0].seq = lie;
        BOOST_TEST(!lane.consumer.pop(slot));
    }
}

BOOST_AUTO_TEST_CASE(two_threads_exchange_small_messages_without_loss_or_disorder) {
    Lane lane;
    constexpr std::uint64_t count = 200'000;
    std::thread producer{[&] {
        for (std::uint64_t i = 0; i < count; ++i) {
            while (lane.producer.room(0).failed()) std::this_thread::yield();
            nvlf_slot& slot = lane.producer.slot();
            slot.tag = i;
            std::memset(slot.data, static_cast<int>(i & 0xff), sizeof slot.data);
            lane.producer.publish();
        }
    }};
    std::uint64_t wrong = 0;
    nvlf_slot slot;
    for (std::uint64_t i = 0; i < count;) {
        if (!lane.consumer.pop(slot)) {
            lane.consumer.give_credit();
            std::this_thread::yield();
            continue;
        }
        for (const __u8 byte : slot.data) wrong += byte != (i & 0xff);
        wrong += slot.tag != i++;
    }
    producer.join();
    BOOST_TEST(wrong == 0U);
}

BOOST_AUTO_TEST_CASE(two_threads_exchange_payloads_without_loss_or_disorder) {
    Lane lane;
    constexpr std::uint64_t count = 5'000;
    std::thread producer{[&] {
        std::mt19937 random{11};
        std::uniform_int_distribution<std::uint32_t> size{1, 40'000};
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint32_t bytes = size(random);
            while (lane.producer.room(bytes).failed()) std::this_thread::yield();
            push_payload(lane.producer, i, bytes);
        }
    }};
    std::uint64_t wrong = 0;
    nvlf_slot slot;
    for (std::uint64_t i = 0; i < count;) {
        if (!lane.consumer.pop(slot)) {
            lane.consumer.give_credit();
            std::this_thread::yield();
            continue;
        }
        wrong += slot.tag != i++ || !take_payload(lane.consumer, slot);
    }
    producer.join();
    BOOST_TEST(wrong == 0U);
}
