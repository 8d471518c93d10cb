// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Address vectors: indices, the way back, and removal.
#define BOOST_TEST_MODULE provider_av
#include <boost/test/unit_test.hpp>

#include "address.hpp"
#include "av.hpp"

using namespace nvlf::ofi;

namespace {

struct Fixture {
    Fabric fabric;
    Domain domain{fabric, nullptr, 0, FI_THREAD_SAFE, 0, 0};
    Av av{domain};

    Fixture() {
        fabric.refs = 1;
        domain.fabric_id = 99;
        BOOST_REQUIRE(!av.table.open_private().failed());
    }

    static nvlf_addr addr(std::uint32_t endpoint, std::uint64_t service = 0) {
        return {.magic = NVLF_ADDR_MAGIC,
                .version = NVLF_ADDR_VERSION,
                .device = endpoint % 8,
                .fabric = 99,
                .endpoint = endpoint,
                .epoch = 1,
                .service = service};
    }
};

} // namespace

BOOST_FIXTURE_TEST_CASE(indices_count_up_and_lead_back_to_their_addresses, Fixture) {
    constexpr std::uint32_t many = 3077;
    for (std::uint32_t i = 0; i < many; ++i) BOOST_REQUIRE(av.insert(addr(i)).value() == i);
    for (std::uint32_t i = 0; i < many; ++i) {
        nvlf_addr found{};
        BOOST_REQUIRE(av.lookup(i, found));
        BOOST_REQUIRE(addr_equal(found, addr(i)));
        BOOST_REQUIRE(av.find(addr(i)) == i);
    }
    nvlf_addr none{};
    BOOST_TEST(!av.lookup(many, none));
    BOOST_TEST(!av.lookup(FI_ADDR_NOTAVAIL, none));
    BOOST_TEST(av.find(addr(many)) == FI_ADDR_NOTAVAIL);
}

BOOST_FIXTURE_TEST_CASE(what_is_no_address_or_another_fabrics_is_refused_and_takes_no_index, Fixture) {
    nvlf_addr bad = addr(1);
    bad.magic = 0;
    BOOST_TEST(av.insert(bad).error().value() == EINVAL);
    bad = addr(1);
    bad.version = 2;
    BOOST_TEST(av.insert(bad).error().value() == EINVAL);
    BOOST_TEST(av.insert(service_addr(0, NVLF_DEVICE_ANY, 0)).error().value() == EINVAL); // Nobody's.
    bad = addr(1);
    bad.fabric = 98;
    BOOST_TEST(av.insert(bad).error().value() == EXDEV);
    BOOST_TEST(av.insert(addr(1)).value() == 0U);
}

BOOST_FIXTURE_TEST_CASE(removed_entries_do_not_answer_and_the_lowest_free_index_is_used_next, Fixture) {
    for (std::uint32_t i = 0; i < 10; ++i) BOOST_REQUIRE(av.insert(addr(i)).ok());
    const std::uint32_t before = av.changes();
    BOOST_TEST(av.remove(7));
    BOOST_TEST(av.remove(3));
    BOOST_TEST(!av.remove(3));
    BOOST_TEST(!av.remove(10));
    BOOST_TEST(av.changes() != before);
    nvlf_addr none{};
    BOOST_TEST(!av.lookup(3, none));
    BOOST_TEST(av.find(addr(7)) == FI_ADDR_NOTAVAIL);
    BOOST_TEST(av.find(addr(8)) == 8U);
    BOOST_TEST(av.insert(addr(7)).value() == 3U);
    BOOST_TEST(av.find(addr(7)) == 3U);
    BOOST_TEST(av.insert(addr(100)).value() == 7U);
    BOOST_TEST(av.insert(addr(101)).value() == 10U);
}

