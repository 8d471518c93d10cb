// SPDX-License-Identifier: MIT OR GPL-2.0-only
// MEM_*: one address space, tokens, rights, what remains when somebody lets go.
#define BOOST_TEST_MODULE carrier_memory
#include <boost/test/unit_test.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "fabric.hpp"
#include "support/resources.hpp"

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {
constexpr std::uint32_t all_access = NVLF_ACCESS_READ | NVLF_ACCESS_WRITE | NVLF_ACCESS_ATOMIC;

struct World {
    FabricDaemon daemon;
    Fabric fabric = open_fabric(daemon);
};

struct Token {
    std::uint8_t bytes[NVLF_TOKEN_LEN]{};
};

Token export_of(const Mem& mem, std::uint32_t access = all_access) {
    Token token;
    BOOST_REQUIRE(nvlf_mem_export(mem.get(), access, token.bytes) == 0);
    return token;
}
} // namespace

BOOST_FIXTURE_TEST_SUITE(memory, World)

BOOST_AUTO_TEST_CASE(memory_is_zeroed_rounded_up_and_lies_at_its_fabric_address) {
    const Mem mem = alloc(fabric, 3, NVLF_PAGE_SIZE + 1);
    BOOST_TEST(nvlf_mem_bytes(mem.get()) == 2 * NVLF_PAGE_SIZE);
    BOOST_TEST(nvlf_mem_device(mem.get()) == 3U);
    BOOST_TEST(nvlf_mem_access(mem.get()) == all_access);
    BOOST_TEST(nvlf_mem_fla(mem.get()) % NVLF_PAGE_SIZE == 0U);
    BOOST_TEST(nvlf_mem_fabric(mem.get()) == fabric.get());
    auto* ptr = static_cast<unsigned char*>(map(mem));
    BOOST_TEST(map(mem) == ptr);
    BOOST_TEST(ptr[2 * NVLF_PAGE_SIZE - 1] == 0);
    if (nvlf_translates(fabric.get()) == 0)
        BOOST_TEST(reinterpret_cast<std::uintptr_t>(ptr) == nvlf_mem_fla(mem.get()));
    BOOST_TEST(nvlf_ptr(fabric.get(), nvlf_mem_fla(mem.get()) + 5, 1) == ptr + 5);
    BOOST_TEST(nvlf_fla(fabric.get(), ptr + 5) == nvlf_mem_fla(mem.get()) + 5);
    BOOST_TEST(nvlf_ptr(fabric.get(), nvlf_mem_fla(mem.get()), 2 * NVLF_PAGE_SIZE + 1) == nullptr);
}

BOOST_AUTO_TEST_CASE(another_process_reads_through_the_same_pointer_value) {
    const Mem mem = alloc(fabric, 5);
    auto* mine = static_cast<char*>(map(mem));
    std::strcpy(mine, "written on gpu0");
    const Token token = export_of(mem);
    auto child = ChildProcess::fork([&] {
        const Fabric own = open_fabric(daemon);
        const Mem imported = import_token(own, token.bytes);
        const auto* theirs = static_cast<char*>(map(imported));
        if (nvlf_translates(own.get()) == 0 && theirs != mine) return 1;
        if (nvlf_mem_fla(imported.get()) != nvlf_mem_fla(mem.get())) return 2;
        return std::strcmp(theirs, "written on gpu0") == 0 ? 0 : 3;
    });
    BOOST_TEST(child.wait(20s).exited_with(0), child.output());
}

BOOST_AUTO_TEST_CASE(an_import_has_the_rights_of_the_grant) {
    const Mem mem = alloc(fabric);
    const Fabric other = open_fabric(daemon);
    const Mem readable = import_token(other, export_of(mem, NVLF_ACCESS_READ).bytes);
    BOOST_TEST(nvlf_mem_access(readable.get()) == NVLF_ACCESS_READ);
    BOOST_TEST(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, nvlf_mem_fd(readable.get()), 0) == MAP_FAILED);
    const Mem writable = import_token(other, export_of(mem, NVLF_ACCESS_WRITE).bytes);
    BOOST_TEST((nvlf_mem_access(writable.get()) & NVLF_ACCESS_WRITE) != 0U);
    *static_cast<volatile char*>(map(writable)) = 1;
}

