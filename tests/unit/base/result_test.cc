// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE result
#include <boost/test/unit_test.hpp>

#include <memory>
#include <type_traits>

#include "base/result.hpp"

using nvlf::Errno;
using nvlf::Result;

static_assert(!std::is_convertible_v<Errno, int> && !std::is_convertible_v<int, Errno>, "an errno is not a count");

BOOST_AUTO_TEST_CASE(a_result_holds_a_value_or_an_errno) {
    const Result<int> good{7};
    BOOST_TEST(good.ok());
    BOOST_TEST(*good == 7);
    BOOST_TEST(!good.error().failed());
    const Result<int> bad{Errno{EPROTO}};
    BOOST_TEST(!bad.ok());
    BOOST_TEST(bad.error().value() == EPROTO);
    BOOST_TEST(bad.error().negative() == -EPROTO);
}

BOOST_AUTO_TEST_CASE(the_value_of_a_failure_is_refused_in_every_build) {
    const Result<int> bad{Errno{ENOENT}};
    BOOST_CHECK_THROW(static_cast<void>(bad.value()), std::bad_variant_access);
}

BOOST_AUTO_TEST_CASE(a_value_that_cannot_be_copied_is_moved_out) {
    Result<std::unique_ptr<int>> result{std::make_unique<int>(3)};
    const std::unique_ptr<int> taken = *std::move(result);
    BOOST_TEST(*taken == 3);
}
