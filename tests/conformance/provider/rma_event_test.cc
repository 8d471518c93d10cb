// SPDX-License-Identifier: MIT OR GPL-2.0-only
// rma_event_test - FI_RMA_EVENT: a target counts what is done to its memory, on fabric memory, which passes it by, as on
// memory of the heap. Once an operation, whatever its size; not what was refused.
#define BOOST_TEST_MODULE rma_event
#include <rdma/fi_atomic.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "target_memory.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RMA_EVENT;
constexpr std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;

// Two registrations at b.
struct Case {
    explicit Case(bool on_fabric, const SideOptions& target = {.caps = caps, .counted = access})
        : memory{TargetMemory{on_fabric}, TargetMemory{on_fabric}}, pair{{.caps = caps}, target} {
        for (std::size_t i = 0; i < mr.size(); ++i) {
            fid_mr* m = nullptr;
            check(fi_mr_reg(pair.b.domain.get(), memory[i].data, region_size, access, 0, key(i), 0, &m, nullptr),
                  "fi_mr_reg");
            mr[i].reset(m);
        }
    }

    static std::uint64_t key(std::size_t i) { return 100 + i; }

    void write(std::size_t bytes, std::uint64_t to_key = key(0), int expected = 0) {
        const auto out = pattern(bytes, 1);
        pair.post("write",
                  [&] { return fi_write(pair.a.ep.get(), out.data(), bytes, nullptr, pair.to_b, 0, to_key, nullptr); });
        BOOST_TEST(pair.wait(pair.a, "write").error == expected);
    }
    void read(std::size_t bytes, std::uint64_t from_key = key(0), int expected = 0) {
        std::vector<char> in(bytes);
        pair.post("read",
                  [&] { return fi_read(pair.a.ep.get(), in.data(), bytes, nullptr, pair.to_b, 0, from_key, nullptr); });
        BOOST_TEST(pair.wait(pair.a, "read").error == expected);
    }

    // What the counter says after all that was sent before this message has come.
    std::uint64_t settled(fid_cntr* cntr) {
        pair.post("send", [&] { return fi_send(pair.a.ep.get(), nullptr, 0, nullptr, pair.to_b, nullptr); });
        BOOST_TEST(pair.wait(pair.a, "send").error == 0);
        check(fi_recv(pair.b.ep.get(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        BOOST_TEST(pair.wait(pair.b, "message").error == 0);
        return fi_cntr_read(cntr);
    }
    std::uint64_t reads() { return settled(pair.b.counter.at(FI_REMOTE_READ).get()); }
    std::uint64_t writes() { return settled(pair.b.counter.at(FI_REMOTE_WRITE).get()); }

    std::array<TargetMemory, 2> memory;
    TwoEndpoints pair;
    std::array<FidPtr<fid_mr>, 2> mr;
};

template <class F>
void on_both_kinds_of_memory(F&& f) {
    for (const bool on_fabric : {false, true})
        BOOST_TEST_CONTEXT((on_fabric ? "fabric" : "heap") << " memory") f(on_fabric);
}

} // namespace

BOOST_AUTO_TEST_CASE(each_operation_counts_once_whatever_its_size) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        std::uint64_t expected = 0;
        for (const std::size_t bytes :
             {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{32769}, region_size}) {
            BOOST_TEST_CONTEXT(bytes << " bytes") {
                ++expected;
                c.write(bytes);
                BOOST_TEST(c.writes() == expected);
                BOOST_TEST(c.reads() == expected - 1);
                c.read(bytes);
                BOOST_TEST(c.reads() == expected);
                BOOST_TEST(c.writes() == expected);
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(a_target_that_sleeps_wakes_to_a_count_with_the_data_in_place) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        fid_cntr* cntr = c.pair.b.counter.at(FI_REMOTE_WRITE).get();
        BOOST_TEST(fi_cntr_wait(cntr, 1, 0) == -FI_ETIMEDOUT);
        const std::uint64_t word = 0x1122334455667788;
        std::atomic<bool> counted{false};
        std::thread initiator{[&] {
            while (fi_inject_write(c.pair.a.ep.get(), &word, sizeof word, c.pair.to_b, 64, Case::key(0)) == -FI_EAGAIN)
                (void)fi_cq_read(c.pair.a.cq.get(), nullptr, 0);
            while (!counted) (void)fi_cq_read(c.pair.a.cq.get(), nullptr, 0);
        }};
        const int waited = fi_cntr_wait(cntr, 1, 20'000);
        counted = true;
        initiator.join();
        BOOST_TEST(waited == 0);
        BOOST_TEST(std::memcmp(c.memory[0].data + 64, &word, sizeof word) == 0);
    });
}

BOOST_AUTO_TEST_CASE(several_segments_are_one_operation) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        const auto out = pattern(80'000, 2);
        const iovec local{const_cast<char*>(out.data()), out.size()};
        const std::array<fi_rma_iov, 3> remote{
            {{0, 40'000, Case::key(0)}, {500'000, 10'000, Case::key(0)}, {7, 30'000, Case::key(1)}}};
        const fi_msg_rma msg{&local, nullptr, 1, c.pair.to_b, remote.data(), remote.size(), nullptr, 0};
        c.pair.post("writemsg", [&] { return fi_writemsg(c.pair.a.ep.get(), &msg, FI_COMPLETION); });
        BOOST_TEST(c.pair.wait(c.pair.a, "writemsg").error == 0);
        BOOST_TEST(c.writes() == 1);
        c.pair.post("readmsg", [&] { return fi_readmsg(c.pair.a.ep.get(), &msg, FI_COMPLETION); });
        BOOST_TEST(c.pair.wait(c.pair.a, "readmsg").error == 0);
        BOOST_TEST(c.reads() == 1);
    });
}

