// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The groups of collectives: sets of addresses, joining, several groups and collectives at a time; completions, and every
// bad argument.
#define BOOST_TEST_MODULE provider_collective_groups
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "conformance/provider/crew.hpp"

using namespace nvlf::test;
namespace data = boost::unit_test::data;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

// The members of a set: those whose removal succeeds, in a copy.
std::vector<fi_addr_t> members_of(Side& side, const AvSetPtr& set, fi_addr_t end) {
    AvSetPtr copy;
    check(open_set(side, copy), "fi_av_set");
    check(fi_av_set_union(copy.get(), set.get()), "fi_av_set_union");
    std::vector<fi_addr_t> members;
    for (fi_addr_t i = 0; i < end; ++i)
        if (fi_av_set_remove(copy.get(), i) == 0) members.push_back(i);
    return members;
}

int open_range(Side& side, fi_addr_t first, fi_addr_t last, std::uint64_t stride, AvSetPtr& ret_set,
               std::size_t count = 0, std::uint64_t flags = 0) {
    fi_av_set_attr attr{};
    attr.count = count;
    attr.start_addr = first;
    attr.end_addr = last;
    attr.stride = stride;
    attr.flags = flags;
    fid_av_set* set = nullptr;
    const int ret = fi_av_set(side.av.get(), &attr, &set, nullptr);
    ret_set.reset(ret == 0 ? set : nullptr);
    return ret;
}

using Members = std::vector<fi_addr_t>;

// ---- Sets ------------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_set_holds_the_valid_addresses_of_its_range) {
    Crew crew{6};
    Side& side = *crew.sides[0];
    fi_addr_t gone = 2;
    check(fi_av_remove(side.av.get(), &gone, 1, 0), "fi_av_remove");
    AvSetPtr set;
    check(open_range(side, 0, 5, 1, set), "fi_av_set");
    BOOST_TEST(members_of(side, set, 10) == (Members{0, 1, 3, 4, 5}));
    check(open_range(side, 1, 5, 2, set), "fi_av_set");
    BOOST_TEST(members_of(side, set, 10) == (Members{1, 3, 5}));
    check(open_range(side, 3, 3, 0, set), "fi_av_set");
    BOOST_TEST(members_of(side, set, 10) == (Members{3}));
    check(open_range(side, 0, 5, ~std::uint64_t{0}, set), "fi_av_set");
    BOOST_TEST(members_of(side, set, 10) == (Members{0}));
    check(open_range(side, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 0, set), "fi_av_set");
    BOOST_TEST(members_of(side, set, 10) == (Members{}));
    check(open_range(side, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 0, set, 0, FI_UNIVERSE), "fi_av_set");
    BOOST_TEST(members_of(side, set, 10) == (Members{0, 1, 3, 4, 5}));
}

BOOST_AUTO_TEST_CASE(a_set_that_makes_no_sense_is_refused) {
    Crew crew{3};
    Side& side = *crew.sides[0];
    AvSetPtr set;
    BOOST_TEST(open_range(side, 0, 2, 0, set) == -FI_EINVAL);
    BOOST_TEST(open_range(side, 2, 0, 1, set) == -FI_EINVAL);
    BOOST_TEST(open_range(side, 0, FI_ADDR_NOTAVAIL, 1, set) == -FI_EINVAL);
    BOOST_TEST(open_range(side, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 1, set) == -FI_EINVAL);
    BOOST_TEST(open_range(side, 0, 2, 1, set, 2) == -FI_EINVAL); // More than expected.
    BOOST_TEST(open_range(side, 0, 2, 1, set, 3) == 0);
    BOOST_TEST(open_range(side, 0, 2, 1, set, 0, 1) == -FI_EBADFLAGS);
    fi_av_set_attr attr{};
    std::uint8_t key = 0;
    attr.comm_key_size = 1;
    attr.comm_key = &key;
    fid_av_set* none = nullptr;
    BOOST_TEST(fi_av_set(side.av.get(), &attr, &none, nullptr) == -FI_EOPNOTSUPP);
    BOOST_TEST(fi_av_set(side.av.get(), nullptr, &none, nullptr) == -FI_EINVAL);
    attr.comm_key_size = 0;
    BOOST_TEST(fi_av_set(side.av.get(), &attr, nullptr, nullptr) == -FI_EINVAL);
}

