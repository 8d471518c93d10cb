// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE daemon_endpoint
#include "bench.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nvlf/lane.h"
#include "support/resources.hpp"

using namespace nvlf;
using namespace nvlf::test;

namespace {

struct Fixture {
    explicit Fixture(daemon::Limits limits = {}) : bench{limits} {}
    Bench bench;
    daemon::ClientId alice = bench.client();
    daemon::ClientId bob = bench.client();
    Answer<nvlf_ioc_ep_publish> a = bench.publish(alice, 0, 0);
    Answer<nvlf_ioc_ep_publish> b = bench.publish(bob, 0, 4);
    Answer<nvlf_ioc_state> state = bench.ask(alice, NVLF_CMD_GET_STATE, nvlf_ioc_state{});
    Mapping map = std::move(*Mapping::map(state.fd(state.a.state_fd), state.a.state_bytes, Mapping::Access::read));

    [[nodiscard]] nvlf_state_endpoint word(const nvlf_addr& addr) const {
        nvlf_state h{};
        std::memcpy(&h, map.data(), sizeof h);
        nvlf_state_endpoint e{};
        std::memcpy(&e, static_cast<std::byte*>(map.data()) + h.endpoint_off + addr.endpoint * sizeof e, sizeof e);
        return e;
    }
};

[[nodiscard]] bool readable(int fd) {
    pollfd p{fd, POLLIN, 0};
    return ::poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
}

[[nodiscard]] std::string drain(int fd) {
    char bytes[256];
    const ssize_t got = ::read(fd, bytes, sizeof bytes);
    return got > 0 ? std::string(static_cast<std::size_t>(got), '.') : std::string{};
}

int withdraw(Bench& bench, daemon::ClientId client, std::uint32_t id) {
    return bench.ask(client, NVLF_CMD_EP_WITHDRAW, nvlf_ioc_ep_withdraw{0, id}).error;
}

Answer<nvlf_ioc_ep_lookup> lookup(Bench& bench, daemon::ClientId client, const nvlf_addr& addr) {
    nvlf_ioc_ep_lookup a{};
    a.addr = addr;
    return bench.ask(client, NVLF_CMD_EP_LOOKUP, a);
}

nvlf_addr service(std::uint64_t name, std::uint32_t device = NVLF_DEVICE_ANY) {
    return {NVLF_ADDR_MAGIC, NVLF_ADDR_VERSION, device, 0, 0, 0, name};
}

bool same(const nvlf_addr& x, const nvlf_addr& y) { return std::memcmp(&x, &y, sizeof x) == 0; }

} // namespace

BOOST_FIXTURE_TEST_CASE(a_published_endpoint_lives_in_the_state_region_under_its_epoch, Fixture) {
    BOOST_REQUIRE_EQUAL(a.error, 0);
    BOOST_TEST(a.a.addr.epoch != 0U);
    BOOST_TEST(word(a.a.addr).epoch == a.a.addr.epoch);
    BOOST_TEST(a.a.addr.fabric != 0U);
    BOOST_TEST(a.a.addr.device == 0U);
    BOOST_TEST(b.a.addr.device == 4U);
    BOOST_TEST(withdraw(bench, alice, a.a.addr.endpoint) == 0);
    BOOST_TEST(word(a.a.addr).epoch == 0U);
}

BOOST_FIXTURE_TEST_CASE(an_id_is_used_again_under_a_later_epoch, Fixture) {
    BOOST_TEST(withdraw(bench, alice, a.a.addr.endpoint) == 0);
    const auto next = bench.publish(alice);
    BOOST_TEST(next.a.addr.endpoint == a.a.addr.endpoint);
    BOOST_TEST(next.a.addr.epoch > a.a.addr.epoch);
    BOOST_TEST(lookup(bench, bob, a.a.addr).error == ESTALE);
    BOOST_TEST(lookup(bench, bob, next.a.addr).error == 0);
}

