// SPDX-License-Identifier: MIT OR GPL-2.0-only
// crowd_test - a thousand endpoints of one fabric, all talking to one: what they cost, and that it is given back. Counted as
// in footprint_test.
#define BOOST_TEST_MODULE crowd
#include <array>
#include <memory>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "nvlf/lane.h"
#include "nvlf/state.h"
#include "objects.hpp"
#include "support/resources.hpp"

namespace {

using namespace nvlf::test;

OwnFabric* own_fabric = nullptr;
struct KnownFabric : OwnFabric {
    KnownFabric() { own_fabric = this; }
};
BOOST_TEST_GLOBAL_FIXTURE(KnownFabric);

constexpr std::size_t domains = 4;
constexpr std::size_t endpoints_a_domain = 250; // 256 are allowed.
constexpr std::size_t all = domains * endpoints_a_domain;

std::uint64_t shared_bytes() { return memfd_bytes({::getpid(), own_fabric->daemon.process().pid()}); }

void allow_descriptors() {
    rlimit limit{};
    BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

// A domain full of endpoints with one queue, one vector and a word for each to receive into.
struct Quarter : Objects {
    Quarter() {
        fi_av_attr av_attr{};
        fid_av* a = nullptr;
        check(fi_av_open(domain.get(), &av_attr, &a, nullptr), "fi_av_open");
        av.reset(a);
        fi_cq_attr cq_attr{};
        cq_attr.format = FI_CQ_FORMAT_TAGGED;
        fid_cq* c = nullptr;
        check(fi_cq_open(domain.get(), &cq_attr, &c, nullptr), "fi_cq_open");
        cq.reset(c);
        for (auto& ep : eps) {
            fid_ep* e = nullptr;
            check(fi_endpoint(domain.get(), info.get(), &e, nullptr), "fi_endpoint");
            ep.reset(e);
            check(fi_ep_bind(e, &a->fid, 0), "bind av");
            check(fi_ep_bind(e, &c->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION), "bind cq");
            check(fi_enable(e), "fi_enable");
        }
    }

    FidPtr<fid_av> av;
    FidPtr<fid_cq> cq;
    std::array<FidPtr<fid_ep>, endpoints_a_domain> eps;
    std::array<std::uint64_t, endpoints_a_domain> in{};
    fi_addr_t centre = FI_ADDR_NOTAVAIL;
};

struct Crowd {
    Crowd() {
        const auto name = centre.name();
        for (auto& quarter : quarters) {
            quarter = std::make_unique<Quarter>();
            BOOST_REQUIRE(fi_av_insert(quarter->av.get(), name.data(), 1, &quarter->centre, 0, nullptr) == 1);
        }
    }

    // Each of the endpoints [from, to) sends its number to the centre and gets it back, plus one.
    void talk(std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to; ++i) {
            Quarter& quarter = *quarters[i / endpoints_a_domain];
            const std::size_t at = i % endpoints_a_domain;
            const std::uint64_t number = i;
            std::uint64_t in = 0;
            std::array<char, 64> name{};
            std::size_t size = name.size();
            check(fi_getname(&quarter.eps[at]->fid, name.data(), &size), "fi_getname");
            check(fi_recv(quarter.eps[at].get(), &quarter.in[at], 8, nullptr, FI_ADDR_UNSPEC, &quarter.in[at]), "recv");
            check(fi_recv(centre.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, &in), "recv");
            check(fi_inject(quarter.eps[at].get(), &number, 8, quarter.centre), "inject");
            expect(centre.cq.get(), quarter, "a number");
            BOOST_REQUIRE(in == number);
            fi_addr_t back = FI_ADDR_NOTAVAIL;
            BOOST_REQUIRE(fi_av_insert(centre.av.get(), name.data(), 1, &back, 0, nullptr) == 1);
            const std::uint64_t answer = number + 1;
            check(fi_inject(centre.ep.get(), &answer, 8, back), "inject");
            while (quarter.in[at] != answer) {
                BOOST_REQUIRE(std::chrono::steady_clock::now() < deadline);
                (void)fi_cq_read(quarter.cq.get(), nullptr, 0);
            }
        }
    }
    void expect(fid_cq* cq, const Quarter& other, const char* what) const {
        for (;;) {
            if (const auto event = poll(cq)) {
                BOOST_REQUIRE(event->error == 0);
                return;
            }
            BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < deadline, "nothing came: " << what);
            (void)fi_cq_read(other.cq.get(), nullptr, 0);
        }
    }

    const std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::now() + std::chrono::seconds{90};
    Side centre;
    std::array<std::unique_ptr<Quarter>, domains> quarters;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_thousand_endpoints_talk_to_one_and_memory_grows_with_those_that_talk) {
    allow_descriptors();
    const Side first; // The fabric's own regions are there now.
    const std::uint64_t before = shared_bytes();
    const std::size_t descriptors = open_descriptors();
    {
        Crowd crowd;
        const std::uint64_t idle = shared_bytes();
        const std::size_t idle_descriptors = open_descriptors();
        BOOST_TEST((idle - before) / all < 1u << 20);
        crowd.talk(0, all / 2);
        const std::uint64_t half = shared_bytes();
        crowd.talk(all / 2, all);
        const std::uint64_t whole = shared_bytes();
        BOOST_TEST_MESSAGE(all << " endpoints, idle: " << (idle - before) / all << " bytes and "
                               << (idle_descriptors - descriptors) / all
                               << " descriptors each. A conversation: " << (half - idle) / (all / 2)
                               << " bytes in the first half, " << (whole - half) / (all / 2) << " in the second, and "
                               << (open_descriptors() - idle_descriptors) / all << " descriptors at both ends");
        if (::geteuid() == 0) { // Nobody else sees what is mapped and has no descriptor.
            BOOST_TEST((half - idle) / (all / 2) <= NVLF_CHANNEL_BYTES + 4096);
            BOOST_TEST(whole - half <= (half - idle) + (half - idle) / 10);
            BOOST_TEST(half > idle);
        }
        crowd.talk(0, all); // All channels are there at a time.
        BOOST_TEST(shared_bytes() <= whole);
    }
    // What stays is the part of the fabric's table of endpoints that was used.
    BOOST_TEST(shared_bytes() <= before + all * sizeof(nvlf_state_endpoint) + 4096);
    BOOST_TEST(open_descriptors() == descriptors);
}
