// SPDX-License-Identifier: MIT OR GPL-2.0-only
// hostile_test - what a peer that does not play by the rules can do to an endpoint's other peers: nothing.
//
// The stranger of these tests stands on libnvlf and writes what it likes into its own channel. The endpoint that it
// bothers, and the honest one, are libfabric's.
#define BOOST_TEST_MODULE hostile
#include <rdma/fi_atomic.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "coll_key.hpp"
#include "conformance/provider/crew.hpp"
#include "conformance/provider/stranger.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;
struct SmallLimits : OwnFabric {
    SmallLimits() {
        ::setenv("FI_NVLF_UNEXPECTED_LIMIT", "1M", 1);
        ::setenv("FI_NVLF_CQ_LIMIT", "1024", 1);
    }
};
BOOST_TEST_GLOBAL_FIXTURE(SmallLimits);

const SideOptions directed{.caps =
                               FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_COLLECTIVE | FI_SOURCE | FI_DIRECTED_RECV};

} // namespace

BOOST_AUTO_TEST_CASE(what_a_stranger_sends_and_nobody_receives_leaves_room_for_others) {
    constexpr std::size_t many = 1 << 16; // Far more than the limit allows.
    for (const bool empty : {true, false}) {
        TwoEndpoints pair;
        Stranger stranger{pair.b};
        const nvlf_slot slot = empty ? slot_of(wire::op_msg, wire::flag_tagged, 0, 1)
                                     : slot_of(wire::op_msg, wire::flag_tagged | wire::flag_ring, 16384, 1);
        BOOST_TEST(stranger.flood(slot, many, pair.b.cq.get()) < many);
        // The first of these finds no receive. It must not keep the second one out.
        pair.post("tinject", [&] { return fi_tinject(pair.a.ep.get(), "first", 6, pair.to_b, 2); });
        pair.post("tinject", [&] { return fi_tinject(pair.a.ep.get(), "then", 5, pair.to_b, 3); });
        std::array<char, 8> in{};
        check(fi_trecv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, 3, 0, nullptr), "trecv");
        BOOST_TEST(pair.wait(pair.b, "the second message").error == 0);
        BOOST_TEST(std::string{in.data()} == "then");
    }
}

