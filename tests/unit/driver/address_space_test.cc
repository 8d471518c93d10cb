// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Fabric addresses in a process: reserved, shared between users of one memory, translated where the place is taken.
#define BOOST_TEST_MODULE address_space
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/mman.h>

#include <fstream>
#include <memory>

#include "driver/memory.hpp"

namespace {
using namespace nvlf;

constexpr std::uint64_t page = NVLF_PAGE_SIZE;

Fd make_memory(std::uint64_t bytes) {
    Fd fd{::memfd_create("test", MFD_CLOEXEC)};
    BOOST_REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    return fd;
}

Fd again(const Fd& fd, int flags) {
    return Fd{::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), flags | O_CLOEXEC)};
}

// A place in which 16 pages are free just now, whatever a sanitizer does to the address space.
std::uint64_t free_place() {
    void* hole = ::mmap(nullptr, 17 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    BOOST_REQUIRE(hole != MAP_FAILED);
    ::munmap(hole, 17 * page);
    return (reinterpret_cast<std::uint64_t>(hole) + page - 1) / page * page;
}

struct World {
    nvlf_fabric fabric;
    AddressSpace space;
    std::uint64_t base = free_place();
    std::shared_ptr<Arena> arena = *space.arena(Uuid{1}, base, 16 * page);

    std::unique_ptr<nvlf_mem> mem(std::uint64_t fla, std::uint64_t bytes, Fd fd,
                                  std::uint32_t access = NVLF_ACCESS_WRITE) {
        auto m = std::make_unique<nvlf_mem>(fabric);
        m->arena = arena;
        m->fd = std::move(fd);
        m->fla = fla;
        m->bytes = bytes;
        m->access = access;
        return m;
    }
};

// As the kernel sees it: "rw", "r-", "--" or nothing.
std::string rights(std::uint64_t address) {
    std::ifstream maps{"/proc/self/maps"};
    for (std::string line; std::getline(maps, line);) {
        std::uint64_t first = 0, last = 0;
        char mode[8]{};
        if (std::sscanf(line.c_str(), "%lx-%lx %7s", &first, &last, mode) == 3 && first <= address && address < last)
            return std::string{mode, 2};
    }
    return "";
}
} // namespace

BOOST_AUTO_TEST_CASE(memory_lies_at_its_fabric_address_and_leaves_the_reservation_behind) {
    World w;
    BOOST_REQUIRE(w.arena->reserved());
    BOOST_TEST(rights(w.base) == "--");
    auto mem = w.mem(w.base + page, page, make_memory(page));
    const auto ptr = w.space.map(*mem);
    BOOST_REQUIRE(ptr.ok());
    BOOST_TEST(reinterpret_cast<std::uint64_t>(*ptr) == w.base + page);
    *static_cast<volatile char*>(*ptr) = 1;
    BOOST_TEST(*w.space.map(*mem) == *ptr);
    w.space.forget(*mem);
    BOOST_TEST(rights(w.base + page) == "--");
    mem.reset(); // Memory keeps its arena.
    w.arena.reset();
    BOOST_TEST(rights(w.base) == "");
}

BOOST_AUTO_TEST_CASE(a_place_that_is_taken_means_translation) {
    World w;
    const auto other = *w.space.arena(Uuid{2}, w.base, 16 * page); // Two fabrics want the same place.
    BOOST_TEST(!other->reserved());
    const auto mem = w.mem(w.base + page, page, make_memory(page));
    mem->arena = other;
    const auto ptr = w.space.map(*mem);
    BOOST_REQUIRE(ptr.ok());
    const auto number = reinterpret_cast<std::uintptr_t>(*ptr);
    BOOST_TEST(number != w.base + page);
    BOOST_TEST(w.space.pointer(Uuid{2}, w.base + page + 5, 10) == number + 5);
    BOOST_TEST(w.space.address(Uuid{2}, number + 5) == w.base + page + 5);
    BOOST_TEST(w.space.pointer(Uuid{1}, w.base + page + 5, 10) == 0U);
    BOOST_TEST(w.space.address(Uuid{1}, number + 5) == 0U);
    w.space.forget(*mem);
    BOOST_TEST(w.space.pointer(Uuid{2}, w.base + page, 1) == 0U);
}