BOOST_AUTO_TEST_CASE(sets_are_united_intersected_and_subtracted) {
    Crew crew{6};
    Side& side = *crew.sides[0];
    AvSetPtr a, b;
    check(open_set(side, a, {4, 0, 2}), "fi_av_set");
    check(open_set(side, b, {2, 3, 4}), "fi_av_set");
    check(fi_av_set_union(a.get(), b.get()), "fi_av_set_union");
    BOOST_TEST(members_of(side, a, 6) == (Members{0, 2, 3, 4}));
    check(fi_av_set_diff(a.get(), b.get()), "fi_av_set_diff");
    BOOST_TEST(members_of(side, a, 6) == (Members{0}));
    check(open_set(side, a, {4, 0, 2}), "fi_av_set");
    check(fi_av_set_intersect(a.get(), b.get()), "fi_av_set_intersect");
    BOOST_TEST(members_of(side, a, 6) == (Members{2, 4}));
    check(fi_av_set_diff(a.get(), a.get()), "fi_av_set_diff");
    BOOST_TEST(members_of(side, a, 6) == (Members{}));

    BOOST_TEST(fi_av_set_insert(b.get(), 3) == -FI_EINVAL);                // Is there.
    BOOST_TEST(fi_av_set_insert(b.get(), 6) == -FI_EINVAL);                // No such address.
    BOOST_TEST(fi_av_set_insert(b.get(), FI_ADDR_NOTAVAIL) == -FI_EINVAL); // Likewise.
    BOOST_TEST(fi_av_set_remove(b.get(), 5) == -FI_EINVAL);                // Is not there.
    BOOST_TEST(fi_av_set_addr(b.get(), nullptr) == -FI_EINVAL);
    AvSetPtr foreign;
    check(open_set(*crew.sides[1], foreign, {1}), "fi_av_set");
    BOOST_TEST(fi_av_set_union(b.get(), foreign.get()) == -FI_EINVAL);
    BOOST_TEST(fi_close(&side.av->fid) == -FI_EBUSY); // Its sets are open.
}

// ---- Groups ----------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_order_of_the_set_is_the_order_of_ranks) {
    Crew crew{5};
    Team team{crew, {4, 1, 3}};
    std::vector<std::vector<std::uint32_t>> out(3, std::vector<std::uint32_t>(3));
    team.all("fi_allgather", [&](std::size_t rank, void* context) {
        static constexpr std::uint32_t in[]{40, 10, 30};
        return fi_allgather(team.ep(rank), &in[rank], 1, nullptr, out[rank].data(), nullptr, team.address(rank),
                            FI_UINT32, 0, context);
    });
    for (const auto& got : out) BOOST_TEST(got == (std::vector<std::uint32_t>{40, 10, 30}));

    // A root is named by its address, whatever its rank.
    std::vector<std::uint32_t> words{0, 0, 77};
    team.all("fi_broadcast", [&](std::size_t rank, void* context) {
        return fi_broadcast(team.ep(rank), &words[rank], 1, nullptr, team.address(rank), 3, FI_UINT32, 0, context);
    });
    BOOST_TEST(words == (std::vector<std::uint32_t>{77, 77, 77}));
}

