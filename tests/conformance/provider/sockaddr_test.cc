// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Applications that insist on FI_SOCKADDR_IN: endpoints named by an address of this host and a port.
#define BOOST_TEST_MODULE provider_sockaddr
#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <boost/test/unit_test.hpp>

#include "conformance/provider/objects.hpp"

using namespace nvlf::test;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(RunningFabric);

sockaddr_in at(const char* host, std::uint16_t port) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    BOOST_REQUIRE(::inet_pton(AF_INET, host, &in.sin_addr) == 1);
    return in;
}

sockaddr_in as_sockaddr(const void* bytes) {
    BOOST_REQUIRE(bytes != nullptr);
    sockaddr_in in{};
    std::memcpy(&in, bytes, sizeof in);
    return in;
}

void insist(fi_info& hints) {
    hints.caps = FI_MSG | FI_SOURCE;
    hints.addr_format = FI_SOCKADDR;
}

// An endpoint at a port, or at any.
struct Named {
    explicit Named(const char* port = nullptr, const char* device = nullptr) {
        check(get_info(
                  info,
                  [&](fi_info& h) {
                      insist(h);
                      if (device != nullptr) h.domain_attr->name = ::strdup(device);
                  },
                  port != nullptr ? "127.0.0.1" : nullptr, port, port != nullptr ? FI_SOURCE : 0),
              "fi_getinfo");
        fid_fabric* f = nullptr;
        check(fi_fabric(info->fabric_attr, &f, nullptr), "fi_fabric");
        fabric.reset(f);
        fid_domain* d = nullptr;
        check(fi_domain(f, info.get(), &d, nullptr), "fi_domain");
        domain.reset(d);
        fi_av_attr av_attr{};
        fid_av* a = nullptr;
        check(fi_av_open(d, &av_attr, &a, nullptr), "fi_av_open");
        av.reset(a);
        fi_cq_attr cq_attr{};
        cq_attr.format = FI_CQ_FORMAT_TAGGED;
        fid_cq* c = nullptr;
        check(fi_cq_open(d, &cq_attr, &c, nullptr), "fi_cq_open");
        cq.reset(c);
        fid_ep* e = nullptr;
        check(fi_endpoint(d, info.get(), &e, nullptr), "fi_endpoint");
        ep.reset(e);
        check(fi_ep_bind(e, &a->fid, 0), "bind av");
        check(fi_ep_bind(e, &c->fid, FI_TRANSMIT | FI_RECV), "bind cq");
    }
    [[nodiscard]] sockaddr_in name() const {
        std::array<char, 64> bytes{};
        std::size_t size = bytes.size();
        check(fi_getname(&ep->fid, bytes.data(), &size), "fi_getname");
        BOOST_TEST(size == sizeof(sockaddr_in));
        return as_sockaddr(bytes.data());
    }
    [[nodiscard]] fi_addr_t insert(const sockaddr_in& in) const {
        fi_addr_t index = FI_ADDR_NOTAVAIL;
        BOOST_TEST(fi_av_insert(av.get(), &in, 1, &index, 0, nullptr) == 1);
        return index;
    }
    InfoPtr info;
    FidPtr<fid_fabric> fabric;
    FidPtr<fid_domain> domain;
    FidPtr<fid_av> av;
    FidPtr<fid_cq> cq;
    FidPtr<fid_ep> ep;
};

Event next(const Named& of, const Named& other) {
    for (int i = 0; i < 2'000'000; ++i) {
        if (const auto event = poll(of.cq.get())) return *event;
        (void)fi_cq_read(other.cq.get(), nullptr, 0);
    }
    BOOST_FAIL("nothing came");
    return {};
}
} // namespace

