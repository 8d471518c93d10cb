// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Named address vectors: one table for all processes that open the name, gone with the last of them.
#define BOOST_TEST_MODULE provider_shared_av
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <set>
#include <thread>

#include "conformance/provider/objects.hpp"
#include "nvlf/nvlf.h"
#include "support/child_process.hpp"

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(RunningFabric);

nvlf_addr by_service(std::uint64_t service) {
    nvlf_addr addr{};
    addr.magic = NVLF_ADDR_MAGIC;
    addr.version = NVLF_ADDR_VERSION;
    addr.device = NVLF_DEVICE_ANY;
    addr.service = service;
    return addr;
}

int open_named(Objects& o, const char* name, FidPtr<fid_av>& ret_av, std::uint64_t flags = 0,
               void** ret_map_addr = nullptr) {
    fi_av_attr attr{};
    attr.type = FI_AV_MAP;
    attr.name = name;
    attr.flags = flags;
    fid_av* av = nullptr;
    const int ret = fi_av_open(o.domain.get(), &attr, &av, nullptr);
    if (ret != 0) return ret;
    ret_av.reset(av);
    if (ret_map_addr != nullptr) *ret_map_addr = attr.map_addr;
    return 0;
}

FidPtr<fid_av> open_named(Objects& o, const char* name, std::uint64_t flags = 0) {
    FidPtr<fid_av> av;
    check(open_named(o, name, av, flags), "fi_av_open");
    return av;
}

fi_addr_t insert(const FidPtr<fid_av>& av, std::uint64_t service) {
    const nvlf_addr addr = by_service(service);
    fi_addr_t index = FI_ADDR_NOTAVAIL;
    BOOST_TEST(fi_av_insert(av.get(), &addr, 1, &index, 0, nullptr) == 1);
    return index;
}

// 0: nothing is there.
std::uint64_t service_at(const FidPtr<fid_av>& av, fi_addr_t index) {
    nvlf_addr addr{};
    std::size_t size = sizeof addr;
    return fi_av_lookup(av.get(), index, &addr, &size) == 0 ? addr.service : 0;
}
} // namespace

BOOST_AUTO_TEST_CASE(shared_vectors_are_advertised) {
    const InfoPtr info = info_for([](fi_info& h) { h.caps = FI_MSG | FI_SHARED_AV | FI_AV_USER_ID; });
    BOOST_TEST((info->caps & (FI_SHARED_AV | FI_AV_USER_ID)) == (FI_SHARED_AV | FI_AV_USER_ID));
    BOOST_TEST((info->domain_attr->caps & FI_SHARED_AV) != 0U);
}

BOOST_AUTO_TEST_CASE(a_vector_that_nobody_made_cannot_be_opened_for_reading) {
    Objects o;
    FidPtr<fid_av> av;
    BOOST_TEST(open_named(o, "nobody", av, FI_READ) == -FI_ENOENT);
    BOOST_TEST(open_named(o, std::string(200, 'n').c_str(), av) == -FI_EINVAL);
    BOOST_TEST(fi_close(&o.domain.release()->fid) == 0); // The failed ones hold nothing.
}

BOOST_AUTO_TEST_CASE(what_one_inserts_all_who_opened_the_name_see_under_the_same_index) {
    Objects one, two;
    const auto writer = open_named(one, "job");
    BOOST_TEST(insert(writer, 7) == 0U);
    FidPtr<fid_av> reader;
    void* map_addr = nullptr;
    BOOST_REQUIRE(open_named(two, "job", reader, FI_READ, &map_addr) == 0);
    BOOST_TEST(service_at(reader, 0) == 7U);
    BOOST_TEST(insert(writer, 8) == 1U);
    BOOST_TEST(service_at(reader, 1) == 8U);
    // What other providers put there, and applications take: the fi_addr_t of each address.
    BOOST_REQUIRE(map_addr != nullptr);
    BOOST_TEST(static_cast<const fi_addr_t*>(map_addr)[1] == 1U);
    const auto third = open_named(two, "job");
    BOOST_TEST(insert(third, 9) == 2U);
    BOOST_TEST(service_at(writer, 2) == 9U);
    const auto other = open_named(two, "another job");
    BOOST_TEST(insert(other, 10) == 0U);
    BOOST_TEST(service_at(writer, 0) == 7U);
}

