// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Schedules of collectives, carried out in memory: members that take their steps in random order, messages that take their
// time, and what must come out, for groups of up to 17 and amounts around those where algorithms change.
#define BOOST_TEST_MODULE provider_coll_schedule
#include "coll_schedule.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <tuple>

using namespace nvlf::ofi;

namespace {

using Words = std::vector<std::uint32_t>;

std::byte* bytes_of(Words& words) { return reinterpret_cast<std::byte*>(words.data()); }

std::uint32_t brings(std::size_t rank, std::size_t k) {
    return static_cast<std::uint32_t>((rank + 1) * 2654435761U + k);
}

// All members' schedules at once, one step of a random member at a time.
class Machine {
public:
    explicit Machine(std::vector<Schedule> schedules) : members_{std::move(schedules)}, at_(members_.size()) {}

    // False: everybody waits, and nobody is done.
    bool run(std::mt19937& random) {
        for (;;) {
            std::vector<std::size_t> order(members_.size());
            for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
            std::shuffle(order.begin(), order.end(), random);
            if (std::none_of(order.begin(), order.end(), [&](std::size_t rank) { return advance(rank); })) break;
        }
        for (std::size_t rank = 0; rank < members_.size(); ++rank)
            if (at_[rank] < members_[rank].steps.size()) return false;
        return mail_.empty(); // What nobody receives would stay with the receiver.
    }

private:
    using Address = std::tuple<std::size_t, std::size_t, unsigned>; // From, to, number.

    // One stage's worth of steps as far as possible; true when one was taken.
    bool advance(std::size_t rank) {
        std::vector<Step>& steps = members_[rank].steps;
        bool any = false;
        const std::size_t stage_end = [&] {
            std::size_t end = at_[rank];
            while (end < steps.size() && steps[end].stage == steps[at_[rank]].stage) ++end;
            return end;
        }();
        bool all = true;
        for (std::size_t i = at_[rank]; i < stage_end; ++i) {
            if (steps[i].state == Step::State::done) continue;
            if (take(rank, steps[i])) {
                steps[i].state = Step::State::done;
                any = true;
            } else {
                all = false;
            }
        }
        if (all && stage_end > at_[rank]) {
            at_[rank] = stage_end;
            any = true;
        }
        return any;
    }

    bool take(std::size_t rank, const Step& step) {
        const Schedule& schedule = members_[rank];
        switch (step.kind) {
        case Step::Kind::send: {
            const Address address{rank, step.rank, step.number};
            BOOST_REQUIRE_LT(step.rank, members_.size());
            BOOST_REQUIRE_NE(step.rank, rank);
            BOOST_REQUIRE_LT(step.number, step_number_limit);
            BOOST_REQUIRE(sent_.insert(address).second); // Else two messages had one name.
            mail_[address].assign(step.from, step.from + step.bytes);
            return true;
        }
        case Step::Kind::receive: {
            const auto there = mail_.find({step.rank, rank, step.number});
            if (there == mail_.end()) return false;
            BOOST_REQUIRE_EQUAL(there->second.size(), step.bytes);
            std::copy(there->second.begin(), there->second.end(), step.to);
            mail_.erase(there);
            return true;
        }
        case Step::Kind::reduce: schedule.reduce(step.to, step.from, step.bytes / schedule.element); return true;
        case Step::Kind::copy: std::memmove(step.to, step.from, step.bytes); return true;
        }
        return false;
    }

    std::vector<Schedule> members_;
    std::vector<std::size_t> at_;
    std::map<Address, std::vector<std::byte>> mail_;
    std::set<Address> sent_;
};

// Calls `test(members, elements, random)` for all sizes.
void for_all_sizes(const std::function<void(std::uint32_t, std::size_t, std::mt19937&)>& test) {
    std::mt19937 random{20261201};
    for (const std::uint32_t members : {1, 2, 3, 4, 5, 7, 8, 12, 17})
        for (const std::size_t elements : {0, 1, 3, 17, 1000, 8191, 8193})
            BOOST_TEST_CONTEXT(members << " members, " << elements << " elements") { test(members, elements, random); }
}

// One schedule a member.
std::vector<Schedule> plans(std::uint32_t members, const std::function<Schedule(Place)>& plan) {
    std::vector<Schedule> all;
    for (std::uint32_t rank = 0; rank < members; ++rank) all.push_back(plan(Place{rank, members}));
    return all;
}

std::vector<Words> contributions(std::uint32_t members, std::size_t elements) {
    std::vector<Words> all(members, Words(elements));
    for (std::size_t rank = 0; rank < members; ++rank)
        for (std::size_t k = 0; k < elements; ++k) all[rank][k] = brings(rank, k);
    return all;
}

Words sum_of(const std::vector<Words>& all) {
    Words sum(all[0].size());
    for (const Words& one : all)
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += one[k];
    return sum;
}

constexpr std::size_t element = sizeof(std::uint32_t);
const Reduction add = reduction(FI_SUM, FI_UINT32);

} // namespace

