// SPDX-License-Identifier: MIT OR GPL-2.0-only
// counter_test - what counters count: each kind of operation by the binding that names it, whether it reports to a queue or
// not; failures apart.
#define BOOST_TEST_MODULE counter
#include <rdma/fi_atomic.h>

#include <array>
#include <map>

#include "target_memory.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RMA_EVENT;
constexpr std::uint64_t every_kind = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t key = 3;

using Counts = std::map<std::uint64_t, std::uint64_t>;

struct Case {
    explicit Case(bool on_fabric, std::uint64_t bind_flags = 0)
        : memory{on_fabric},
          pair{{.caps = caps, .bind_flags = bind_flags, .counted = every_kind},
               {.caps = caps, .bind_flags = bind_flags, .counted = every_kind}} {
        fid_mr* m = nullptr;
        check(fi_mr_reg(pair.b.domain.get(), memory.data, region_size, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &m,
                        nullptr),
              "fi_mr_reg");
        mr.reset(m);
    }

    static Counts counts(const Side& side) {
        Counts result;
        for (const auto& [kind, cntr] : side.counter)
            if (const std::uint64_t count = fi_cntr_read(cntr.get()); count != 0) result[kind] = count;
        return result;
    }
    static std::uint64_t failures(const Side& side) {
        std::uint64_t sum = 0;
        for (const auto& [kind, cntr] : side.counter) sum += fi_cntr_readerr(cntr.get());
        return sum;
    }
    // Until each side has counted that much; both are driven.
    bool reach(const Counts& a, const Counts& b) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        bool there = false;
        while (!there && std::chrono::steady_clock::now() < deadline) {
            const bool a_there = counts(pair.a) == a;
            there = counts(pair.b) == b && a_there;
        }
        return there;
    }

    TargetMemory memory;
    TwoEndpoints pair;
    FidPtr<fid_mr> mr;
};

template <class F>
void on_both_kinds_of_memory(F&& f) {
    for (const bool on_fabric : {false, true})
        BOOST_TEST_CONTEXT((on_fabric ? "fabric" : "heap") << " memory") f(on_fabric);
}

} // namespace

BOOST_AUTO_TEST_CASE(each_kind_of_operation_is_counted_by_its_own_binding_at_both_ends) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, FI_SELECTIVE_COMPLETION}; // Without a completion that anybody reads.
        fid_ep* a = c.pair.a.ep.get();
        fid_ep* b = c.pair.b.ep.get();
        const fi_addr_t to = c.pair.to_b;
        std::uint64_t word = 1, found = 0;
        std::array<char, 4> in{};
        for (char& byte : in) check(fi_recv(b, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        c.pair.post("send", [&] { return fi_send(a, "a", 1, nullptr, to, nullptr); });
        c.pair.post("inject", [&] { return fi_inject(a, "b", 1, to); });
        c.pair.post("senddata", [&] { return fi_senddata(a, "c", 1, nullptr, 5, to, nullptr); });
        c.pair.post("injectdata", [&] { return fi_injectdata(a, "d", 1, 5, to); });
        BOOST_TEST(c.reach({{FI_SEND, 4}}, {{FI_RECV, 4}}));
        check(fi_trecv(b, in.data(), 1, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), "trecv");
        c.pair.post("tinject", [&] { return fi_tinject(a, "e", 1, to, 1); });
        BOOST_TEST(c.reach({{FI_SEND, 5}}, {{FI_RECV, 5}}));
        c.pair.post("write", [&] { return fi_write(a, &word, 8, nullptr, to, 0, key, nullptr); });
        c.pair.post("inject_write", [&] { return fi_inject_write(a, &word, 8, to, 0, key); });
        c.pair.post("atomic", [&] { return fi_atomic(a, &word, 1, nullptr, to, 0, key, FI_UINT64, FI_SUM, nullptr); });
        c.pair.post("inject_atomic", [&] { return fi_inject_atomic(a, &word, 1, to, 0, key, FI_UINT64, FI_SUM); });
        BOOST_TEST(c.reach({{FI_SEND, 5}, {FI_WRITE, 4}}, {{FI_RECV, 5}, {FI_REMOTE_WRITE, 4}}));
        c.pair.post("read", [&] { return fi_read(a, &found, 8, nullptr, to, 0, key, nullptr); });
        c.pair.post("fetch", [&] {
            return fi_fetch_atomic(a, &word, 1, nullptr, &found, nullptr, to, 0, key, FI_UINT64, FI_SUM, nullptr);
        });
        BOOST_TEST(c.reach({{FI_SEND, 5}, {FI_WRITE, 4}, {FI_READ, 2}},
                           {{FI_RECV, 5}, {FI_REMOTE_WRITE, 4}, {FI_REMOTE_READ, 2}}));
        BOOST_TEST(found == 3U);
        BOOST_TEST(Case::failures(c.pair.a) == 0U);
        BOOST_TEST(Case::failures(c.pair.b) == 0U);
        BOOST_TEST(!poll(c.pair.a.cq.get()).has_value());
    });
}

