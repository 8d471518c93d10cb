// SPDX-License-Identifier: MIT OR GPL-2.0-only
// rma_test - FI_RMA on memory of the heap, which the target's progress serves, and on fabric memory, which it does not:
// the same cases on both, and what only the second can show, that the target's CPU does nothing.
#define BOOST_TEST_MODULE rma
#include <algorithm>
#include <array>
#include <cstring>

#include "nvlf/nvlf.h"
#include "target_memory.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::array<std::size_t, 12> sizes{0, 1, 8, 16, 17, 100, 4096, 32768, 32769, 65536, 1 << 20, region_size};

struct Case {
    explicit Case(bool on_fabric, int mr_mode = 0, std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE)
        : target{on_fabric}, pair{{.mr_mode = mr_mode}, {.mr_mode = mr_mode}} {
        std::memset(target.data, 0, region_size);
        fid_mr* m = nullptr;
        check(fi_mr_reg(pair.b.domain.get(), target.data, region_size, access, 0, 1234, 0, &m, nullptr), "fi_mr_reg");
        mr.reset(m);
        key = fi_mr_key(m);
        base = mr_mode != 0 ? reinterpret_cast<std::uintptr_t>(target.data) : 0;
    }
    TargetMemory target;
    TwoEndpoints pair;
    FidPtr<fid_mr> mr;
    std::uint64_t key = 0;
    std::uint64_t base = 0;
};

constexpr int basic = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

template <class F>
void on_both_kinds_of_memory(F&& f) {
    for (const bool on_fabric : {false, true})
        for (const int mode : {0, basic})
            BOOST_TEST_CONTEXT((on_fabric ? "fabric" : "heap") << " memory, mr_mode " << mode) f(on_fabric, mode);
}

} // namespace

BOOST_AUTO_TEST_CASE(writes_of_every_size_land_where_they_are_sent_and_nowhere_else) {
    on_both_kinds_of_memory([](bool on_fabric, int mode) {
        Case c{on_fabric, mode};
        for (const std::size_t bytes : sizes) {
            const std::size_t at = bytes < region_size ? 5 : 0;
            const auto out = pattern(bytes, static_cast<unsigned>(bytes + 1));
            std::memset(c.target.data, 0, region_size);
            int context = 0;
            c.pair.post("write", [&] {
                return fi_write(c.pair.a.ep.get(), out.data(), bytes, nullptr, c.pair.to_b, c.base + at, c.key,
                                &context);
            });
            const Event done = c.pair.wait(c.pair.a, "write");
            BOOST_TEST(done.error == 0);
            BOOST_TEST(done.entry.op_context == &context);
            BOOST_TEST(done.entry.flags == (FI_RMA | FI_WRITE));
            BOOST_TEST(std::equal(out.begin(), out.end(), c.target.data + at)); // Not memcmp: there may be none.
            if (at > 0) BOOST_TEST(c.target.data[at - 1] == 0);
            if (at + bytes < region_size) BOOST_TEST(c.target.data[at + bytes] == 0);
        }
    });
}

BOOST_AUTO_TEST_CASE(reads_of_every_size_bring_what_is_there) {
    on_both_kinds_of_memory([](bool on_fabric, int mode) {
        Case c{on_fabric, mode};
        const auto there = pattern(region_size, 77);
        std::memcpy(c.target.data, there.data(), there.size());
        for (const std::size_t bytes : sizes) {
            const std::size_t at = region_size - bytes;
            std::vector<char> in(bytes);
            c.pair.post("read", [&] {
                return fi_read(c.pair.a.ep.get(), in.data(), bytes, nullptr, c.pair.to_b, c.base + at, c.key, nullptr);
            });
            const Event done = c.pair.wait(c.pair.a, "read");
            BOOST_TEST(done.error == 0);
            BOOST_TEST(done.entry.flags == (FI_RMA | FI_READ));
            BOOST_TEST(std::equal(in.begin(), in.end(), there.data() + at));
        }
    });
}

