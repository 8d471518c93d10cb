// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The table of the contract: complete, consistent, and within what a message holds.
#define BOOST_TEST_MODULE commands
#include <boost/test/unit_test.hpp>

#include <set>

#include "base/commands.hpp"

BOOST_AUTO_TEST_CASE(every_command_is_listed_once) {
    std::set<std::uint32_t> seen;
    for (const auto& command : nvlf::commands) BOOST_TEST(seen.insert(command.cmd).second, command.name);
    BOOST_TEST(seen.size() == 26U);
    for (const auto& command : nvlf::commands) BOOST_TEST(nvlf::find_command(command.cmd) == &command);
    BOOST_TEST(nvlf::find_command(0xffff) == nullptr);
}

BOOST_AUTO_TEST_CASE(every_struct_fits_into_a_message_with_its_header) {
    for (const auto& command : nvlf::commands)
        BOOST_TEST(command.size + sizeof(nvlf_msg) <= NVLF_MSG_BYTES, command.name);
}

BOOST_AUTO_TEST_CASE(descriptor_fields_are_aligned_words_inside_the_struct) {
    for (const auto& command : nvlf::commands) {
        std::set<std::uint16_t> places;
        for (const auto at : command.fd_at) {
            if (at == 0) continue;
            BOOST_TEST(at % 4 == 0, command.name);
            BOOST_TEST(at + 4U <= command.size, command.name);
            BOOST_TEST(places.insert(at).second, command.name);
        }
        BOOST_TEST(places.size() <= NVLF_MSG_FDS, command.name);
    }
}