BOOST_FIXTURE_TEST_CASE(what_cannot_be_published_is_refused, Fixture) {
    nvlf_ioc_ep_publish p{};
    p.region = 12345;
    BOOST_TEST(bench.ask(alice, NVLF_CMD_EP_PUBLISH, p).error == ENOENT);
    p.device = 8;
    BOOST_TEST(bench.ask(alice, NVLF_CMD_EP_PUBLISH, p).error == ENODEV);
    const auto memory = bench.alloc(alice);
    const auto import = bench.import(bob, bench.share(alice, memory.a.handle).a);
    p.device = 0;
    p.region = import.a.handle;
    BOOST_TEST(bench.ask(bob, NVLF_CMD_EP_PUBLISH, p).error == ENOENT); // Imported memory is not one's own.
}

BOOST_FIXTURE_TEST_CASE(the_region_of_an_endpoint_cannot_be_freed_while_it_lives, Fixture) {
    const auto memory = bench.alloc(alice);
    nvlf_ioc_ep_publish p{};
    p.region = memory.a.handle;
    const auto one = bench.ask(alice, NVLF_CMD_EP_PUBLISH, p);
    const auto two = bench.ask(alice, NVLF_CMD_EP_PUBLISH, p); // One region may serve two.
    BOOST_TEST(bench.free(alice, memory.a.handle) == EBUSY);
    BOOST_TEST(withdraw(bench, alice, one.a.addr.endpoint) == 0);
    BOOST_TEST(bench.free(alice, memory.a.handle) == EBUSY);
    BOOST_TEST(withdraw(bench, alice, two.a.addr.endpoint) == 0);
    BOOST_TEST(bench.free(alice, memory.a.handle) == 0);
}

BOOST_FIXTURE_TEST_CASE(a_service_name_is_unique_on_its_device_until_its_endpoint_is_gone, Fixture) {
    const auto s = bench.publish(alice, 7, 2);
    BOOST_REQUIRE_EQUAL(s.error, 0);
    BOOST_TEST(bench.publish(bob, 7, 2).error == EADDRINUSE);
    BOOST_TEST(same(lookup(bench, bob, service(7)).a.addr, s.a.addr));
    BOOST_TEST(same(lookup(bench, bob, service(7, 2)).a.addr, s.a.addr));
    BOOST_TEST(lookup(bench, bob, service(7, 3)).error == ENOENT);
    BOOST_TEST(lookup(bench, bob, service(8)).error == ENOENT);
    bench.gone(alice);
    BOOST_TEST(lookup(bench, bob, service(7)).error == ENOENT);
    BOOST_TEST(bench.publish(bob, 7, 2).error == 0);
}

BOOST_FIXTURE_TEST_CASE(a_service_on_any_device_is_the_one_that_came_first, Fixture) {
    const auto first = bench.publish(alice, 7, 2);
    const auto second = bench.publish(bob, 7, 1);
    const auto third = bench.publish(bob, 7, 3);
    BOOST_REQUIRE(first.error == 0 && second.error == 0 && third.error == 0);
    BOOST_TEST(same(lookup(bench, bob, service(7)).a.addr, first.a.addr));
    BOOST_TEST(same(lookup(bench, bob, service(7, 1)).a.addr, second.a.addr));
    BOOST_TEST(withdraw(bench, bob, second.a.addr.endpoint) == 0);
    BOOST_TEST(same(lookup(bench, bob, service(7)).a.addr, first.a.addr));
    BOOST_TEST(lookup(bench, bob, service(7, 1)).error == ENOENT);
    bench.gone(alice);
    BOOST_TEST(same(lookup(bench, bob, service(7)).a.addr, third.a.addr));
}

BOOST_FIXTURE_TEST_CASE(an_address_is_checked_field_by_field, Fixture) {
    nvlf_addr addr = a.a.addr;
    BOOST_TEST(same(lookup(bench, bob, addr).a.addr, addr));
    addr.fabric = 0;
    BOOST_TEST(same(lookup(bench, bob, addr).a.addr, a.a.addr)); // 0: the fabric that is asked.
    addr.fabric = a.a.addr.fabric + 1;
    BOOST_TEST(lookup(bench, bob, addr).error == EXDEV);
    addr = a.a.addr;
    addr.magic = 0;
    BOOST_TEST(lookup(bench, bob, addr).error == EINVAL);
    addr = a.a.addr;
    addr.version = 2;
    BOOST_TEST(lookup(bench, bob, addr).error == EINVAL);
    addr = a.a.addr;
    addr.epoch += 1;
    BOOST_TEST(lookup(bench, bob, addr).error == ENOENT); // There never was one.
    addr.epoch = 0;
    BOOST_TEST(lookup(bench, bob, addr).error == (addr.endpoint == 0 ? EINVAL : EINVAL));
    addr = a.a.addr;
    addr.endpoint = 60000;
    BOOST_TEST(lookup(bench, bob, addr).error == ENOENT);
    addr = a.a.addr;
    addr.device = 3;
    BOOST_TEST(lookup(bench, bob, addr).error == ENOENT);
}

