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
    return target->device;
}

std::uint64_t service(const char* node, const char* name) {
    const Region region;
    const auto target = resolve(region.state, node, name);
    BOOST_REQUIRE(target.ok());
    return target->service;
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