BOOST_AUTO_TEST_CASE(importing_twice_is_fine_and_each_import_is_put_by_itself) {
    const Mem mem = alloc(fabric);
    const Token token = export_of(mem);
    const Fabric other = open_fabric(daemon);
    Mem first = import_token(other, token.bytes);
    const Mem second = import_token(other, token.bytes);
    auto* ptr = static_cast<char*>(map(first));
    BOOST_TEST(map(second) == ptr);
    first.reset();
    *ptr = 'x';
    BOOST_TEST(*static_cast<char*>(map(second)) == 'x');
}

BOOST_AUTO_TEST_CASE(a_token_that_is_none_any_more_is_eacces) {
    Mem mem = alloc(fabric);
    Token token = export_of(mem);
    nvlf_mem* imported = nullptr;
    token.bytes[7] ^= 1;
    BOOST_TEST(nvlf_mem_import(fabric.get(), token.bytes, &imported) == -EACCES);
    token.bytes[7] ^= 1;
    mem.reset();
    BOOST_TEST(nvlf_mem_import(fabric.get(), token.bytes, &imported) == -EACCES);
    BOOST_TEST(imported == nullptr);
}

BOOST_AUTO_TEST_CASE(imported_memory_cannot_be_exported_again) {
    const Mem mem = alloc(fabric);
    const Fabric other = open_fabric(daemon);
    const Mem imported = import_token(other, export_of(mem).bytes);
    Token token;
    BOOST_TEST(nvlf_mem_export(imported.get(), NVLF_ACCESS_READ, token.bytes) == -EPERM);
    BOOST_TEST(nvlf_mem_export(mem.get(), 8, token.bytes) == -EINVAL);
    BOOST_TEST(nvlf_mem_export(mem.get(), 0, token.bytes) == -EINVAL);
}

BOOST_AUTO_TEST_CASE(an_importer_keeps_what_its_owner_frees) {
    Mem mem = alloc(fabric);
    const Fabric other = open_fabric(daemon);
    const Mem imported = import_token(other, export_of(mem).bytes);
    *static_cast<char*>(map(mem)) = 'k';
    const auto* ptr = static_cast<char*>(map(imported));
    const std::uint64_t fla = nvlf_mem_fla(mem.get());
    mem.reset();
    BOOST_TEST(*ptr == 'k');
    // Its addresses are not given out again as long as it lives.
    for (int i = 0; i < 8; ++i) BOOST_TEST(nvlf_mem_fla(alloc(fabric).get()) != fla);
}

BOOST_AUTO_TEST_CASE(find_knows_memory_of_any_open_fabric_and_gives_a_reference) {
    Mem mem = alloc(fabric);
    const auto* ptr = static_cast<char*>(map(mem));
    nvlf_mem* found = nullptr;
    BOOST_TEST(nvlf_mem_find(ptr + 100, 100, &found) == 0);
    BOOST_TEST(found == mem.get());
    mem.reset(); // Still held by what find gave.
    BOOST_TEST(*ptr == 0);
    BOOST_TEST(nvlf_close(fabric.get()) == -EBUSY);
    BOOST_TEST(nvlf_mem_put(found) == 0);
    BOOST_TEST(nvlf_mem_find(ptr + 100, 100, &found) == -ENOENT);
    const int on_stack = 0;
    BOOST_TEST(nvlf_mem_find(&on_stack, 1, &found) == -ENOENT);
}

