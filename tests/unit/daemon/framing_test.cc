// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What holds for every command, whatever it does: framing, size rules, reserved fields, who may.
#define BOOST_TEST_MODULE daemon_framing
#include "bench.hpp"

using namespace nvlf;
using namespace nvlf::test;

namespace {

using Bytes = std::vector<std::byte>;

Bytes message(std::uint32_t cmd, std::size_t struct_bytes, std::uint32_t size) {
    Bytes bytes(sizeof(nvlf_msg) + struct_bytes);
    const nvlf_msg head{NVLF_MSG_MAGIC, cmd, 5, 0};
    std::memcpy(bytes.data(), &head, sizeof head);
    if (struct_bytes >= sizeof size) std::memcpy(bytes.data() + sizeof head, &size, sizeof size);
    return bytes;
}

nvlf_msg head_of(const daemon::Reply& reply) {
    nvlf_msg head{};
    std::memcpy(&head, reply.bytes.data(), sizeof head);
    return head;
}

struct Fixture {
    Bench bench;
    daemon::ClientId client = bench.client();
    daemon::Reply reply;

    int send(const Bytes& bytes, std::size_t fds = 0) {
        bench.server().handle(client, bytes, fds, reply);
        return static_cast<int>(head_of(reply).error);
    }
};

} // namespace

BOOST_FIXTURE_TEST_CASE(what_is_no_message_is_eproto_whatever_its_length, Fixture) {
    for (std::size_t length = 0; length < sizeof(nvlf_msg); ++length) BOOST_TEST(send(Bytes(length)) == EPROTO);
    Bytes wrong = message(NVLF_CMD_GET_INFO, sizeof(nvlf_ioc_info), sizeof(nvlf_ioc_info));
    wrong[0] = std::byte{0};
    BOOST_TEST(send(wrong) == EPROTO);
    Bytes answer = message(NVLF_CMD_GET_INFO, sizeof(nvlf_ioc_info), sizeof(nvlf_ioc_info));
    answer[offsetof(nvlf_msg, error)] = std::byte{1};
    BOOST_TEST(send(answer) == EPROTO);
    BOOST_TEST(send(Bytes(NVLF_MSG_BYTES + 1)) == EPROTO);
}

BOOST_FIXTURE_TEST_CASE(a_command_that_does_not_exist_is_enotty, Fixture) {
    for (const std::uint32_t cmd : {0x07U, 0x1fU, 0x7fU, 0x85U, 0xffffffffU}) {
        BOOST_TEST(send(message(cmd, 8, 8)) == ENOTTY);
        BOOST_TEST(head_of(reply).cmd == cmd);
        BOOST_TEST(head_of(reply).tag == 5U);
        BOOST_TEST(reply.length == sizeof(nvlf_msg));
    }
}

BOOST_FIXTURE_TEST_CASE(every_command_refuses_a_size_that_is_not_that_of_the_message, Fixture) {
    for (const Command& command : commands) {
        BOOST_TEST(send(message(command.cmd, 0, 0)) == EPROTO, command.name);
        BOOST_TEST(send(message(command.cmd, 3, 0)) == EPROTO, command.name);
        BOOST_TEST(send(message(command.cmd, command.size, command.size - 1)) == EPROTO, command.name);
        BOOST_TEST(send(message(command.cmd, command.size, command.size + 1)) == EPROTO, command.name);
    }
}

BOOST_FIXTURE_TEST_CASE(every_command_refuses_a_struct_that_is_too_small, Fixture) {
    for (const Command& command : commands)
        for (std::uint32_t size = 4; size < command.size; ++size)
            BOOST_REQUIRE_EQUAL(send(message(command.cmd, size, size)), EINVAL);
}

BOOST_FIXTURE_TEST_CASE(every_command_refuses_an_unknown_tail_unless_it_is_zero, Fixture) {
    for (const Command& command : commands) {
        Bytes grown = message(command.cmd, command.size + 8U, command.size + 8U);
        BOOST_TEST(send(grown) != E2BIG, command.name);
        grown.back() = std::byte{1};
        BOOST_TEST(send(grown) == E2BIG, command.name);
    }
}

BOOST_FIXTURE_TEST_CASE(the_reply_has_the_size_of_the_request, Fixture) {
    const std::uint32_t size = sizeof(nvlf_ioc_device) + 16;
    BOOST_TEST(send(message(NVLF_CMD_GET_DEVICE, size, size)) == 0);
    BOOST_TEST(reply.length == sizeof(nvlf_msg) + size);
}

