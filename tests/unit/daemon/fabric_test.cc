// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE daemon_fabric
#include "bench.hpp"

#include <unistd.h>

using namespace nvlf;
using namespace nvlf::test;

namespace {

struct Fixture {
    Bench bench;
    daemon::ClientId client = bench.client();

    Answer<nvlf_ioc_path> path(std::uint32_t src, std::uint32_t dst) {
        nvlf_ioc_path a{};
        a.src = src;
        a.dst = dst;
        return bench.ask(client, NVLF_CMD_GET_PATH, a);
    }
    int set(std::uint32_t object, std::uint32_t index, std::uint32_t state, std::uint32_t width = 0) {
        return bench.ask(client, NVLF_CMD_ADMIN_STATE, nvlf_ioc_admin_state{0, object, index, state, width, 0}).error;
    }
    nvlf_link link(std::uint32_t index) {
        return bench.ask(client, NVLF_CMD_GET_LINK, nvlf_ioc_link{0, index, {}}).a.link;
    }
    Answer<nvlf_ioc_events> events(std::uint32_t mask) {
        nvlf_ioc_events e{};
        e.mask = mask;
        return bench.ask(client, NVLF_CMD_EVENTS, e);
    }
    Answer<nvlf_ioc_attach> attach(daemon::ClientId who, std::uint32_t device) {
        return bench.ask(who, NVLF_CMD_ATTACH, nvlf_ioc_attach{0, device});
    }
};

std::optional<nvlf_event> next(const Answer<nvlf_ioc_events>& stream) {
    nvlf_event event{};
    if (::read(stream.fd(stream.a.event_fd), &event, sizeof event) != sizeof event) return std::nullopt;
    return event;
}

} // namespace

BOOST_FIXTURE_TEST_CASE(info_tells_who_we_are_and_what_there_is, Fixture) {
    const nvlf_ioc_info info = bench.info(client);
    BOOST_TEST(info.abi == static_cast<unsigned>(NVLF_ABI_VERSION));
    BOOST_TEST(info.fabric == "bench");
    BOOST_TEST(info.topology == "fusion-mixed-8");
    BOOST_TEST(info.devices == 8U);
    BOOST_TEST(info.nodes == 2U);
    BOOST_TEST(info.clients == 1U);
    BOOST_TEST(info.clock == static_cast<unsigned>(NVLF_CLOCK_OFF));
    BOOST_TEST((info.caps & NVLF_CAP_MEMFD) != 0U);
    BOOST_TEST((info.caps & NVLF_CAP_DOWN) != 0U);
    BOOST_TEST((info.caps & NVLF_CAP_SET_TOPOLOGY) == 0U);
    BOOST_TEST(info.page_bytes == NVLF_PAGE_SIZE);
    BOOST_TEST(info.arena_bytes >= 8 * bench.device(client, 0).hbm_bytes / 2);
    BOOST_TEST(info.max_endpoints == static_cast<unsigned>(NVLF_MAX_ENDPOINTS));
    BOOST_TEST((info.uuid[6] >> 4) == 4);
}

BOOST_FIXTURE_TEST_CASE(another_major_version_is_refused_and_told_ours, Fixture) {
    nvlf_ioc_info a{};
    a.abi_wanted = (NVLF_ABI_MAJOR + 1) << 16;
    const auto answer = bench.ask(client, NVLF_CMD_GET_INFO, a);
    BOOST_TEST(answer.error == EPROTONOSUPPORT);
    BOOST_TEST(answer.a.abi == static_cast<unsigned>(NVLF_ABI_VERSION));
    a.abi_wanted = NVLF_ABI_VERSION + 1; // A later minor one is compatible.
    BOOST_TEST(bench.ask(client, NVLF_CMD_GET_INFO, a).error == 0);
}

BOOST_FIXTURE_TEST_CASE(an_index_past_the_end_is_enodev, Fixture) {
    const nvlf_ioc_info info = bench.info(client);
    BOOST_TEST(bench.ask(client, NVLF_CMD_GET_DEVICE, nvlf_ioc_device{0, info.devices - 1, {}}).error == 0);
    BOOST_TEST(bench.ask(client, NVLF_CMD_GET_DEVICE, nvlf_ioc_device{0, info.devices, {}}).error == ENODEV);
    BOOST_TEST(bench.ask(client, NVLF_CMD_GET_SWITCH, nvlf_ioc_switch{0, info.switches - 1, {}}).error == 0);
    BOOST_TEST(bench.ask(client, NVLF_CMD_GET_SWITCH, nvlf_ioc_switch{0, info.switches, {}}).error == ENODEV);
    BOOST_TEST(bench.ask(client, NVLF_CMD_GET_LINK, nvlf_ioc_link{0, info.links - 1, {}}).error == 0);
    BOOST_TEST(bench.ask(client, NVLF_CMD_GET_LINK, nvlf_ioc_link{0, info.links, {}}).error == ENODEV);
    BOOST_TEST(path(0, info.devices).error == ENODEV);
    BOOST_TEST(path(info.devices, 0).error == ENODEV);
}

