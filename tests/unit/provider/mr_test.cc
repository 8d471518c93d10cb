// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Registrations as a peer may use, and try to abuse, them.
#define BOOST_TEST_MODULE provider_mr
#include <sys/mman.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "base/fd.hpp"
#include "dmabuf.hpp"
#include "domain.hpp"
#include "mr.hpp"

using namespace nvlf::ofi;
using nvlf::Errno;

namespace {

// The only piece of a range; nullptr: there is none, or more.
const void* where(const Mr& mr, std::uint64_t addr, std::uint64_t len, bool virtual_addresses) {
    const auto range = mr_locate(mr, addr, len, virtual_addresses);
    return range && range->count == 1 && range->total == len ? range->iov[0].iov_base : nullptr;
}

constexpr std::uint64_t max64 = ~std::uint64_t{0};
constexpr std::uint64_t rights = FI_REMOTE_READ | FI_REMOTE_WRITE;

struct Fixture {
    Fabric fabric;
    Domain domain{fabric, nullptr, 0, FI_THREAD_SAFE, 0, 0};
    std::array<std::byte, 256> memory{};

    Fixture() { fabric.refs = 1; }

    Mr make(std::vector<iovec> pieces, std::uint64_t key = 1) {
        Mr mr{domain};
        for (const iovec& piece : pieces) {
            mr.address[mr.iov_count] = reinterpret_cast<std::uintptr_t>(piece.iov_base);
            mr.iov[mr.iov_count++] = piece;
            mr.length += piece.iov_len;
        }
        mr.key = key;
        mr.access = rights;
        mr.enabled = true;
        return mr;
    }
    std::byte* at(std::size_t offset) { return memory.data() + offset; }
    std::uint64_t va(std::size_t offset) { return reinterpret_cast<std::uintptr_t>(memory.data()) + offset; }
};

} // namespace

BOOST_FIXTURE_TEST_CASE(offsets_count_from_the_start_of_the_registration, Fixture) {
    const Mr mr = make({{at(16), 100}});
    BOOST_TEST(where(mr, 0, 100, false) == at(16));
    BOOST_TEST(where(mr, 99, 1, false) == at(115));
    BOOST_TEST(where(mr, 100, 0, false) == at(116));
}

BOOST_FIXTURE_TEST_CASE(virtual_addresses_are_taken_as_they_are, Fixture) {
    const Mr mr = make({{at(16), 100}});
    BOOST_TEST(where(mr, va(16), 100, true) == at(16));
    BOOST_TEST(where(mr, va(115), 1, true) == at(115));
    BOOST_TEST(where(mr, 0, 1, true) == nullptr);
}

BOOST_FIXTURE_TEST_CASE(nothing_outside_is_reachable_however_the_numbers_wrap, Fixture) {
    const Mr mr = make({{at(16), 100}});
    for (const auto& [addr, len] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 101},
                                                                                        {1, 100},
                                                                                        {100, 1},
                                                                                        {101, 0},
                                                                                        {max64, 1},
                                                                                        {max64, max64},
                                                                                        {0, max64},
                                                                                        {50, max64 - 49},
                                                                                        {max64 - 7, 8}})
        BOOST_TEST(where(mr, addr, len, false) == nullptr, addr << "+" << len);
    for (const auto& [addr, len] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{{va(15), 1},
                                                                                        {va(15), 2},
                                                                                        {va(16), 101},
                                                                                        {va(116), 1},
                                                                                        {va(117), 0},
                                                                                        {va(16), max64},
                                                                                        {va(17), 0 - va(17)},
                                                                                        {max64, 1}})
        BOOST_TEST(where(mr, addr, len, true) == nullptr, addr << "+" << len);
}