BOOST_FIXTURE_TEST_CASE(first_contact_gives_both_sides_the_one_channel, Fixture) {
    const auto to_bob = bench.connect(alice, a.a.addr, b.a.addr);
    BOOST_REQUIRE_EQUAL(to_bob.error, 0);
    BOOST_TEST(to_bob.a.side == 0U);
    BOOST_TEST(to_bob.a.channel_bytes == NVLF_CHANNEL_BYTES);
    BOOST_TEST(word(b.a.addr).notices == 1U);
    BOOST_TEST(readable(b.fd(b.a.notice_fd)));
    const auto from_alice = bench.accept(bob, b.a.addr);
    BOOST_REQUIRE_EQUAL(from_alice.error, 0);
    BOOST_TEST(from_alice.a.side == 1U);
    BOOST_TEST(same(from_alice.a.addr, a.a.addr));
    BOOST_TEST(inode(to_bob.fd(to_bob.a.channel_fd)) == inode(from_alice.fd(from_alice.a.channel_fd)));
    BOOST_TEST(bench.accept(bob, b.a.addr).error == EAGAIN);
    BOOST_TEST(bench.connect(alice, a.a.addr, b.a.addr).error == EEXIST);
    BOOST_TEST(bench.connect(bob, b.a.addr, a.a.addr).error == EEXIST);
}

BOOST_FIXTURE_TEST_CASE(a_channel_has_its_header_its_size_and_a_seal, Fixture) {
    const auto c = bench.connect(alice, a.a.addr, b.a.addr);
    const int fd = c.fd(c.a.channel_fd);
    const auto channel = Mapping::map(fd, NVLF_CHANNEL_BYTES, Mapping::Access::read_write);
    BOOST_REQUIRE(channel.ok());
    BOOST_TEST(sealed(fd));
    nvlf_channel_header h{};
    std::memcpy(&h, channel->data(), sizeof h);
    BOOST_TEST(h.magic == NVLF_CHANNEL_MAGIC);
    BOOST_TEST(h.endpoint[0] == a.a.addr.endpoint);
    BOOST_TEST(h.endpoint[1] == b.a.addr.endpoint);
    BOOST_TEST(h.epoch[0] == a.a.addr.epoch);
}

BOOST_FIXTURE_TEST_CASE(the_peers_region_comes_read_only_and_its_doorbell_rings, Fixture) {
    const auto c = bench.connect(alice, a.a.addr, b.a.addr);
    BOOST_TEST(c.a.region_bytes == NVLF_PAGE_SIZE);
    BOOST_TEST(maps(c.fd(c.a.region_fd), Mapping::Access::read));
    BOOST_TEST(!maps(c.fd(c.a.region_fd), Mapping::Access::read_write));
    const std::uint64_t one = 1;
    BOOST_TEST(::write(c.fd(c.a.doorbell_fd), &one, sizeof one) == 8);
    BOOST_TEST(readable(b.fd(b.a.doorbell_fd)));
    BOOST_TEST(!readable(a.fd(a.a.doorbell_fd)));
}

BOOST_FIXTURE_TEST_CASE(two_sides_that_connect_at_once_get_the_one_channel, Fixture) {
    const auto first = bench.connect(alice, a.a.addr, b.a.addr);
    const auto second = bench.connect(bob, b.a.addr, a.a.addr);
    BOOST_REQUIRE_EQUAL(second.error, 0);
    BOOST_TEST(second.a.side == 1U);
    BOOST_TEST(inode(first.fd(first.a.channel_fd)) == inode(second.fd(second.a.channel_fd)));
    BOOST_TEST(bench.accept(bob, b.a.addr).error == EAGAIN); // The offer is taken.
    BOOST_TEST(bench.accept(alice, a.a.addr).error == EAGAIN);
}

