// SPDX-License-Identifier: MIT OR GPL-2.0-only
// What people type as node and service, against a state region made by hand.
#define BOOST_TEST_MODULE provider_address
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "address.hpp"

using namespace nvlf::ofi;

namespace {

struct Region {
    nvlf_state state{};
    nvlf_device devices[3]{};

    Region() {
        state.magic = NVLF_STATE_MAGIC;
        state.abi = NVLF_ABI_VERSION;
        state.bytes = sizeof *this;
        state.device_count = 3;
        state.device_off = sizeof state;
        std::strcpy(devices[0].name, "gpu0");
        std::strcpy(devices[1].name, "trn0");
        std::memset(devices[2].name, 'x', sizeof devices[2].name); // Without its NUL: a stranger wrote it.
    }
};

std::uint32_t device(const char* node, const char* service = nullptr) {
    const Region region;
    const auto target = resolve(region.state, node, service);
    BOOST_REQUIRE_MESSAGE(target.ok(), (node != nullptr ? node : "NULL"));
    return target->addr.device;
}

std::uint64_t service(const char* node, const char* name) {
    const Region region;
    const auto target = resolve(region.state, node, name);
    BOOST_REQUIRE(target.ok());
    return target->addr.service;
}

int refused(const char* node, const char* name = nullptr) {
    const Region region;
    return resolve(region.state, node, name).error().value();
}

} // namespace

BOOST_AUTO_TEST_CASE(this_host_by_any_of_its_names_means_the_fabric) {
    char host[256];
    BOOST_REQUIRE(::gethostname(host, sizeof host) == 0);
    for (const char* node : {static_cast<const char*>(nullptr), "", "localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3",
                             "::1", static_cast<const char*>(host)})
        BOOST_TEST(device(node) == NVLF_DEVICE_ANY);
}

BOOST_AUTO_TEST_CASE(a_device_is_a_node_and_may_carry_a_service) {
    BOOST_TEST(device("gpu0") == 0U);
    BOOST_TEST(device("trn0") == 1U);
    BOOST_TEST(device("trn0:web") == 1U);
    BOOST_TEST(service("trn0:7", nullptr) == 7U);
    BOOST_TEST(service("trn0:web", nullptr) == nvlf_service("web"));
    BOOST_TEST(service("trn0", "7") == 7U);
    BOOST_TEST(service("localhost", "9228") == 9228U);
    BOOST_TEST(service(nullptr, nullptr) == 0U);
    BOOST_TEST(refused("trn0:7", "8") == EINVAL);
}

BOOST_AUTO_TEST_CASE(other_hosts_are_refused) {
    for (const char* node : {"g00n13s", "gpu1", "gpu", "gpu0x", "192.0.2.1", "2001:db8::1", "localhost.example",
                             "127.0.0.256", ":", "nosuch:7", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"})
        BOOST_TEST(refused(node) == EADDRNOTAVAIL, node);
}

BOOST_AUTO_TEST_CASE(an_address_prints_what_it_names) {
    BOOST_TEST(addr_text(service_addr(0, NVLF_DEVICE_ANY, 42)) == "nvlf:///any?service=42");
    const nvlf_addr addr{.magic = NVLF_ADDR_MAGIC,
                         .version = NVLF_ADDR_VERSION,
                         .device = 3,
                         .fabric = 0xabc,
                         .endpoint = 17,
                         .epoch = 2,
                         .service = 0};
    BOOST_TEST(addr_text(addr) == "nvlf://0000000000000abc/3/17.2");
}

BOOST_AUTO_TEST_CASE(an_address_that_names_nobody_is_not_valid) {
    BOOST_TEST(addr_valid(service_addr(0, 1, 5)));
    BOOST_TEST(!addr_valid(service_addr(0, 1, 0)));
    BOOST_TEST(!addr_valid(nvlf_addr{}));
}

BOOST_AUTO_TEST_CASE(an_address_is_read_back_from_what_it_printed) {
    const Region region;
    const nvlf_addr exact{.magic = NVLF_ADDR_MAGIC,
                          .version = NVLF_ADDR_VERSION,
                          .device = 3,
                          .fabric = 0xabc,
                          .endpoint = 17,
                          .epoch = 2,
                          .service = 9};
    for (const nvlf_addr& addr : {exact, service_addr(0, NVLF_DEVICE_ANY, 42), service_addr(0, 1, 7)}) {
        const auto back = resolve(region.state, addr_text(addr).c_str(), nullptr);
        BOOST_REQUIRE_MESSAGE(back.ok(), addr_text(addr));
        BOOST_TEST(addr_equal(back->addr, addr), addr_text(addr));
    }
    BOOST_TEST(refused("nvlf:///any?service=42", "7") == EINVAL); // Says it all.
    for (const char* text : {"nvlf://", "nvlf:///", "nvlf:///any", "nvlf:///any?service=", "nvlf:///any?service=7x",
                             "nvlf:///1/2", "nvlf:///1/2.", "nvlf:///1/2.3x", "nvlf://xyz/any?service=1",
                             "nvlf:///anyx?service=1", "nvlf:///-1?service=1", "nvlf:///4294967296?service=1"})
        BOOST_TEST(refused(text) == EADDRNOTAVAIL, text);
}

BOOST_AUTO_TEST_CASE(a_socket_address_of_this_host_is_a_service) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(9228);
    in.sin_addr.s_addr = htonl(0x7f010203);
    const auto address = read_addr(FI_SOCKADDR_IN, &in);
    BOOST_REQUIRE(address.ok());
    BOOST_TEST(address->addr.service == 9228U);
    BOOST_TEST(address->addr.device == NVLF_DEVICE_ANY);
    sockaddr_in back{};
    write_addr(FI_SOCKADDR_IN, *address, &back);
    BOOST_TEST(std::memcmp(&back, &in, sizeof in) == 0);
    BOOST_TEST(addr_text(FI_SOCKADDR_IN, *address) == "fi_sockaddr_in://127.1.2.3:9228");

    in.sin_addr.s_addr = htonl(0xc0000201); // 192.0.2.1 is nobody's.
    BOOST_TEST(read_addr(FI_SOCKADDR_IN, &in).error().value() == EADDRNOTAVAIL);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = 0;
    BOOST_TEST(read_addr(FI_SOCKADDR_IN, &in).error().value() == EINVAL);
    in = {};
    BOOST_TEST(read_addr(FI_SOCKADDR_IN, &in).error().value() == EINVAL);
}
