// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE daemon_memory
#include "bench.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/resources.hpp"

using namespace nvlf;
using namespace nvlf::test;

namespace {

struct Fixture {
    Bench bench;
    daemon::ClientId owner = bench.client();
    daemon::ClientId other = bench.client();
};

daemon::Limits with(void (*change)(daemon::Limits&)) {
    daemon::Limits limits;
    change(limits);
    return limits;
}

} // namespace

BOOST_FIXTURE_TEST_CASE(memory_is_rounded_to_pages_zeroed_and_mappable, Fixture) {
    const auto a = bench.alloc(owner, NVLF_PAGE_SIZE + 1);
    BOOST_REQUIRE_EQUAL(a.error, 0);
    BOOST_TEST(a.a.bytes == 2 * NVLF_PAGE_SIZE);
    BOOST_TEST(a.a.fla % NVLF_PAGE_SIZE == 0U);
    auto map = Mapping::map(a.fd(a.a.mem_fd), a.a.bytes, Mapping::Access::read_write);
    BOOST_REQUIRE(map.ok());
    auto* bytes = static_cast<unsigned char*>(map->data());
    BOOST_TEST(bytes[0] == 0);
    BOOST_TEST(bytes[a.a.bytes - 1] == 0);
    bytes[0] = 1;
}

BOOST_FIXTURE_TEST_CASE(the_size_of_memory_cannot_be_changed_by_its_holder, Fixture) {
    const auto a = bench.alloc(owner);
    const int fd = a.fd(a.a.mem_fd);
    BOOST_TEST(::ftruncate(fd, 0) == -1);
    BOOST_TEST(::ftruncate(fd, 4 << 20) == -1);
    BOOST_TEST(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1);
}

BOOST_FIXTURE_TEST_CASE(impossible_sizes_and_devices_are_refused, Fixture) {
    BOOST_TEST(bench.alloc(owner, 0).error == EINVAL);
    BOOST_TEST(bench.alloc(owner, 1, 8).error == ENODEV);
    BOOST_TEST(bench.alloc(owner, 1, NVLF_DEVICE_ANY).error == ENODEV);
    BOOST_TEST(bench.alloc(owner, ~0ULL).error == ENOSPC);
    BOOST_TEST(bench.alloc(owner, ~0ULL - NVLF_PAGE_SIZE).error == ENOSPC);
    BOOST_TEST(bench.alloc(owner, bench.device(owner, 0).hbm_bytes + 1).error == ENOSPC);
}

BOOST_AUTO_TEST_CASE(hbm_is_full_at_its_size_and_not_before) {
    Bench bench{with([](daemon::Limits& l) { l.quota_bytes = ~0ULL; })};
    const auto client = bench.client();
    const std::uint64_t hbm = bench.device(client, 0).hbm_bytes;
    const auto all = bench.alloc(client, hbm);
    BOOST_REQUIRE_EQUAL(all.error, 0);
    BOOST_TEST(bench.device(client, 0).hbm_used == hbm);
    BOOST_TEST(bench.alloc(client, 1).error == ENOSPC);
    BOOST_TEST(bench.alloc(client, 1, 1).error == 0); // Another device has its own.
    BOOST_TEST(bench.free(client, all.a.handle) == 0);
    BOOST_TEST(bench.device(client, 0).hbm_used == 0U);
    BOOST_TEST(bench.alloc(client, 1).error == 0);
}

BOOST_AUTO_TEST_CASE(the_quota_of_bytes_holds_at_the_limit_and_one_page_over) {
    Bench bench{with([](daemon::Limits& l) { l.quota_bytes = 2 * NVLF_PAGE_SIZE; })};
    const auto client = bench.client();
    const auto first = bench.alloc(client);
    BOOST_TEST(bench.alloc(client).error == 0);
    BOOST_TEST(bench.alloc(client).error == EDQUOT);
    BOOST_TEST(bench.alloc(bench.client()).error == 0); // It is a client's, not the fabric's.
    BOOST_TEST(bench.free(client, first.a.handle) == 0);
    BOOST_TEST(bench.alloc(client).error == 0);
}