BOOST_AUTO_TEST_CASE(who_asks_for_socket_addresses_is_answered_in_them) {
    InfoPtr info;
    BOOST_REQUIRE(get_info(info, insist, "127.0.0.1", "7471") == 0);
    BOOST_TEST(info->addr_format == static_cast<std::uint32_t>(FI_SOCKADDR_IN));
    BOOST_REQUIRE(info->dest_addrlen == sizeof(sockaddr_in));
    BOOST_TEST(as_sockaddr(info->dest_addr).sin_port == htons(7471));
    BOOST_REQUIRE(info->src_addrlen == sizeof(sockaddr_in));
    BOOST_TEST(as_sockaddr(info->src_addr).sin_port == 0);

    BOOST_TEST(get_info(info, insist, "127.0.0.1", "70000") == -FI_ENODATA); // No port.
    BOOST_TEST(get_info(info, insist, "192.0.2.1", "7471") == -FI_ENODATA);
    BOOST_TEST(get_info(info, [](fi_info& h) { h.addr_format = FI_SOCKADDR_IN6; }) == -FI_ENODATA);
    BOOST_TEST(get_info(info, [](fi_info& h) { h.addr_format = FI_ADDR_STR; }) == -FI_ENODATA);
    // Given back as a hint, as a peer's name is that came by other means.
    BOOST_REQUIRE(get_info(info, [](fi_info& h) {
                      insist(h);
                      const sockaddr_in in = at("127.0.0.1", 5);
                      h.dest_addr = std::malloc(sizeof in);
                      std::memcpy(h.dest_addr, &in, sizeof in);
                      h.dest_addrlen = sizeof in;
                  }) == 0);
    BOOST_TEST(as_sockaddr(info->dest_addr).sin_port == htons(5));
}

BOOST_AUTO_TEST_CASE(messages_go_between_ports_and_sources_are_known_by_them) {
    const Named server{"7471", "trn0"};
    check(fi_enable(server.ep.get()), "fi_enable");
    const Named client; // At a port of the provider's choice.
    check(fi_enable(client.ep.get()), "fi_enable");
    BOOST_TEST(server.name().sin_port == htons(7471));
    BOOST_TEST(client.name().sin_port != 0);
    BOOST_TEST(client.name().sin_addr.s_addr == htonl(INADDR_LOOPBACK));

    const fi_addr_t to_server = client.insert(server.name());
    const fi_addr_t to_client = server.insert(client.name());
    std::array<char, 2> in{};
    check(fi_recv(server.ep.get(), &in[0], 1, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    check(fi_inject(client.ep.get(), "a", 1, to_server), "fi_inject");
    BOOST_TEST(next(server, client).source == to_client);
    check(fi_recv(client.ep.get(), &in[1], 1, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    check(fi_inject(server.ep.get(), "b", 1, to_client), "fi_inject");
    BOOST_TEST(next(client, server).source == to_server);
    BOOST_TEST(std::string(in.data(), in.size()) == "ab");
}

BOOST_AUTO_TEST_CASE(a_port_is_one_endpoints_on_all_devices) {
    auto first = std::make_unique<Named>("7472", "gpu0");
    check(fi_enable(first->ep.get()), "fi_enable");
    const Named second{"7472", "gpu1"};
    BOOST_TEST(fi_enable(second.ep.get()) == -FI_EADDRINUSE);
    first.reset();
    BOOST_TEST(fi_enable(second.ep.get()) == 0);
    const Named one, two;
    check(fi_enable(one.ep.get()), "fi_enable");
    check(fi_enable(two.ep.get()), "fi_enable");
    BOOST_TEST(one.name().sin_port != two.name().sin_port);
}

BOOST_AUTO_TEST_CASE(a_vector_of_socket_addresses_gives_back_what_it_was_given) {
    const Named named;
    const std::array<sockaddr_in, 3> in{at("127.0.0.1", 7), at("192.0.2.1", 7), at("127.9.9.9", 8)};
    std::array<fi_addr_t, 3> indices{};
    std::array<int, 3> errors{-1, -1, -1};
    BOOST_TEST(fi_av_insert(named.av.get(), in.data(), 3, indices.data(), FI_SYNC_ERR, errors.data()) == 2);
    BOOST_TEST(errors[0] == 0);
    BOOST_TEST(errors[1] == FI_EADDRNOTAVAIL);
    BOOST_TEST(errors[2] == 0);
    sockaddr_in back{};
    std::size_t size = sizeof back;
    BOOST_TEST(fi_av_lookup(named.av.get(), indices[2], &back, &size) == 0);
    BOOST_TEST(size == sizeof back);
    BOOST_TEST(std::memcmp(&back, &in[2], sizeof back) == 0);
    char text[64];
    size = sizeof text;
    BOOST_TEST(fi_av_straddr(named.av.get(), &in[1], text, &size) == std::string{"fi_sockaddr_in://192.0.2.1:7"});
}