BOOST_FIXTURE_TEST_CASE(an_endpoint_may_connect_to_itself_once, Fixture) {
    const auto self = bench.connect(alice, a.a.addr, a.a.addr);
    BOOST_REQUIRE_EQUAL(self.error, 0);
    BOOST_TEST(self.a.side == 0U);
    BOOST_TEST(bench.accept(alice, a.a.addr).error == EAGAIN);
    BOOST_TEST(bench.connect(alice, a.a.addr, a.a.addr).error == EBUSY);
    BOOST_TEST(withdraw(bench, alice, a.a.addr.endpoint) == 0);
    BOOST_TEST(bench.info(alice).endpoints == 1U);
}

BOOST_FIXTURE_TEST_CASE(a_service_address_can_be_connected_to, Fixture) {
    const auto s = bench.publish(bob, 9, 5);
    const auto c = bench.connect(alice, a.a.addr, service(9));
    BOOST_TEST(c.error == 0);
    BOOST_TEST(same(c.a.addr, s.a.addr));
}

BOOST_FIXTURE_TEST_CASE(connecting_to_what_is_not_there_says_why, Fixture) {
    BOOST_TEST(bench.connect(alice, b.a.addr, a.a.addr).error == ENOENT); // Not her endpoint.
    BOOST_TEST(bench.accept(alice, b.a.addr).error == ENOENT);
    BOOST_TEST(withdraw(bench, alice, b.a.addr.endpoint) == ENOENT);
    nvlf_addr elsewhere = b.a.addr;
    elsewhere.fabric ^= 1;
    BOOST_TEST(bench.connect(alice, a.a.addr, elsewhere).error == EXDEV);
    BOOST_TEST(bench.connect(alice, a.a.addr, service(99)).error == ENOENT);
    bench.gone(bob);
    BOOST_TEST(bench.connect(alice, a.a.addr, b.a.addr).error == ESTALE);
}

BOOST_FIXTURE_TEST_CASE(offers_are_accepted_in_the_order_in_which_they_came, Fixture) {
    const auto a2 = bench.publish(alice);
    const auto a3 = bench.publish(alice);
    const nvlf_addr order[] = {a2.a.addr, a.a.addr, a3.a.addr};
    for (const nvlf_addr& from : order) BOOST_TEST(bench.connect(alice, from, b.a.addr).error == 0);
    BOOST_TEST(word(b.a.addr).notices == 3U);
    for (const nvlf_addr& from : order) BOOST_TEST(same(bench.accept(bob, b.a.addr).a.addr, from));
}

BOOST_FIXTURE_TEST_CASE(death_is_told_word_first_then_the_count_then_the_call, Fixture) {
    nvlf_ioc_events e{};
    e.mask = NVLF_EVENT_ENDPOINT;
    const auto stream = bench.ask(alice, NVLF_CMD_EVENTS, e);
    const auto a2 = bench.publish(alice);
    BOOST_REQUIRE_EQUAL(bench.connect(alice, a.a.addr, b.a.addr).error, 0);
    bench.gone(bob);
    BOOST_TEST(word(b.a.addr).epoch == 0U);
    BOOST_TEST(word(a.a.addr).notices == 1U);
    BOOST_TEST(word(a2.a.addr).notices == 0U); // It had nothing to do with him.
    BOOST_TEST(drain(a.fd(a.a.notice_fd)) == ".");
    BOOST_TEST(drain(a2.fd(a2.a.notice_fd)).empty());
    nvlf_event event{};
    BOOST_REQUIRE_EQUAL(::read(stream.fd(stream.a.event_fd), &event, sizeof event), static_cast<ssize_t>(sizeof event));
    BOOST_TEST(event.type == NVLF_EVENT_ENDPOINT);
    BOOST_TEST(event.index == a.a.addr.endpoint);
    BOOST_TEST(same(event.addr, b.a.addr));
    BOOST_TEST(!readable(stream.fd(stream.a.event_fd)));
}

BOOST_FIXTURE_TEST_CASE(an_offer_outlives_its_maker_once, Fixture) {
    BOOST_REQUIRE_EQUAL(bench.connect(alice, a.a.addr, b.a.addr).error, 0);
    bench.gone(alice);
    BOOST_TEST(word(b.a.addr).notices == 2U); // The offer, and its maker's end.
    const auto left = bench.accept(bob, b.a.addr);
    BOOST_TEST(left.error == 0);
    BOOST_TEST(same(left.a.addr, a.a.addr));
    BOOST_TEST(left.a.side == 1U);
    BOOST_TEST(bench.accept(bob, b.a.addr).error == EAGAIN);
}