BOOST_FIXTURE_TEST_CASE(a_path_is_a_chain_of_links_from_source_to_destination, Fixture) {
    const auto p = path(0, 7);
    BOOST_REQUIRE_EQUAL(p.error, 0);
    BOOST_REQUIRE_GT(p.a.hops, 0U);
    BOOST_TEST(p.a.rate > 0U);
    BOOST_TEST(p.a.latency_ps > 0U);
    std::uint32_t object = NVLF_OBJECT_DEVICE;
    std::uint32_t index = 0;
    for (std::uint32_t i = 0; i < p.a.hops; ++i) {
        const nvlf_link l = link(p.a.hop[i] / 2);
        const nvlf_link_end from = l.end[p.a.hop[i] % 2];
        BOOST_TEST(from.object == object);
        BOOST_TEST(from.index == index);
        object = l.end[1 - p.a.hop[i] % 2].object;
        index = l.end[1 - p.a.hop[i] % 2].index;
    }
    BOOST_TEST(object == static_cast<unsigned>(NVLF_OBJECT_DEVICE));
    BOOST_TEST(index == 7U);
    BOOST_TEST(path(3, 3).a.hops == 0U);
    BOOST_TEST(path(3, 3).a.rate == 0U);
}

BOOST_FIXTURE_TEST_CASE(traffic_takes_what_is_left_and_enoent_says_when_nothing_is, Fixture) {
    const auto before = path(0, 1);
    const std::uint32_t first = before.a.hop[0] / 2;
    BOOST_TEST(set(NVLF_OBJECT_LINK, first, NVLF_STATE_DOWN) == 0);
    BOOST_TEST(link(first).width_up == 0U);
    const auto during = path(0, 1);
    if (during.error == 0) BOOST_TEST(during.a.hop[0] / 2 != first);
    else BOOST_TEST(during.error == ENOENT);
    BOOST_TEST(set(NVLF_OBJECT_LINK, first, NVLF_STATE_UP) == 0);
    BOOST_TEST(path(0, 1).a.rate == before.a.rate);
    BOOST_TEST(set(NVLF_OBJECT_DEVICE, 1, NVLF_STATE_DOWN) == 0);
    BOOST_TEST(path(0, 1).error == ENOENT);
    BOOST_TEST(path(0, 2).error == 0);
    BOOST_TEST(set(NVLF_OBJECT_DEVICE, 1, NVLF_STATE_UP) == 0);
    for (std::uint32_t s = 0; s < bench.info(client).switches; ++s)
        BOOST_TEST(set(NVLF_OBJECT_SWITCH, s, NVLF_STATE_DOWN) == 0);
    BOOST_TEST(path(0, 1).error == ENOENT);
}

BOOST_FIXTURE_TEST_CASE(a_link_that_lost_lanes_is_slower, Fixture) {
    const auto before = path(0, 1);
    const std::uint32_t first = before.a.hop[0] / 2;
    const std::uint32_t width = link(first).width;
    BOOST_TEST_REQUIRE(width > 1U);
    BOOST_TEST(set(NVLF_OBJECT_LINK, first, NVLF_STATE_DEGRADED, 1) == 0);
    BOOST_TEST(link(first).width_up == 1U);
    BOOST_TEST(link(first).state == static_cast<unsigned>(NVLF_STATE_DEGRADED));
    BOOST_TEST(path(0, 1).a.rate < before.a.rate);
}