BOOST_FIXTURE_TEST_CASE(the_largest_message_is_understood, Fixture) {
    const std::uint32_t size = NVLF_MSG_BYTES - sizeof(nvlf_msg);
    BOOST_TEST(send(message(NVLF_CMD_GET_DEVICE, size, size)) == 0);
    BOOST_TEST(reply.length == static_cast<std::size_t>(NVLF_MSG_BYTES));
}

BOOST_FIXTURE_TEST_CASE(descriptors_that_a_command_does_not_take_are_eproto, Fixture) {
    for (const Command& command : commands) {
        const Bytes bytes = message(command.cmd, command.size, command.size);
        if (!command.fds_from_client) BOOST_TEST(send(bytes, 1) == EPROTO, command.name);
        else BOOST_TEST(send(bytes, 0) == EPROTO, command.name); // Its field says index 0, and there is none.
    }
}

BOOST_FIXTURE_TEST_CASE(reserved_fields_and_undefined_flags_must_be_zero, Fixture) {
    nvlf_ioc_state state{};
    state.reserved = 1;
    BOOST_TEST(bench.ask(client, NVLF_CMD_GET_STATE, state).error == EINVAL);
    nvlf_ioc_mem_alloc alloc{};
    alloc.bytes = 1;
    alloc.flags = 1;
    BOOST_TEST(bench.ask(client, NVLF_CMD_MEM_ALLOC, alloc).error == EINVAL);
    alloc.flags = 0;
    alloc.reserved = 1;
    BOOST_TEST(bench.ask(client, NVLF_CMD_MEM_ALLOC, alloc).error == EINVAL);
    nvlf_ioc_mem_export share{};
    share.reserved = 1;
    BOOST_TEST(bench.ask(client, NVLF_CMD_MEM_EXPORT, share).error == EINVAL);
    nvlf_ioc_mem_import import{};
    import.reserved = 1;
    BOOST_TEST(bench.ask(client, NVLF_CMD_MEM_IMPORT, import).error == EINVAL);
    nvlf_ioc_ep_publish publish{};
    publish.flags = 1;
    BOOST_TEST(bench.ask(client, NVLF_CMD_EP_PUBLISH, publish).error == EINVAL);
    nvlf_ioc_ep_lookup lookup{};
    lookup.reserved = 1;
    BOOST_TEST(bench.ask(client, NVLF_CMD_EP_LOOKUP, lookup).error == EINVAL);
    nvlf_ioc_events events{};
    events.reserved = 1;
    BOOST_TEST(bench.ask(client, NVLF_CMD_EVENTS, events).error == EINVAL);
    nvlf_ioc_admin_state admin{};
    admin.reserved = 1;
    BOOST_TEST(bench.ask(client, NVLF_CMD_ADMIN_STATE, admin).error == EINVAL);
}

BOOST_FIXTURE_TEST_CASE(only_the_owner_and_root_administer_the_fabric, Fixture) {
    const auto stranger = bench.client(Bench::stranger);
    const auto root = bench.client(0);
    BOOST_TEST(bench.ask(stranger, NVLF_CMD_GET_CLIENT, nvlf_ioc_client{}).error == EPERM);
    BOOST_TEST(bench.ask(stranger, NVLF_CMD_ADMIN_STATE, nvlf_ioc_admin_state{}).error == EPERM);
    BOOST_TEST(bench.ask(stranger, NVLF_CMD_ADMIN_CLOCK, nvlf_ioc_admin_clock{}).error == EPERM);
    BOOST_TEST(bench.limit(stranger, NVLF_LIMIT_CLIENTS, 5) == EPERM);
    BOOST_TEST(bench.ask(stranger, NVLF_CMD_ADMIN_DOWN, nvlf_ioc_admin_down{}).error == EPERM);
    nvlf_ioc_admin_topology topology{};
    topology.image_fd = NVLF_NO_FD;
    BOOST_TEST(bench.ask(stranger, NVLF_CMD_ADMIN_TOPOLOGY, topology).error == EPERM);
    BOOST_TEST(bench.ask(root, NVLF_CMD_GET_CLIENT, nvlf_ioc_client{}).error == 0);
    BOOST_TEST(bench.ask(client, NVLF_CMD_GET_CLIENT, nvlf_ioc_client{}).error == 0);
}