BOOST_AUTO_TEST_CASE(a_barrier_hears_of_everybody) {
    std::mt19937 random{1};
    for (std::uint32_t members = 1; members <= 40; ++members) {
        BOOST_TEST(Machine{plans(members, plan_barrier)}.run(random), members);
        // Whoever stays away keeps everybody.
        for (std::uint32_t away = 0; away < members && members > 1; ++away) {
            auto schedules = plans(members, plan_barrier);
            schedules[away] = {};
            BOOST_TEST(!Machine{std::move(schedules)}.run(random), members);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_broadcast_reaches_all_from_any_root) {
    for_all_sizes([](std::uint32_t members, std::size_t elements, std::mt19937& random) {
        const std::uint32_t root = static_cast<std::uint32_t>(random()) % members;
        auto data = contributions(members, elements);
        const Words expected = data[root];
        Machine machine{plans(members, [&](Place place) {
            return plan_broadcast(place, root, {elements, element}, bytes_of(data[place.rank]));
        })};
        BOOST_TEST(machine.run(random));
        for (const Words& got : data) BOOST_CHECK(got == expected);
    });
}

BOOST_AUTO_TEST_CASE(an_allreduce_sums_everything_everywhere) {
    for_all_sizes([](std::uint32_t members, std::size_t elements, std::mt19937& random) {
        auto in = contributions(members, elements);
        std::vector<Words> out(members, Words(elements));
        Machine machine{plans(members, [&](Place place) {
            return plan_allreduce(place, {elements, element}, bytes_of(in[place.rank]), bytes_of(out[place.rank]), add);
        })};
        BOOST_TEST(machine.run(random));
        for (const Words& got : out) BOOST_CHECK(got == sum_of(in));
    });
}

BOOST_AUTO_TEST_CASE(a_reduce_sums_at_the_root_and_leaves_what_was_given_alone) {
    for_all_sizes([](std::uint32_t members, std::size_t elements, std::mt19937& random) {
        const std::uint32_t root = static_cast<std::uint32_t>(random()) % members;
        auto in = contributions(members, elements);
        Words out(elements);
        Machine machine{plans(members, [&](Place place) {
            return plan_reduce(place, root, {elements, element}, bytes_of(in[place.rank]),
                               place.rank == root ? bytes_of(out) : nullptr, add);
        })};
        BOOST_TEST(machine.run(random));
        BOOST_CHECK(in == contributions(members, elements));
        BOOST_CHECK(out == sum_of(in));
    });
}

BOOST_AUTO_TEST_CASE(a_reduce_scatter_gives_each_its_part_of_the_sum) {
    for_all_sizes([](std::uint32_t members, std::size_t elements, std::mt19937& random) {
        auto in = contributions(members, elements * members);
        std::vector<Words> out(members, Words(elements));
        Machine machine{plans(members, [&](Place place) {
            return plan_reduce_scatter(place, {elements, element}, bytes_of(in[place.rank]), bytes_of(out[place.rank]),
                                       add);
        })};
        BOOST_TEST(machine.run(random));
        const Words sum = sum_of(in);
        for (std::size_t rank = 0; rank < members; ++rank)
            BOOST_CHECK(std::equal(out[rank].begin(), out[rank].end(),
                                   sum.begin() + static_cast<std::ptrdiff_t>(rank * elements)));
    });
}

BOOST_AUTO_TEST_CASE(an_allgather_and_a_gather_put_parts_in_the_order_of_ranks) {
    for_all_sizes([](std::uint32_t members, std::size_t elements, std::mt19937& random) {
        auto in = contributions(members, elements);
        Words expected;
        for (const Words& part : in) expected.insert(expected.end(), part.begin(), part.end());
        std::vector<Words> out(members, Words(elements * members));
        Machine machine{plans(members, [&](Place place) {
            return plan_allgather(place, {elements, element}, bytes_of(in[place.rank]), bytes_of(out[place.rank]));
        })};
        BOOST_TEST(machine.run(random));
        for (const Words& got : out) BOOST_CHECK(got == expected);

        const std::uint32_t root = static_cast<std::uint32_t>(random()) % members;
        Words gathered(elements * members);
        Machine gather{plans(members, [&](Place place) {
            return plan_gather(place, root, {elements, element}, bytes_of(in[place.rank]),
                               place.rank == root ? bytes_of(gathered) : nullptr);
        })};
        BOOST_TEST(gather.run(random));
        BOOST_CHECK(gathered == expected);
    });
}

BOOST_AUTO_TEST_CASE(an_alltoall_transposes_and_a_scatter_hands_out) {
    for_all_sizes([](std::uint32_t members, std::size_t elements, std::mt19937& random) {
        auto in = contributions(members, elements * members);
        std::vector<Words> out(members, Words(elements * members));
        Machine machine{plans(members, [&](Place place) {
            return plan_alltoall(place, {elements, element}, bytes_of(in[place.rank]), bytes_of(out[place.rank]));
        })};
        BOOST_TEST(machine.run(random));
        for (std::size_t rank = 0; rank < members; ++rank)
            for (std::size_t from = 0; from < members; ++from)
                for (std::size_t k = 0; k < elements; ++k)
                    BOOST_REQUIRE_EQUAL(out[rank][from * elements + k], brings(from, rank * elements + k));

        const std::uint32_t root = static_cast<std::uint32_t>(random()) % members;
        std::vector<Words> parts(members, Words(elements));
        Machine scatter{plans(members, [&](Place place) {
            return plan_scatter(place, root, {elements, element}, place.rank == root ? bytes_of(in[root]) : nullptr,
                                bytes_of(parts[place.rank]));
        })};
        BOOST_TEST(scatter.run(random));
        for (std::size_t rank = 0; rank < members; ++rank)
            for (std::size_t k = 0; k < elements; ++k)
                BOOST_REQUIRE_EQUAL(parts[rank][k], brings(root, rank * elements + k));
    });
}

BOOST_AUTO_TEST_CASE(messages_of_the_largest_group_have_names) {
    for (const std::uint32_t rank : {0U, 1U, 16383U}) {
        Words data(1 << 16), out(1 << 16);
        const Schedule schedule =
            plan_allreduce({rank, 16384}, {data.size(), element}, bytes_of(data), bytes_of(out), add);
        for (const Step& step : schedule.steps) BOOST_REQUIRE_LT(step.number, step_number_limit);
    }
}
