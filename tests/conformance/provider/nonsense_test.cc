// SPDX-License-Identifier: MIT OR GPL-2.0-only
// nonsense_test - a peer that speaks the lanes by itself and says what cannot be: it costs itself an error, and nobody a hang.
#define BOOST_TEST_MODULE nonsense
#include <atomic>
#include <cstring>

#include "base/lane.hpp"
#include "nvlf/nvlf.h"
#include "provider/wire.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;
namespace wire = nvlf::ofi::wire;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

// An endpoint without a provider, connected to one with.
struct Hostile {
    explicit Hostile(const Side& victim) {
        check(nvlf_open(nullptr, &fabric), nvlf_open_error());
        check(nvlf_ep_publish(fabric, 1, 0, 4096, &ep), "nvlf_ep_publish");
        nvlf_addr peer{};
        std::memcpy(&peer, victim.name().data(), sizeof peer);
        check(nvlf_ep_connect(ep, &peer, &channel), "nvlf_ep_connect");
    }
    ~Hostile() {
        nvlf_channel_put(channel);
        (void)nvlf_ep_put(ep);
        (void)nvlf_close(fabric);
    }
    Hostile(const Hostile&) = delete;
    Hostile& operator=(const Hostile&) = delete;

    [[nodiscard]] std::vector<char> name() const {
        std::vector<char> bytes(sizeof(nvlf_addr));
        std::memcpy(bytes.data(), nvlf_ep_addr(ep), bytes.size());
        return bytes;
    }
    template <class Header>
    void send(std::uint8_t op, const Header& header) {
        if (!out) out.emplace(*nvlf_channel_tx(channel));
        BOOST_REQUIRE(!out->room(0).failed());
        out->slot().op = op;
        out->slot().flags = 0;
        out->slot().len = sizeof header;
        wire::put(out->slot(), header);
        out->publish();
    }

    nvlf_fabric* fabric = nullptr;
    nvlf_ep* ep = nullptr;
    nvlf_channel* channel = nullptr;
    std::optional<nvlf::LaneProducer> out;
};

std::optional<Event> next(const Side& side) {
    for (int i = 0; i < 100'000; ++i)
        if (auto event = poll(side.cq.get())) return event;
    return std::nullopt;
}

// A conversation goes on as if nothing had been.
void expect_good(TwoEndpoints& pair) {
    int in = 0;
    const int out = 42;
    check(fi_recv(pair.b.ep.get(), &in, sizeof in, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    check(fi_inject(pair.a.ep.get(), &out, sizeof out, pair.to_b), "inject");
    BOOST_TEST(pair.wait(pair.b, "receive").error == 0);
    BOOST_TEST(in == out);
}

} // namespace

BOOST_AUTO_TEST_CASE(credit_that_nobody_earned_is_an_error_not_an_eternal_eagain) {
    TwoEndpoints pair;
    expect_good(pair);
    Hostile hostile{pair.b};
    const fi_addr_t to = pair.b.insert(hostile.name());
    std::atomic_ref{nvlf_channel_rx(hostile.channel)->credit.slots}.store(1'000'000);
    ssize_t result = 0;
    for (int i = 0; i < 2 * NVLF_LANE_SLOTS && (result == 0 || result == -FI_EAGAIN); ++i) {
        result = fi_inject(pair.b.ep.get(), "x", 1, to);
        (void)poll(pair.b.cq.get());
    }
    BOOST_TEST(result == -FI_EHOSTUNREACH);
    expect_good(pair);
}

BOOST_AUTO_TEST_CASE(a_large_message_to_a_peer_with_such_credit_ends_in_error) {
    TwoEndpoints pair;
    expect_good(pair);
    Hostile hostile{pair.b};
    const fi_addr_t to = pair.b.insert(hostile.name());
    const auto out = pattern(1 << 20, 1);
    check(fi_send(pair.b.ep.get(), out.data(), out.size(), nullptr, to, nullptr), "send");
    // Asks for it like an honest one, then claims to have consumed what was never sent.
    const auto rts = wire::get<wire::Rts>(nvlf_channel_rx(hostile.channel)->slot[0]);
    std::atomic_ref{nvlf_channel_rx(hostile.channel)->credit.bytes}.store(std::uint64_t{1} << 40);
    hostile.send(wire::op_cts, wire::Cts{rts.id, 0, rts.total});
    const auto event = next(pair.b);
    BOOST_REQUIRE(event.has_value());
    BOOST_TEST(event->error == FI_ECONNABORTED);
    expect_good(pair);
}

BOOST_AUTO_TEST_CASE(an_operation_that_does_not_exist_ends_the_conversation_with_whoever_sent_it) {
    TwoEndpoints pair;
    expect_good(pair);
    Hostile hostile{pair.b};
    const fi_addr_t to = pair.b.insert(hostile.name());
    hostile.send(0xee, wire::Ack{});
    for (int i = 0; i < 1000; ++i) BOOST_REQUIRE(!poll(pair.b.cq.get()).has_value());
    BOOST_TEST(fi_inject(pair.b.ep.get(), "x", 1, to) == -FI_EHOSTUNREACH);
    expect_good(pair);
}

BOOST_AUTO_TEST_CASE(an_error_code_that_is_none_is_reported_as_an_io_error) {
    SideOptions options;
    options.op_flags = FI_DELIVERY_COMPLETE;
    Side side{options};
    Hostile hostile{side};
    const fi_addr_t to = side.insert(hostile.name());
    check(fi_send(side.ep.get(), "x", 1, nullptr, to, nullptr), "send");
    std::uint64_t id = 0; // With neither CQ data nor anything else before it.
    std::memcpy(&id, nvlf_channel_rx(hostile.channel)->slot[0].data, sizeof id);
    hostile.send(wire::op_ack, wire::Ack{id, 0xffffffffU, 0});
    const auto event = next(side);
    BOOST_REQUIRE(event.has_value());
    BOOST_TEST(event->error == FI_EIO);
}

BOOST_AUTO_TEST_CASE(handles_that_were_made_up_find_nothing) {
    TwoEndpoints pair;
    expect_good(pair);
    Hostile hostile{pair.b};
    for (const std::uint64_t made_up : {std::uint64_t{0}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
        hostile.send(wire::op_ack, wire::Ack{made_up, 0, 0});
        hostile.send(wire::op_cts, wire::Cts{made_up, made_up, made_up});
        hostile.send(wire::op_data, wire::Data{made_up, 0});
        hostile.send(wire::op_read_data, wire::Data{made_up, 0});
        hostile.send(wire::op_read, wire::Read{made_up, made_up, made_up});
        hostile.send(wire::op_write, wire::Write{made_up, made_up});
    }
    for (int i = 0; i < 1000; ++i) BOOST_REQUIRE(!poll(pair.b.cq.get()).has_value());
    expect_good(pair);
}