BOOST_AUTO_TEST_CASE(freed_memory_counts_to_the_quota_while_others_import_it) {
    Bench bench{with([](daemon::Limits& l) { l.quota_bytes = NVLF_PAGE_SIZE; })};
    const auto owner = bench.client();
    const auto other = bench.client();
    const auto a = bench.alloc(owner);
    const auto import = bench.import(other, bench.share(owner, a.a.handle).a);
    BOOST_TEST(bench.free(owner, a.a.handle) == 0);
    BOOST_TEST(bench.alloc(owner).error == EDQUOT);
    BOOST_TEST(bench.release(other, import.a.handle) == 0);
    BOOST_TEST(bench.alloc(owner).error == 0);
}

BOOST_AUTO_TEST_CASE(allocations_of_the_fabric_are_limited_at_the_limit_and_one_over) {
    Bench bench{with([](daemon::Limits& l) { l.allocations = 3; })};
    const auto one = bench.client();
    const auto two = bench.client();
    for (int i = 0; i < 3; ++i) BOOST_TEST(bench.alloc(i % 2 == 0 ? one : two).error == 0);
    BOOST_TEST(bench.alloc(one).error == EMFILE);
    bench.gone(two);
    BOOST_TEST(bench.alloc(one).error == 0);
}

BOOST_AUTO_TEST_CASE(one_client_cannot_take_all_the_descriptors) {
    Bench bench{with([](daemon::Limits& l) { l.descriptors_per_file = 2; })};
    const auto client = bench.client();
    const auto a = bench.alloc(client);
    BOOST_TEST(bench.alloc(client).error == 0);
    BOOST_TEST(bench.alloc(client).error == EMFILE);
    BOOST_TEST(bench.alloc(bench.client()).error == 0);
    BOOST_TEST(bench.free(client, a.a.handle) == 0);
    BOOST_TEST(bench.alloc(client).error == 0);
}

BOOST_FIXTURE_TEST_CASE(handles_are_the_clients_own, Fixture) {
    const auto a = bench.alloc(owner);
    BOOST_TEST(bench.free(other, a.a.handle) == ENOENT);
    BOOST_TEST(bench.release(owner, a.a.handle) == ENOENT); // Not an import.
    BOOST_TEST(bench.free(owner, 0) == ENOENT);
    BOOST_TEST(bench.free(owner, a.a.handle) == 0);
    BOOST_TEST(bench.free(owner, a.a.handle) == ENOENT);
}

BOOST_FIXTURE_TEST_CASE(a_token_brings_the_same_memory_at_the_same_address, Fixture) {
    const auto a = bench.alloc(owner, 1, 5);
    const auto token = bench.share(owner, a.a.handle, NVLF_ACCESS_READ | NVLF_ACCESS_WRITE);
    BOOST_REQUIRE_EQUAL(token.error, 0);
    const auto import = bench.import(other, token.a);
    BOOST_REQUIRE_EQUAL(import.error, 0);
    BOOST_TEST(import.a.fla == a.a.fla);
    BOOST_TEST(import.a.bytes == a.a.bytes);
    BOOST_TEST(import.a.device == 5U);
    BOOST_TEST(inode(import.fd(import.a.mem_fd)) == inode(a.fd(a.a.mem_fd)));
    BOOST_TEST(maps(import.fd(import.a.mem_fd), Mapping::Access::read_write));
}

BOOST_FIXTURE_TEST_CASE(a_read_only_import_cannot_be_mapped_writable, Fixture) {
    const auto a = bench.alloc(owner);
    const auto import = bench.import(other, bench.share(owner, a.a.handle).a);
    const int fd = import.fd(import.a.mem_fd);
    BOOST_TEST(import.a.access == NVLF_ACCESS_READ);
    BOOST_TEST(maps(fd, Mapping::Access::read));
    BOOST_TEST(!maps(fd, Mapping::Access::read_write));
    struct stat st {};
    BOOST_REQUIRE_EQUAL(::fstat(fd, &st), 0);
    BOOST_TEST((st.st_mode & 0777) == 0400); // Another uid cannot open it again for writing.
}

BOOST_FIXTURE_TEST_CASE(write_and_atomic_each_include_read, Fixture) {
    const auto a = bench.alloc(owner);
    for (const std::uint32_t access : {NVLF_ACCESS_WRITE, NVLF_ACCESS_ATOMIC}) {
        const auto import = bench.import(other, bench.share(owner, a.a.handle, access).a);
        BOOST_TEST(import.a.access == (access | NVLF_ACCESS_READ));
        BOOST_TEST(maps(import.fd(import.a.mem_fd), Mapping::Access::read_write));
    }
}