BOOST_FIXTURE_TEST_CASE(a_change_is_counted_and_told, Fixture) {
    const auto stream = events(NVLF_EVENT_LINK | NVLF_EVENT_DEVICE | NVLF_EVENT_SWITCH);
    const auto state = bench.ask(client, NVLF_CMD_GET_STATE, nvlf_ioc_state{});
    const auto map = Mapping::map(state.fd(state.a.state_fd), state.a.state_bytes, Mapping::Access::read);
    BOOST_REQUIRE(map.ok());
    const auto changes = [&map] {
        nvlf_state h{};
        std::memcpy(&h, map->data(), sizeof h);
        return h.changes;
    };
    BOOST_TEST(changes() == 0U);
    BOOST_TEST(set(NVLF_OBJECT_LINK, 2, NVLF_STATE_DOWN) == 0);
    BOOST_TEST(set(NVLF_OBJECT_DEVICE, 3, NVLF_STATE_DEGRADED) == 0);
    BOOST_TEST(set(NVLF_OBJECT_SWITCH, 0, NVLF_STATE_DOWN) == 0);
    BOOST_TEST(changes() == 3U);
    const auto one = next(stream), two = next(stream), three = next(stream);
    BOOST_REQUIRE(one && two && three);
    BOOST_TEST(one->type == NVLF_EVENT_LINK);
    BOOST_TEST(one->index == 2U);
    BOOST_TEST(one->state == static_cast<unsigned>(NVLF_STATE_DOWN));
    BOOST_TEST(two->type == NVLF_EVENT_DEVICE);
    BOOST_TEST(three->type == NVLF_EVENT_SWITCH);
    BOOST_TEST(!next(stream).has_value());
}

BOOST_FIXTURE_TEST_CASE(nonsense_in_admin_state_is_refused, Fixture) {
    BOOST_TEST(set(NVLF_OBJECT_LINK, 0, 0) == EINVAL);
    BOOST_TEST(set(NVLF_OBJECT_LINK, 0, 4) == EINVAL);
    BOOST_TEST(set(NVLF_OBJECT_LINK, 0, NVLF_STATE_DOWN, 1) == EINVAL);
    BOOST_TEST(set(NVLF_OBJECT_LINK, 0, NVLF_STATE_DEGRADED, link(0).width + 1) == EINVAL);
    BOOST_TEST(set(NVLF_OBJECT_LINK, 0, NVLF_STATE_UP, link(0).width - 1) == EINVAL);
    BOOST_TEST(set(NVLF_OBJECT_DEVICE, 0, NVLF_STATE_DOWN, 1) == EINVAL);
    BOOST_TEST(set(NVLF_OBJECT_ENDPOINT, 0, NVLF_STATE_DOWN) == EINVAL);
    BOOST_TEST(set(NVLF_OBJECT_LINK, 100000, NVLF_STATE_DOWN) == ENODEV);
    BOOST_TEST(set(NVLF_OBJECT_DEVICE, 8, NVLF_STATE_DOWN) == ENODEV);
    BOOST_TEST(set(NVLF_OBJECT_SWITCH, 100000, NVLF_STATE_DOWN) == ENODEV);
}

BOOST_FIXTURE_TEST_CASE(a_device_that_is_down_does_nothing, Fixture) {
    const auto own = bench.publish(client, 0, 0);
    const auto peer = bench.publish(client, 0, 1);
    BOOST_TEST(set(NVLF_OBJECT_DEVICE, 1, NVLF_STATE_DOWN) == 0);
    BOOST_TEST(bench.alloc(client, 1, 1).error == EHOSTDOWN);
    BOOST_TEST(attach(client, 1).error == EHOSTDOWN);
    nvlf_ioc_ep_publish p{};
    p.device = 1;
    p.region = own.a.region;
    BOOST_TEST(bench.ask(client, NVLF_CMD_EP_PUBLISH, p).error == EHOSTDOWN);
    BOOST_TEST(bench.connect(client, own.a.addr, peer.a.addr).error == EHOSTDOWN);
    BOOST_TEST(bench.connect(client, peer.a.addr, own.a.addr).error == EHOSTDOWN);
    for (std::uint32_t i = 0; i < 8; ++i) BOOST_TEST(set(NVLF_OBJECT_DEVICE, i, NVLF_STATE_DOWN) == 0);
    BOOST_TEST(attach(client, NVLF_DEVICE_ANY).error == EHOSTDOWN);
}

BOOST_FIXTURE_TEST_CASE(whichever_device_means_the_least_used_one, Fixture) {
    std::vector<daemon::ClientId> clients;
    for (std::uint32_t i = 0; i < 8; ++i) {
        clients.push_back(bench.client());
        BOOST_TEST(attach(clients.back(), NVLF_DEVICE_ANY).a.device == i);
    }
    BOOST_TEST(bench.device(client, 3).clients == 1U);
    bench.gone(clients[3]);
    BOOST_TEST(bench.device(client, 3).clients == 0U);
    BOOST_TEST(attach(client, NVLF_DEVICE_ANY).a.device == 3U);
    BOOST_TEST(attach(client, NVLF_DEVICE_ANY).a.device == 3U); // Its own place counts as free: it stays.
    BOOST_TEST(attach(client, 8).error == ENODEV);
}

