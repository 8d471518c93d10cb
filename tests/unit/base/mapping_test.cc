// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE mapping
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/mman.h>

#include "base/fd.hpp"
#include "base/mapping.hpp"

namespace {
using namespace nvlf;

Fd memory(std::size_t bytes, int seals = 0) {
    Fd fd{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    BOOST_REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    BOOST_REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
    return fd;
}
} // namespace

BOOST_AUTO_TEST_CASE(what_one_mapping_writes_another_reads) {
    const Fd fd = memory(4096);
    auto writer = Mapping::map(fd.get(), 4096, Mapping::Access::read_write);
    const auto reader = Mapping::map(fd.get(), 4096, Mapping::Access::read);
    BOOST_REQUIRE((writer.ok() && reader.ok()));
    *static_cast<char*>(writer->data()) = 'x';
    BOOST_TEST(*static_cast<const char*>(reader->data()) == 'x');
}

BOOST_AUTO_TEST_CASE(an_object_smaller_than_promised_is_eproto_not_a_sigbus_later) {
    const Fd fd = memory(4096);
    BOOST_TEST(Mapping::map(fd.get(), 4097, Mapping::Access::read).error().value() == EPROTO);
    BOOST_TEST(Mapping::map(fd.get(), 0, Mapping::Access::read).error().value() == EPROTO);
    BOOST_TEST(Mapping::map(-1, 4096, Mapping::Access::read).error().value() == EBADF);
}

BOOST_AUTO_TEST_CASE(a_moved_mapping_has_one_owner) {
    const Fd fd = memory(4096);
    auto first = Mapping::map(fd.get(), 4096, Mapping::Access::read);
    BOOST_REQUIRE(first.ok());
    Mapping second{std::move(*first)};
    BOOST_TEST(!static_cast<bool>(*first));
    BOOST_TEST(second.size() == 4096U);
    Mapping third;
    third = std::move(second);
    BOOST_TEST(static_cast<bool>(third));
    third.reset();
    BOOST_TEST(!static_cast<bool>(third));
}

BOOST_AUTO_TEST_CASE(only_memory_that_cannot_shrink_counts_as_sealed) {
    BOOST_TEST(!sealed(memory(4096).get()));
    BOOST_TEST(!sealed(memory(4096, F_SEAL_GROW).get()));
    BOOST_TEST(sealed(memory(4096, F_SEAL_SHRINK).get()));
    const Fd file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    BOOST_TEST(!sealed(file.get()));
}
