// SPDX-License-Identifier: MIT OR GPL-2.0-only
// msg_test - FI_MSG and FI_TAGGED: every size class, every call form, matching, truncation, cancellation.
#define BOOST_TEST_MODULE msg
#include <algorithm>
#include <array>
#include <cstring>

#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

// Around each border between protocols: a slot with and without CQ data, the data ring, rendezvous, several pieces.
constexpr std::array<std::size_t, 18> sizes{0,    1,     8,     39,    40,    41,    48,    49,      64,
                                            4096, 16383, 16384, 16385, 32768, 65536, 65537, 1 << 20, (3 << 20) + 7};

void send_one(TwoEndpoints& pair, std::size_t bytes, bool receive_first) {
    const auto out = pattern(bytes, static_cast<unsigned>(bytes));
    std::vector<char> in(bytes + 1, 'x');
    int rx = 0;
    int tx = 0;
    const auto receive = [&] {
        check(fi_trecv(pair.b.ep.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, 77, 0, &rx), "trecv");
    };
    if (receive_first) receive();
    pair.post("tsend", [&] { return fi_tsend(pair.a.ep.get(), out.data(), bytes, nullptr, pair.to_b, 77, &tx); });
    if (!receive_first) {
        for (int i = 0; i < 100; ++i) (void)fi_cq_read(pair.b.cq.get(), nullptr, 0); // It is unexpected by then.
        receive();
    }
    const Event got = pair.wait(pair.b, "receive");
    const Event sent = pair.wait(pair.a, "send");
    BOOST_TEST(got.error == 0);
    BOOST_TEST(got.entry.op_context == &rx);
    BOOST_TEST(got.entry.len == bytes);
    BOOST_TEST(got.entry.tag == 77U);
    BOOST_TEST(got.entry.flags == (FI_RECV | FI_TAGGED));
    BOOST_TEST(got.source == pair.to_a);
    BOOST_TEST(sent.entry.op_context == &tx);
    BOOST_TEST(sent.entry.flags == (FI_SEND | FI_TAGGED));
    BOOST_TEST(std::equal(out.begin(), out.end(), in.begin())); // Not memcmp: there may be none.
    BOOST_TEST(in[bytes] == 'x');
}

} // namespace

BOOST_AUTO_TEST_CASE(messages_of_every_size_reach_a_waiting_receive) {
    TwoEndpoints pair;
    for (const std::size_t bytes : sizes) BOOST_TEST_CONTEXT(bytes << " bytes") send_one(pair, bytes, true);
}

BOOST_AUTO_TEST_CASE(messages_of_every_size_wait_for_their_receive) {
    TwoEndpoints pair;
    for (const std::size_t bytes : sizes) BOOST_TEST_CONTEXT(bytes << " bytes") send_one(pair, bytes, false);
}