BOOST_FIXTURE_TEST_CASE(clients_are_listed_in_the_order_of_their_arrival, Fixture) {
    const auto second = bench.client(Bench::stranger);
    BOOST_TEST(bench.alloc(second).error == 0);
    BOOST_TEST(attach(second, 2).error == 0);
    const auto a = bench.ask(client, NVLF_CMD_GET_CLIENT, nvlf_ioc_client{0, 1, 0, 0, 0, 0, 0, 0, 0, {}});
    BOOST_REQUIRE_EQUAL(a.error, 0);
    BOOST_TEST(a.a.uid == Bench::stranger);
    BOOST_TEST(a.a.pid == 4242U);
    BOOST_TEST(a.a.command == "tester");
    BOOST_TEST(a.a.device == 2U);
    BOOST_TEST(a.a.allocations == 1U);
    BOOST_TEST(a.a.bytes == NVLF_PAGE_SIZE);
    BOOST_TEST(bench.ask(client, NVLF_CMD_GET_CLIENT, nvlf_ioc_client{0, 2, 0, 0, 0, 0, 0, 0, 0, {}}).error == ENOENT);
}

BOOST_FIXTURE_TEST_CASE(events_that_nobody_reads_are_counted_as_lost, Fixture) {
    const auto stream = events(NVLF_EVENT_LINK);
    constexpr std::uint32_t many = 2000;
    for (std::uint32_t i = 0; i < many; ++i) BOOST_REQUIRE_EQUAL(set(NVLF_OBJECT_LINK, 0, NVLF_STATE_DOWN), 0);
    std::uint32_t told = 0;
    while (next(stream)) ++told;
    BOOST_TEST(told < many);
    BOOST_TEST(set(NVLF_OBJECT_LINK, 0, NVLF_STATE_UP) == 0);
    const auto last = next(stream);
    BOOST_REQUIRE(last.has_value());
    BOOST_TEST(last->lost == many - told);
}

BOOST_FIXTURE_TEST_CASE(a_second_event_stream_replaces_the_first, Fixture) {
    BOOST_TEST(events(1U << 6).error == EINVAL);
    const auto first = events(NVLF_EVENT_LINK);
    const auto second = events(NVLF_EVENT_LINK);
    BOOST_TEST(set(NVLF_OBJECT_LINK, 0, NVLF_STATE_DOWN) == 0);
    nvlf_event event{};
    BOOST_TEST(::read(first.fd(first.a.event_fd), &event, sizeof event) == 0); // At its end.
    BOOST_TEST(next(second).has_value());
}

BOOST_AUTO_TEST_CASE(goodbye_is_said_in_the_state_and_to_the_event_streams) {
    Fd event_fd, state_fd;
    {
        Fixture f;
        const auto stream = f.events(NVLF_EVENT_FABRIC);
        const auto state = f.bench.ask(f.client, NVLF_CMD_GET_STATE, nvlf_ioc_state{});
        event_fd.reset(::dup(stream.fd(stream.a.event_fd)));
        state_fd.reset(::dup(state.fd(state.a.state_fd)));
    }
    nvlf_event event{};
    BOOST_TEST(::read(event_fd.get(), &event, sizeof event) == static_cast<ssize_t>(sizeof event));
    BOOST_TEST(event.type == NVLF_EVENT_FABRIC);
    BOOST_TEST(::read(event_fd.get(), &event, sizeof event) == 0);
    nvlf_state h{};
    BOOST_TEST(::pread(state_fd.get(), &h, sizeof h, 0) == static_cast<ssize_t>(sizeof h));
    BOOST_TEST(h.serving == 0U);
}

BOOST_AUTO_TEST_CASE(a_client_over_the_limit_is_a_guest_who_may_look_and_own_nothing) {
    daemon::Limits limits;
    limits.clients = 2;
    limits.guests = 1;
    Bench bench{limits};
    const auto one = bench.client();
    static_cast<void>(bench.client());
    const auto third = bench.client();
    BOOST_TEST((bench.info(one).caps & NVLF_CAP_GUEST) == 0U);
    BOOST_TEST((bench.info(third).caps & NVLF_CAP_GUEST) != 0U);
    BOOST_TEST(bench.device(third, 3).clients == 0U);
    BOOST_TEST(bench.alloc(third).error == EMFILE);
    BOOST_TEST(bench.ask(third, NVLF_CMD_ATTACH, nvlf_ioc_attach{}).error == EMFILE);
    BOOST_TEST(bench.ask(third, NVLF_CMD_EVENTS, nvlf_ioc_events{}).error == EMFILE);
    BOOST_TEST(!bench.server().connect({}).has_value());
    BOOST_TEST(bench.info(one).clients == 2U);
    bench.gone(third);
    bench.gone(one);
    BOOST_TEST(bench.alloc(bench.client()).error == 0);
}