BOOST_FIXTURE_TEST_CASE(an_endpoint_is_found_under_the_service_by_which_it_was_inserted, Fixture) {
    BOOST_TEST(av.insert(service_addr(0, NVLF_DEVICE_ANY, 5)).value() == 0U);
    BOOST_TEST(av.insert(service_addr(99, 2, 6)).value() == 1U); // Device 2 only; names the fabric, which is ours.
    BOOST_TEST(av.find(addr(17, 5)) == 0U);
    BOOST_TEST(av.find(addr(18, 6)) == 1U); // 18 % 8 == 2
    BOOST_TEST(av.find(addr(19, 6)) == FI_ADDR_NOTAVAIL);
    BOOST_TEST(av.find(addr(17, 0)) == FI_ADDR_NOTAVAIL);
    // Its own address is the better answer.
    BOOST_TEST(av.insert(addr(17, 5)).value() == 2U);
    BOOST_TEST(av.find(addr(17, 5)) == 2U);
}

BOOST_FIXTURE_TEST_CASE(an_address_inserted_twice_outlives_its_first_removal, Fixture) {
    BOOST_TEST(av.insert(addr(1)).value() == 0U);
    BOOST_TEST(av.insert(addr(1)).value() == 1U);
    BOOST_TEST(av.remove(0));
    BOOST_TEST(av.find(addr(1)) == 1U);
    BOOST_TEST(av.first_of(1) == 1U);
    BOOST_TEST(av.remove(1));
    BOOST_TEST(av.find(addr(1)) == FI_ADDR_NOTAVAIL);
}

BOOST_FIXTURE_TEST_CASE(at_the_limit_one_more_is_refused_and_nothing_else_changes, Fixture) {
    for (std::uint32_t i = 0; i < av_limit; ++i) {
        if (!av.insert(addr(i)).ok()) BOOST_FAIL("refused before the limit, at " << i);
    }
    BOOST_TEST(av.insert(addr(av_limit)).error().value() == EMFILE);
    BOOST_TEST(av.find(addr(av_limit)) == FI_ADDR_NOTAVAIL);
    BOOST_TEST(av.remove(12345));
    BOOST_TEST(av.insert(addr(av_limit)).value() == 12345U);
}

BOOST_FIXTURE_TEST_CASE(an_address_inserted_twice_is_known_by_its_lowest_index, Fixture) {
    BOOST_TEST(av.insert(addr(1)).value() == 0U);
    BOOST_TEST(!av.may_repeat());
    BOOST_TEST(av.insert(addr(2)).value() == 1U);
    BOOST_TEST(av.insert(addr(1)).value() == 2U);
    BOOST_TEST(av.may_repeat());
    BOOST_TEST(av.find(addr(1)) == 0U);
    BOOST_TEST(av.first_of(2) == 0U);
    BOOST_TEST(av.first_of(1) == 1U);
    BOOST_TEST(av.first_of(77) == 77U); // Nobody's.
}

BOOST_FIXTURE_TEST_CASE(a_user_id_is_reported_until_the_address_goes, Fixture) {
    BOOST_TEST(av.insert(addr(1)).value() == 0U);
    BOOST_TEST(av.reported(0) == 0U);
    const std::uint32_t before = av.changes();
    BOOST_TEST(!av.set_user_id(0, 4711).failed());
    BOOST_TEST(av.changes() != before); // Whoever remembers must ask again.
    BOOST_TEST(av.reported(0) == 4711U);
    BOOST_TEST(av.set_user_id(1, 5).value() == ENOENT);
    BOOST_TEST(av.remove(0));
    BOOST_TEST(av.insert(addr(2)).value() == 0U);
    BOOST_TEST(av.reported(0) == 0U);
}

BOOST_FIXTURE_TEST_CASE(receive_contexts_lie_in_the_uppermost_bits, Fixture) {
    BOOST_TEST(av.insert(addr(1)).value() == 0U);
    av.rx_ctx_bits = 3;
    const fi_addr_t second = fi_rx_addr(0, 6, 3);
    BOOST_TEST(av.index_of(second) == 0U);
    nvlf_addr back{};
    BOOST_TEST(av.lookup(second, back));
}