BOOST_AUTO_TEST_CASE(an_nvidia_and_a_trainium_device_talk_both_ways) {
    TwoEndpoints pair{{.device = "gpu0"}, {.device = "trn0"}};
    send_one(pair, 100'000, true);
    std::swap(pair.to_a, pair.to_b);
    std::swap(pair.a, pair.b);
    send_one(pair, 100'000, true);
}

BOOST_AUTO_TEST_CASE(an_endpoint_sends_to_itself) {
    Side side;
    const fi_addr_t self = side.insert(side.name());
    for (const std::size_t bytes : sizes) {
        const auto out = pattern(bytes, 3);
        std::vector<char> in(bytes);
        check(fi_recv(side.ep.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        check(fi_send(side.ep.get(), out.data(), bytes, nullptr, self, nullptr), "send");
        int events = 0;
        for (int i = 0; i < 1'000'000 && events < 2; ++i) events += poll(side.cq.get()).has_value();
        BOOST_TEST(events == 2);
        BOOST_TEST(in == out);
    }
}

BOOST_AUTO_TEST_CASE(tagged_receives_take_what_their_mask_lets_through_in_order) {
    TwoEndpoints pair;
    std::array<int, 3> in{};
    std::array<int, 3> out{10, 11, 12};
    // The mask of the first lets tags 0x100..0x1ff through, the second wants one tag.
    check(fi_trecv(pair.b.ep.get(), &in[0], 4, nullptr, FI_ADDR_UNSPEC, 0x100, 0xff, &in[0]), "trecv");
    check(fi_trecv(pair.b.ep.get(), &in[1], 4, nullptr, FI_ADDR_UNSPEC, 0x205, 0, &in[1]), "trecv");
    check(fi_tsend(pair.a.ep.get(), &out[0], 4, nullptr, pair.to_b, 0x205, nullptr), "tsend");
    check(fi_tsend(pair.a.ep.get(), &out[1], 4, nullptr, pair.to_b, 0x1aa, nullptr), "tsend");
    check(fi_tsend(pair.a.ep.get(), &out[2], 4, nullptr, pair.to_b, 0x300, nullptr), "tsend");
    BOOST_TEST(pair.wait(pair.b, "0x205").entry.op_context == &in[1]);
    BOOST_TEST(pair.wait(pair.b, "0x1aa").entry.op_context == &in[0]);
    check(fi_trecv(pair.b.ep.get(), &in[2], 4, nullptr, FI_ADDR_UNSPEC, 0, ~0ULL, &in[2]), "trecv");
    const Event last = pair.wait(pair.b, "0x300");
    BOOST_TEST(last.entry.tag == 0x300U);
    BOOST_TEST(in == (std::array<int, 3>{11, 10, 12}));
}

BOOST_AUTO_TEST_CASE(tagged_and_untagged_messages_do_not_mix) {
    TwoEndpoints pair;
    int in_tagged = 0;
    int in_plain = 0;
    const int one = 1;
    const int two = 2;
    check(fi_trecv(pair.b.ep.get(), &in_tagged, 4, nullptr, FI_ADDR_UNSPEC, 0, ~0ULL, &in_tagged), "trecv");
    check(fi_recv(pair.b.ep.get(), &in_plain, 4, nullptr, FI_ADDR_UNSPEC, &in_plain), "recv");
    check(fi_send(pair.a.ep.get(), &one, 4, nullptr, pair.to_b, nullptr), "send");
    BOOST_TEST(pair.wait(pair.b, "plain").entry.op_context == &in_plain);
    check(fi_tsend(pair.a.ep.get(), &two, 4, nullptr, pair.to_b, 5, nullptr), "tsend");
    BOOST_TEST(pair.wait(pair.b, "tagged").entry.op_context == &in_tagged);
    BOOST_TEST(in_plain == 1);
    BOOST_TEST(in_tagged == 2);
}

BOOST_AUTO_TEST_CASE(a_directed_receive_waits_for_its_source) {
    SideOptions options;
    options.caps |= FI_DIRECTED_RECV;
    TwoEndpoints pair{options, options};
    const fi_addr_t self = pair.b.insert(pair.b.name());
    int from_a = 0;
    int from_self = 0;
    const int one = 1;
    const int two = 2;
    check(fi_recv(pair.b.ep.get(), &from_a, 4, nullptr, pair.to_a, &from_a), "recv from a");
    check(fi_recv(pair.b.ep.get(), &from_self, 4, nullptr, self, &from_self), "recv from self");
    check(fi_inject(pair.b.ep.get(), &two, 4, self), "inject");
    BOOST_TEST(pair.wait(pair.b, "self").entry.op_context == &from_self);
    check(fi_inject(pair.a.ep.get(), &one, 4, pair.to_b), "inject");
    BOOST_TEST(pair.wait(pair.b, "a").entry.op_context == &from_a);
    BOOST_TEST(from_a == 1);
    BOOST_TEST(from_self == 2);
}

BOOST_AUTO_TEST_CASE(a_message_longer_than_its_buffer_is_an_error_that_says_how_much_was_lost) {
    TwoEndpoints pair;
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{1} << 20}) {
        const auto out = pattern(bytes, 5);
        std::vector<char> in(60);
        check(fi_recv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, in.data()), "recv");
        check(fi_send(pair.a.ep.get(), out.data(), bytes, nullptr, pair.to_b, nullptr), "send");
        const Event got = pair.wait(pair.b, "truncated");
        BOOST_TEST(got.error == FI_ETRUNC);
        BOOST_TEST(got.entry.len == in.size());
        BOOST_TEST(got.lost == bytes - in.size());
        BOOST_TEST(std::memcmp(in.data(), out.data(), in.size()) == 0);
        BOOST_TEST(pair.wait(pair.a, "send").error == 0);
    }
}

BOOST_AUTO_TEST_CASE(scattered_buffers_are_gathered_and_filled_in_order) {
    TwoEndpoints pair;
    for (const std::size_t part : {std::size_t{3}, std::size_t{1000}, std::size_t{50'000}}) {
        const auto out = pattern(4 * part, 9);
        std::vector<char> in(4 * part);
        std::array<iovec, 4> from{};
        std::array<iovec, 3> to{};
        for (std::size_t i = 0; i < 4; ++i) from[i] = {const_cast<char*>(out.data()) + i * part, part};
        to = {iovec{in.data(), part / 2}, iovec{in.data() + part / 2, 2 * part},
              iovec{in.data() + part / 2 + 2 * part, 4 * part - part / 2 - 2 * part}};
        check(fi_recvv(pair.b.ep.get(), to.data(), nullptr, 3, FI_ADDR_UNSPEC, nullptr), "recvv");
        check(fi_sendv(pair.a.ep.get(), from.data(), nullptr, 4, pair.to_b, nullptr), "sendv");
        BOOST_TEST(pair.wait(pair.b, "recvv").entry.len == out.size());
        (void)pair.wait(pair.a, "sendv");
        BOOST_TEST(in == out);
    }
}

BOOST_AUTO_TEST_CASE(remote_cq_data_arrives_with_every_size) {
    TwoEndpoints pair;
    for (const std::size_t bytes : sizes) {
        const auto out = pattern(bytes, 4);
        std::vector<char> in(bytes);
        check(fi_recv(pair.b.ep.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        pair.post("senddata", [&] {
            return fi_senddata(pair.a.ep.get(), out.data(), bytes, nullptr, 0xfedcba9876543210ULL, pair.to_b, nullptr);
        });
        const Event got = pair.wait(pair.b, "data");
        (void)pair.wait(pair.a, "senddata");
        BOOST_TEST(got.entry.data == 0xfedcba9876543210ULL);
        BOOST_TEST((got.entry.flags & FI_REMOTE_CQ_DATA) != 0U);
        BOOST_TEST(in == out);
    }
}

BOOST_AUTO_TEST_CASE(injected_messages_free_their_buffer_and_report_nothing) {
    TwoEndpoints pair;
    std::vector<char> in(4096);
    auto out = pattern(4096, 8);
    const auto kept = out;
    check(fi_recv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    check(fi_inject(pair.a.ep.get(), out.data(), out.size(), pair.to_b), "inject");
    std::fill(out.begin(), out.end(), 'z');
    (void)pair.wait(pair.b, "inject");
    BOOST_TEST(in == kept);
    BOOST_TEST(!poll(pair.a.cq.get()).has_value());
    BOOST_TEST(fi_inject(pair.a.ep.get(), out.data(), pair.a.info->tx_attr->inject_size + 1, pair.to_b) < 0);
}

BOOST_AUTO_TEST_CASE(delivery_complete_waits_for_the_receive) {
    SideOptions options;
    options.op_flags = FI_DELIVERY_COMPLETE;
    TwoEndpoints pair{options, {}};
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4000}, std::size_t{200'000}}) {
        const auto out = pattern(bytes, 6);
        std::vector<char> in(bytes);
        check(fi_send(pair.a.ep.get(), out.data(), bytes, nullptr, pair.to_b, nullptr), "send");
        for (int i = 0; i < 1000; ++i) {
            (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
            BOOST_REQUIRE(!poll(pair.a.cq.get()).has_value());
        }
        check(fi_recv(pair.b.ep.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        BOOST_TEST(pair.wait(pair.a, "delivery").error == 0);
        (void)pair.wait(pair.b, "receive");
        BOOST_TEST(in == out);
    }
}

BOOST_AUTO_TEST_CASE(selective_completion_reports_only_what_asked_for_it) {
    SideOptions options;
    options.bind_flags = FI_SELECTIVE_COMPLETION;
    TwoEndpoints pair{options, {}};
    std::array<int, 2> in{};
    const int value = 7;
    for (int& i : in) check(fi_recv(pair.b.ep.get(), &i, 4, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    check(fi_send(pair.a.ep.get(), &value, 4, nullptr, pair.to_b, nullptr), "send");
    iovec iov{const_cast<int*>(&value), 4};
    int context = 0;
    const fi_msg msg{&iov, nullptr, 1, pair.to_b, &context, 0};
    check(fi_sendmsg(pair.a.ep.get(), &msg, FI_COMPLETION), "sendmsg");
    for (int i = 0; i < 2; ++i) (void)pair.wait(pair.b, "receive");
    BOOST_TEST(pair.wait(pair.a, "the one that asked").entry.op_context == &context);
    BOOST_TEST(!poll(pair.a.cq.get()).has_value());
}

BOOST_AUTO_TEST_CASE(a_cancelled_receive_says_so_and_takes_nothing) {
    TwoEndpoints pair;
    int first = 0;
    int second = 0;
    const int value = 9;
    check(fi_recv(pair.b.ep.get(), &first, 4, nullptr, FI_ADDR_UNSPEC, &first), "recv");
    check(fi_recv(pair.b.ep.get(), &second, 4, nullptr, FI_ADDR_UNSPEC, &second), "recv");
    check(fi_cancel(&pair.b.ep->fid, &first), "cancel");
    const Event cancelled = pair.wait(pair.b, "cancel");
    BOOST_TEST(cancelled.error == FI_ECANCELED);
    BOOST_TEST(cancelled.entry.op_context == &first);
    check(fi_inject(pair.a.ep.get(), &value, 4, pair.to_b), "inject");
    BOOST_TEST(pair.wait(pair.b, "second").entry.op_context == &second);
    BOOST_TEST(first == 0);
}

BOOST_AUTO_TEST_CASE(peek_tells_claim_keeps_and_discard_drops) {
    TwoEndpoints pair;
    const auto out = pattern(30'000, 2);
    std::vector<char> in(out.size());
    int context = 0;
    iovec iov{in.data(), in.size()};
    fi_msg_tagged msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, 5, 0, &context, 0};
    check(fi_trecvmsg(pair.b.ep.get(), &msg, FI_PEEK), "peek");
    BOOST_TEST(pair.wait(pair.b, "miss").error == FI_ENOMSG);
    pair.post("tsend",
              [&] { return fi_tsend(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, 5, nullptr); });
    check(fi_trecvmsg(pair.b.ep.get(), &msg, FI_PEEK), "peek");
    const Event seen = pair.wait(pair.b, "hit");
    BOOST_TEST(seen.error == 0);
    BOOST_TEST(seen.entry.len == out.size());
    check(fi_trecvmsg(pair.b.ep.get(), &msg, FI_PEEK | FI_CLAIM), "peek and claim");
    BOOST_TEST(pair.wait(pair.b, "claim").error == 0);
    check(fi_trecvmsg(pair.b.ep.get(), &msg, FI_PEEK), "peek"); // Set aside: nobody else sees it.
    BOOST_TEST(pair.wait(pair.b, "miss").error == FI_ENOMSG);
    check(fi_trecvmsg(pair.b.ep.get(), &msg, FI_CLAIM), "claim");
    BOOST_TEST(pair.wait(pair.b, "claimed receive").entry.len == out.size());
    (void)pair.wait(pair.a, "send");
    BOOST_TEST(in == out);

    check(fi_tinject(pair.a.ep.get(), out.data(), 10, pair.to_b, 5), "tinject");
    check(fi_trecvmsg(pair.b.ep.get(), &msg, FI_PEEK | FI_DISCARD), "discard");
    BOOST_TEST(pair.wait(pair.b, "discard").error == 0);
    check(fi_trecvmsg(pair.b.ep.get(), &msg, FI_PEEK), "peek");
    BOOST_TEST(pair.wait(pair.b, "miss").error == FI_ENOMSG);
}

BOOST_AUTO_TEST_CASE(a_multi_receive_buffer_is_filled_and_given_back_with_its_last_message) {
    SideOptions options;
    options.caps |= FI_MULTI_RECV;
    TwoEndpoints pair{options, options};
    std::size_t least = 1000;
    check(fi_setopt(&pair.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), "setopt");
    std::vector<char> buffer(100'000);
    iovec iov{buffer.data(), buffer.size()};
    int context = 0;
    const fi_msg msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, &context, 0};
    check(fi_recvmsg(pair.b.ep.get(), &msg, FI_MULTI_RECV), "recvmsg");
    // The third leaves 29 000 bytes, the fourth less than the least.
    const std::array<std::size_t, 4> parts{1'000, 30'000, 40'000, 28'500};
    std::size_t at = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto out = pattern(parts[i], static_cast<unsigned>(i));
        pair.post("send",
                  [&] { return fi_send(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, nullptr); });
        const Event got = pair.wait(pair.b, "part");
        (void)pair.wait(pair.a, "send");
        BOOST_TEST(got.entry.op_context == &context);
        BOOST_TEST(got.entry.buf == buffer.data() + at);
        BOOST_TEST(got.entry.len == parts[i]);
        BOOST_TEST(((got.entry.flags & FI_MULTI_RECV) != 0) == (i + 1 == parts.size()));
        BOOST_TEST(std::memcmp(buffer.data() + at, out.data(), out.size()) == 0);
        at += parts[i];
    }
}

BOOST_AUTO_TEST_CASE(what_was_sent_arrives_although_its_sender_closed_before_first_contact_was_answered) {
    Side receiver;
    const auto out = pattern(9'000, 12);
    std::vector<char> in(out.size());
    check(fi_recv(receiver.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    {
        Side sender; // The receiver is not driven while it lives.
        const fi_addr_t to = sender.insert(receiver.name());
        check(fi_send(sender.ep.get(), out.data(), out.size(), nullptr, to, nullptr), "send");
        BOOST_REQUIRE(poll(sender.cq.get()).has_value());
    }
    std::optional<Event> got;
    for (int i = 0; i < 100'000 && !got; ++i) got = poll(receiver.cq.get());
    BOOST_REQUIRE(got.has_value());
    BOOST_TEST(got->error == 0);
    BOOST_TEST(in == out);
}

BOOST_AUTO_TEST_CASE(ten_thousand_unexpected_messages_keep_their_order) {
    TwoEndpoints pair;
    constexpr int count = 10'000;
    for (int i = 0; i < count; ++i)
        pair.post("inject", [&] { return fi_inject(pair.a.ep.get(), &i, sizeof i, pair.to_b); });
    for (int i = 0; i < count; ++i) {
        int in = -1;
        check(fi_recv(pair.b.ep.get(), &in, sizeof in, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        (void)pair.wait(pair.b, "receive");
        BOOST_REQUIRE_EQUAL(in, i);
    }
}

BOOST_AUTO_TEST_CASE(many_large_messages_in_flight_all_arrive) {
    TwoEndpoints pair;
    constexpr std::size_t count = 64;
    const auto out = pattern(300'000, 1);
    std::vector<std::vector<char>> in(count, std::vector<char>(out.size()));
    for (auto& buffer : in)
        check(fi_recv(pair.b.ep.get(), buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    for (std::size_t i = 0; i < count; ++i)
        pair.post("send",
                  [&] { return fi_send(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, nullptr); });
    for (std::size_t i = 0; i < count; ++i) BOOST_TEST(pair.wait(pair.b, "receive").error == 0);
    for (std::size_t i = 0; i < count; ++i) BOOST_TEST(pair.wait(pair.a, "send").error == 0);
    for (const auto& buffer : in) BOOST_TEST((buffer == out));
}

BOOST_AUTO_TEST_CASE(a_forked_child_that_closes_its_copy_ends_no_conversation) {
    TwoEndpoints pair;
    send_one(pair, 8, true);
    auto child = ChildProcess::fork([&] {
        pair.a.ep.reset();
        return 0;
    });
    BOOST_TEST(child.wait(std::chrono::seconds{20}).exited_with(0));
    for (int i = 0; i < 100; ++i)
        (void)fi_cq_read(pair.b.cq.get(), nullptr, 0); // What the child said would be heard now.
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{100'000}})
        send_one(pair, bytes, true);
}

BOOST_AUTO_TEST_CASE(a_forked_child_can_neither_send_nor_receive_and_takes_nothing_from_its_parent) {
    TwoEndpoints pair;
    send_one(pair, 8, true);
    auto child = ChildProcess::fork([&] {
        int value = 1;
        const bool refused =
            fi_inject(pair.a.ep.get(), &value, sizeof value, pair.to_b) == -FI_EOPBADSTATE &&
            fi_recv(pair.a.ep.get(), &value, sizeof value, nullptr, FI_ADDR_UNSPEC, nullptr) == -FI_EOPBADSTATE;
        for (int i = 0; i < 100; ++i) (void)fi_cq_read(pair.b.cq.get(), nullptr, 0); // Would give the parent's credit.
        return refused ? 0 : 1;
    });
    BOOST_TEST(child.wait(std::chrono::seconds{20}).exited_with(0));
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{100'000}})
        send_one(pair, bytes, true);
}

BOOST_AUTO_TEST_CASE(peers_that_come_and_go_are_forgotten) {
    Side server;
    const auto name = server.name();
    for (int i = 0; i < 50; ++i) {
        int in = -1;
        check(fi_recv(server.ep.get(), &in, sizeof in, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        {
            Side client;
            check(fi_inject(client.ep.get(), &i, sizeof i, client.insert(name)), "inject");
        }
        bool got = false;
        for (int polls = 0; polls < 100'000 && !got; ++polls) {
            const auto event = poll(server.cq.get());
            got = event.has_value();
            if (got) BOOST_REQUIRE_EQUAL(event->error, 0); // Each said goodbye: no receive fails.
        }
        BOOST_REQUIRE(got);
        BOOST_REQUIRE_EQUAL(in, i);
    }
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused_and_nothing_is_sent) {
    TwoEndpoints pair;
    int value = 0;
    iovec iov[8]{};
    fi_msg msg{iov, nullptr, 5, pair.to_b, nullptr, 0};
    BOOST_TEST(fi_sendmsg(pair.a.ep.get(), &msg, 0) == -FI_EINVAL);
    msg.iov_count = 1;
    BOOST_TEST(fi_sendmsg(pair.a.ep.get(), &msg, 1ULL << 63) == -FI_EBADFLAGS);
    BOOST_TEST(fi_recvmsg(pair.a.ep.get(), &msg, 1ULL << 63) == -FI_EBADFLAGS);
    BOOST_TEST(fi_send(pair.a.ep.get(), &value, 4, nullptr, 999, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_send(pair.a.ep.get(), &value, 4, nullptr, FI_ADDR_UNSPEC, nullptr) == -FI_EINVAL);
    for (int i = 0; i < 100; ++i) BOOST_REQUIRE(!poll(pair.b.cq.get()).has_value());
}