BOOST_AUTO_TEST_CASE(remote_data_counts_as_well_and_reports_as_before) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        const auto out = pattern(100, 3);
        c.pair.post("writedata", [&] {
            return fi_writedata(c.pair.a.ep.get(), out.data(), out.size(), nullptr, 0xfedcba9876543210, c.pair.to_b, 0,
                                Case::key(0), nullptr);
        });
        BOOST_TEST(c.pair.wait(c.pair.a, "writedata").error == 0);
        const Event event = c.pair.wait(c.pair.b, "remote data");
        BOOST_TEST(event.entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
        BOOST_TEST(event.entry.data == 0xfedcba9876543210);
        BOOST_TEST(event.entry.len == 100U);
        BOOST_TEST(c.writes() == 1);
    });
}

BOOST_AUTO_TEST_CASE(what_is_refused_counts_nothing) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        c.write(8, 9999, FI_EKEYREJECTED);
        c.read(8, 9999, FI_EKEYREJECTED);
        // The first segment is good, the second is not.
        const auto out = pattern(16, 2);
        const iovec local{const_cast<char*>(out.data()), out.size()};
        const std::array<fi_rma_iov, 2> remote{{{0, 8, Case::key(0)}, {region_size, 8, Case::key(1)}}};
        const fi_msg_rma msg{&local, nullptr, 1, c.pair.to_b, remote.data(), remote.size(), nullptr, 0};
        c.pair.post("writemsg", [&] { return fi_writemsg(c.pair.a.ep.get(), &msg, FI_COMPLETION); });
        BOOST_TEST(c.pair.wait(c.pair.a, "writemsg").error == FI_EKEYREJECTED);
        BOOST_TEST(c.writes() == 0);
        BOOST_TEST(c.reads() == 0);
        BOOST_TEST(fi_cntr_readerr(c.pair.b.counter.at(FI_REMOTE_WRITE).get()) == 0);
    });
}

BOOST_AUTO_TEST_CASE(what_one_side_counts_is_not_the_others) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, {.caps = caps, .counted = FI_REMOTE_READ | FI_READ | FI_WRITE | FI_SEND | FI_RECV}};
        c.write(64);
        c.read(64);
        BOOST_TEST(c.reads() == 1); // And nobody counts writes.
        for (const std::uint64_t bit : {FI_READ, FI_WRITE, FI_SEND})
            BOOST_TEST(fi_cntr_read(c.pair.b.counter.at(bit).get()) == 0);
    });
}

BOOST_AUTO_TEST_CASE(a_registration_has_a_counter_of_its_own) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, {.caps = caps}};
        c.write(8); // Imported before there is a counter.
        const FidPtr<fid_cntr> first = c.pair.b.open_counter(), second = c.pair.b.open_counter();
        BOOST_TEST(fi_mr_bind(c.mr[0].get(), &first->fid, FI_REMOTE_READ) == -FI_EBADFLAGS);
        check(fi_mr_bind(c.mr[0].get(), &first->fid, FI_REMOTE_WRITE), "fi_mr_bind");
        check(fi_mr_bind(c.mr[1].get(), &second->fid, FI_REMOTE_WRITE), "fi_mr_bind");
        BOOST_TEST(fi_close(&first->fid) == -FI_EBUSY);
        c.write(8);
        c.write(40'000);
        c.write(8, Case::key(1));
        c.read(8);
        BOOST_TEST(c.settled(first.get()) == 2);
        BOOST_TEST(fi_cntr_read(second.get()) == 1);
        // Two segments of one registration and one of the other: one operation for each.
        const auto out = pattern(24, 2);
        const iovec local{const_cast<char*>(out.data()), out.size()};
        const std::array<fi_rma_iov, 3> remote{{{0, 8, Case::key(0)}, {0, 8, Case::key(1)}, {64, 8, Case::key(0)}}};
        const fi_msg_rma msg{&local, nullptr, 1, c.pair.to_b, remote.data(), remote.size(), nullptr, 0};
        c.pair.post("writemsg", [&] { return fi_writemsg(c.pair.a.ep.get(), &msg, FI_COMPLETION); });
        BOOST_TEST(c.pair.wait(c.pair.a, "writemsg").error == 0);
        BOOST_TEST(c.settled(first.get()) == 3);
        BOOST_TEST(fi_cntr_read(second.get()) == 2);
        c.mr[0].reset();
        c.mr[1].reset();
    });
}