BOOST_FIXTURE_TEST_CASE(limits_can_be_lowered_and_raised_up_to_their_maximum, Fixture) {
    struct {
        std::uint32_t limit;
        std::uint64_t most;
    } const known[] = {
        {NVLF_LIMIT_CLIENTS, NVLF_MAX_CLIENTS},
        {NVLF_LIMIT_ENDPOINTS, NVLF_MAX_ENDPOINTS},
        {NVLF_LIMIT_ENDPOINTS_PER_FILE, NVLF_MAX_ENDPOINTS_PER_FILE},
        {NVLF_LIMIT_ALLOCATIONS, NVLF_MAX_ALLOCATIONS},
        {NVLF_LIMIT_IMPORTS_PER_FILE, NVLF_MAX_IMPORTS_PER_FILE},
        {NVLF_LIMIT_PENDING_ACCEPTS, NVLF_MAX_PENDING_ACCEPTS},
    };
    for (const auto& k : known) {
        BOOST_TEST(bench.limit(client, k.limit, 1) == 0);
        BOOST_TEST(bench.limit(client, k.limit, k.most + 1) == EINVAL);
        BOOST_TEST(bench.limit(client, k.limit, k.most) == 0);
    }
    BOOST_TEST(bench.limit(client, NVLF_LIMIT_CLIENTS, 0) == EINVAL); // It would shut out the owner.
    BOOST_TEST(bench.limit(client, 0, 1) == EINVAL);
    BOOST_TEST(bench.limit(client, 8, 1) == EINVAL);
    BOOST_TEST(bench.limit(client, NVLF_LIMIT_QUOTA_BYTES, NVLF_PAGE_SIZE) == 0);
    BOOST_TEST(bench.info(client).quota_bytes == NVLF_PAGE_SIZE);
    BOOST_TEST(bench.alloc(client).error == 0);
    BOOST_TEST(bench.limit(client, NVLF_LIMIT_QUOTA_BYTES, 0) == 0); // What exists stays; no more of it.
    BOOST_TEST(bench.alloc(client).error == EDQUOT);
}

BOOST_FIXTURE_TEST_CASE(the_clock_is_off_and_the_topology_stays, Fixture) {
    BOOST_TEST(bench.ask(client, NVLF_CMD_ADMIN_CLOCK, nvlf_ioc_admin_clock{0, NVLF_CLOCK_OFF, 0}).error == 0);
    BOOST_TEST(bench.ask(client, NVLF_CMD_ADMIN_CLOCK, nvlf_ioc_admin_clock{0, NVLF_CLOCK_OFF, 7}).error == EINVAL);
    BOOST_TEST(bench.ask(client, NVLF_CMD_ADMIN_CLOCK, nvlf_ioc_admin_clock{0, NVLF_CLOCK_REALTIME, 0}).error ==
               EOPNOTSUPP);
    BOOST_TEST(bench.ask(client, NVLF_CMD_ADMIN_CLOCK, nvlf_ioc_admin_clock{0, NVLF_CLOCK_VIRTUAL, 0}).error ==
               EOPNOTSUPP);
    BOOST_TEST(bench.ask(client, NVLF_CMD_ADMIN_CLOCK, nvlf_ioc_admin_clock{0, 3, 0}).error == EINVAL);
    BOOST_TEST(bench.ask(client, NVLF_CMD_ADMIN_TOPOLOGY, nvlf_ioc_admin_topology{0, NVLF_NO_FD}).error == EOPNOTSUPP);
}

BOOST_FIXTURE_TEST_CASE(the_fabric_goes_down_for_its_last_client_or_by_force, Fixture) {
    const auto other = bench.client();
    BOOST_TEST(bench.ask(client, NVLF_CMD_ADMIN_DOWN, nvlf_ioc_admin_down{0, 2}).error == EINVAL);
    BOOST_TEST(bench.ask(client, NVLF_CMD_ADMIN_DOWN, nvlf_ioc_admin_down{}).error == EBUSY);
    BOOST_TEST(!bench.server().going_down());
    bench.gone(other);
    BOOST_TEST(bench.ask(client, NVLF_CMD_ADMIN_DOWN, nvlf_ioc_admin_down{}).error == 0);
    BOOST_TEST(bench.server().going_down());
    Fixture second;
    static_cast<void>(second.bench.client());
    BOOST_TEST(second.bench.ask(second.client, NVLF_CMD_ADMIN_DOWN, nvlf_ioc_admin_down{0, NVLF_DOWN_FORCE}).error ==
               0);
}