BOOST_FIXTURE_TEST_CASE(bytes_that_are_no_token_are_eacces, Fixture) {
    nvlf_ioc_mem_export none{};
    BOOST_TEST(bench.import(other, none).error == EACCES);
    const auto a = bench.alloc(owner);
    auto token = bench.share(owner, a.a.handle).a;
    token.token[NVLF_TOKEN_LEN - 1] ^= 1;
    BOOST_TEST(bench.import(other, token).error == EACCES);
}

BOOST_FIXTURE_TEST_CASE(what_cannot_be_exported_is_refused, Fixture) {
    const auto a = bench.alloc(owner);
    const std::uint32_t h = a.a.handle;
    BOOST_TEST(bench.share(owner, h, 0).error == EINVAL);
    BOOST_TEST(bench.share(owner, h, 8).error == EINVAL);
    BOOST_TEST(bench.share(owner, h, NVLF_ACCESS_READ, 3).error == EINVAL);
    BOOST_TEST(bench.share(owner, h, NVLF_ACCESS_READ, NVLF_SCOPE_FABRIC, 1).error == EINVAL);
    BOOST_TEST(bench.share(owner, h, NVLF_ACCESS_READ, NVLF_SCOPE_NODE, 2).error == EINVAL);
    BOOST_TEST(bench.share(owner, h, NVLF_ACCESS_READ, NVLF_SCOPE_DEVICE, 8).error == ENODEV);
    BOOST_TEST(bench.share(other, h).error == ENOENT);
    const auto import = bench.import(other, bench.share(owner, h).a);
    BOOST_TEST(bench.share(other, import.a.handle).error == ENOENT); // What is imported is not one's own to give.
}

BOOST_FIXTURE_TEST_CASE(a_scope_admits_those_attached_to_its_device_or_node_only, Fixture) {
    const auto a = bench.alloc(owner);
    const auto to_device = bench.share(owner, a.a.handle, NVLF_ACCESS_READ, NVLF_SCOPE_DEVICE, 1).a;
    const std::uint32_t node = bench.device(owner, 1).node;
    const auto to_node = bench.share(owner, a.a.handle, NVLF_ACCESS_READ, NVLF_SCOPE_NODE, node).a;
    BOOST_TEST(bench.import(other, to_device).error == EACCES);
    BOOST_TEST(bench.import(other, to_node).error == EACCES);
    BOOST_TEST(bench.ask(other, NVLF_CMD_ATTACH, nvlf_ioc_attach{0, 1}).error == 0);
    BOOST_TEST(bench.import(other, to_device).error == 0);
    BOOST_TEST(bench.import(other, to_node).error == 0);
    BOOST_TEST(bench.ask(other, NVLF_CMD_ATTACH, nvlf_ioc_attach{0, 7}).error == 0);
    BOOST_TEST(bench.device(owner, 7).node != node);
    BOOST_TEST(bench.import(other, to_device).error == EACCES);
    BOOST_TEST(bench.import(other, to_node).error == EACCES);
}

BOOST_FIXTURE_TEST_CASE(freeing_ends_the_tokens_and_tells_the_importers, Fixture) {
    nvlf_ioc_events e{};
    e.mask = NVLF_EVENT_MEMORY;
    const auto stream = bench.ask(other, NVLF_CMD_EVENTS, e);
    const auto a = bench.alloc(owner);
    const auto token = bench.share(owner, a.a.handle).a;
    const auto import = bench.import(other, token);
    BOOST_TEST(bench.free(owner, a.a.handle) == 0);
    BOOST_TEST(bench.import(other, token).error == EACCES);
    nvlf_event event{};
    BOOST_REQUIRE_EQUAL(::read(stream.fd(stream.a.event_fd), &event, sizeof event), static_cast<ssize_t>(sizeof event));
    BOOST_TEST(event.type == NVLF_EVENT_MEMORY);
    BOOST_TEST(event.index == import.a.handle);
    BOOST_TEST(maps(import.fd(import.a.mem_fd), Mapping::Access::read)); // What it has, it has.
}

