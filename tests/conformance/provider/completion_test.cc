// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Completion levels: when a transmit says that it is done. And sources that nobody knows.
#define BOOST_TEST_MODULE completion
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>

#include "conformance/provider/two_endpoints.hpp"

namespace nvlf::test {
namespace {

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);
namespace data = boost::unit_test::data;

ssize_t send_with(Side& from, fi_addr_t to, const std::vector<char>& bytes, std::uint64_t flags, void* context) {
    iovec iov{const_cast<char*>(bytes.data()), bytes.size()};
    fi_msg msg{};
    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.addr = to;
    msg.context = context;
    return fi_sendmsg(from.ep.get(), &msg, flags | FI_COMPLETION);
}

BOOST_AUTO_TEST_CASE(a_message_is_transmitted_without_its_receiver_and_matched_or_delivered_only_with_a_receive) {
    TwoEndpoints two;
    const std::vector<char> out = pattern(100, 1);
    std::array<std::vector<char>, 4> in;
    const std::array<std::uint64_t, 4> levels{FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_MATCH_COMPLETE,
                                              FI_DELIVERY_COMPLETE};
    for (std::size_t i = 0; i < levels.size(); ++i) {
        const bool waits = i >= 2;
        check(send_with(two.a, two.to_b, out, levels[i], &in[i]), "sendmsg");
        if (!waits) BOOST_TEST(two.wait(two.a, "sent").entry.op_context == &in[i]);
        // The message is there, and no receive for it.
        for (int n = 0; n < 3; ++n) (void)fi_cq_read(two.b.cq.get(), nullptr, 0);
        BOOST_TEST(!poll(two.a.cq.get()).has_value());
        in[i].resize(out.size());
        check(fi_recv(two.b.ep.get(), in[i].data(), in[i].size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        BOOST_TEST(two.wait(two.b, "received").error == 0);
        if (waits) BOOST_TEST(two.wait(two.a, "told").entry.op_context == &in[i]);
        BOOST_TEST((in[i] == out));
    }
}

BOOST_AUTO_TEST_CASE(every_level_is_reached_once_for_every_size) {
    TwoEndpoints two;
    for (const std::uint64_t level :
         {FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_MATCH_COMPLETE, FI_DELIVERY_COMPLETE})
        for (const std::size_t bytes : {0U, 40U, 41U, 4096U, 16384U, 16385U, 1U << 20}) {
            const std::vector<char> out = pattern(bytes, static_cast<unsigned>(bytes));
            std::vector<char> in(bytes);
            check(fi_recv(two.b.ep.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
            check(send_with(two.a, two.to_b, out, level | FI_MORE, nullptr), "sendmsg");
            BOOST_TEST(two.wait(two.b, "received").error == 0);
            BOOST_TEST(two.wait(two.a, "sent").error == 0);
            BOOST_TEST((in == out));
            (void)fi_cq_read(two.b.cq.get(), nullptr, 0);
            BOOST_TEST(!poll(two.a.cq.get()).has_value());
        }
}

BOOST_AUTO_TEST_CASE(a_level_can_be_the_default_of_an_endpoint) {
    TwoEndpoints two{{.op_flags = FI_MATCH_COMPLETE}, {}};
    std::uint64_t out = 1, in = 0;
    check(fi_send(two.a.ep.get(), &out, 8, nullptr, two.to_b, nullptr), "send");
    for (int n = 0; n < 3; ++n) (void)fi_cq_read(two.b.cq.get(), nullptr, 0);
    BOOST_TEST(!poll(two.a.cq.get()).has_value());
    check(fi_recv(two.b.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    BOOST_TEST(two.wait(two.b, "received").error == 0);
    BOOST_TEST(two.wait(two.a, "matched").error == 0);
}

// ---- FI_SOURCE_ERR ---------------------------------------------------------------------------------------------------

constexpr std::uint64_t caps_with_source_err = FI_MSG | FI_TAGGED | FI_SOURCE | FI_SOURCE_ERR;

// A message from somebody whom `to` does not have in its address vector.
fi_cq_err_entry failure_of(Side& from, Side& to) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    fi_cq_tagged_entry entry{};
    while (std::chrono::steady_clock::now() < deadline) {
        const ssize_t n = fi_cq_read(to.cq.get(), &entry, 1);
        (void)fi_cq_read(from.cq.get(), nullptr, 0);
        if (n == -FI_EAGAIN) continue;
        BOOST_REQUIRE_EQUAL(n, -FI_EAVAIL);
        fi_cq_err_entry failure{};
        BOOST_REQUIRE_EQUAL(fi_cq_readerr(to.cq.get(), &failure, 0), 1);
        return failure;
    }
    BOOST_FAIL("nothing came in 20 s");
    return {};
}

// Both send as fast as they can, and each message is owed an answer, for which their lanes have no room.
struct Flood {
    static constexpr std::size_t many = 20'000;
    explicit Flood(std::size_t bytes) : out(pattern(bytes, 1)), in(bytes) {}

    // As many as go.
    void send(Side& from, fi_addr_t to, std::size_t& sent) const {
        while (sent < many && send_with(from, to, out, FI_DELIVERY_COMPLETE, nullptr) == 0) ++sent;
    }
    void receive(Side& at) {
        for (std::size_t i = 0; i < many; ++i)
            check(fi_recv(at.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    }
    static std::size_t completed(Side& side) {
        std::size_t count = 0;
        while (const auto event = poll(side.cq.get())) {
            BOOST_REQUIRE_EQUAL(event->error, 0);
            ++count;
        }
        return count;
    }
    TwoEndpoints two;
    std::vector<char> out, in;
};

BOOST_DATA_TEST_CASE(two_that_flood_each_other_with_messages_that_want_an_answer_both_get_through,
                     data::make({std::size_t{8}, std::size_t{4000}, std::size_t{20'000}}), bytes) {
    Flood flood{bytes};
    auto& [a, b, to_b, to_a] = flood.two;
    flood.receive(a);
    flood.receive(b);
    std::size_t by_a = 0, by_b = 0, done = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (done < 4 * Flood::many && std::chrono::steady_clock::now() < deadline) {
        flood.send(a, to_b, by_a);
        done += Flood::completed(a);
        flood.send(b, to_a, by_b);
        done += Flood::completed(b);
    }
    BOOST_TEST(done == 4 * Flood::many);
}

// The same, but all answers are owed at once, when the lanes are full.
BOOST_DATA_TEST_CASE(receives_that_come_late_owe_more_answers_than_fit_and_all_get_through,
                     data::make({std::size_t{8}, std::size_t{20'000}}), bytes) {
    Flood flood{bytes};
    auto& [a, b, to_b, to_a] = flood.two;
    std::size_t by_a = 0, by_b = 0, done = 0;
    while (by_a < 10'000 || by_b < 10'000) {
        flood.send(a, to_b, by_a);
        flood.send(b, to_a, by_b);
        if (by_a < 10'000) (void)fi_cq_read(b.cq.get(), nullptr, 0);
        if (by_b < 10'000) (void)fi_cq_read(a.cq.get(), nullptr, 0);
    }
    flood.send(a, to_b, by_a);
    flood.send(b, to_a, by_b);
    flood.receive(a);
    flood.receive(b);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (done < 4 * Flood::many && std::chrono::steady_clock::now() < deadline) {
        done += Flood::completed(a) + Flood::completed(b);
        flood.send(a, to_b, by_a);
        flood.send(b, to_a, by_b);
    }
    BOOST_TEST(done == 4 * Flood::many);
}

BOOST_AUTO_TEST_CASE(a_message_of_an_unknown_source_is_an_error_that_brings_its_address) {
    Side a{{.caps = caps_with_source_err}}, b{{.caps = caps_with_source_err}};
    const fi_addr_t to_b = a.insert(b.name());
    for (const std::size_t bytes : {8U, 4096U, 100000U}) {
        const std::vector<char> out = pattern(bytes, 7);
        std::vector<char> in(bytes);
        check(fi_trecv(b.ep.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, 3, 0, in.data()), "trecv");
        check(fi_tsenddata(a.ep.get(), out.data(), bytes, nullptr, 55, to_b, 3, nullptr), "tsenddata");
        const fi_cq_err_entry failure = failure_of(a, b);
        BOOST_TEST(failure.err == FI_EADDRNOTAVAIL);
        BOOST_TEST(failure.op_context == in.data());
        BOOST_TEST(failure.len == bytes);
        BOOST_TEST(failure.buf == in.data());
        BOOST_TEST(failure.data == 55U);
        BOOST_TEST((failure.flags & (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA)) ==
                   (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA));
        BOOST_TEST(failure.tag == 3U);
        BOOST_TEST((in == out)); // It is there nevertheless.
        const std::vector<char> name = a.name();
        BOOST_REQUIRE_EQUAL(failure.err_data_size, name.size());
        BOOST_TEST(std::memcmp(failure.err_data, name.data(), name.size()) == 0);
    }
    // The address is as good as any: once it is known, messages come in as usual.
    const fi_addr_t to_a = b.insert(a.name());
    std::uint64_t out = 1, in = 0;
    check(fi_recv(b.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    check(fi_send(a.ep.get(), &out, 8, nullptr, to_b, nullptr), "send");
    std::optional<Event> event;
    for (int n = 0; n < 1000 && !event; ++n) event = poll(b.cq.get());
    BOOST_REQUIRE(event.has_value());
    BOOST_TEST(event->error == 0);
    BOOST_TEST(event->source == to_a);
}

BOOST_AUTO_TEST_CASE(who_did_not_ask_for_it_gets_messages_of_unknown_sources_without_an_error) {
    Side a, b;
    BOOST_TEST((b.info->caps & FI_SOURCE_ERR) == 0U);
    const fi_addr_t to_b = a.insert(b.name());
    std::uint64_t out = 1, in = 0;
    check(fi_recv(b.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    check(fi_send(a.ep.get(), &out, 8, nullptr, to_b, nullptr), "send");
    std::optional<Event> event;
    for (int n = 0; n < 1000 && !event; ++n) event = poll(b.cq.get());
    BOOST_REQUIRE(event.has_value());
    BOOST_TEST(event->error == 0);
    BOOST_TEST((event->source == FI_ADDR_NOTAVAIL));
}

} // namespace
} // namespace nvlf::test