// It is bound to no endpoint, but whoever reads it must see what comes through any.
BOOST_AUTO_TEST_CASE(reading_a_registrations_counter_drives_the_endpoints) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric, {.caps = caps}};
        const FidPtr<fid_cntr> cntr = c.pair.b.open_counter();
        check(fi_mr_bind(c.mr[0].get(), &cntr->fid, FI_REMOTE_WRITE), "fi_mr_bind");
        const std::uint64_t word = 1;
        ssize_t posted = 0;
        do {
            posted = fi_inject_write(c.pair.a.ep.get(), &word, sizeof word, c.pair.to_b, 0, Case::key(0));
        } while (posted == -FI_EAGAIN);
        BOOST_TEST(posted == 0);
        while (fi_cntr_read(cntr.get()) == 0) (void)fi_cq_read(c.pair.a.cq.get(), nullptr, 0);
        BOOST_TEST(fi_cntr_wait(cntr.get(), 1, 0) == 0);
        c.mr[0].reset();
    });
}

BOOST_AUTO_TEST_CASE(atomic_operations_count_by_what_their_initiator_gets) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        const FidPtr<fid_cntr> changes = c.pair.b.open_counter();
        check(fi_mr_bind(c.mr[0].get(), &changes->fid, FI_REMOTE_WRITE), "fi_mr_bind");
        fid_ep* a = c.pair.a.ep.get();
        const std::uint64_t one = 1;
        std::uint64_t found = 0;
        c.pair.post("atomic", [&] {
            return fi_atomic(a, &one, 1, nullptr, c.pair.to_b, 0, Case::key(0), FI_UINT64, FI_SUM, nullptr);
        });
        BOOST_TEST(c.pair.wait(c.pair.a, "atomic").error == 0);
        BOOST_TEST(c.writes() == 1);
        BOOST_TEST(c.reads() == 0);
        BOOST_TEST(fi_cntr_read(changes.get()) == 1);
        c.pair.post("fetch", [&] {
            return fi_fetch_atomic(a, &one, 1, nullptr, &found, nullptr, c.pair.to_b, 0, Case::key(0), FI_UINT64,
                                   FI_SUM, nullptr);
        });
        BOOST_TEST(c.pair.wait(c.pair.a, "fetch").error == 0);
        BOOST_TEST(found == 1);
        BOOST_TEST(c.writes() == 1);
        BOOST_TEST(c.reads() == 1);
        BOOST_TEST(fi_cntr_read(changes.get()) == 2);
        c.pair.post("atomic read", [&] {
            return fi_fetch_atomic(a, nullptr, 1, nullptr, &found, nullptr, c.pair.to_b, 0, Case::key(0), FI_UINT64,
                                   FI_ATOMIC_READ, nullptr);
        });
        BOOST_TEST(c.pair.wait(c.pair.a, "atomic read").error == 0);
        BOOST_TEST(found == 2);
        BOOST_TEST(c.reads() == 2);
        BOOST_TEST(fi_cntr_read(changes.get()) == 2); // It changed nothing.
        c.mr[0].reset();
    });
}

BOOST_AUTO_TEST_CASE(to_oneself_it_is_the_same) {
    on_both_kinds_of_memory([](bool on_fabric) {
        Case c{on_fabric};
        const fi_addr_t self = c.pair.b.insert(c.pair.b.name());
        std::uint64_t word = 1;
        c.pair.post("write", [&] {
            return fi_write(c.pair.b.ep.get(), &word, sizeof word, nullptr, self, 0, Case::key(0), nullptr);
        });
        BOOST_TEST(c.pair.wait(c.pair.b, "write").error == 0);
        BOOST_TEST(c.writes() == 1);
    });
}