BOOST_FIXTURE_TEST_CASE(offers_left_behind_are_few, Fixture) {
    for (std::size_t i = 0; i <= daemon::left_offers_per_endpoint; ++i) {
        const auto x = bench.publish(alice);
        BOOST_REQUIRE_EQUAL(bench.connect(alice, x.a.addr, b.a.addr).error, 0);
        BOOST_REQUIRE_EQUAL(withdraw(bench, alice, x.a.addr.endpoint), 0);
        BOOST_REQUIRE_EQUAL(bench.free(alice, x.a.region), 0);
    }
    for (std::size_t i = 0; i < daemon::left_offers_per_endpoint; ++i)
        BOOST_REQUIRE_EQUAL(bench.accept(bob, b.a.addr).error, 0);
    BOOST_TEST(bench.accept(bob, b.a.addr).error == EAGAIN);
}

BOOST_FIXTURE_TEST_CASE(a_notice_that_nobody_reads_never_blocks_anybody, Fixture) {
    for (int i = 0; i < 2000; ++i) {
        const auto x = bench.publish(alice);
        BOOST_REQUIRE_EQUAL(bench.connect(alice, x.a.addr, b.a.addr).error, 0);
        BOOST_REQUIRE_EQUAL(withdraw(bench, alice, x.a.addr.endpoint), 0);
        BOOST_REQUIRE_EQUAL(bench.free(alice, x.a.region), 0);
    }
    BOOST_TEST(word(b.a.addr).notices == 4000U);
    BOOST_TEST(readable(b.fd(b.a.notice_fd)));
}