BOOST_AUTO_TEST_CASE(one_fabric_opened_twice_has_one_arena) {
    World w;
    BOOST_TEST(*w.space.arena(Uuid{1}, w.base, 16 * page) == w.arena);
    BOOST_TEST(w.space.arena(Uuid{1}, w.base, 8 * page).error().value() == EPROTO);
}

BOOST_AUTO_TEST_CASE(users_of_one_memory_share_a_mapping_with_the_strongest_rights) {
    World w;
    const Fd memory = make_memory(page);
    const auto reader = w.mem(w.base, page, again(memory, O_RDONLY), NVLF_ACCESS_READ);
    const auto writer = w.mem(w.base, page, again(memory, O_RDWR), NVLF_ACCESS_ATOMIC);
    const auto late = w.mem(w.base, page, again(memory, O_RDONLY), NVLF_ACCESS_READ);
    BOOST_REQUIRE(w.space.map(*reader).ok());
    BOOST_TEST(rights(w.base) == "r-");
    BOOST_TEST(*w.space.map(*writer) == *w.space.map(*reader));
    BOOST_TEST(rights(w.base) == "rw");
    BOOST_REQUIRE(w.space.map(*late).ok());
    BOOST_TEST(rights(w.base) == "rw");
    BOOST_TEST(w.space.find(w.base, 1) == writer.get());
    w.space.forget(*writer);
    BOOST_TEST(rights(w.base) == "r-");
    w.space.forget(*reader);
    BOOST_TEST(rights(w.base) == "r-");
    w.space.forget(*late);
    BOOST_TEST(rights(w.base) == "--");
}

BOOST_AUTO_TEST_CASE(another_memory_at_the_same_address_is_eproto) {
    World w;
    const auto first = w.mem(w.base, 2 * page, make_memory(2 * page));
    BOOST_REQUIRE(w.space.map(*first).ok());
    BOOST_TEST(w.space.map(*w.mem(w.base, 2 * page, make_memory(2 * page))).error().value() == EPROTO);
    BOOST_TEST(w.space.map(*w.mem(w.base, page, make_memory(page))).error().value() == EPROTO);
    BOOST_TEST(w.space.map(*w.mem(w.base + page, page, make_memory(page))).error().value() == EPROTO); // Overlaps.
    const auto beside = w.mem(w.base + 2 * page, page, make_memory(page));
    BOOST_TEST(w.space.map(*beside).ok());
    w.space.forget(*first);
    w.space.forget(*beside);
}

BOOST_AUTO_TEST_CASE(memory_shorter_than_promised_is_eproto) {
    World w;
    BOOST_TEST(w.space.map(*w.mem(w.base, 2 * page, make_memory(page))).error().value() == EPROTO);
}

BOOST_AUTO_TEST_CASE(find_wants_the_whole_range_inside_one_memory) {
    World w;
    const auto mem = w.mem(w.base + page, page, make_memory(page));
    BOOST_REQUIRE(w.space.map(*mem).ok());
    const std::uintptr_t start = w.base + page;
    BOOST_TEST(w.space.find(start, page) == mem.get());
    BOOST_TEST(w.space.find(start + page - 1, 1) == mem.get());
    BOOST_TEST(mem->references.load() == 3U);
    BOOST_TEST(w.space.find(start - 1, 1) == nullptr);
    BOOST_TEST(w.space.find(start - 1, 2) == nullptr);
    BOOST_TEST(w.space.find(start + page, 0) == nullptr);
    BOOST_TEST(w.space.find(start + 1, page) == nullptr);
    BOOST_TEST(w.space.find(start + 1, ~std::uint64_t{0}) == nullptr);
    mem->references = 0; // Its last reference is being put: it cannot be had any more.
    BOOST_TEST(w.space.find(start, 1) == nullptr);
    w.space.forget(*mem);
}