BOOST_AUTO_TEST_CASE(find_by_descriptor_knows_the_memory_whichever_duplicate_it_is) {
    const Mem mem = alloc(fabric);
    const int copy = ::dup(nvlf_mem_fd(mem.get()));
    const int stranger = ::memfd_create("stranger", MFD_CLOEXEC);
    nvlf_mem* found = nullptr;
    BOOST_TEST(nvlf_mem_find_fd(copy, &found) == -ENOENT); // Not mapped yet.
    (void)map(mem);
    BOOST_TEST(nvlf_mem_find_fd(copy, &found) == 0);
    BOOST_TEST(found == mem.get());
    BOOST_TEST(nvlf_mem_put(found) == 0);
    BOOST_TEST(nvlf_mem_find_fd(stranger, &found) == -ENOENT);
    BOOST_TEST(nvlf_mem_find_fd(-1, &found) == -EBADF);
    BOOST_TEST(nvlf_mem_find_fd(copy, nullptr) == -EINVAL);
    (void)::close(copy);
    (void)::close(stranger);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_had_says_which_limit) {
    nvlf_mem* mem = nullptr;
    nvlf_ioc_info before{};
    BOOST_REQUIRE(nvlf_get_info(fabric.get(), &before) == 0);
    BOOST_TEST(nvlf_mem_alloc(fabric.get(), 0, 0, 0, &mem) == -EINVAL);
    BOOST_TEST(nvlf_mem_alloc(fabric.get(), 0, 1, 1, &mem) == -EINVAL);
    BOOST_TEST(nvlf_mem_alloc(fabric.get(), 4000, 1, 0, &mem) == -ENODEV);
    BOOST_TEST(nvlf_admin_limit(fabric.get(), NVLF_LIMIT_QUOTA_BYTES, 2 * NVLF_PAGE_SIZE) == 0);
    {
        const Mem whole = alloc(fabric, 0, 2 * NVLF_PAGE_SIZE);
        BOOST_TEST(nvlf_mem_alloc(fabric.get(), 0, 1, 0, &mem) == -EDQUOT);
    }
    const int huge = nvlf_mem_alloc(fabric.get(), 0, ~std::uint64_t{0}, 0, &mem);
    BOOST_TEST((huge == -EDQUOT || huge == -ENOSPC || huge == -EINVAL), huge);
    BOOST_TEST(mem == nullptr);
    nvlf_ioc_info after{};
    BOOST_REQUIRE(nvlf_get_info(fabric.get(), &after) == 0);
    BOOST_TEST(after.allocations == before.allocations);
    BOOST_TEST(after.allocated_bytes == before.allocated_bytes);
}

BOOST_AUTO_TEST_CASE(descriptors_return_to_the_level_before) {
    const auto here = open_descriptors();
    const auto there = open_descriptors(daemon.process().pid());
    for (int i = 0; i < 20; ++i) {
        const Mem mem = alloc(fabric);
        const Mem imported = import_token(fabric, export_of(mem).bytes);
        map(mem);
        map(imported);
    }
    BOOST_TEST(open_descriptors() == here);
    // The carrier closes what it sent a moment after we have it.
    BOOST_TEST(eventually([&] { return open_descriptors(daemon.process().pid()) <= there; }, 10s));
}

BOOST_AUTO_TEST_CASE(memory_by_name_is_made_once_and_ends_with_its_last_user) {
    const Fabric other = open_fabric(daemon);
    nvlf_mem* raw = nullptr;
    BOOST_TEST(nvlf_mem_open(fabric.get(), "table", all_access, 0, 0, NVLF_PAGE_SIZE, &raw) == -ENOENT);
    BOOST_REQUIRE(nvlf_mem_open(fabric.get(), "table", all_access, NVLF_OPEN_CREATE, 2, NVLF_PAGE_SIZE, &raw) == 1);
    Mem made{raw};
    BOOST_REQUIRE(nvlf_mem_open(other.get(), "table", NVLF_ACCESS_READ, 0, 0, 0, &raw) == 0);
    Mem found{raw};
    BOOST_TEST(nvlf_mem_fla(found.get()) == nvlf_mem_fla(made.get()));
    BOOST_TEST(nvlf_mem_device(found.get()) == 2U);
    BOOST_TEST(nvlf_mem_access(found.get()) == NVLF_ACCESS_READ);
    Token token;
    BOOST_TEST(nvlf_mem_export(made.get(), all_access, token.bytes) == -EPERM);
    made.reset();
    BOOST_TEST(nvlf_mem_open(fabric.get(), "table", NVLF_ACCESS_READ, 0, 0, 0, &raw) == 0);
    BOOST_TEST(nvlf_mem_put(raw) == 0);
    found.reset();
    BOOST_TEST(nvlf_mem_open(fabric.get(), "table", NVLF_ACCESS_READ, 0, 0, 0, &raw) == -ENOENT);
    const std::string longest(NVLF_MEM_NAME_LEN, 'n');
    BOOST_TEST(nvlf_mem_open(fabric.get(), longest.c_str(), all_access, 0, 0, 0, &raw) == -ENAMETOOLONG);
    BOOST_TEST(nvlf_mem_open(fabric.get(), nullptr, all_access, 0, 0, 0, &raw) == -EINVAL);
}

BOOST_AUTO_TEST_SUITE_END()
