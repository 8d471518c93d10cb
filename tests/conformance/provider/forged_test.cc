// SPDX-License-Identifier: MIT OR GPL-2.0-only
// forged_test - words of the provider's language that a stranger made up, one by one: addresses, lengths, numbers, turns.
//
// What has no sense ends the conversation, what could be a mistake is answered with an error, and what does not fit is
// passed over. Nothing of it hangs the endpoint, takes what is not the stranger's, or reaches memory.
#define BOOST_TEST_MODULE forged
#include <rdma/fi_atomic.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "coll_key.hpp"
#include "conformance/provider/crew.hpp"
#include "conformance/provider/scalable.hpp"
#include "conformance/provider/stranger.hpp"
#include "share.hpp"

namespace {

using namespace nvlf::test;
namespace coll = nvlf::ofi::coll;
BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::uint64_t made_up = 0x123456789abcdef0;

// Drives one side for a while. What it has to say stays in its queue.
void drive(const Side& side, int turns = 300) {
    for (int i = 0; i < turns; ++i) (void)fi_cq_read(side.cq.get(), nullptr, 0);
}

// The first slot of this kind that the victim sends; others are passed over.
std::optional<nvlf_slot> hear(Stranger& stranger, const Side& victim, std::uint8_t op) {
    for (int i = 0; i < 1000; ++i) {
        drive(victim, 1);
        while (const auto slot = stranger.hear())
            if (slot->op == op) return slot;
    }
    return std::nullopt;
}

// ---- Large messages: where they lie, and how long they are -----------------------------------------------------------

struct Announced {
    const char* what;
    std::uint64_t address;
    std::uint64_t total;
};

// Nobody can fetch that, so it is asked for, as from a peer whose memory cannot be reached.
BOOST_AUTO_TEST_CASE(a_message_that_lies_where_nothing_is_comes_as_a_stream) {
    TwoEndpoints pair;
    constexpr std::size_t bytes = 30'000; // Would be copied by both ends.
    constexpr std::uint64_t top = UINT64_MAX;
    for (const Announced& rts :
         {Announced{"low", 4096, bytes}, Announced{"the last bytes", top - 100, bytes},
          Announced{"no user address", std::uint64_t{1} << 63, bytes}, Announced{"past the end", 1, top},
          Announced{"the last byte", top, top}, Announced{"nowhere", 0, bytes}}) {
        BOOST_TEST_CONTEXT(rts.what) {
            Stranger stranger{pair.b};
            stranger.show_proof();
            std::vector<char> in(bytes);
            check(fi_recv(pair.b.ep.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, &in), "recv");
            stranger.say(wire::op_rts, wire::Rts{made_up, rts.total, 0, rts.address});
            const auto asked = hear(stranger, pair.b, wire::op_cts);
            BOOST_REQUIRE(asked.has_value());
            const auto cts = wire::get<wire::Cts>(*asked);
            BOOST_TEST(cts.id == made_up);
            BOOST_TEST(cts.wanted == bytes);
            std::memset(stranger.lane().data, 7, bytes);
            nvlf_slot data = slot_of(wire::op_data, wire::flag_ring, bytes, 0);
            wire::put(data, wire::Data{cts.receiver, 0});
            stranger.publish(data);
            const Event got = pair.wait(pair.b, "the message");
            BOOST_TEST(got.error == (rts.total == bytes ? 0 : FI_ETRUNC));
            BOOST_TEST(got.lost == rts.total - bytes);
            BOOST_TEST(std::all_of(in.begin(), in.end(), [](char c) { return c == 7; }));
        }
        talk(pair, 1);
    }
}

BOOST_AUTO_TEST_CASE(a_message_longer_than_any_memory_is_cut_to_its_receive) {
    TwoEndpoints pair;
    Stranger stranger{pair.b};
    stranger.show_proof();
    const auto out = pattern(5 << 20, 1);
    std::vector<char> in(out.size());
    check(fi_recv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, &in), "recv");
    const auto address = reinterpret_cast<std::uintptr_t>(out.data());
    stranger.say(wire::op_rts, wire::Rts{1, UINT64_MAX - address, 0, address});
    const Event got = pair.wait(pair.b, "what fits");
    BOOST_TEST(got.error == FI_ETRUNC);
    BOOST_TEST(got.entry.len == in.size());
    BOOST_TEST((in == out));
    talk(pair, 2);
}