BOOST_FIXTURE_TEST_CASE(pieces_follow_each_other_by_offset_and_a_range_may_cross_them, Fixture) {
    const Mr mr = make({{at(0), 10}, {at(100), 20}, {at(50), 5}});
    BOOST_TEST(where(mr, 9, 1, false) == at(9));
    BOOST_TEST(where(mr, 10, 20, false) == at(100));
    BOOST_TEST(where(mr, 30, 5, false) == at(50));
    BOOST_TEST(where(mr, 35, 1, false) == nullptr);
    const auto all = mr_locate(mr, 9, 26, false);
    BOOST_REQUIRE(all.has_value());
    BOOST_TEST(all->count == 3U);
    BOOST_TEST((all->iov[0].iov_base == at(9) && all->iov[0].iov_len == 1U));
    BOOST_TEST((all->iov[1].iov_base == at(100) && all->iov[1].iov_len == 20U));
    BOOST_TEST((all->iov[2].iov_base == at(50) && all->iov[2].iov_len == 5U));
    BOOST_TEST(!mr_locate(mr, 9, 27, false).has_value());
    BOOST_TEST(where(mr, va(104), 16, true) == at(104));
    BOOST_TEST(where(mr, va(52), 3, true) == at(52));
    BOOST_TEST(where(mr, va(20), 1, true) == nullptr);
    BOOST_TEST(!mr_locate(mr, va(9), 2, true).has_value()); // What is next to it by address is not registered.
    const Mr neighbours = make({{at(10), 10}, {at(0), 10}});
    BOOST_TEST(mr_locate(neighbours, va(5), 10, true)->count == 2U);
}

BOOST_FIXTURE_TEST_CASE(the_whole_address_space_may_be_registered, Fixture) {
    const Mr mr = make({{nullptr, max64}});
    BOOST_TEST(where(mr, va(3), 8, false) == at(3));
    BOOST_TEST(where(mr, va(3), 8, true) == at(3));
    BOOST_TEST(where(mr, max64, 1, false) == nullptr);
}

BOOST_FIXTURE_TEST_CASE(a_peer_gets_what_key_range_and_rights_allow_and_the_error_says_which_did_not, Fixture) {
    MrTable table{true, false};
    Mr mr = make({{at(0), 64}}, 42);
    mr.access = FI_REMOTE_READ;
    BOOST_TEST(!table.add(mr).failed());
    BOOST_TEST(table.resolve(42, 8, 8, FI_REMOTE_READ, nullptr)->iov[0].iov_base == at(8));
    BOOST_TEST(table.resolve(42, 8, 8, FI_REMOTE_WRITE, nullptr).error().value() == EACCES);
    BOOST_TEST(table.resolve(42, 8, 8, rights, nullptr).error().value() == EACCES);
    BOOST_TEST(table.resolve(42, 60, 8, FI_REMOTE_READ, nullptr).error().value() == FI_EKEYREJECTED);
    BOOST_TEST(table.resolve(43, 8, 8, FI_REMOTE_READ, nullptr).error().value() == FI_EKEYREJECTED);
    table.remove(mr);
    BOOST_TEST(table.resolve(42, 8, 8, FI_REMOTE_READ, nullptr).error().value() == FI_EKEYREJECTED);
}

BOOST_FIXTURE_TEST_CASE(a_key_in_use_is_not_given_twice_and_new_keys_differ, Fixture) {
    MrTable table{true, false};
    Mr first = make({{at(0), 1}}, 7);
    Mr second = make({{at(1), 1}}, 7);
    BOOST_TEST(!table.add(first).failed());
    BOOST_TEST((table.add(second) == Errno{FI_ENOKEY}));
    BOOST_TEST(table.find(7) == &first);
    BOOST_TEST(!table.add_with_new_key(second).failed());
    BOOST_TEST(second.key != 7U);
    BOOST_TEST(table.find(second.key) == &second);
    BOOST_TEST(table.all().size() == 2U);
}

BOOST_FIXTURE_TEST_CASE(the_table_takes_mr_limit_registrations_and_not_one_more, Fixture) {
    Mr mr = make({{at(0), 64}}); // The table keeps keys and pointers: the same one serves for all.
    MrTable& table = domain.mrs;
    for (mr.key = 0; mr.key < mr_limit; ++mr.key) BOOST_REQUIRE(!table.add(mr).failed());
    BOOST_TEST((table.add(mr) == Errno{EMFILE}));
    mr.key = 17;
    table.remove(mr);
    BOOST_TEST(!table.add(mr).failed());
}