BOOST_AUTO_TEST_CASE(scattered_transfers_walk_both_lists) {
    on_both_kinds_of_memory([](bool on_fabric, int mode) {
        Case c{on_fabric, mode};
        const auto out = pattern(90'000, 3);
        std::array<iovec, 2> local{
            {{const_cast<char*>(out.data()), 70'000}, {const_cast<char*>(out.data()) + 70'000, 20'000}}};
        std::array<fi_rma_iov, 3> remote{
            {{c.base + 500'000, 10'000, c.key}, {c.base, 50'000, c.key}, {c.base + 100'000, 30'000, c.key}}};
        fi_msg_rma msg{local.data(), nullptr, 2, c.pair.to_b, remote.data(), 3, nullptr, 0};
        c.pair.post("writemsg", [&] { return fi_writemsg(c.pair.a.ep.get(), &msg, FI_COMPLETION); });
        BOOST_TEST(c.pair.wait(c.pair.a, "writemsg").error == 0);
        BOOST_TEST(std::memcmp(c.target.data + 500'000, out.data(), 10'000) == 0);
        BOOST_TEST(std::memcmp(c.target.data, out.data() + 10'000, 50'000) == 0);
        BOOST_TEST(std::memcmp(c.target.data + 100'000, out.data() + 60'000, 30'000) == 0);
        std::vector<char> in(out.size());
        local = {{{in.data(), 1'000}, {in.data() + 1'000, 89'000}}};
        c.pair.post("readmsg", [&] { return fi_readmsg(c.pair.a.ep.get(), &msg, FI_COMPLETION); });
        BOOST_TEST(c.pair.wait(c.pair.a, "readmsg").error == 0);
        BOOST_TEST(in == out);
    });
}

BOOST_AUTO_TEST_CASE(a_range_may_cross_the_pieces_of_a_registration) {
    on_both_kinds_of_memory([](bool on_fabric, int mode) {
        TargetMemory target{on_fabric};
        TwoEndpoints pair{{.mr_mode = mode}, {.mr_mode = mode}};
        std::memset(target.data, 0, region_size);
        // By virtual address, what a range crosses must be next to each other there; by offset, anywhere.
        const std::array<std::size_t, 3> at =
            mode == 0 ? std::array<std::size_t, 3>{500'000, 0, 300'000} : std::array<std::size_t, 3>{0, 100, 80'100};
        constexpr std::array<std::size_t, 3> length{100, 80'000, 5000};
        std::array<iovec, 3> pieces{};
        for (std::size_t i = 0; i < 3; ++i) pieces[i] = {target.data + at[i], length[i]};
        fid_mr* m = nullptr;
        check(fi_mr_regv(pair.b.domain.get(), pieces.data(), 3, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &m, nullptr),
              "fi_mr_regv");
        const FidPtr<fid_mr> mr{m};
        const std::uint64_t start = mode == 0 ? 0 : reinterpret_cast<std::uintptr_t>(target.data);
        const auto out = pattern(84'000, 4);
        pair.post("write", [&] {
            return fi_write(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, start + 50, fi_mr_key(m),
                            nullptr);
        });
        BOOST_TEST(pair.wait(pair.a, "write").error == 0);
        BOOST_TEST(std::memcmp(target.data + at[0] + 50, out.data(), 50) == 0);
        BOOST_TEST(std::memcmp(target.data + at[1], out.data() + 50, 80'000) == 0);
        BOOST_TEST(std::memcmp(target.data + at[2], out.data() + 80'050, 3950) == 0);
        std::vector<char> in(out.size());
        pair.post("read", [&] {
            return fi_read(pair.a.ep.get(), in.data(), in.size(), nullptr, pair.to_b, start + 50, fi_mr_key(m),
                           nullptr);
        });
        BOOST_TEST(pair.wait(pair.a, "read").error == 0);
        BOOST_TEST(in == out);
        pair.post("read", [&] { // One byte beyond the last.
            return fi_read(pair.a.ep.get(), in.data(), 5000, nullptr, pair.to_b, start + 80'101, fi_mr_key(m), nullptr);
        });
        BOOST_TEST(pair.wait(pair.a, "read").error == FI_EKEYREJECTED);
    });
}

BOOST_AUTO_TEST_CASE(writedata_tells_the_target_after_the_data_is_there) {
    on_both_kinds_of_memory([](bool on_fabric, int mode) {
        Case c{on_fabric, mode};
        const auto out = pattern(100'000, 9);
        c.pair.post("writedata", [&] {
            return fi_writedata(c.pair.a.ep.get(), out.data(), out.size(), nullptr, 0xabcdef0123456789ULL, c.pair.to_b,
                                c.base, c.key, nullptr);
        });
        const Event told = c.pair.wait(c.pair.b, "remote write");
        BOOST_TEST(told.entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
        BOOST_TEST(told.entry.data == 0xabcdef0123456789ULL);
        BOOST_TEST(told.entry.len == out.size());
        BOOST_TEST(std::memcmp(c.target.data, out.data(), out.size()) == 0);
        BOOST_TEST(c.pair.wait(c.pair.a, "writedata").error == 0);
    });
}

BOOST_AUTO_TEST_CASE(a_write_of_which_a_part_was_refused_is_not_reported_to_the_target) {
    on_both_kinds_of_memory([](bool on_fabric, int mode) {
        Case c{on_fabric, mode};
        std::vector<char> out(200, 'w');
        iovec local{out.data(), out.size()};
        // The first segment reaches beyond the registration, the last piece is fine.
        std::array<fi_rma_iov, 2> remote{{{c.base + region_size - 50, 100, c.key}, {c.base, 100, c.key}}};
        fi_msg_rma msg{&local, nullptr, 1, c.pair.to_b, remote.data(), remote.size(), nullptr, 42};
        c.pair.post("writemsg",
                    [&] { return fi_writemsg(c.pair.a.ep.get(), &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA); });
        BOOST_TEST(c.pair.wait(c.pair.a, "refusal").error != 0);
        for (int i = 0; i < 1000; ++i) BOOST_REQUIRE(!poll(c.pair.b.cq.get()).has_value());
    });
}

BOOST_AUTO_TEST_CASE(injected_writes_report_nothing_and_free_their_buffer) {
    on_both_kinds_of_memory([](bool on_fabric, int mode) {
        Case c{on_fabric, mode};
        auto out = pattern(4096, 2);
        const auto kept = out;
        c.pair.post("inject", [&] {
            return fi_inject_write(c.pair.a.ep.get(), out.data(), out.size(), c.pair.to_b, c.base + 64, c.key);
        });
        std::fill(out.begin(), out.end(), 'z');
        // A read behind it on the same endpoint is no fence; its data tells when the write is there.
        std::vector<char> in(kept.size());
        bool there = false;
        for (int i = 0; i < 1000 && !there; ++i) {
            c.pair.post("read", [&] {
                return fi_read(c.pair.a.ep.get(), in.data(), in.size(), nullptr, c.pair.to_b, c.base + 64, c.key,
                               nullptr);
            });
            BOOST_TEST(c.pair.wait(c.pair.a, "read").entry.flags == (FI_RMA | FI_READ)); // Never of the inject.
            there = in == kept;
        }
        BOOST_TEST(there);
    });
}

BOOST_AUTO_TEST_CASE(what_the_target_did_not_grant_fails_at_the_initiator) {
    on_both_kinds_of_memory([](bool on_fabric, int mode) {
        Case c{on_fabric, mode, FI_REMOTE_READ};
        std::vector<char> buffer(100, 'x');
        const auto attempt = [&](bool write, std::uint64_t address, std::size_t bytes, std::uint64_t key) {
            c.pair.post("attempt", [&] {
                return write ? fi_write(c.pair.a.ep.get(), buffer.data(), bytes, nullptr, c.pair.to_b, address, key, &c)
                             : fi_read(c.pair.a.ep.get(), buffer.data(), bytes, nullptr, c.pair.to_b, address, key, &c);
            });
            const Event done = c.pair.wait(c.pair.a, "attempt");
            BOOST_TEST(done.entry.op_context == &c);
            return done.error;
        };
        BOOST_TEST(attempt(true, c.base, 100, c.key) == FI_EACCES);             // Granted for reading only.
        BOOST_TEST(attempt(false, c.base, 100, c.key + 1) == FI_EKEYREJECTED);  // No such key.
        BOOST_TEST(attempt(false, c.base + region_size - 99, 100, c.key) != 0); // One byte too far.
        BOOST_TEST(attempt(false, c.base + ~0ULL - 10, 100, c.key) != 0);       // Wraps around.
        BOOST_TEST(c.target.data[0] == 0);
        BOOST_TEST(attempt(false, c.base + region_size - 100, 100, c.key) == 0);
        BOOST_TEST(fi_close(&c.mr.release()->fid) == 0);
        BOOST_TEST(attempt(false, c.base, 100, c.key) == FI_EKEYREJECTED); // Also through what was imported before.
    });
}

BOOST_AUTO_TEST_CASE(on_fabric_memory_the_target_does_nothing) {
    Case c{true};
    const auto out = pattern(300'000, 6);
    std::vector<char> in(out.size());
    // First contact needs no answer either: the target is never driven here.
    BOOST_TEST(fi_write(c.pair.a.ep.get(), out.data(), out.size(), nullptr, c.pair.to_b, 0, c.key, nullptr) == 0);
    BOOST_TEST(poll(c.pair.a.cq.get()).has_value());
    BOOST_TEST(std::memcmp(c.target.data, out.data(), out.size()) == 0);
    BOOST_TEST(fi_read(c.pair.a.ep.get(), in.data(), in.size(), nullptr, c.pair.to_b, 0, c.key, nullptr) == 0);
    BOOST_TEST(poll(c.pair.a.cq.get()).has_value());
    BOOST_TEST(in == out);
}

BOOST_AUTO_TEST_CASE(a_key_used_again_for_other_memory_is_never_served_from_the_old) {
    Case c{true};
    TargetMemory other{true};
    const auto out = pattern(64, 6);
    BOOST_TEST(fi_write(c.pair.a.ep.get(), out.data(), 64, nullptr, c.pair.to_b, 0, c.key, nullptr) == 0);
    (void)c.pair.wait(c.pair.a, "first");
    BOOST_TEST(fi_close(&c.mr.release()->fid) == 0);
    std::memset(c.target.data, 0, 64);
    fid_mr* m = nullptr;
    check(fi_mr_reg(c.pair.b.domain.get(), other.data, 64, FI_REMOTE_WRITE, 0, c.key, 0, &m, nullptr), "fi_mr_reg");
    c.mr.reset(m);
    BOOST_TEST(fi_write(c.pair.a.ep.get(), out.data(), 64, nullptr, c.pair.to_b, 0, c.key, nullptr) == 0);
    BOOST_TEST(c.pair.wait(c.pair.a, "second").error == 0);
    BOOST_TEST(std::memcmp(other.data, out.data(), 64) == 0);
    BOOST_TEST(c.target.data[0] == 0);
    c.mr.reset(); // Before `other`, whose memory it is.
}

BOOST_AUTO_TEST_CASE(registrations_that_come_and_go_leave_no_imports_behind) {
    Case c{true};
    const auto imports = [&] {
        std::uint32_t sum = 0;
        nvlf_ioc_client client{};
        for (std::uint32_t i = 0; i < 16 && nvlf_get_client(c.target.fabric, i, &client) == 0; ++i)
            sum += client.imports;
        return sum;
    };
    const auto out = pattern(64, 6);
    constexpr std::uint64_t rounds = 20;
    for (std::uint64_t key = 1; key <= rounds; ++key) {
        fid_mr* m = nullptr;
        check(fi_mr_reg(c.pair.b.domain.get(), c.target.data, 64, FI_REMOTE_WRITE, 0, key, 0, &m, nullptr),
              "fi_mr_reg");
        const FidPtr<fid_mr> mr{m};
        BOOST_TEST(fi_write(c.pair.a.ep.get(), out.data(), 64, nullptr, c.pair.to_b, 0, key, nullptr) == 0);
        BOOST_TEST(c.pair.wait(c.pair.a, "write").error == 0);
    }
    BOOST_TEST(imports() == 1U); // The last one: that it is stale is seen when the next is made.
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused) {
    Case c{false};
    char byte = 0;
    iovec local{&byte, 1};
    fi_rma_iov remote{0, 2, c.key};
    fi_msg_rma msg{&local, nullptr, 1, c.pair.to_b, &remote, 1, nullptr, 0};
    BOOST_TEST(fi_writemsg(c.pair.a.ep.get(), &msg, 0) == -FI_EINVAL); // The lengths differ.
    remote.len = ~std::uint64_t{0};
    BOOST_TEST(fi_writemsg(c.pair.a.ep.get(), &msg, 0) == -FI_EMSGSIZE);
    remote.len = 1;
    BOOST_TEST(fi_writemsg(c.pair.a.ep.get(), &msg, 1ULL << 63) == -FI_EBADFLAGS);
    BOOST_TEST(fi_readmsg(c.pair.a.ep.get(), &msg, FI_REMOTE_CQ_DATA) == -FI_EBADFLAGS);
    msg.rma_iov_count = 5;
    BOOST_TEST(fi_writemsg(c.pair.a.ep.get(), &msg, 0) == -FI_EINVAL);
    std::vector<char> big(c.pair.a.info->tx_attr->inject_size + 1);
    BOOST_TEST(fi_inject_write(c.pair.a.ep.get(), big.data(), big.size(), c.pair.to_b, 0, c.key) == -FI_EMSGSIZE);
}
