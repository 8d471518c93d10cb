// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The directory of registrations: the owner's side, a reader beside a writer, and contents that no owner would write.
#define BOOST_TEST_MODULE provider_directory
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "directory.hpp"

using namespace nvlf::ofi;

namespace {

// All fields follow from key and version, so that parts of two versions in one entry show.
DirectoryEntry entry(std::uint64_t key, std::uint64_t version = 1) {
    return {.key = key,
            .base = version,
            .bytes = version + 1,
            .offset = version + 2,
            .access = version + 3,
            .events = version + 8,
            .token = {version + 4, version + 5, version + 6, version + 7}};
}

bool same(const DirectoryEntry& a, const DirectoryEntry& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

std::unique_ptr<Directory> empty() { return std::make_unique<Directory>(); } // Zeroed, as a new region is.

std::size_t slot_of(const Directory& directory, const DirectoryHit& hit) {
    for (std::size_t i = 0; i < directory_slots; ++i)
        if (&directory.slot[i].sequence == hit.sequence_at) return i;
    BOOST_FAIL("a hit outside of the directory");
    return directory_slots;
}

std::size_t found_in(const Directory& directory, std::uint64_t key) {
    const auto hit = directory_find(directory, key);
    BOOST_REQUIRE(hit.has_value());
    return slot_of(directory, *hit);
}

// Keys whose neighbourhood begins at `slot`.
std::vector<std::uint64_t> keys_at(std::size_t slot, std::size_t count) {
    const auto scratch = empty();
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = 0; keys.size() < count; ++key) {
        BOOST_REQUIRE(directory_add(*scratch, entry(key)));
        if (found_in(*scratch, key) == slot) keys.push_back(key);
        directory_remove(*scratch, key);
    }
    return keys;
}

} // namespace

BOOST_AUTO_TEST_CASE(what_was_added_is_found_until_it_is_removed) {
    const auto directory = empty();
    BOOST_TEST(!directory_find(*directory, 0).has_value());
    for (const std::uint64_t key : {0ULL, 1ULL, ~0ULL}) {
        BOOST_TEST(directory_add(*directory, entry(key)));
        const auto hit = directory_find(*directory, key);
        BOOST_REQUIRE(hit.has_value());
        BOOST_TEST(same(hit->entry, entry(key)));
        BOOST_TEST(*hit->sequence_at == hit->sequence);
    }
    BOOST_TEST(!directory_find(*directory, 2).has_value());
    directory_remove(*directory, 1);
    BOOST_TEST(!directory_find(*directory, 1).has_value());
    BOOST_TEST(directory_find(*directory, 0).has_value());
    BOOST_TEST(directory_find(*directory, ~0ULL).has_value());
    directory_remove(*directory, 1); // Not there: nothing happens.
    BOOST_TEST(directory_find(*directory, 0).has_value());
}

BOOST_AUTO_TEST_CASE(a_reader_sees_that_its_entry_went_and_that_another_came) {
    const auto directory = empty();
    BOOST_REQUIRE(directory_add(*directory, entry(7, 1)));
    const auto first = directory_find(*directory, 7);
    directory_remove(*directory, 7);
    BOOST_TEST(*first->sequence_at != first->sequence);
    BOOST_REQUIRE(directory_add(*directory, entry(7, 2)));
    BOOST_TEST(*first->sequence_at != first->sequence); // The same slot, but not the same entry.
    const auto second = directory_find(*directory, 7);
    BOOST_TEST(second->sequence_at == first->sequence_at);
    BOOST_TEST(same(second->entry, entry(7, 2)));
}

BOOST_AUTO_TEST_CASE(a_full_neighbourhood_refuses_one_more) {
    // In the middle, and where it wraps around.
    for (const std::size_t slot : {std::size_t{100}, std::size_t{directory_slots - 1}}) {
        const auto directory = empty();
        auto keys = keys_at(slot, directory_probes + 1);
        const std::uint64_t extra = keys.back();
        keys.pop_back();
        for (std::size_t i = 0; i < keys.size(); ++i) {
            BOOST_TEST(directory_add(*directory, entry(keys[i])));
            BOOST_TEST(found_in(*directory, keys[i]) == (slot + i) % directory_slots);
        }
        BOOST_TEST(!directory_add(*directory, entry(extra)));
        BOOST_TEST(!directory_find(*directory, extra).has_value());
        for (const std::uint64_t key : keys) BOOST_TEST(same(directory_find(*directory, key)->entry, entry(key)));
        directory_remove(*directory, keys[3]);
        for (const std::uint64_t key : keys)
            BOOST_TEST(directory_find(*directory, key).has_value() == (key != keys[3]));
        BOOST_TEST(directory_add(*directory, entry(extra)));
        BOOST_TEST(found_in(*directory, extra) == (slot + 3) % directory_slots);
    }
}

