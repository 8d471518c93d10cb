// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE fd
#include <boost/test/unit_test.hpp>

#include <fcntl.h>

#include "base/fd.hpp"

namespace {
nvlf::Fd open_null() { return nvlf::Fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}; }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
} // namespace

BOOST_AUTO_TEST_CASE(a_descriptor_closes_with_its_owner) {
    int number = -1;
    {
        const auto fd = open_null();
        number = fd.get();
        BOOST_TEST(is_open(number));
    }
    BOOST_TEST(!is_open(number));
}

BOOST_AUTO_TEST_CASE(moving_leaves_one_owner) {
    auto first = open_null();
    const int number = first.get();
    nvlf::Fd second{std::move(first)};
    BOOST_TEST(!first); // NOLINT: the state after a move is what this tests.
    BOOST_TEST(second.get() == number);
    auto third = open_null();
    const int replaced = third.get();
    third = std::move(second);
    BOOST_TEST(!is_open(replaced));
    BOOST_TEST(is_open(number));
}

BOOST_AUTO_TEST_CASE(moving_to_itself_keeps_the_descriptor) {
    auto fd = open_null();
    auto& alias = fd;
    fd = std::move(alias);
    BOOST_TEST(is_open(fd.get()));
}

BOOST_AUTO_TEST_CASE(a_released_descriptor_stays_open) {
    auto fd = open_null();
    const nvlf::Fd other{fd.release()};
    fd.reset();
    BOOST_TEST(is_open(other.get()));
}
