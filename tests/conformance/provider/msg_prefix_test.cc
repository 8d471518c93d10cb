// SPDX-License-Identifier: MIT OR GPL-2.0-only
// msg_prefix_test - FI_MSG_PREFIX, asked for by FI_NVLF_MSG_PREFIX: room in front of the application's data, which no
// limit counts.
#define BOOST_TEST_MODULE msg_prefix
#include <algorithm>
#include <cstdlib>

#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

// Before the provider is loaded, and first of the fixtures.
struct AsksForPrefix {
    AsksForPrefix() { BOOST_TEST_REQUIRE(setenv("FI_NVLF_MSG_PREFIX", "64", 1) == 0); }
};

BOOST_TEST_GLOBAL_FIXTURE(AsksForPrefix);
BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::size_t prefix = 64;
const SideOptions offering{.mode = FI_CONTEXT | FI_MSG_PREFIX};

} // namespace

BOOST_AUTO_TEST_CASE(a_prefix_is_asked_for_from_who_offers_it_and_from_nobody_else) {
    const Side with{offering};
    BOOST_TEST((with.info->mode & with.info->tx_attr->mode & with.info->rx_attr->mode & FI_MSG_PREFIX) != 0U);
    BOOST_TEST(with.info->ep_attr->msg_prefix_size == prefix);
    const Side without;
    BOOST_TEST(((without.info->mode | without.info->tx_attr->mode | without.info->rx_attr->mode) & FI_MSG_PREFIX) ==
               0U);
    BOOST_TEST(without.info->ep_attr->msg_prefix_size == 0U);
}

BOOST_AUTO_TEST_CASE(data_lies_behind_the_prefix_and_limits_count_the_data_alone) {
    TwoEndpoints pair{offering, offering};
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, pair.a.info->tx_attr->inject_size}) {
        auto out = pattern(prefix + bytes, static_cast<unsigned>(bytes));
        std::vector<char> in(prefix + bytes);
        check(fi_recv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        pair.post("inject", [&] { return fi_inject(pair.a.ep.get(), out.data(), out.size(), pair.to_b); });
        const Event event = pair.wait(pair.b, "received");
        BOOST_TEST(event.error == 0);
        BOOST_TEST(event.entry.len == prefix + bytes); // As fi_getinfo(3) has it for all lengths.
        BOOST_TEST(std::equal(in.begin() + prefix, in.end(), out.begin() + prefix));
    }
}