BOOST_AUTO_TEST_CASE(who_opened_it_for_reading_does_not_write) {
    Objects one, two;
    const auto writer = open_named(one, "read only");
    fi_addr_t index = insert(writer, 7);
    const auto reader = open_named(two, "read only", FI_READ);
    const nvlf_addr addr = by_service(8);
    BOOST_TEST(fi_av_insert(reader.get(), &addr, 1, nullptr, 0, nullptr) == -FI_EACCES);
    BOOST_TEST(fi_av_insertsvc(reader.get(), "localhost", "8", nullptr, 0, nullptr) == -FI_EACCES);
    BOOST_TEST(fi_av_remove(reader.get(), &index, 1, 0) == -FI_EACCES);
    BOOST_TEST(service_at(reader, index) == 7U);
}

BOOST_AUTO_TEST_CASE(an_index_is_used_again_whoever_removed_it) {
    Objects one, two;
    const auto a = open_named(one, "again");
    const auto b = open_named(two, "again");
    for (std::uint64_t service = 1; service <= 3; ++service) insert(a, service);
    fi_addr_t middle = 1;
    BOOST_TEST(fi_av_remove(b.get(), &middle, 1, 0) == 0);
    BOOST_TEST(service_at(a, 1) == 0U);
    BOOST_TEST(fi_av_remove(a.get(), &middle, 1, 0) == -FI_EINVAL);
    BOOST_TEST(insert(a, 22) == 1U);
    BOOST_TEST(service_at(b, 1) == 22U);
}

BOOST_AUTO_TEST_CASE(a_name_ends_with_the_last_that_has_it_open) {
    Objects one, two;
    auto a = open_named(one, "transient");
    insert(a, 7);
    auto b = open_named(two, "transient", FI_READ);
    a.reset();
    BOOST_TEST(service_at(b, 0) == 7U); // Its maker is gone, it is not.
    b.reset();
    FidPtr<fid_av> none;
    BOOST_TEST(open_named(two, "transient", none, FI_READ) == -FI_ENOENT);
    a = open_named(one, "transient");
    BOOST_TEST(service_at(a, 0) == 0U);
}