BOOST_FIXTURE_TEST_CASE(what_is_not_enabled_is_not_found_but_holds_its_key, Fixture) {
    Mr mr = make({{at(0), 64}}, 42);
    mr.enabled = false;
    MrTable& table = domain.mrs;
    BOOST_REQUIRE(!table.add(mr).failed());
    BOOST_TEST(table.resolve(42, 8, 8, FI_REMOTE_READ, nullptr).error().value() == FI_EKEYREJECTED);
    Mr second = make({{at(0), 64}}, 42);
    BOOST_TEST((table.add(second) == Errno{FI_ENOKEY}));
    table.change([&] { mr.enabled = true; });
    BOOST_TEST(table.resolve(42, 8, 8, FI_REMOTE_READ, nullptr)->iov[0].iov_base == at(8));
}

// ---- By descriptor ---------------------------------------------------------------------------------------------------

BOOST_FIXTURE_TEST_CASE(a_memfd_is_mapped_and_named_by_where_the_application_has_it, Fixture) {
    const nvlf::Fd fd{::memfd_create("buffer", MFD_CLOEXEC)};
    BOOST_REQUIRE(::ftruncate(fd.get(), 8192) == 0);
    BOOST_REQUIRE(::pwrite(fd.get(), "hello", 5, 5000) == 5);
    Mr mr{domain};
    BOOST_REQUIRE(take_dmabuf(mr, {fd.get(), 5000, 100, reinterpret_cast<void*>(0x10000)}, rights) == 0);
    BOOST_TEST(mr.length == 100U);
    BOOST_TEST(std::memcmp(mr.iov[0].iov_base, "hello", 5) == 0);
    BOOST_TEST(where(mr, 0x10000 + 5000, 100, true) == mr.iov[0].iov_base);
    BOOST_TEST(where(mr, 0x10000 + 5001, 100, true) == nullptr);
    BOOST_TEST(where(mr, 0, 100, false) == mr.iov[0].iov_base);
    std::memcpy(mr.iov[0].iov_base, "HELLO", 5); // Shared: the other holders of the descriptor see it.
    char back[5];
    BOOST_REQUIRE(::pread(fd.get(), back, sizeof back, 5000) == 5);
    BOOST_TEST(std::memcmp(back, "HELLO", 5) == 0);
    Mr nowhere{domain};
    BOOST_REQUIRE(take_dmabuf(nowhere, {fd.get(), 4096, 4096, nullptr}, rights) == 0);
    BOOST_TEST(where(nowhere, 0, 4096, true) == nowhere.iov[0].iov_base);
}

BOOST_FIXTURE_TEST_CASE(a_descriptor_that_holds_less_than_is_registered_is_refused, Fixture) {
    const nvlf::Fd fd{::memfd_create("buffer", MFD_CLOEXEC)};
    BOOST_REQUIRE(::ftruncate(fd.get(), 4096) == 0);
    void* const base = reinterpret_cast<void*>(0x10000);
    const auto attempt = [&](const DmaBuf& buffer) {
        Mr mr{domain};
        return take_dmabuf(mr, buffer, rights);
    };
    BOOST_TEST(attempt({fd.get(), 0, 4096, base}) == 0);
    BOOST_TEST(attempt({fd.get(), 0, 4097, base}) == -FI_EINVAL);
    BOOST_TEST(attempt({fd.get(), 4096, 1, base}) == -FI_EINVAL);
    BOOST_TEST(attempt({fd.get(), 0, 0, base}) == -FI_EINVAL);
    BOOST_TEST(attempt({fd.get(), max64, 2, base}) == -FI_EINVAL);
    BOOST_TEST(attempt({fd.get(), 1, 4095, reinterpret_cast<void*>(max64 - 100)}) == -FI_EINVAL);
    BOOST_TEST(attempt({-1, 0, 4096, base}) == -FI_EBADF);
}