BOOST_AUTO_TEST_CASE(no_join_ends_before_all_have_joined) {
    Crew crew{3};
    std::vector<McPtr> groups(3);
    for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t k = 0; k < 50; ++k) crew.drive();
        for (std::size_t k = 0; k < i; ++k) BOOST_TEST(!poll_join(*crew.sides[k]).has_value());
        if (i == 2)
            BOOST_TEST(fi_barrier(crew.sides[0]->ep.get(), fi_mc_addr(groups[0].get()), nullptr) == -FI_EOPBADSTATE);
        AvSetPtr set;
        check(open_set(*crew.sides[i], set, {0, 1, 2}), "fi_av_set");
        check(join(*crew.sides[i], set, groups[i]), "fi_join_collective");
    }
    for (auto& side : crew.sides) crew.until("join", [&] { return poll_join(*side).has_value(); });
}

// Nobody polls the completion queue of a member that sleeps for the event.
BOOST_AUTO_TEST_CASE(reading_the_event_queue_drives_a_join) {
    Crew crew{2};
    std::vector<McPtr> groups(2);
    for (std::size_t i = 0; i < 2; ++i) {
        AvSetPtr set;
        check(open_set(*crew.sides[i], set, {0, 1}), "fi_av_set");
        check(join(*crew.sides[i], set, groups[i]), "fi_join_collective");
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    bool ended[2] = {};
    while (!(ended[0] && ended[1]) && std::chrono::steady_clock::now() < deadline)
        for (std::size_t i = 0; i < 2; ++i) ended[i] = ended[i] || poll_join(*crew.sides[i]).has_value();
    BOOST_TEST((ended[0] && ended[1]));

    // Alone, a member is done at once, and a sleeper has nobody to wait for.
    AvSetPtr set;
    check(open_set(*crew.sides[0], set, {0}), "fi_av_set");
    McPtr alone;
    check(join(*crew.sides[0], set, alone), "fi_join_collective");
    std::uint32_t event = 0;
    fi_eq_entry entry{};
    BOOST_TEST(fi_eq_sread(crew.sides[0]->eq.get(), &event, &entry, sizeof entry, 20'000, 0) ==
               static_cast<ssize_t>(sizeof entry));
    BOOST_TEST(event == FI_JOIN_COMPLETE);
}

BOOST_AUTO_TEST_CASE(an_event_may_be_taken_without_its_data) {
    Crew crew{1};
    AvSetPtr set;
    check(open_set(*crew.sides[0], set, {0}), "fi_av_set");
    McPtr group;
    check(join(*crew.sides[0], set, group), "fi_join_collective");
    std::uint32_t event = 0;
    BOOST_TEST(fi_eq_read(crew.sides[0]->eq.get(), &event, nullptr, 0, 0) == 0);
    BOOST_TEST(event == FI_JOIN_COMPLETE);
    BOOST_TEST(fi_eq_read(crew.sides[0]->eq.get(), &event, nullptr, 0, 0) == -FI_EAGAIN);
}

// Members of two groups call collectives of both in different orders; and a group joined twice is two.
BOOST_AUTO_TEST_CASE(groups_do_not_mix_up_their_collectives) {
    Crew crew{3};
    Team teams[] = {Team::of_all(crew), Team::of_all(crew), Team{crew, {2, 1, 0}}};
    std::uint64_t in[3][3];
    std::uint64_t out[3][3] = {};
    for (std::size_t t = 0; t < 3; ++t)
        for (std::size_t i = 0; i < 3; ++i) in[t][i] = (t + 1) * 100 + i;
    for (std::size_t who = 0; who < 3; ++who)
        for (std::size_t k = 0; k < 3; ++k) {
            const std::size_t t = (k + who) % 3; // Everybody in another order.
            Team& team = teams[t];
            const std::size_t rank = t == 2 ? 2 - who : who;
            check(fi_allreduce(team.ep(rank), &in[t][who], 1, nullptr, &out[t][who], nullptr, team.address(rank),
                               FI_UINT64, FI_SUM, 0, &team),
                  "fi_allreduce");
        }
    for (std::size_t who = 0; who < 3; ++who)
        for (std::size_t k = 0; k < 3; ++k) BOOST_TEST(crew.wait(who, "allreduce").error == 0);
    for (std::size_t t = 0; t < 3; ++t)
        for (std::size_t who = 0; who < 3; ++who) BOOST_TEST(out[t][who] == (t + 1) * 300 + 3);
}

BOOST_DATA_TEST_CASE(collectives_of_one_group_may_be_under_way_together,
                     data::make({std::size_t{1}, std::size_t{5000}, std::size_t{100'000}}), words) {
    constexpr std::size_t outstanding = 4;
    Crew crew{3};
    Team team = Team::of_all(crew);
    std::vector<std::uint64_t> in[outstanding][3], out[outstanding][3];
    int contexts[outstanding] = {};
    for (std::size_t k = 0; k < outstanding; ++k)
        for (std::size_t rank = 0; rank < 3; ++rank) {
            in[k][rank].assign(words, 1000 * k + rank);
            out[k][rank].resize(words);
        }
    for (std::size_t rank = 0; rank < 3; ++rank)
        for (std::size_t k = 0; k < outstanding; ++k)
            check(fi_allreduce(team.ep(rank), in[k][rank].data(), words, nullptr, out[k][rank].data(), nullptr,
                               team.address(rank), FI_UINT64, FI_SUM, 0, &contexts[k]),
                  "fi_allreduce");
    for (std::size_t rank = 0; rank < 3; ++rank) {
        std::vector<void*> ended;
        for (std::size_t k = 0; k < outstanding; ++k) ended.push_back(crew.wait(rank, "allreduce").entry.op_context);
        for (int& context : contexts) BOOST_TEST(std::count(ended.begin(), ended.end(), &context) == 1);
        for (std::size_t k = 0; k < outstanding; ++k)
            BOOST_CHECK(out[k][rank] == std::vector<std::uint64_t>(words, 3000 * k + 3));
    }
}

// One member calls several before the others have called any: what comes too early is kept.
BOOST_AUTO_TEST_CASE(a_member_may_be_collectives_ahead) {
    Crew crew{2};
    Team team = Team::of_all(crew);
    std::vector<std::vector<std::uint64_t>> sent, got;
    for (std::size_t k = 0; k < 20; ++k) {
        sent.emplace_back(k % 2 == 0 ? 16 : 20'000, k); // Small, and announced.
        got.emplace_back(sent.back().size());
        check(fi_broadcast(team.ep(0), sent[k].data(), sent[k].size(), nullptr, team.address(0), 0, FI_UINT64, 0,
                           nullptr),
              "fi_broadcast");
    }
    for (int i = 0; i < 100; ++i) crew.drive();
    for (std::size_t k = 0; k < 20; ++k)
        check(
            fi_broadcast(team.ep(1), got[k].data(), got[k].size(), nullptr, team.address(1), 0, FI_UINT64, 0, nullptr),
            "fi_broadcast");
    for (std::size_t k = 0; k < 20; ++k) {
        BOOST_TEST(crew.wait(0, "root").error == 0);
        BOOST_TEST(crew.wait(1, "the other").error == 0);
    }
    BOOST_CHECK(got == sent);
}

// A receive that takes anything takes no message of a collective, and no message ends up in one.
BOOST_AUTO_TEST_CASE(collectives_and_messages_do_not_meet) {
    Crew crew{2};
    Team team = Team::of_all(crew);
    char inbox[2][64] = {};
    check(fi_recv(team.ep(1), inbox[0], 64, nullptr, FI_ADDR_UNSPEC, inbox[0]), "fi_recv");
    check(fi_trecv(team.ep(1), inbox[1], 64, nullptr, FI_ADDR_UNSPEC, 0, ~std::uint64_t{0}, inbox[1]), "fi_trecv");
    std::uint64_t in[2] = {5, 6};
    std::uint64_t out[2] = {};
    check(fi_inject(team.ep(0), "m", 2, 1), "fi_inject");
    for (std::size_t rank = 0; rank < 2; ++rank)
        check(fi_allreduce(team.ep(rank), &in[rank], 1, nullptr, &out[rank], nullptr, team.address(rank), FI_UINT64,
                           FI_PROD, 0, out),
              "fi_allreduce");
    check(fi_tinject(team.ep(0), "t", 2, 1, 9), "fi_tinject");
    BOOST_TEST(crew.wait(0, "allreduce").entry.op_context == out);
    const std::vector<void*> ended{crew.wait(1, "first").entry.op_context, crew.wait(1, "second").entry.op_context,
                                   crew.wait(1, "third").entry.op_context};
    for (void* context : {static_cast<void*>(out), static_cast<void*>(inbox[0]), static_cast<void*>(inbox[1])})
        BOOST_TEST(std::count(ended.begin(), ended.end(), context) == 1);
    BOOST_TEST(inbox[0][0] == 'm');
    BOOST_TEST(inbox[1][0] == 't');
    BOOST_TEST(out[0] == 30U);
    BOOST_TEST(out[1] == 30U);
}

// ---- Arguments -------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(who_is_no_member_cannot_join_and_a_stranger_address_is_no_group) {
    Crew crew{3};
    Side& side = *crew.sides[0];
    AvSetPtr set;
    McPtr group;
    check(open_set(side, set, {1, 2}), "fi_av_set");
    BOOST_TEST(join(side, set, group) == -FI_EINVAL);
    check(open_set(side, set), "fi_av_set");
    BOOST_TEST(join(side, set, group) == -FI_EINVAL); // Nobody is.
    AvSetPtr foreign;
    check(open_set(*crew.sides[1], foreign, {0, 1}), "fi_av_set");
    BOOST_TEST(join(side, foreign, group) == -FI_EINVAL);
    check(open_set(side, set, {0}), "fi_av_set");
    fid_mc* mc = nullptr;
    BOOST_TEST(fi_join_collective(side.ep.get(), 0, set.get(), 0, &mc, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_join_collective(side.ep.get(), FI_ADDR_NOTAVAIL, set.get(), FI_MORE, &mc, nullptr) == -FI_EBADFLAGS);
    BOOST_TEST(fi_join_collective(side.ep.get(), FI_ADDR_NOTAVAIL, set.get(), FI_SEND, &mc, nullptr) == -FI_EBADFLAGS);
    BOOST_TEST(fi_join_collective(side.ep.get(), FI_ADDR_NOTAVAIL, nullptr, 0, &mc, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_join_collective(side.ep.get(), FI_ADDR_NOTAVAIL, set.get(), 0, nullptr, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_join(side.ep.get(), side.name().data(), 0, &mc, nullptr) == -FI_ENOSYS); // Other multicast.
    BOOST_TEST(fi_barrier(side.ep.get(), 0, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_barrier(side.ep.get(), FI_ADDR_NOTAVAIL, nullptr) == -FI_EINVAL);

    // A group may be made of part of another, by that one's address; and is none any more once it is closed.
    BOOST_TEST(fi_join_collective(side.ep.get(), FI_ADDR_NOTAVAIL, set.get(), 0, &mc, nullptr) == 0);
    fid_mc* part = nullptr;
    const fi_addr_t address = fi_mc_addr(mc);
    BOOST_TEST(fi_join_collective(side.ep.get(), address, set.get(), 0, &part, nullptr) == 0);
    BOOST_TEST(fi_close(&mc->fid) == 0);
    BOOST_TEST(fi_barrier(side.ep.get(), address, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_barrier(side.ep.get(), fi_mc_addr(part), nullptr) == 0);
    BOOST_TEST(fi_close(&part->fid) == 0);
}

BOOST_AUTO_TEST_CASE(joining_takes_an_event_queue_and_the_capability) {
    Side without_queue{{.caps = FI_MSG | FI_COLLECTIVE}};
    (void)without_queue.insert(without_queue.name());
    AvSetPtr set;
    McPtr group;
    check(open_set(without_queue, set, {0}), "fi_av_set");
    BOOST_TEST(join(without_queue, set, group) == -FI_ENOEQ);

    Side without_capability{{.caps = FI_MSG, .event_queue = true}};
    (void)without_capability.insert(without_capability.name());
    AvSetPtr its; // Of its own: a set that outlived its vector would keep that open.
    check(open_set(without_capability, its, {0}), "fi_av_set");
    BOOST_TEST(join(without_capability, its, group) == -FI_ENOSYS);
    BOOST_TEST(fi_barrier(without_capability.ep.get(), 0, nullptr) == -FI_ENOSYS);
}

BOOST_AUTO_TEST_CASE(wrong_arguments_of_a_collective_are_refused_and_change_nothing) {
    Crew crew{2};
    Team team = Team::of_all(crew);
    fid_ep* const ep = team.ep(0);
    const fi_addr_t group = team.address(0);
    std::uint64_t a[4] = {}, b[4] = {};
    const auto allreduce = [&](void* from, void* to, std::size_t count, enum fi_datatype type, enum fi_op op,
                               std::uint64_t flags) {
        return fi_allreduce(ep, from, count, nullptr, to, nullptr, group, type, op, flags, nullptr);
    };
    BOOST_TEST(allreduce(nullptr, b, 1, FI_UINT64, FI_SUM, 0) == -FI_EINVAL);
    BOOST_TEST(allreduce(a, nullptr, 1, FI_UINT64, FI_SUM, 0) == -FI_EINVAL);
    BOOST_TEST(allreduce(a, b, 1, FI_UINT64, FI_SUM, FI_PEEK) == -FI_EBADFLAGS);
    BOOST_TEST(allreduce(a, b, 1, FI_UINT64, FI_CSWAP, 0) == -FI_EOPNOTSUPP);
    BOOST_TEST(allreduce(a, b, 1, FI_UINT64, static_cast<fi_op>(500), 0) == -FI_EOPNOTSUPP);
    BOOST_TEST(allreduce(a, b, 1, FI_VOID, FI_SUM, 0) == -FI_EOPNOTSUPP);
    BOOST_TEST(allreduce(a, b, 1, static_cast<fi_datatype>(100), FI_SUM, 0) == -FI_EOPNOTSUPP);
    BOOST_TEST(allreduce(a, b, 1, FI_DOUBLE, FI_BAND, 0) == -FI_EOPNOTSUPP);
    BOOST_TEST(allreduce(a, b, ~std::size_t{0}, FI_UINT64, FI_SUM, 0) == -FI_EMSGSIZE);
    for (const fi_addr_t no_root : {fi_addr_t{2}, fi_addr_t{FI_ADDR_NOTAVAIL}}) {
        BOOST_TEST(fi_broadcast(ep, a, 1, nullptr, group, no_root, FI_UINT64, 0, nullptr) == -FI_EINVAL);
        BOOST_TEST(fi_scatter(ep, a, 1, nullptr, b, nullptr, group, no_root, FI_UINT64, 0, nullptr) == -FI_EINVAL);
        BOOST_TEST(fi_gather(ep, a, 1, nullptr, b, nullptr, group, no_root, FI_UINT64, 0, nullptr) == -FI_EINVAL);
        BOOST_TEST(fi_reduce(ep, a, 1, nullptr, b, nullptr, group, no_root, FI_UINT64, FI_SUM, 0, nullptr) ==
                   -FI_EINVAL);
    }
    BOOST_TEST(fi_broadcast(ep, nullptr, 1, nullptr, group, 0, FI_UINT64, 0, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_scatter(ep, nullptr, 1, nullptr, b, nullptr, group, 0, FI_UINT64, 0, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_gather(ep, a, 1, nullptr, nullptr, nullptr, group, 0, FI_UINT64, 0, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_alltoall(ep, a, ~std::size_t{0} / 8, nullptr, b, nullptr, group, FI_UINT64, 0, nullptr) ==
               -FI_EMSGSIZE);
    // Had one of them begun, this would be another collective than the other member's.
    team.all("fi_barrier",
             [&](std::size_t rank, void* context) { return fi_barrier(team.ep(rank), team.address(rank), context); });
}

BOOST_AUTO_TEST_CASE(a_group_does_what_its_set_was_made_for) {
    Crew crew{2};
    Team team{crew, {0, 1}, FI_BARRIER_SET | FI_BROADCAST_SET};
    std::uint64_t word = 0;
    BOOST_TEST(fi_allgather(team.ep(0), &word, 1, nullptr, &word, nullptr, team.address(0), FI_UINT64, 0, nullptr) ==
               -FI_EOPNOTSUPP);
    team.all("fi_barrier",
             [&](std::size_t rank, void* context) { return fi_barrier(team.ep(rank), team.address(rank), context); });
}

// ---- Completions -----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_selective_queue_hears_of_collectives_that_ask_for_it) {
    Crew crew{2, {.caps = FI_MSG | FI_COLLECTIVE, .bind_flags = FI_SELECTIVE_COMPLETION}};
    Team team = Team::of_all(crew);
    int quiet = 0;
    int loud = 0;
    for (std::size_t rank = 0; rank < 2; ++rank) {
        check(fi_barrier(team.ep(rank), team.address(rank), &quiet), "fi_barrier");
        check(fi_barrier2(team.ep(rank), team.address(rank), FI_COMPLETION, &loud), "fi_barrier2");
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
        BOOST_TEST(crew.wait(rank, "barrier").entry.op_context == &loud);
        BOOST_TEST(!poll(crew.sides[rank]->cq.get()).has_value());
    }
    team.mcs[1].reset();
    check(fi_barrier(team.ep(0), team.address(0), &quiet), "fi_barrier");
    const Event failed = crew.wait(0, "failed barrier"); // Failures are never kept quiet.
    BOOST_TEST(failed.error == FI_ECONNRESET);
    BOOST_TEST(failed.entry.op_context == &quiet);
}

BOOST_AUTO_TEST_CASE(the_message_form_is_the_same_as_the_others) {
    Crew crew{2};
    Team team = Team::of_all(crew);
    std::uint32_t in[2] = {0x0f, 0xf1};
    std::uint32_t out[2] = {};
    const auto post = [&](std::size_t rank, enum fi_collective_op which, void* context) {
        fi_ioc from{&in[rank], 1};
        fi_ioc to{&out[rank], 1};
        const fi_msg_collective msg{.msg_iov = &from,
                                    .desc = nullptr,
                                    .iov_count = 1,
                                    .coll_addr = team.address(rank),
                                    .root_addr = 1,
                                    .coll = which,
                                    .datatype = FI_UINT32,
                                    .op = FI_BOR,
                                    .context = context};
        return team.ep(rank)->collective->msg(team.ep(rank), &msg, &to, nullptr, 1, 0);
    };
    team.all("allreduce", [&](std::size_t rank, void* context) { return post(rank, FI_ALLREDUCE, context); });
    BOOST_TEST(out[0] == 0xffU);
    BOOST_TEST(out[1] == 0xffU);
    team.all("broadcast", [&](std::size_t rank, void* context) { return post(rank, FI_BROADCAST, context); });
    BOOST_TEST(in[0] == 0xf1U);
    team.all("barrier", [&](std::size_t rank, void* context) { return post(rank, FI_BARRIER, context); });
    BOOST_TEST(post(0, static_cast<fi_collective_op>(15), nullptr) == -FI_EINVAL);
    BOOST_TEST(team.ep(0)->collective->msg(team.ep(0), nullptr, nullptr, nullptr, 0, 0) == -FI_EINVAL);
}

} // namespace