BOOST_FIXTURE_TEST_CASE(an_address_is_not_given_out_again_before_the_last_importer_is_gone, Fixture) {
    const auto third = bench.client();
    const auto a = bench.alloc(owner);
    const auto token = bench.share(owner, a.a.handle).a;
    const auto import = bench.import(other, token);
    BOOST_REQUIRE_EQUAL(bench.import(third, token).error, 0);
    BOOST_TEST(bench.free(owner, a.a.handle) == 0);
    BOOST_TEST(bench.alloc(owner).a.fla != a.a.fla);
    BOOST_TEST(bench.release(other, import.a.handle) == 0);
    BOOST_TEST(bench.alloc(owner).a.fla != a.a.fla);
    bench.gone(third);
    BOOST_TEST(bench.alloc(owner).a.fla == a.a.fla);
}

BOOST_FIXTURE_TEST_CASE(memory_of_a_dead_owner_lives_on_for_its_importers, Fixture) {
    const auto a = bench.alloc(owner);
    const auto token = bench.share(owner, a.a.handle).a;
    const auto import = bench.import(other, token);
    bench.gone(owner);
    BOOST_TEST(bench.device(other, 0).hbm_used == NVLF_PAGE_SIZE);
    BOOST_TEST(bench.import(other, token).error == EACCES);
    BOOST_TEST(bench.release(other, import.a.handle) == 0);
    BOOST_TEST(bench.device(other, 0).hbm_used == 0U);
    BOOST_TEST(bench.info(other).allocations == 0U);
}

BOOST_AUTO_TEST_CASE(imports_and_exports_of_a_client_are_limited_at_the_limit_and_one_over) {
    Bench bench{with([](daemon::Limits& l) {
        l.imports_per_file = 2;
        l.exports_per_file = 2;
    })};
    const auto owner = bench.client();
    const auto a = bench.alloc(owner);
    const auto token = bench.share(owner, a.a.handle).a;
    BOOST_TEST(bench.share(owner, a.a.handle).error == 0);
    BOOST_TEST(bench.share(owner, a.a.handle).error == EDQUOT);
    const auto import = bench.import(owner, token);
    BOOST_TEST(bench.import(owner, token).error == 0);
    BOOST_TEST(bench.import(owner, token).error == EMFILE);
    BOOST_TEST(bench.release(owner, import.a.handle) == 0);
    BOOST_TEST(bench.import(owner, token).error == 0);
    BOOST_TEST(bench.free(owner, a.a.handle) == 0);
    const auto b = bench.alloc(owner);
    BOOST_TEST(bench.share(owner, b.a.handle).error == 0); // Freeing gave the tokens back.
}

BOOST_AUTO_TEST_CASE(a_thousand_lives_of_memory_leave_no_descriptor_behind) {
    Bench bench;
    const auto keeper = bench.client();
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 1000; ++i) {
        const auto owner = bench.client();
        const auto a = bench.alloc(owner);
        const auto token = bench.share(owner, a.a.handle, i % 2 == 0 ? NVLF_ACCESS_READ : NVLF_ACCESS_WRITE).a;
        const auto import = bench.import(keeper, token);
        BOOST_REQUIRE_EQUAL(import.error, 0);
        bench.gone(owner);
        BOOST_REQUIRE_EQUAL(bench.release(keeper, import.a.handle), 0);
    }
    BOOST_TEST(open_descriptors() == before);
    BOOST_TEST(bench.info(keeper).allocated_bytes == 0U);
}

BOOST_FIXTURE_TEST_CASE(memory_by_name_is_one_for_all_who_open_it_and_made_once, Fixture) {
    BOOST_TEST(bench.open_named(owner, "job/av", 0).error == ENOENT);
    const auto made = bench.open_named(owner, "job/av", NVLF_OPEN_CREATE);
    BOOST_REQUIRE_EQUAL(made.error, 0);
    BOOST_TEST(made.a.created == 1U);
    BOOST_TEST(made.a.bytes == NVLF_PAGE_SIZE);
    const auto found = bench.open_named(other, "job/av", NVLF_OPEN_CREATE, NVLF_ACCESS_READ, 3 * NVLF_PAGE_SIZE);
    BOOST_REQUIRE_EQUAL(found.error, 0);
    BOOST_TEST(found.a.created == 0U);
    BOOST_TEST(found.a.bytes == NVLF_PAGE_SIZE);
    BOOST_TEST(found.a.fla == made.a.fla);
    BOOST_TEST(found.a.device == 0U);
    auto writer = Mapping::map(made.fd(made.a.mem_fd), made.a.bytes, Mapping::Access::read_write);
    auto reader = Mapping::map(found.fd(found.a.mem_fd), found.a.bytes, Mapping::Access::read);
    BOOST_REQUIRE((writer.ok() && reader.ok()));
    static_cast<char*>(writer->data())[7] = 'x';
    BOOST_TEST(static_cast<char*>(reader->data())[7] == 'x');
    // Who asked to read cannot write.
    BOOST_TEST(!Mapping::map(found.fd(found.a.mem_fd), found.a.bytes, Mapping::Access::read_write).ok());
    BOOST_TEST(bench.open_named(other, "job/other", NVLF_OPEN_CREATE).a.created == 1U);
}