BOOST_FIXTURE_TEST_CASE(a_client_can_put_nothing_into_nvlfds_end_of_a_notice, Fixture) {
    BOOST_TEST(::send(a.fd(a.a.notice_fd), "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == -1);
}

BOOST_AUTO_TEST_CASE(a_notice_hangs_up_when_the_carrier_is_gone) {
    Fd notice;
    {
        Fixture f;
        notice.reset(::dup(f.a.fd(f.a.a.notice_fd)));
    }
    pollfd p{notice.get(), POLLIN, 0};
    BOOST_TEST(::poll(&p, 1, 0) == 1);
    BOOST_TEST((p.revents & POLLHUP) != 0);
}

BOOST_AUTO_TEST_CASE(endpoints_of_a_client_and_of_the_fabric_are_limited_at_the_limit_and_one_over) {
    daemon::Limits limits;
    limits.endpoints_per_file = 2;
    limits.endpoints = 3;
    Bench bench{limits};
    const auto alice = bench.client();
    const auto bob = bench.client();
    BOOST_TEST(bench.publish(alice).error == 0);
    BOOST_TEST(bench.publish(alice).error == 0);
    BOOST_TEST(bench.publish(alice).error == EDQUOT);
    BOOST_TEST(bench.publish(bob).error == 0);
    BOOST_TEST(bench.publish(bob).error == EMFILE);
    bench.gone(alice);
    BOOST_TEST(bench.publish(bob).error == 0);
}

BOOST_AUTO_TEST_CASE(pending_accepts_are_limited_at_the_limit_and_one_over) {
    daemon::Limits limits;
    limits.pending_accepts = 2;
    Fixture f{limits};
    const auto a2 = f.bench.publish(f.alice);
    const auto a3 = f.bench.publish(f.alice);
    BOOST_TEST(f.bench.connect(f.alice, f.a.a.addr, f.b.a.addr).error == 0);
    BOOST_TEST(f.bench.connect(f.alice, a2.a.addr, f.b.a.addr).error == 0);
    BOOST_TEST(f.bench.connect(f.alice, a3.a.addr, f.b.a.addr).error == EMFILE);
    BOOST_TEST(f.bench.accept(f.bob, f.b.a.addr).error == 0);
    BOOST_TEST(f.bench.connect(f.alice, a3.a.addr, f.b.a.addr).error == 0);
}

BOOST_AUTO_TEST_CASE(channels_of_a_client_and_of_the_fabric_are_limited_at_the_limit_and_one_over) {
    daemon::Limits limits;
    limits.channels_per_file = 1;
    limits.channels = 2;
    Fixture f{limits};
    const auto a2 = f.bench.publish(f.alice);
    const auto b2 = f.bench.publish(f.bob);
    const auto carol = f.bench.client();
    const auto c = f.bench.publish(carol);
    BOOST_TEST(f.bench.connect(f.alice, f.a.a.addr, f.b.a.addr).error == 0);
    BOOST_TEST(f.bench.connect(f.alice, a2.a.addr, f.b.a.addr).error == EDQUOT);
    BOOST_TEST(f.bench.connect(f.bob, b2.a.addr, a2.a.addr).error == 0);
    BOOST_TEST(f.bench.connect(carol, c.a.addr, a2.a.addr).error == EMFILE);
    f.bench.gone(f.bob);
    BOOST_TEST(f.bench.connect(carol, c.a.addr, a2.a.addr).error == 0);
    BOOST_TEST(f.bench.connect(f.alice, a2.a.addr, f.a.a.addr).error == 0); // Her share came back, too.
}

namespace {

Answer<nvlf_ioc_ep_process> process(Bench& bench, daemon::ClientId client, const nvlf_addr& own,
                                    const nvlf_addr& peer) {
    nvlf_ioc_ep_process a{};
    a.endpoint = own.endpoint;
    a.addr = peer;
    return bench.ask(client, NVLF_CMD_EP_PROCESS, a);
}

} // namespace

BOOST_AUTO_TEST_CASE(who_a_peer_is_learns_whoever_has_a_channel_with_it_and_nobody_else) {
    Bench bench;
    const auto alice = bench.client();
    const auto bob = bench.client_of_this_process();
    const auto a = bench.publish(alice);
    const auto b = bench.publish(bob);
    BOOST_TEST(process(bench, alice, a.a.addr, b.a.addr).error == ENOENT);
    BOOST_REQUIRE_EQUAL(bench.connect(alice, a.a.addr, b.a.addr).error, 0);
    const auto answer = process(bench, alice, a.a.addr, b.a.addr);
    BOOST_REQUIRE_EQUAL(answer.error, 0);
    BOOST_REQUIRE_EQUAL(answer.reply.fds.size(), 1U);
    BOOST_TEST(::syscall(SYS_pidfd_send_signal, answer.reply.fds.get(0), 0, nullptr, 0) == 0); // It is a pidfd, alive.
    BOOST_TEST(process(bench, bob, a.a.addr, b.a.addr).error == ENOENT);     // Not his endpoint to ask for.
    BOOST_TEST(process(bench, bob, b.a.addr, a.a.addr).error == EOPNOTSUPP); // Of her nothing is known.
    BOOST_TEST(process(bench, alice, a.a.addr, service(7)).error == ENOENT);
    bench.gone(bob);
    BOOST_TEST(process(bench, alice, a.a.addr, b.a.addr).error == ESTALE);
}

BOOST_AUTO_TEST_CASE(hundreds_of_lives_of_endpoints_leave_no_descriptor_behind) {
    Bench bench;
    const auto keeper = bench.client();
    const auto k = bench.publish(keeper);
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 300; ++i) {
        const auto guest = bench.client();
        const auto g = bench.publish(guest, 5);
        BOOST_REQUIRE_EQUAL(bench.connect(guest, g.a.addr, k.a.addr).error, 0);
        BOOST_REQUIRE_EQUAL(bench.connect(guest, g.a.addr, g.a.addr).error, 0);
        if (i % 2 == 0) BOOST_REQUIRE_EQUAL(bench.accept(keeper, k.a.addr).error, 0);
        bench.gone(guest);
    }
    for (std::size_t i = 0; i < daemon::left_offers_per_endpoint; ++i) // What the dead left is the keeper's to take.
        static_cast<void>(bench.accept(keeper, k.a.addr));
    BOOST_TEST(bench.accept(keeper, k.a.addr).error == EAGAIN);
    BOOST_TEST(open_descriptors() == before);
    BOOST_TEST(bench.info(keeper).endpoints == 1U);
    BOOST_TEST(bench.info(keeper).allocations == 1U);
}
