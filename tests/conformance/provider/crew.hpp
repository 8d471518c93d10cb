// SPDX-License-Identifier: MIT OR GPL-2.0-only
// crew.hpp - any number of endpoints in one process that know each other, and the collective groups that they form.
//
// As two_endpoints.hpp: each endpoint stands on a fabric and a domain of its own, one thread drives all of them, waits
// are bounded. All know all by the same addresses: member i of the crew is address i of every vector.
#pragma once

#include <rdma/fi_collective.h>

#include <functional>

#include "conformance/provider/two_endpoints.hpp"

namespace nvlf::test {

class Crew {
public:
    explicit Crew(std::size_t size, SideOptions options = {.caps = FI_MSG | FI_TAGGED | FI_COLLECTIVE}) {
        options.event_queue = true;
        for (std::size_t i = 0; i < size; ++i) sides.push_back(std::make_unique<Side>(options));
        for (auto& side : sides)
            for (std::size_t i = 0; i < size; ++i) BOOST_REQUIRE_EQUAL(side->insert(sides[i]->name()), i);
    }

    [[nodiscard]] std::size_t size() const { return sides.size(); }

    // Drives everybody; events stay in their queues.
    void drive() {
        for (auto& side : sides)
            if (side != nullptr) (void)fi_cq_read(side->cq.get(), nullptr, 0);
    }

    void until(const char* what, const std::function<bool()>& done) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (!done()) {
            BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < deadline, "nothing came in 20 s: " << what);
            drive();
        }
    }

    Event wait(std::size_t who, const char* what) {
        std::optional<Event> event;
        until(what, [&] { return (event = poll(sides[who]->cq.get())).has_value(); });
        return *event;
    }

    std::vector<std::unique_ptr<Side>> sides;
};

using AvSetPtr = FidPtr<fid_av_set>;
using McPtr = FidPtr<fid_mc>;

inline int open_set(Side& side, AvSetPtr& ret_set, const std::vector<fi_addr_t>& members = {},
                    std::uint64_t flags = 0) {
    fi_av_set_attr attr{};
    attr.start_addr = attr.end_addr = FI_ADDR_NOTAVAIL;
    attr.flags = flags;
    fid_av_set* set = nullptr;
    const int ret = fi_av_set(side.av.get(), &attr, &set, nullptr);
    ret_set.reset(ret == 0 ? set : nullptr);
    if (ret != 0) return ret;
    for (const fi_addr_t member : members) check(fi_av_set_insert(set, member), "fi_av_set_insert");
    return 0;
}

inline int join(Side& side, const AvSetPtr& set, McPtr& ret_mc, void* context = nullptr) {
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    check(fi_av_set_addr(set.get(), &address), "fi_av_set_addr");
    fid_mc* mc = nullptr;
    const int ret = fi_join_collective(side.ep.get(), address, set.get(), 0, &mc, context);
    ret_mc.reset(ret == 0 ? mc : nullptr);
    return ret;
}

// What an event queue says: FI_JOIN_COMPLETE, or the error of a join.
struct JoinEvent {
    fid* group = nullptr;
    void* context = nullptr;
    int error = 0;
};
inline std::optional<JoinEvent> poll_join(Side& side) {
    std::uint32_t event = 0;
    fi_eq_entry entry{};
    const ssize_t n = fi_eq_read(side.eq.get(), &event, &entry, sizeof entry, 0);
    if (n == -FI_EAGAIN) return std::nullopt;
    if (n == -FI_EAVAIL) {
        fi_eq_err_entry failure{};
        BOOST_REQUIRE_GT(fi_eq_readerr(side.eq.get(), &failure, 0), 0);
        return JoinEvent{failure.fid, failure.context, failure.err};
    }
    BOOST_REQUIRE_EQUAL(n, static_cast<ssize_t>(sizeof entry));
    BOOST_REQUIRE_EQUAL(event, FI_JOIN_COMPLETE);
    return JoinEvent{entry.fid, entry.context, 0};
}

// A group of some of a crew, in their order, joined by all of them.
class Team {
public:
    Team(Crew& c, std::vector<fi_addr_t> of, std::uint64_t flags = 0) : crew{c}, members{std::move(of)} {
        for (const fi_addr_t member : members) {
            AvSetPtr set;
            check(open_set(*crew.sides[member], set, members, flags), "fi_av_set");
            mcs.emplace_back();
            check(join(*crew.sides[member], set, mcs.back(), this), "fi_join_collective");
        } // The sets go here: groups do not need them.
        for (std::size_t i = 0; i < members.size(); ++i) {
            std::optional<JoinEvent> event;
            crew.until("join", [&] { return (event = poll_join(*crew.sides[members[i]])).has_value(); });
            BOOST_REQUIRE_EQUAL(event->error, 0);
            BOOST_CHECK(event->group == &mcs[i]->fid);
            BOOST_CHECK(event->context == this);
        }
    }

    static Team of_all(Crew& crew) {
        std::vector<fi_addr_t> all(crew.size());
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
        return Team{crew, all};
    }

    [[nodiscard]] std::size_t size() const { return members.size(); }
    [[nodiscard]] fid_ep* ep(std::size_t rank) const { return crew.sides[members[rank]]->ep.get(); }
    [[nodiscard]] fi_addr_t address(std::size_t rank) const { return fi_mc_addr(mcs[rank].get()); }

    // Every member calls, then all complete; the context is the rank's number, plus one.
    void all(const char* what, const std::function<ssize_t(std::size_t rank, void* context)>& call) {
        for (std::size_t rank = 0; rank < size(); ++rank) check(call(rank, reinterpret_cast<void*>(rank + 1)), what);
        for (std::size_t rank = 0; rank < size(); ++rank) {
            const Event event = crew.wait(members[rank], what);
            BOOST_REQUIRE_MESSAGE(event.error == 0, what << " at rank " << rank << ": " << fi_strerror(event.error));
            BOOST_CHECK_EQUAL(event.entry.op_context, reinterpret_cast<void*>(rank + 1));
            BOOST_CHECK_EQUAL(event.entry.flags, FI_COLLECTIVE);
        }
    }

    Crew& crew;
    std::vector<fi_addr_t> members;
    std::vector<McPtr> mcs; // By rank.
};

} // namespace nvlf::test