BOOST_AUTO_TEST_CASE(answers_that_a_stranger_does_not_take_do_not_keep_us_from_sending) {
    TwoEndpoints pair;
    std::vector<char> memory(1 << 20);
    fid_mr* region = nullptr;
    check(fi_mr_reg(pair.b.domain.get(), memory.data(), memory.size(), FI_REMOTE_READ, 0, 7, 0, &region, nullptr),
          "mr_reg");
    const FidPtr<fid_mr> owned{region};
    Stranger stranger{pair.b};
    nvlf_slot slot = slot_of(wire::op_read, 0, sizeof(wire::Read), 7);
    wire::put(slot, wire::Read{0, memory.size(), 1});
    constexpr std::size_t many = 300'000; // More answers than an endpoint keeps.
    BOOST_TEST(stranger.flood(slot, many, pair.b.cq.get()) < many);
    std::vector<char> in(100'000);
    check(fi_recv(pair.a.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    pair.post("send", [&] { return fi_send(pair.b.ep.get(), memory.data(), in.size(), nullptr, pair.to_a, nullptr); });
    BOOST_TEST(pair.wait(pair.a, "receive").error == 0);
}

BOOST_AUTO_TEST_CASE(results_that_a_stranger_does_not_take_do_not_pile_up) {
    TwoEndpoints pair;
    std::vector<char> memory(1 << 20);
    fid_mr* region = nullptr;
    check(fi_mr_reg(pair.b.domain.get(), memory.data(), memory.size(), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0,
                    &region, nullptr),
          "mr_reg");
    const FidPtr<fid_mr> owned{region};
    Stranger stranger{pair.b};
    // 16 KiB each for a slot without payload: a read needs no operand.
    nvlf_slot slot = slot_of(wire::op_atomic, 0, sizeof(wire::Atomic), 7);
    wire::put(slot, wire::Atomic{0, 1, 2048, FI_UINT64, FI_ATOMIC_READ, 1, 1});
    constexpr std::size_t many = 10'000;
    BOOST_TEST(stranger.flood(slot, many, pair.b.cq.get()) < many / 10);
    talk(pair, 1);
}

BOOST_AUTO_TEST_CASE(atomic_operations_that_no_honest_peer_sends_end_the_conversation_and_touch_nothing) {
    std::vector<char> memory(4096);
    const auto refused = [&](const wire::Atomic& atomic, std::uint16_t bytes) {
        TwoEndpoints pair{{}, {.caps = FI_MSG | FI_TAGGED | FI_ATOMIC | FI_SOURCE}};
        fid_mr* region = nullptr;
        check(fi_mr_reg(pair.b.domain.get(), memory.data(), memory.size(), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0,
                        &region, nullptr),
              "mr_reg");
        const FidPtr<fid_mr> owned{region};
        Stranger stranger{pair.b};
        nvlf_slot slot = slot_of(wire::op_atomic, 0, static_cast<std::uint16_t>(sizeof atomic + bytes), 7);
        wire::put(slot, atomic);
        std::memset(slot.data + sizeof atomic, 1, NVLF_SLOT_DATA - sizeof atomic);
        stranger.publish(slot);
        // Would arrive if it were still listened to.
        stranger.publish(slot_of(wire::op_msg, 0, 0, 0));
        check(fi_recv(pair.b.ep.get(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        const Event end = pair.wait(pair.b, "the end of the conversation");
        return end.error == FI_ECONNABORTED &&
               std::all_of(memory.begin(), memory.end(), [](char byte) { return byte == 0; });
    };
    BOOST_TEST(refused({0, 1, 1, 77, FI_SUM, 0, 1}, 8));                    // No such datatype,
    BOOST_TEST(refused({0, 1, 1, FI_UINT64, 77, 0, 1}, 8));                 // operation,
    BOOST_TEST(refused({0, 1, 1, FI_UINT64, FI_SUM, 77, 1}, 8));            // class.
    BOOST_TEST(refused({0, 1, 1, FI_UINT64, FI_CSWAP, 0, 1}, 16));          // Not in this class.
    BOOST_TEST(refused({0, 1, 2, FI_UINT64, FI_SUM, 0, 1}, 8));             // More elements than operands.
    BOOST_TEST(refused({0, 1, 1, FI_UINT64, FI_SUM, 0, 1}, 16));            // Fewer.
    BOOST_TEST(refused({0, 1, 0, FI_UINT64, FI_SUM, 0, 1}, 0));             // None.
    BOOST_TEST(refused({0, 1, 1U << 31, FI_UINT64, FI_SUM, 0, 1}, 8));      // Far too many.
    BOOST_TEST(refused({0, 1, 1, FI_UINT64, FI_SUM, 0, 0}, 8));             // No segment,
    BOOST_TEST(refused({0, 1, 1, FI_UINT64, FI_SUM, 0, 200}, 8));           // too many,
    BOOST_TEST(refused({0, 1, 1, FI_UINT64, FI_SUM, 0, 2}, 8));             // none of those announced.
    BOOST_TEST(!refused({4096, 1, 1, FI_UINT64, FI_ATOMIC_READ, 1, 1}, 0)); // Out of bounds is a mistake, no attack.
}

BOOST_AUTO_TEST_CASE(a_lane_that_is_written_to_after_its_owners_death_is_not_read_for_ever) {
    TwoEndpoints pair{directed, directed};
    // Each message from the stranger walks past these: reading takes longer than writing.
    for (int i = 0; i < 20'000; ++i) check(fi_recv(pair.b.ep.get(), nullptr, 0, nullptr, pair.to_a, nullptr), "recv");
    std::vector<char> in(1 << 20);
    iovec iov{in.data(), in.size()};
    fi_msg msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, nullptr, 0};
    check(fi_recvmsg(pair.b.ep.get(), &msg, FI_MULTI_RECV), "recvmsg");
    Stranger stranger{pair.b};
    const nvlf_slot slot = slot_of(wire::op_msg, 0, 0, 0);
    (void)stranger.flood(slot, 1, pair.b.cq.get());
    stranger.keep_lane();
    while (stranger.room()) stranger.publish(slot);
    stranger.die();
    constexpr std::size_t many = 5000;
    std::atomic<std::size_t> written{0};
    std::atomic<bool> started{false}, stop{false};
    std::thread undead{[&] {
        started = true;
        while (!stop && written < many)
            if (stranger.room()) {
                stranger.publish(slot);
                ++written;
            }
    }};
    while (!started) std::this_thread::yield();
    (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
    stop = true;
    undead.join();
    BOOST_TEST(written < many);
}

BOOST_AUTO_TEST_CASE(remote_writes_without_end_leave_room_in_the_queue_and_none_of_them_is_lost) {
    TwoEndpoints pair;
    Stranger stranger{pair.b};
    const nvlf_slot slot = slot_of(wire::op_notify, wire::flag_cq_data, sizeof(wire::Notify), FI_REMOTE_WRITE);
    constexpr std::size_t many = 100'000;
    const std::size_t sent = stranger.flood(slot, many, pair.b.cq.get());
    BOOST_TEST(sent < 5000U); // Half of the queue and a lane.
    // What the endpoint itself asked for still completes.
    int context = 0;
    pair.post("inject", [&] { return fi_inject(pair.a.ep.get(), "x", 1, pair.to_b); });
    check(fi_recv(pair.b.ep.get(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, &context), "recv");
    std::size_t told = 0, received = 0;
    for (int idle = 0; idle < 1000; ++idle)
        while (const auto event = poll(pair.b.cq.get())) {
            idle = 0;
            received += event->entry.op_context == &context ? 1U : 0U;
            if (event->entry.op_context == &context) continue;
            BOOST_REQUIRE_EQUAL(event->error, 0); // No overrun.
            ++told;
        }
    BOOST_TEST(told == sent);
    BOOST_TEST(received == 1U);
}

BOOST_AUTO_TEST_CASE(an_endpoint_without_rma_is_told_of_no_remote_write) {
    TwoEndpoints pair{{}, {.caps = FI_MSG | FI_TAGGED}};
    Stranger stranger{pair.b};
    stranger.publish(slot_of(wire::op_notify, wire::flag_cq_data, sizeof(wire::Notify), FI_REMOTE_WRITE));
    stranger.publish(slot_of(wire::op_msg, 0, 0, 0));
    int context = 0;
    check(fi_recv(pair.b.ep.get(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, &context), "recv");
    BOOST_TEST(pair.wait(pair.b, "the message").entry.op_context == &context);
}

// It says that it has written, with keys that it does not have or that give no right to.
BOOST_AUTO_TEST_CASE(who_has_no_key_counts_nothing) {
    TwoEndpoints pair{{}, {.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT, .counted = FI_REMOTE_WRITE}};
    char memory = 0;
    fid_mr* region = nullptr;
    check(fi_mr_reg(pair.b.domain.get(), &memory, 1, FI_REMOTE_READ, 0, 7, 0, &region, nullptr), "mr_reg");
    const FidPtr<fid_mr> owned{region};
    Stranger stranger{pair.b};
    for (const std::uint64_t key : {7, 8}) {
        nvlf_slot slot = slot_of(wire::op_notify, 0, sizeof(wire::Notify) + sizeof key, FI_REMOTE_WRITE);
        std::memcpy(slot.data + sizeof(wire::Notify), &key, sizeof key);
        stranger.publish(slot);
    }
    stranger.publish(slot_of(wire::op_msg, 0, 0, 0));
    check(fi_recv(pair.b.ep.get(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    BOOST_TEST(pair.wait(pair.b, "the message").error == 0);
    BOOST_TEST(fi_cntr_read(pair.b.counter.at(FI_REMOTE_WRITE).get()) == 0U);
}

// Access that is neither reading nor writing asks for no right that a registration could refuse.
BOOST_AUTO_TEST_CASE(a_notice_of_no_access_or_of_what_is_none_ends_the_conversation_and_counts_nothing) {
    for (const std::uint64_t access : {std::uint64_t{0}, std::uint64_t{FI_READ}, std::uint64_t{UINT32_MAX}}) {
        TwoEndpoints pair{{}, {.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT, .counted = FI_REMOTE_WRITE}};
        char memory = 0;
        fid_mr* region = nullptr;
        check(fi_mr_reg(pair.b.domain.get(), &memory, 1, FI_REMOTE_READ, 0, 7, 0, &region, nullptr), "mr_reg");
        const FidPtr<fid_mr> owned{region};
        Stranger stranger{pair.b};
        constexpr std::uint64_t key = 7;
        nvlf_slot slot = slot_of(wire::op_notify, 0, sizeof(wire::Notify) + sizeof key, access);
        std::memcpy(slot.data + sizeof(wire::Notify), &key, sizeof key);
        stranger.publish(slot);
        stranger.publish(slot_of(wire::op_msg, 0, 0, 0)); // Would arrive if it were still listened to.
        check(fi_recv(pair.b.ep.get(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        BOOST_TEST(pair.wait(pair.b, "the end of the conversation").error == FI_ECONNABORTED);
        BOOST_TEST(fi_cntr_read(pair.b.counter.at(FI_REMOTE_WRITE).get()) == 0U);
    }
}

BOOST_AUTO_TEST_CASE(random_slots_and_credit_disturb_nobody_else) {
    TwoEndpoints pair{directed, directed};
    std::vector<char> memory(1 << 16);
    fid_mr* region = nullptr;
    check(fi_mr_reg(pair.b.domain.get(), memory.data(), memory.size(), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0,
                    &region, nullptr),
          "mr_reg");
    const FidPtr<fid_mr> owned{region};
    std::mt19937_64 random{1};
    for (unsigned round = 0; round < 60; ++round) {
        Stranger stranger{pair.b};
        for (int burst = 0; burst < 20; ++burst) {
            for (int i = 0; i < 16 && stranger.room(); ++i) {
                // Mostly what an honest peer could have sent: nonsense ends the conversation before it gets interesting.
                nvlf_slot slot = slot_of(static_cast<std::uint8_t>(1 + random() % wire::op_share),
                                         static_cast<std::uint8_t>(random()),
                                         static_cast<std::uint16_t>(random() % 32 == 0 ? random() : 16 + random() % 33),
                                         random() % 2 == 0 ? 7 : random() % 4);
                std::array<std::uint64_t, NVLF_SLOT_DATA / 8> words{};
                for (auto& word : words)
                    word = random() % 3 == 0 ? random() : random() % 3 == 0 ? (random() % 8) << 32 : random() % 70'000;
                std::memcpy(slot.data, words.data(), sizeof slot.data);
                if (slot.op == wire::op_atomic) {
                    const auto kind = static_cast<std::uint8_t>(random() % 2);
                    wire::put(slot, wire::Atomic{random() % 70'000, random(), 1, FI_UINT64, FI_SUM, kind, 1});
                    slot.flags = 0;
                    slot.len = static_cast<std::uint16_t>(sizeof(wire::Atomic) + 8);
                }
                // Of nothing that was sent to it, a peer can take in nothing.
                if (slot.op == wire::op_applied && random() % 16 != 0) wire::put(slot, wire::Applied{0});
                // Both are told to the victim's application, which is right, and would be in the way.
                if (slot.op == wire::op_notify || slot.op == wire::op_bye) slot.op = wire::op_atomic;
                // A remote write with data is told to whoever registered memory for it: rightly, and it would be in the way.
                if (slot.op == wire::op_write) slot.flags &= static_cast<std::uint8_t>(~wire::flag_cq_data);
                stranger.publish(slot);
            }
            stranger.scribble(random);
            talk(pair, round);
        }
    }
}

// It knows the group, its number and what its members say to each other, and is none of them.
BOOST_AUTO_TEST_CASE(messages_of_a_stranger_are_no_part_of_a_collective) {
    namespace coll = nvlf::ofi::coll;
    Crew crew{3};
    Team team = Team::of_all(crew);
    nvlf_addr leader{};
    std::memcpy(&leader, crew.sides[0]->name().data(), sizeof leader);
    std::mt19937_64 random{1};
    for (std::uint32_t round = 0; round < 200; ++round) {
        Stranger stranger{*crew.sides[1]};
        for (int i = 0; i < 100 && stranger.room(); ++i) {
            std::uint64_t key = coll::with_sequence(coll::key_of_group(random() % 3),
                                                    round + static_cast<std::uint32_t>(random() % 3) - 1);
            if (random() % 4 == 0) key = random();
            key = (key & ~coll::key_number_mask) | (random() % 3 == 0 ? coll::number_abort : random() % 4);
            nvlf_slot slot = slot_of(wire::op_coll, 0, static_cast<std::uint16_t>(random() % 50),
                                     random() % 8 == 0 ? random() : coll::identity(leader));
            wire::put(slot, wire::Coll{key});
            if (random() % 4 == 0) { // Announces something large, in memory of its own that is not there.
                slot.op = wire::op_rts;
                slot.flags = wire::flag_coll;
                wire::put(slot, wire::Rts{random(), random() % 100'000, key, random()});
            }
            stranger.publish(slot);
        }
        std::uint64_t in[3] = {round, 2, 3};
        std::uint64_t out[3] = {};
        team.all("fi_allreduce", [&](std::size_t rank, void* context) {
            return fi_allreduce(team.ep(rank), &in[rank], 1, nullptr, &out[rank], nullptr, team.address(rank),
                                FI_UINT64, FI_SUM, 0, context);
        });
        for (const std::uint64_t sum : out) BOOST_REQUIRE_EQUAL(sum, round + 5);
    }
}

BOOST_AUTO_TEST_CASE(collective_messages_that_nobody_waits_for_leave_room_for_others) {
    namespace coll = nvlf::ofi::coll;
    Crew crew{2};
    Team team = Team::of_all(crew);
    Stranger stranger{*crew.sides[1]};
    nvlf_slot slot = slot_of(wire::op_coll, wire::flag_ring, 16384, 17);
    wire::put(slot, wire::Coll{coll::key_of_join(5)}); // Its receiver may join such a group yet.
    constexpr std::size_t many = 1 << 16;
    BOOST_TEST(stranger.flood(slot, many, crew.sides[1]->cq.get()) < many);
    team.all("fi_barrier",
             [&](std::size_t rank, void* context) { return fi_barrier(team.ep(rank), team.address(rank), context); });
}
