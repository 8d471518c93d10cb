// SPDX-License-Identifier: MIT OR GPL-2.0-only
// directed_test - receives that name their source, and what becomes of them when it is gone: an error, never a hang.
#define BOOST_TEST_MODULE directed
#include <memory>

#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr int polls = 1'000'000; // A second or two; what is to come comes in the first few.

SideOptions directed() {
    SideOptions options;
    options.caps |= FI_DIRECTED_RECV;
    return options;
}

std::optional<Event> next(const Side& side) {
    for (int i = 0; i < polls; ++i)
        if (auto event = poll(side.cq.get())) return event;
    return std::nullopt;
}

// A receiver that has a conversation with a source.
struct Conversation {
    Side receiver{directed()};
    std::unique_ptr<Side> source = std::make_unique<Side>();
    fi_addr_t from = receiver.insert(source->name());
    Conversation() {
        check(fi_inject(receiver.ep.get(), "x", 1, from), "inject");
        (void)poll(source->cq.get()); // Takes part.
    }
};

} // namespace

BOOST_AUTO_TEST_CASE(a_directed_receive_fails_with_its_source_although_addresses_were_added_since) {
    Conversation c;
    int in = 0;
    check(fi_recv(c.receiver.ep.get(), &in, sizeof in, nullptr, c.from, &in), "recv");
    const Side other;
    const fi_addr_t to_other = c.receiver.insert(other.name());
    check(fi_inject(c.receiver.ep.get(), "x", 1, to_other), "inject");
    c.source.reset();
    const auto event = next(c.receiver);
    BOOST_REQUIRE(event.has_value());
    BOOST_TEST(event->error == FI_ECONNRESET);
    BOOST_TEST(event->entry.op_context == &in);
}

BOOST_AUTO_TEST_CASE(a_directed_receive_from_an_endpoint_that_is_gone_fails_at_once) {
    Conversation c;
    const Side other;
    const fi_addr_t from_other = c.receiver.insert(other.name());
    int in = 0;
    int in_other = 0;
    check(fi_recv(c.receiver.ep.get(), &in_other, sizeof in_other, nullptr, from_other, &in_other), "recv");
    c.source.reset();
    for (int i = 0; i < 100; ++i) BOOST_REQUIRE(!poll(c.receiver.cq.get()).has_value()); // Hears of it.
    check(fi_recv(c.receiver.ep.get(), &in, sizeof in, nullptr, c.from, &in), "recv");
    const auto event = poll(c.receiver.cq.get());
    BOOST_REQUIRE(event.has_value());
    BOOST_TEST(event->error == FI_ECONNRESET);
    BOOST_TEST(event->entry.op_context == &in);
    BOOST_TEST(!poll(c.receiver.cq.get()).has_value()); // The other one lives.
}

BOOST_AUTO_TEST_CASE(what_a_source_sent_before_it_went_is_received_first) {
    Conversation c;
    const fi_addr_t to = c.source->insert(c.receiver.name());
    const int out = 7;
    check(fi_inject(c.source->ep.get(), &out, sizeof out, to), "inject");
    c.source.reset();
    for (int i = 0; i < 100; ++i) BOOST_REQUIRE(!poll(c.receiver.cq.get()).has_value());
    int in = 0;
    check(fi_recv(c.receiver.ep.get(), &in, sizeof in, nullptr, c.from, &in), "recv");
    BOOST_TEST(next(c.receiver).value().error == 0);
    BOOST_TEST(in == out);
    check(fi_recv(c.receiver.ep.get(), &in, sizeof in, nullptr, c.from, &in), "recv");
    BOOST_TEST(next(c.receiver).value().error == FI_ECONNRESET);
}

BOOST_AUTO_TEST_CASE(a_receive_from_anybody_outlives_a_peer_that_said_goodbye) {
    Conversation c;
    int in = 0;
    check(fi_recv(c.receiver.ep.get(), &in, sizeof in, nullptr, FI_ADDR_UNSPEC, &in), "recv");
    c.source.reset();
    for (int i = 0; i < 1000; ++i) BOOST_REQUIRE(!poll(c.receiver.cq.get()).has_value());
}

BOOST_AUTO_TEST_CASE(an_address_that_was_inserted_twice_is_received_from_by_either_index) {
    Conversation c;
    const fi_addr_t again = c.receiver.insert(c.source->name());
    BOOST_REQUIRE(again != c.from);
    const fi_addr_t to = c.source->insert(c.receiver.name());
    for (const fi_addr_t from : {again, c.from}) {
        check(fi_inject(c.receiver.ep.get(), "x", 1, from), "inject"); // That index was the last to be used.
        for (const fi_addr_t source : {c.from, again}) {
            char in = 0;
            check(fi_recv(c.receiver.ep.get(), &in, sizeof in, nullptr, source, &in), "recv");
            check(fi_inject(c.source->ep.get(), "y", 1, to), "inject");
            std::optional<Event> event;
            for (int i = 0; i < polls && !event; ++i) {
                event = poll(c.receiver.cq.get());
                (void)fi_cq_read(c.source->cq.get(), nullptr, 0);
            }
            BOOST_REQUIRE(event.has_value());
            BOOST_TEST(event->error == 0);
            BOOST_TEST(event->entry.op_context == &in);
            BOOST_TEST(event->source == c.from);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_source_is_reported_by_the_id_that_its_user_gave_it) {
    const Side receiver{directed()};
    const Side source;
    fi_addr_t from = 4711;
    BOOST_REQUIRE_EQUAL(fi_av_insert(receiver.av.get(), source.name().data(), 1, &from, FI_AV_USER_ID, nullptr), 1);
    BOOST_TEST(from == 0U); // What the application talks to it by.
    const fi_addr_t to = source.insert(receiver.name());
    char in = 0;
    check(fi_recv(receiver.ep.get(), &in, sizeof in, nullptr, from, &in), "recv");
    check(fi_inject(source.ep.get(), "z", 1, to), "inject");
    const auto event = next(receiver);
    BOOST_REQUIRE(event.has_value());
    BOOST_TEST(event->source == 4711U);
    BOOST_TEST(in == 'z');
}