BOOST_AUTO_TEST_CASE(failures_are_counted_apart_by_who_began) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        fid_ep* a = c.pair.a.ep.get();
        std::uint64_t word = 1;
        const auto failures = [&](std::uint64_t kind) { return fi_cntr_readerr(c.pair.a.counter.at(kind).get()); };
        c.pair.post("write", [&] { return fi_write(a, &word, 8, nullptr, c.pair.to_b, 0, 999, nullptr); });
        BOOST_TEST(c.pair.wait(c.pair.a, "write").error == FI_EKEYREJECTED);
        c.pair.post("inject", [&] { return fi_inject_write(a, &word, 8, c.pair.to_b, 0, 999); });
        BOOST_TEST(c.pair.wait(c.pair.a, "inject").error == FI_EKEYREJECTED); // A failure is told in any case.
        BOOST_TEST(failures(FI_WRITE) == 2U);
        c.pair.post("read", [&] { return fi_read(a, &word, 8, nullptr, c.pair.to_b, region_size, key, nullptr); });
        BOOST_TEST(c.pair.wait(c.pair.a, "read").error == FI_EKEYREJECTED);
        BOOST_TEST(failures(FI_READ) == 1U);
        // A message that is too long for its buffer was sent well, and received badly.
        char in = 0;
        check(fi_recv(c.pair.b.ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        c.pair.post("send", [&] { return fi_send(a, &word, 8, nullptr, c.pair.to_b, nullptr); });
        BOOST_TEST(c.pair.wait(c.pair.b, "receive").error == FI_ETRUNC);
        BOOST_TEST(fi_cntr_readerr(c.pair.b.counter.at(FI_RECV).get()) == 1U);
        BOOST_TEST(c.reach({{FI_SEND, 1}}, {}));
        BOOST_TEST(Case::failures(c.pair.a) == 3U);
        BOOST_TEST(Case::failures(c.pair.b) == 1U);
    });
}

BOOST_AUTO_TEST_CASE(one_counter_may_serve_several_kinds_and_a_kind_has_one_counter) {
    Side side{{.caps = caps}};
    const FidPtr<fid_cntr> cntr = side.open_counter(), second = side.open_counter();
    fid_ep* e = nullptr;
    check(fi_endpoint(side.domain.get(), side.info.get(), &e, nullptr), "fi_endpoint");
    const FidPtr<fid_ep> ep{e};
    BOOST_TEST(fi_ep_bind(e, &cntr->fid, 0) == -FI_EBADFLAGS);
    BOOST_TEST(fi_ep_bind(e, &cntr->fid, FI_SEND | FI_SOURCE) == -FI_EBADFLAGS);
    const Side other;
    const FidPtr<fid_cntr> foreign = other.open_counter();
    BOOST_TEST(fi_ep_bind(e, &foreign->fid, FI_SEND) == -FI_EINVAL);
    check(fi_ep_bind(e, &cntr->fid, FI_SEND | FI_READ), "bind");
    BOOST_TEST(fi_ep_bind(e, &second->fid, FI_WRITE | FI_READ) == -FI_EINVAL); // And nothing of it happens:
    check(fi_ep_bind(e, &second->fid, FI_WRITE), "bind");
    BOOST_TEST(fi_close(&cntr->fid) == -FI_EBUSY);
    check(fi_ep_bind(e, &side.av->fid, 0), "bind av");
    check(fi_ep_bind(e, &side.cq->fid, FI_TRANSMIT | FI_RECV), "bind cq");
    check(fi_enable(e), "fi_enable");
    BOOST_TEST(fi_ep_bind(e, &cntr->fid, FI_RECV) == -FI_EOPBADSTATE);
    const fi_addr_t self = side.insert([&] {
        std::vector<char> name(64);
        std::size_t size = name.size();
        check(fi_getname(&e->fid, name.data(), &size), "fi_getname");
        name.resize(size);
        return name;
    }());
    char in = 0;
    check(fi_recv(e, &in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    ssize_t sent = 0;
    while ((sent = fi_send(e, "x", 1, nullptr, self, nullptr)) == -FI_EAGAIN) (void)fi_cntr_read(cntr.get());
    check(sent, "send");
    BOOST_TEST(fi_cntr_wait(cntr.get(), 1, 20'000) == 0);
    BOOST_TEST(fi_cntr_read(second.get()) == 0U);
}