BOOST_AUTO_TEST_CASE(an_announcement_that_makes_no_sense_takes_nobodys_receive) {
    for (const std::uint16_t length :
         std::initializer_list<std::uint16_t>{0, 8, 71, 73, 60'000}) { // Of the list of pieces.
        TwoEndpoints pair;
        Stranger stranger{pair.b};
        int in = 0;
        check(fi_recv(pair.b.ep.get(), &in, sizeof in, nullptr, FI_ADDR_UNSPEC, &in), "recv");
        nvlf_slot slot = slot_of(wire::op_rts, wire::flag_ring, length, 0);
        wire::put(slot, wire::Rts{1, 100'000, 0});
        const int out = 42;
        pair.post("inject", [&] { return fi_inject(pair.a.ep.get(), &out, sizeof out, pair.to_b); });
        stranger.publish(slot);
        const Event got = pair.wait(pair.b, "what the receive is for");
        BOOST_TEST(got.entry.op_context == &in);
    }
}

// Pieces that are none, too many, or not as long as they are said to be together.
BOOST_AUTO_TEST_CASE(pieces_that_do_not_add_up_are_not_fetched) {
    TwoEndpoints pair;
    talk(pair, 1); // So that the death of one leaves somebody to wait for.
    const auto memory = pattern(40'000, 3);
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    constexpr std::uint64_t bytes = 40'000;
    for (const wire::Pieces& pieces :
         {wire::Pieces{0, {{at, bytes}}}, wire::Pieces{5, {{at, bytes}}}, wire::Pieces{UINT64_MAX, {{at, bytes}}},
          wire::Pieces{1, {{at, bytes - 1}}}, wire::Pieces{1, {{at, bytes + 1}}},
          wire::Pieces{2, {{at, bytes + 1}, {at, UINT64_MAX}}},
          wire::Pieces{2, {{UINT64_MAX - 8, 20'000}, {at, 20'000}}}}) {
        Stranger stranger{pair.b};
        stranger.show_proof();
        std::vector<char> in(bytes);
        check(fi_recv(pair.b.ep.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, &in), "recv");
        std::memcpy(stranger.lane().data, &pieces, sizeof pieces);
        nvlf_slot slot = slot_of(wire::op_rts, wire::flag_ring, sizeof pieces, 0);
        wire::put(slot, wire::Rts{1, bytes, 0});
        stranger.publish(slot);
        BOOST_TEST(hear(stranger, pair.b, wire::op_cts).has_value());
        stranger.die();
        BOOST_TEST(pair.wait(pair.b, "the end of it").error == FI_ECONNABORTED);
    }
    talk(pair, 3);
}

// The number of a receive is easy to guess. What is fetched needs no pieces; who sends some ends nothing with them.
BOOST_AUTO_TEST_CASE(pieces_of_a_message_that_is_being_fetched_are_passed_over) {
    TwoEndpoints pair;
    talk(pair, 1);
    for (const std::size_t bytes : {std::size_t{30'000}, std::size_t{8} << 20}) {
        Stranger stranger{pair.b};
        stranger.show_proof();
        const auto out = pattern(bytes, 4);
        std::vector<char> in(bytes);
        check(fi_recv(pair.b.ep.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, &in), "recv");
        stranger.say(wire::op_rts, wire::Rts{1, bytes, 0, reinterpret_cast<std::uintptr_t>(out.data())});
        for (std::uint64_t index = 0; index < 2; ++index)
            for (std::uint64_t generation = 1; generation < 60; generation += 2) {
                nvlf_slot data = slot_of(wire::op_data, wire::flag_ring,
                                         static_cast<std::uint16_t>(std::min<std::size_t>(bytes, 60'000)), 0);
                wire::put(data, wire::Data{generation << 32 | index, 0});
                stranger.publish(data);
            }
        BOOST_TEST(pair.wait(pair.b, "the message").error == 0);
        BOOST_TEST((in == out));
        talk(pair, 5);
    }
}

// ---- Help with a copy ------------------------------------------------------------------------------------------------

// An endpoint that sends the stranger something large, and what it said of that.
struct Sending {
    explicit Sending(TwoEndpoints& pair, std::size_t bytes = 1 << 20) : out(pattern(bytes, 6)), stranger{pair.b} {
        stranger.show_proof();
        const fi_addr_t to = pair.b.insert(stranger.name());
        check(fi_send(pair.b.ep.get(), out.data(), bytes, nullptr, to, &out), "send");
        const auto told = hear(stranger, pair.b, wire::op_rts);
        BOOST_REQUIRE(told.has_value());
        rts = wire::get<wire::Rts>(*told);
    }
    // As an owner opens its copy.
    void open(std::uint64_t ticket, std::uint64_t chunks) {
        std::atomic_ref{stranger.other_lane().credit.user[0]}.store(ticket << 48 | chunks);
    }
    std::vector<char> out;
    Stranger stranger;
    wire::Rts rts{};
};

BOOST_AUTO_TEST_CASE(help_that_nobody_needs_reaches_no_memory_and_ends) {
    constexpr std::uint64_t bytes = 1 << 20, chunk = 128 << 10; // As the provider cuts so much.
    struct {
        const char* what;
        std::uint64_t id, address, wanted, chunk, chunks;
    } const cases[]{
        {"no such message", made_up, 4096, bytes, chunk, 8},
        {"more than the message", 0, 4096, bytes + 1, chunk, 8},
        {"more than there is", 0, 4096, UINT64_MAX, chunk, 8},
        {"chunks of nothing", 0, 4096, bytes, 0, 8},
        {"one huge chunk", 0, 4096, bytes, UINT64_MAX, 8},
        {"chunks that wrap", 0, 4096, bytes, UINT64_MAX / 4 + 2, 8},
        {"more chunks than bytes", 0, 4096, bytes, chunk, (1U << 22) - 1},
        {"nothing there", 0, 4096, bytes, chunk, 8},
        {"the end of memory", 0, UINT64_MAX - 4096, bytes, chunk, 8},
        {"the very end", 0, UINT64_MAX, bytes, chunk, 8},
    };
    for (const auto& c : cases) BOOST_TEST_CONTEXT(c.what) {
            TwoEndpoints pair;
            talk(pair, 1);
            Sending sending{pair, bytes};
            sending.open(3, c.chunks);
            const std::uint64_t id = c.id != 0 ? c.id : sending.rts.id;
            sending.stranger.say(wire::op_share, wire::Share{id, c.address, c.wanted, c.chunk, 3});
            drive(pair.b);
            sending.stranger.die();
            BOOST_TEST(pair.wait(pair.b, "the end of the message").error == FI_ECONNABORTED);
            talk(pair, 2);
        }
}

// The word says for ever that there is more to do.
BOOST_AUTO_TEST_CASE(help_ends_when_all_was_copied_once) {
    TwoEndpoints pair;
    constexpr std::uint64_t bytes = 1 << 20, chunk = 128 << 10;
    Sending sending{pair, bytes};
    std::vector<char> in(bytes);
    sending.stranger.say(wire::op_share,
                         wire::Share{sending.rts.id, reinterpret_cast<std::uintptr_t>(in.data()), bytes, chunk, 3});
    for (std::uint64_t chunks = 8; chunks > 0; --chunks) {
        sending.open(3, chunks);
        drive(pair.b, 1);
    }
    if (!std::equal(in.begin(), in.end(), sending.out.begin())) return; // The kernel does not allow it here.
    std::fill(in.begin(), in.end(), 0);
    for (int i = 0; i < 20; ++i) {
        sending.open(3, 8);
        drive(pair.b, 1);
    }
    BOOST_TEST(std::all_of(in.begin(), in.end(), [](char c) { return c == 0; }));
    sending.stranger.say(wire::op_ack, wire::Ack{sending.rts.id, 0, 0});
    BOOST_TEST(pair.wait(pair.b, "the end of the message").error == 0);
}

// ---- Counts, contexts ------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(writes_that_were_never_sent_cannot_have_been_applied) {
    for (const std::uint64_t count : {std::uint64_t{1}, made_up, UINT64_MAX}) {
        TwoEndpoints pair;
        Stranger stranger{pair.b};
        stranger.say(wire::op_applied, wire::Applied{0}); // True, if needless.
        stranger.say(wire::op_applied, wire::Applied{count});
        stranger.say(wire::op_msg, wire::Data{});
        check(fi_recv(pair.b.ep.get(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        BOOST_TEST(pair.wait(pair.b, "the end of the conversation").error == FI_ECONNABORTED);
        talk(pair, 1);
    }
}

BOOST_AUTO_TEST_CASE(writes_are_applied_once_and_not_taken_back) {
    TwoEndpoints pair;
    talk(pair, 1);
    Stranger stranger{pair.b};
    const fi_addr_t to = pair.b.insert(stranger.name());
    const char out[64] = {};
    for (int i = 0; i < 3; ++i) check(fi_write(pair.b.ep.get(), out, sizeof out, nullptr, to, 0, 7, nullptr), "write");
    stranger.say(wire::op_applied, wire::Applied{2});
    for (int i = 0; i < 2; ++i) BOOST_TEST(pair.wait(pair.b, "written").error == 0);
    stranger.say(wire::op_applied, wire::Applied{1});
    BOOST_TEST(pair.wait(pair.b, "the third").error == FI_ECONNABORTED);
    talk(pair, 2);
}

BOOST_AUTO_TEST_CASE(receive_contexts_that_there_are_not_are_answered_and_touch_nothing) {
    Scalable victim;
    std::array<char, 64> name{};
    std::size_t size = name.size();
    check(fi_getname(&victim.ep->fid, name.data(), &size), "fi_getname");
    Stranger stranger;
    stranger.meet({name.begin(), name.begin() + static_cast<std::ptrdiff_t>(size)});
    constexpr std::array<std::uint64_t, 4> nowhere{contexts, 256, std::uint64_t{1} << 32, UINT64_MAX};
    const auto refused = [&](std::uint64_t id) {
        for (int i = 0; i < 1000; ++i) {
            victim.progress();
            const auto slot = stranger.hear();
            if (!slot || slot->op != wire::op_ack) continue;
            const auto ack = wire::get<wire::Ack>(*slot);
            return ack.id == id && ack.error == FI_EADDRNOTAVAIL;
        }
        return false;
    };
    std::uint64_t id = 1;
    for (const std::uint64_t context : nowhere) {
        constexpr auto named = wire::flag_context | wire::flag_ack;
        const std::array<std::uint64_t, 2> words{id, context};
        stranger.say(wire::op_msg, words, named);
        BOOST_TEST(refused(id++));
        nvlf_slot ring = slot_of(wire::op_msg, named | wire::flag_ring, 5000, 0);
        wire::put(ring, std::array<std::uint64_t, 2>{id, context});
        stranger.publish(ring);
        BOOST_TEST(refused(id++));
        stranger.say(wire::op_rts, wire::Rts{id, 100'000, 0, 4096, context});
        BOOST_TEST(refused(id++));
        if (context > UINT32_MAX) continue;
        nvlf_slot notice = slot_of(wire::op_notify, wire::flag_cq_data, sizeof(wire::Notify),
                                   FI_REMOTE_WRITE | context << wire::notify_context);
        wire::put(notice, wire::Notify{1, 2});
        stranger.publish(notice);
    }
    std::uint64_t in = 0;
    check(fi_recv(victim.rx[2].get(), &in, sizeof in, nullptr, FI_ADDR_UNSPEC, &in), "recv");
    nvlf_slot honest = slot_of(wire::op_msg, wire::flag_context, 2 * sizeof in, 0);
    wire::put(honest, std::array<std::uint64_t, 2>{2, 42});
    stranger.publish(honest);
    for (int i = 0; i < 1000 && in == 0; ++i) victim.progress();
    BOOST_TEST(in == 42U);
    for (auto& queue : victim.rx_cq) {
        const auto event = poll(queue.get());
        BOOST_TEST((!event || event->entry.op_context == &in));
    }
}

// ---- Collectives -----------------------------------------------------------------------------------------------------

// A group of two, of which one is a stranger that answers each message of the other's as it likes.
struct Company {
    Company() {
        BOOST_REQUIRE_EQUAL(side.insert(side.name()), 0U);
        BOOST_REQUIRE_EQUAL(side.insert(stranger.name()), 1U);
        stranger.meet(side.name());
        stranger.show_proof();
        check(open_set(side, set, {0, 1}), "fi_av_set");
        check(nvlf::test::join(side, set, group), "fi_join_collective");
    }
    // The next message of the side's.
    nvlf_slot heard() {
        std::optional<nvlf_slot> slot;
        do {
            slot = hear(stranger, side, wire::op_coll);
            BOOST_REQUIRE(slot.has_value()); // What it refuses is not meant.
        } while (coll::number_of(wire::get<wire::Coll>(*slot).key) == coll::number_abort);
        return *slot;
    }
    std::optional<int> joined() {
        for (int i = 0; i < 1000; ++i) {
            drive(side, 1);
            if (const auto event = poll_join(side)) return event->error;
        }
        return std::nullopt;
    }
    std::optional<int> ended() {
        for (int i = 0; i < 1000; ++i)
            if (const auto event = poll(side.cq.get())) return event->error;
        return std::nullopt;
    }

    Side side{{.caps = FI_MSG | FI_TAGGED | FI_COLLECTIVE, .event_queue = true}};
    Stranger stranger;
    AvSetPtr set;
    McPtr group;
};

// As it came, but for its length.
nvlf_slot of_length(nvlf_slot slot, std::uint16_t payload) {
    slot.len = payload > NVLF_SLOT_DATA - sizeof(wire::Coll) ? payload
                                                             : static_cast<std::uint16_t>(sizeof(wire::Coll) + payload);
    if (payload > NVLF_SLOT_DATA - sizeof(wire::Coll)) slot.flags |= wire::flag_ring;
    return slot;
}

nvlf_slot announcing(const nvlf_slot& slot, std::uint64_t total, std::uint64_t address) {
    nvlf_slot rts = slot_of(wire::op_rts, wire::flag_coll, sizeof(wire::Rts), slot.tag);
    wire::put(rts, wire::Rts{made_up, total, wire::get<wire::Coll>(slot).key, address});
    return rts;
}

BOOST_AUTO_TEST_CASE(a_member_that_sends_the_wrong_size_fails_the_join) {
    for (const std::uint16_t length : std::initializer_list<std::uint16_t>{0, 7, 9, 40, 41, 16'384, 65'535}) {
        Company company;
        company.stranger.publish(of_length(company.heard(), length));
        BOOST_TEST(company.joined().value_or(0) == FI_ETRUNC);
    }
    for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{100'000}, UINT64_MAX}) {
        Company company;
        company.stranger.publish(announcing(company.heard(), total, 4096));
        BOOST_TEST(company.joined().value_or(0) == FI_ETRUNC);
    }
}

// Announces what would fit a slot, rightly as to its size.
BOOST_AUTO_TEST_CASE(a_member_that_announces_a_small_message_is_heard_out) {
    Company company;
    const std::uint64_t number = 5;
    company.stranger.publish(announcing(company.heard(), sizeof number, reinterpret_cast<std::uintptr_t>(&number)));
    BOOST_TEST(company.joined().value_or(-1) == 0);
}

BOOST_AUTO_TEST_CASE(what_is_of_no_turn_is_no_part_of_a_collective) {
    Company company;
    const nvlf_slot first = company.heard();
    const auto with_key = [](nvlf_slot slot, std::uint64_t key) {
        wire::put(slot, wire::Coll{key});
        return slot;
    };
    const auto key_of = [](const nvlf_slot& slot) { return wire::get<wire::Coll>(slot).key; };
    company.stranger.publish(with_key(first, key_of(first) + 1));                                // Another message,
    company.stranger.publish(with_key(first, key_of(first) + (1U << coll::key_sequence_shift))); // a later collective,
    company.stranger.publish(with_key(first, key_of(first) & ~coll::key_join)); // and a group that is not.
    company.stranger.publish(first);
    BOOST_TEST(company.joined().value_or(-1) == 0);
    for (std::uint64_t round = 1; round < 4; ++round) {
        std::uint64_t in = round, out = 0;
        check(fi_allreduce(company.side.ep.get(), &in, 1, nullptr, &out, nullptr, fi_mc_addr(company.group.get()),
                           FI_UINT64, FI_SUM, 0, nullptr),
              "fi_allreduce");
        const nvlf_slot said = company.heard();
        for (const std::uint64_t other : {std::uint64_t{2}, std::uint64_t{1024} << coll::key_sequence_shift,
                                          std::uint64_t{1} << coll::key_count_shift, coll::key_join})
            company.stranger.publish(with_key(said, key_of(said) ^ other));
        nvlf_slot elsewhere = said;
        elsewhere.tag ^= 1;
        company.stranger.publish(elsewhere);
        BOOST_TEST(!company.ended().has_value());
        company.stranger.publish(said);
        BOOST_TEST(company.ended().value_or(-1) == 0);
        BOOST_TEST(out == 2 * round);
    }
}

BOOST_AUTO_TEST_CASE(a_member_that_gives_up_with_a_number_that_is_no_error_still_fails_it) {
    for (const std::uint16_t bytes : std::initializer_list<std::uint16_t>{0, 1, 4, 40, 5000}) {
        Company company;
        nvlf_slot slot = of_length(company.heard(), bytes);
        std::memset(slot.data, 0xff, sizeof slot.data);
        wire::put(slot, wire::Coll{wire::get<wire::Coll>(slot).key | coll::number_abort});
        company.stranger.publish(slot);
        company.stranger.die(); // In case it is not heard as what it is.
        BOOST_TEST(company.joined().value_or(0) != 0);
    }
}

} // namespace