BOOST_AUTO_TEST_CASE(many_threads_insert_at_once_and_each_address_is_there_once) {
    Objects one, two;
    const auto a = open_named(one, "crowd");
    const auto b = open_named(two, "crowd");
    constexpr std::uint64_t each = 2000;
    std::array<std::vector<fi_addr_t>, 2> indices{std::vector<fi_addr_t>(each), std::vector<fi_addr_t>(each)};
    const auto crowd = [&](const FidPtr<fid_av>& av, std::uint64_t first, std::vector<fi_addr_t>& ret) {
        for (std::uint64_t i = 0; i < each; ++i) {
            const nvlf_addr addr = by_service(first + i);
            if (fi_av_insert(av.get(), &addr, 1, &ret[i], 0, nullptr) != 1) ret[i] = FI_ADDR_NOTAVAIL;
        }
    };
    std::thread other{[&] { crowd(b, 100'000, indices[1]); }};
    crowd(a, 1, indices[0]);
    other.join();
    std::set<fi_addr_t> all;
    for (std::uint64_t i = 0; i < each; ++i) {
        BOOST_REQUIRE(service_at(b, indices[0][i]) == 1 + i);
        BOOST_REQUIRE(service_at(a, indices[1][i]) == 100'000 + i);
        all.insert({indices[0][i], indices[1][i]});
    }
    BOOST_TEST(all.size() == 2 * each);
    BOOST_TEST(*all.rbegin() == 2 * each - 1);
}

BOOST_AUTO_TEST_CASE(at_its_limit_a_shared_vector_takes_no_more) {
    Objects o;
    const auto av = open_named(o, "full");
    std::vector<nvlf_addr> many;
    for (std::uint64_t i = 0; i < 1000; ++i) many.push_back(by_service(i + 1));
    std::size_t inserted = 0;
    for (int got = 1000; got == 1000;) {
        got = fi_av_insert(av.get(), many.data(), many.size(), nullptr, 0, nullptr);
        BOOST_REQUIRE(got >= 0);
        inserted += static_cast<std::size_t>(got);
        BOOST_REQUIRE(inserted < 1'000'000U);
    }
    BOOST_TEST(inserted >= NVLF_MAX_ENDPOINTS);
    int error = 0;
    BOOST_TEST(fi_av_insert(av.get(), many.data(), 1, nullptr, FI_SYNC_ERR, &error) == 0);
    BOOST_TEST(error == FI_EMFILE);
    fi_addr_t index = 12345;
    BOOST_TEST(fi_av_remove(av.get(), &index, 1, 0) == 0);
    BOOST_TEST(insert(av, 5) == 12345U);
}

BOOST_AUTO_TEST_CASE(a_message_goes_to_an_address_that_another_process_inserted_and_its_source_is_known_by_it) {
    // The endpoint's service is what both know; the child inserts it, and is killed with the vector open.
    SideOptions options;
    options.caps = FI_MSG | FI_SOURCE;
    const Side side{options};
    const std::vector<char> name = side.name();
    auto child = ChildProcess::fork([&name] {
        Objects o;
        FidPtr<fid_av> av;
        if (open_named(o, "processes", av) != 0) return 1;
        fi_addr_t index = FI_ADDR_NOTAVAIL;
        if (fi_av_insert(av.get(), name.data(), 1, &index, 0, nullptr) != 1 || index != 0) return 2;
        ::pause();
        return 3;
    });
    Objects o{[&](fi_info& h) { h.caps = FI_MSG | FI_SOURCE; }};
    const auto av = open_named(o, "processes");
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    nvlf_addr there{};
    std::size_t size = sizeof there;
    while (fi_av_lookup(av.get(), 0, &there, &size) != 0 && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    BOOST_REQUIRE(std::memcmp(&there, name.data(), sizeof there) == 0);
    child.signal(SIGKILL);
    BOOST_TEST(child.wait(20s).killed_by(SIGKILL));

    fi_cq_attr cq_attr{};
    fid_cq* c = nullptr;
    check(fi_cq_open(o.domain.get(), &cq_attr, &c, nullptr), "fi_cq_open");
    const FidPtr<fid_cq> cq{c};
    fid_ep* e = nullptr;
    check(fi_endpoint(o.domain.get(), o.info.get(), &e, nullptr), "fi_endpoint");
    const FidPtr<fid_ep> ep{e};
    check(fi_ep_bind(e, &av->fid, 0), "bind av");
    check(fi_ep_bind(e, &c->fid, FI_TRANSMIT | FI_RECV), "bind cq");
    check(fi_enable(e), "fi_enable");
    char in = 0;
    check(fi_recv(side.ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    check(fi_inject(e, "!", 1, 0), "fi_inject");
    std::optional<Event> event;
    while (!event && std::chrono::steady_clock::now() < deadline) event = poll(side.cq.get());
    BOOST_REQUIRE(event.has_value());
    BOOST_TEST(in == '!');
    // And back: the sender knows the other by the index that the dead child gave it.
    const fi_addr_t back = side.insert([&] {
        std::vector<char> bytes(64);
        std::size_t length = bytes.size();
        check(fi_getname(&e->fid, bytes.data(), &length), "fi_getname");
        bytes.resize(length);
        return bytes;
    }());
    check(fi_recv(e, &in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    check(fi_inject(side.ep.get(), "?", 1, back), "fi_inject");
    fi_cq_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    ssize_t got = -FI_EAGAIN;
    while (got == -FI_EAGAIN && std::chrono::steady_clock::now() < deadline)
        got = fi_cq_readfrom(c, &entry, 1, &source);
    BOOST_TEST(got == 1);
    BOOST_TEST(source == 0U);
}