BOOST_AUTO_TEST_CASE(an_entry_that_changes_or_was_never_written_is_passed_over) {
    const auto directory = empty();
    const auto keys = keys_at(40, 2);
    for (const std::uint64_t key : keys) BOOST_REQUIRE(directory_add(*directory, entry(key)));
    DirectorySlot& slot = directory->slot[40];
    const std::uint64_t good = slot.sequence;
    for (const std::uint64_t sequence : {std::uint64_t{0}, good + 1, ~std::uint64_t{0}}) {
        slot.sequence = sequence;
        BOOST_TEST(!directory_find(*directory, keys[0]).has_value());
        BOOST_TEST(directory_find(*directory, keys[1]).has_value()); // Its neighbour is found all the same.
    }
    slot.sequence = good;
    BOOST_TEST(directory_find(*directory, keys[0]).has_value());
}

BOOST_AUTO_TEST_CASE(an_entry_outside_its_neighbourhood_is_not_looked_for) {
    const auto directory = empty();
    const std::uint64_t key = keys_at(200, 1)[0];
    BOOST_REQUIRE(directory_add(*directory, entry(key)));
    const DirectorySlot placed = directory->slot[200];
    directory->slot[200] = {};
    for (std::size_t i = 0; i < directory_slots; ++i) {
        directory->slot[i] = placed;
        BOOST_TEST(directory_find(*directory, key).has_value() == (i >= 200 && i < 200 + directory_probes));
        directory->slot[i] = {};
    }
}

BOOST_AUTO_TEST_CASE(whatever_a_stranger_wrote_the_answer_is_nothing_or_what_he_wrote) {
    const auto directory = empty();
    std::mt19937_64 random{1};
    std::size_t hits = 0;
    for (int round = 0; round < 200; ++round) {
        for (DirectorySlot& slot : directory->slot) {
            slot.sequence = random();
            for (std::uint64_t& word : slot.words) word = random() % 8 == 0 ? 0 : random();
            slot.words[0] = random() % 16; // Few keys, each many times.
        }
        for (std::uint64_t key = 0; key < 20; ++key) {
            const auto hit = directory_find(*directory, key);
            if (!hit) continue;
            ++hits;
            BOOST_TEST(hit->entry.key == key);
            BOOST_TEST(hit->entry.bytes != 0U);
            BOOST_TEST(hit->sequence % 2 == 0U);
            const DirectorySlot& slot = directory->slot[slot_of(*directory, *hit)];
            BOOST_TEST(std::memcmp(&hit->entry, slot.words.data(), sizeof hit->entry) == 0);
        }
    }
    BOOST_TEST(hits > 0U);
}

BOOST_AUTO_TEST_CASE(a_reader_never_sees_parts_of_two_entries) {
    using Clock = std::chrono::steady_clock;
    const auto directory = empty();
    constexpr std::uint64_t key = 5;
    std::atomic<bool> stop{false};
    std::thread writer{[&] {
        std::atomic<std::uint64_t> spent{0};
        for (std::uint64_t version = 1; !stop.load(std::memory_order_relaxed); ++version) {
            static_cast<void>(directory_add(*directory, entry(key, version)));
            // Long enough, now and then, for the reader to come through.
            for (std::uint64_t i = 0; i < version % 256; ++i) spent.store(i, std::memory_order_relaxed);
            directory_remove(*directory, key);
        }
    }};
    std::size_t torn = 0;
    std::size_t versions = 0; // How often the entry was another than the time before.
    std::uint64_t last = 0;
    // Enough for races to show; the bound only matters where the two threads hardly get to run.
    const auto end = Clock::now() + std::chrono::seconds{2};
    while (versions < 2'000 && Clock::now() < end) {
        const auto hit = directory_find(*directory, key);
        if (!hit) continue;
        torn += same(hit->entry, entry(key, hit->entry.base)) ? 0 : 1;
        versions += hit->entry.base != last ? 1 : 0;
        last = hit->entry.base;
    }
    stop = true;
    writer.join();
    BOOST_TEST(torn == 0U);
    BOOST_TEST(versions > 1U);
}