BOOST_FIXTURE_TEST_CASE(memory_by_name_lives_until_the_last_who_has_it_open_and_not_longer, Fixture) {
    const auto made = bench.open_named(owner, "name", NVLF_OPEN_CREATE);
    const auto found = bench.open_named(other, "name", 0);
    BOOST_REQUIRE((made.error == 0 && found.error == 0));
    bench.server().disconnect(owner, "gone");
    BOOST_TEST(bench.open_named(other, "name", 0).error == 0); // Its maker is gone, it is not.
    BOOST_TEST(bench.device(other, 0).hbm_used == NVLF_PAGE_SIZE);
    BOOST_TEST(bench.release(other, found.a.handle) == 0);
    BOOST_TEST(bench.open_named(other, "name", 0).error == 0);
    bench.server().disconnect(other, "gone");
    const auto late = bench.client();
    BOOST_TEST(bench.device(late, 0).hbm_used == 0U);
    BOOST_TEST(bench.open_named(late, "name", 0).error == ENOENT);
    BOOST_TEST(bench.open_named(late, "name", NVLF_OPEN_CREATE).a.created == 1U);
}

BOOST_FIXTURE_TEST_CASE(what_names_no_memory_is_refused, Fixture) {
    BOOST_TEST(bench.open_named(owner, "", NVLF_OPEN_CREATE).error == EINVAL);
    BOOST_TEST(bench.open_named(owner, std::string(NVLF_MEM_NAME_LEN, 'n'), NVLF_OPEN_CREATE).error == EINVAL);
    BOOST_TEST(bench.open_named(owner, std::string(NVLF_MEM_NAME_LEN - 1, 'n'), NVLF_OPEN_CREATE).error == 0);
    BOOST_TEST(bench.open_named(owner, "n", NVLF_OPEN_CREATE, 0).error == EINVAL);
    BOOST_TEST(bench.open_named(owner, "n", NVLF_OPEN_CREATE, 8).error == EINVAL);
    BOOST_TEST(bench.open_named(owner, "n", 2).error == EINVAL);
    BOOST_TEST(bench.open_named(owner, "n", NVLF_OPEN_CREATE, NVLF_ACCESS_READ, 0).error == EINVAL);
    BOOST_TEST(bench.open_named(owner, "n", NVLF_OPEN_CREATE, NVLF_ACCESS_READ, ~0ULL).error == ENOSPC);
    BOOST_TEST(bench.open_named(owner, "n", 0).error == ENOENT); // None of them left it behind.
    const auto named = bench.open_named(owner, "n", NVLF_OPEN_CREATE);
    BOOST_TEST(bench.share(owner, named.a.handle).error == ENOENT); // It has no owner who could pass it on.
    BOOST_TEST(bench.free(owner, named.a.handle) == ENOENT);
}

BOOST_AUTO_TEST_CASE(memory_by_name_counts_to_its_maker_and_a_descriptor_to_everybody) {
    Bench bench{with([](daemon::Limits& l) {
        l.quota_bytes = NVLF_PAGE_SIZE;
        l.descriptors_per_file = 1;
    })};
    const auto maker = bench.client();
    const auto other = bench.client();
    const auto made = bench.open_named(maker, "n", NVLF_OPEN_CREATE);
    BOOST_REQUIRE_EQUAL(made.error, 0);
    const auto opened = bench.open_named(other, "n", 0);
    BOOST_REQUIRE_EQUAL(opened.error, 0);
    BOOST_TEST(bench.open_named(other, "n", 0).error != 0);
    BOOST_TEST(bench.release(other, opened.a.handle) == 0);
    BOOST_TEST(bench.open_named(other, "n", 0).error == 0);
    BOOST_TEST(bench.release(maker, made.a.handle) == 0);
    BOOST_TEST(bench.alloc(maker).error == EDQUOT); // The other still has it.
    bench.server().disconnect(other, "gone");
    BOOST_TEST(bench.alloc(maker).error == 0);
}
