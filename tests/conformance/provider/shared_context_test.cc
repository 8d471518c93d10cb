// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Contexts that several endpoints share, and aliases of an endpoint.
#define BOOST_TEST_MODULE shared_context
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>

#include "conformance/provider/two_endpoints.hpp"

namespace nvlf::test {
namespace {

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

// Two endpoints of one domain that share a receive context and a transmit context; each has a queue of its own.
struct Shared {
    explicit Shared(std::uint64_t caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV,
                    enum fi_threading threading = FI_THREAD_SAFE) {
        InfoPtr hints{fi_allocinfo()};
        hints->caps = caps;
        hints->mode = FI_CONTEXT;
        hints->ep_attr->type = FI_EP_RDM;
        hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
        hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
        hints->domain_attr->threading = threading;
        hints->fabric_attr->prov_name = ::strdup(provider_name());
        fi_info* found = nullptr;
        check(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo");
        info.reset(found);
        BOOST_TEST((info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT));
        fid_fabric* f = nullptr;
        check(fi_fabric(info->fabric_attr, &f, nullptr), "fi_fabric");
        fabric.reset(f);
        fid_domain* d = nullptr;
        check(fi_domain(f, info.get(), &d, nullptr), "fi_domain");
        domain.reset(d);
        fi_av_attr av_attr{};
        av_attr.type = FI_AV_TABLE;
        fid_av* a = nullptr;
        check(fi_av_open(d, &av_attr, &a, nullptr), "fi_av_open");
        av.reset(a);
        fid_ep* e = nullptr;
        check(fi_srx_context(d, info->rx_attr, &e, nullptr), "fi_srx_context");
        srx.reset(e);
        fid_stx* s = nullptr;
        check(fi_stx_context(d, info->tx_attr, &s, nullptr), "fi_stx_context");
        stx.reset(s);
        for (std::size_t i = 0; i < ep.size(); ++i) open(i);
    }

    void open(std::size_t i) {
        fi_cq_attr cq_attr{};
        cq_attr.format = FI_CQ_FORMAT_TAGGED;
        fid_cq* c = nullptr;
        check(fi_cq_open(domain.get(), &cq_attr, &c, nullptr), "fi_cq_open");
        cq[i].reset(c);
        fid_ep* e = nullptr;
        check(fi_endpoint(domain.get(), info.get(), &e, nullptr), "fi_endpoint");
        ep[i].reset(e);
        check(fi_ep_bind(e, &av->fid, 0), "bind av");
        check(fi_ep_bind(e, &c->fid, FI_TRANSMIT | FI_RECV), "bind cq");
        BOOST_TEST(fi_enable(e) == -FI_EOPBADSTATE); // It waits for its contexts.
        check(fi_ep_bind(e, &srx->fid, 0), "bind srx");
        check(fi_ep_bind(e, &stx->fid, 0), "bind stx");
        check(fi_enable(e), "fi_enable");
    }

    [[nodiscard]] std::vector<char> name(std::size_t i) const {
        std::vector<char> bytes(64);
        std::size_t size = bytes.size();
        check(fi_getname(&ep[i]->fid, bytes.data(), &size), "fi_getname");
        bytes.resize(size);
        return bytes;
    }

    void progress() const {
        for (const auto& c : cq)
            if (c) (void)fi_cq_read(c.get(), nullptr, 0);
    }

    InfoPtr info;
    FidPtr<fid_fabric> fabric;
    FidPtr<fid_domain> domain;
    FidPtr<fid_av> av;
    FidPtr<fid_ep> srx;
    FidPtr<fid_stx> stx;
    std::array<FidPtr<fid_cq>, 2> cq;
    std::array<FidPtr<fid_ep>, 2> ep;
};

// A plain endpoint that talks to both.
struct SharedAndPeer {
    SharedAndPeer() : peer{{.caps = FI_MSG | FI_TAGGED | FI_SOURCE, .threading = FI_THREAD_SAFE}} { meet(); }

    void meet() {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = peer.insert(shared.name(i));
        const std::vector<char> name = peer.name();
        BOOST_REQUIRE_EQUAL(fi_av_insert(shared.av.get(), name.data(), 1, &to_peer, 0, nullptr), 1);
    }

    Event wait(fid_cq* cq, const char* what) const {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (std::chrono::steady_clock::now() < deadline) {
            if (auto event = poll(cq)) return *event;
            shared.progress();
            (void)fi_cq_read(peer.cq.get(), nullptr, 0);
        }
        BOOST_FAIL("nothing came in 20 s: " << what);
        return {};
    }

    Shared shared;
    Side peer;
    std::array<fi_addr_t, 2> to{};
    fi_addr_t to_peer = FI_ADDR_NOTAVAIL;
};

BOOST_AUTO_TEST_CASE(receives_of_a_shared_context_take_what_comes_by_any_endpoint) {
    SharedAndPeer p;
    std::array<std::uint64_t, 2> in{};
    for (auto& word : in) check(fi_recv(p.shared.srx.get(), &word, 8, nullptr, FI_ADDR_UNSPEC, &word), "recv");
    const std::array<std::uint64_t, 2> out{20, 21};
    for (const std::size_t i : {1U, 0U}) {
        check(fi_send(p.peer.ep.get(), &out[i], 8, nullptr, p.to[i], nullptr), "send");
        BOOST_TEST(p.wait(p.peer.cq.get(), "sent").error == 0);
        // The queue of the endpoint that it came by tells of it.
        const Event event = p.wait(p.shared.cq[i].get(), "received");
        BOOST_TEST(event.error == 0);
        BOOST_TEST(event.source == p.to_peer);
        BOOST_TEST(*static_cast<std::uint64_t*>(event.entry.op_context) == out[i]);
    }
}

BOOST_AUTO_TEST_CASE(messages_of_every_size_wait_for_a_shared_receive_and_are_answered_by_their_own_endpoint) {
    SharedAndPeer p;
    for (const std::size_t bytes : {0U, 8U, 4096U, 16384U, 100000U, 1U << 20})
        for (const std::size_t i : {0U, 1U}) {
            const std::vector<char> out = pattern(bytes, static_cast<unsigned>(bytes + i));
            std::vector<char> in(bytes);
            iovec iov{const_cast<char*>(out.data()), bytes};
            fi_msg_tagged msg{};
            msg.msg_iov = &iov;
            msg.iov_count = 1;
            msg.addr = p.to[i];
            msg.tag = 5;
            check(fi_tsendmsg(p.peer.ep.get(), &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION), "tsendmsg");
            p.shared.progress(); // It is there before its receive.
            check(fi_trecv(p.shared.srx.get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, 5, 0, nullptr), "trecv");
            BOOST_TEST(p.wait(p.shared.cq[i].get(), "received").error == 0);
            BOOST_TEST(p.wait(p.peer.cq.get(), "delivered").error == 0);
            BOOST_TEST((in == out));
        }
}

BOOST_AUTO_TEST_CASE(a_multi_receive_buffer_is_filled_by_all_endpoints) {
    SharedAndPeer p;
    const std::size_t least = 1024;
    check(fi_setopt(&p.shared.srx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), "setopt");
    std::vector<char> buffer(4096);
    iovec iov{buffer.data(), buffer.size()};
    fi_msg msg{};
    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.addr = FI_ADDR_UNSPEC;
    check(fi_recvmsg(p.shared.srx.get(), &msg, FI_MULTI_RECV), "recvmsg");
    std::size_t at = 0;
    for (unsigned n = 0; n < 4; ++n) {
        const std::vector<char> out = pattern(1000, n);
        check(fi_send(p.peer.ep.get(), out.data(), out.size(), nullptr, p.to[n % 2], nullptr), "send");
        const Event event = p.wait(p.shared.cq[n % 2].get(), "received");
        BOOST_TEST(event.entry.buf == buffer.data() + at);
        BOOST_TEST(std::memcmp(buffer.data() + at, out.data(), out.size()) == 0);
        BOOST_TEST(((event.entry.flags & FI_MULTI_RECV) != 0) == (n == 3)); // 96 bytes are left.
        at += out.size();
    }
}

BOOST_AUTO_TEST_CASE(a_directed_receive_of_a_shared_context_goes_by_the_source) {
    SharedAndPeer p;
    Side other{{.caps = FI_MSG | FI_TAGGED, .threading = FI_THREAD_SAFE}};
    const fi_addr_t from_other = other.insert(p.shared.name(0));
    fi_addr_t to_other = FI_ADDR_NOTAVAIL;
    const std::vector<char> name = other.name();
    BOOST_REQUIRE_EQUAL(fi_av_insert(p.shared.av.get(), name.data(), 1, &to_other, 0, nullptr), 1);
    std::uint64_t in[2] = {}, out[2] = {1, 2};
    check(fi_recv(p.shared.srx.get(), &in[1], 8, nullptr, to_other, nullptr), "recv");
    check(fi_recv(p.shared.srx.get(), &in[0], 8, nullptr, p.to_peer, nullptr), "recv");
    check(fi_send(p.peer.ep.get(), &out[0], 8, nullptr, p.to[1], nullptr), "send");
    BOOST_TEST(p.wait(p.shared.cq[1].get(), "received").error == 0);
    BOOST_TEST(in[0] == 1U);
    BOOST_TEST(in[1] == 0U);
    check(fi_send(other.ep.get(), &out[1], 8, nullptr, from_other, nullptr), "send");
    BOOST_TEST(p.wait(p.shared.cq[0].get(), "received").error == 0);
    BOOST_TEST(in[1] == 2U);
}

BOOST_AUTO_TEST_CASE(a_shared_receive_can_be_cancelled) {
    SharedAndPeer p;
    std::uint64_t in = 0;
    check(fi_recv(p.shared.srx.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, &in), "recv");
    check(fi_cancel(&p.shared.srx->fid, &in), "cancel");
    const Event event = p.wait(p.shared.cq[0].get(), "cancelled");
    BOOST_TEST(event.error == FI_ECANCELED);
    BOOST_TEST(event.entry.op_context == &in);
}

BOOST_AUTO_TEST_CASE(an_endpoint_that_closes_leaves_the_shared_context_to_the_other) {
    SharedAndPeer p;
    std::vector<char> out = pattern(1 << 20, 1), in(1 << 20);
    // One message waits unexpected at each, and one large one is on its way, when the first closes.
    std::uint64_t small = 7, word = 0;
    check(fi_send(p.peer.ep.get(), &small, 8, nullptr, p.to[0], nullptr), "send");
    check(fi_send(p.peer.ep.get(), out.data(), out.size(), nullptr, p.to[0], nullptr), "send");
    check(fi_send(p.peer.ep.get(), &small, 8, nullptr, p.to[1], nullptr), "send");
    p.shared.progress();
    p.shared.ep[0].reset();
    check(fi_recv(p.shared.srx.get(), &word, 8, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    BOOST_TEST(p.wait(p.shared.cq[1].get(), "received").error == 0);
    BOOST_TEST(word == 7U);
    check(fi_recv(p.shared.srx.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    check(fi_send(p.peer.ep.get(), out.data(), out.size(), nullptr, p.to[1], nullptr), "send");
    BOOST_TEST(p.wait(p.shared.cq[1].get(), "received").error == 0);
    BOOST_TEST((in == out));
}

BOOST_AUTO_TEST_CASE(wrong_uses_of_shared_contexts_are_refused) {
    SharedAndPeer p;
    char byte = 0;
    BOOST_TEST(fi_recv(p.shared.ep[0].get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr) == -FI_ENOSYS);
    BOOST_TEST(fi_send(p.shared.srx.get(), &byte, 1, nullptr, 0, nullptr) == -FI_ENOSYS);
    BOOST_TEST(fi_close(&p.shared.srx->fid) == -FI_EBUSY);
    BOOST_TEST(fi_close(&p.shared.stx->fid) == -FI_EBUSY);
    BOOST_TEST(fi_ep_bind(p.shared.ep[0].get(), &p.shared.srx->fid, 0) == -FI_EOPBADSTATE);
    BOOST_TEST(fi_getname(&p.shared.srx->fid, &byte, nullptr) == -FI_ENOSYS);
    fid_ep* e = nullptr;
    check(fi_endpoint(p.peer.domain.get(), p.peer.info.get(), &e, nullptr), "fi_endpoint");
    const FidPtr<fid_ep> plain{e};
    BOOST_TEST(fi_ep_bind(e, &p.shared.srx->fid, 0) == -FI_EINVAL); // Of another domain, and it asked for none.
    check(fi_srx_context(p.shared.domain.get(), nullptr, &e, nullptr), "fi_srx_context");
    const FidPtr<fid_ep> lonely{e};
    check(fi_recv(e, &byte, 1, nullptr, FI_ADDR_UNSPEC, &byte), "recv"); // Before there is any endpoint.
}

// ---- Aliases ---------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_alias_has_its_own_default_flags_and_all_else_in_common) {
    TwoEndpoints two{{.bind_flags = FI_SELECTIVE_COMPLETION}, {}};
    fid_ep* e = nullptr;
    check(fi_ep_alias(two.a.ep.get(), &e, FI_TRANSMIT | FI_COMPLETION), "fi_ep_alias");
    FidPtr<fid_ep> loud{e};
    std::uint64_t flags = FI_TRANSMIT;
    check(fi_control(&loud->fid, FI_GETOPSFLAG, &flags), "getopsflag");
    BOOST_TEST(flags == FI_COMPLETION);
    flags = FI_TRANSMIT;
    check(fi_control(&two.a.ep->fid, FI_GETOPSFLAG, &flags), "getopsflag");
    BOOST_TEST(flags == 0U);
    std::uint64_t out[2] = {1, 2}, in[2] = {};
    for (auto& word : in) check(fi_recv(two.b.ep.get(), &word, 8, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    check(fi_send(two.a.ep.get(), &out[0], 8, nullptr, two.to_b, &out[0]), "send");
    check(fi_send(loud.get(), &out[1], 8, nullptr, two.to_b, &out[1]), "send");
    BOOST_TEST(two.wait(two.a, "the loud one").entry.op_context == &out[1]);
    for (std::size_t i = 0; i < 2; ++i) (void)two.wait(two.b, "received");
    BOOST_TEST(in[1] == 2U); // In the order in which they were sent.
    BOOST_TEST((two.a.name() == [&] {
        std::vector<char> bytes(64);
        std::size_t size = bytes.size();
        check(fi_getname(&loud->fid, bytes.data(), &size), "fi_getname");
        bytes.resize(size);
        return bytes;
    }()));
    BOOST_TEST(fi_close(&two.a.ep->fid) == -FI_EBUSY); // Its alias is open.
    check(fi_ep_alias(loud.get(), &e, FI_RECV | FI_COMPLETION), "alias of an alias");
    const FidPtr<fid_ep> second{e};
    loud.reset(); // The other one does not need it.
    flags = FI_TRANSMIT;
    check(fi_control(&second->fid, FI_GETOPSFLAG, &flags), "getopsflag");
    BOOST_TEST(flags == FI_COMPLETION);
}

BOOST_AUTO_TEST_CASE(wrong_flags_of_aliases_are_refused) {
    TwoEndpoints two;
    fid_ep* e = nullptr;
    BOOST_TEST(fi_ep_alias(two.a.ep.get(), &e, 0) == -FI_EINVAL);
    BOOST_TEST(fi_ep_alias(two.a.ep.get(), &e, FI_TRANSMIT | FI_RECV) == -FI_EINVAL);
    BOOST_TEST(fi_ep_alias(two.a.ep.get(), &e, FI_TRANSMIT | FI_PEEK) == -FI_EBADFLAGS);
    std::uint64_t flags = FI_TRANSMIT | FI_PEEK;
    BOOST_TEST(fi_control(&two.a.ep->fid, FI_SETOPSFLAG, &flags) == -FI_EBADFLAGS);
}

BOOST_AUTO_TEST_CASE(options_are_answered_as_they_are_meant) {
    TwoEndpoints two;
    ::fid* const ep = &two.a.ep->fid;
    const auto set = [&](int name, const auto& value) {
        return fi_setopt(ep, FI_OPT_ENDPOINT, name, &value, sizeof value);
    };
    constexpr int cuda_api_permitted = 10; // Of libfabric 1.18.
    BOOST_TEST(set(cuda_api_permitted, false) == 0);
    BOOST_TEST(set(cuda_api_permitted, true) == -FI_EOPNOTSUPP);
    BOOST_TEST(set(FI_OPT_FI_HMEM_P2P, int{FI_HMEM_P2P_REQUIRED}) == 0);
    int mode = -1;
    std::size_t size = sizeof mode;
    check(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &mode, &size), "getopt");
    BOOST_TEST(mode == int{FI_HMEM_P2P_REQUIRED});
    BOOST_TEST(set(FI_OPT_FI_HMEM_P2P, int{FI_HMEM_P2P_DISABLED}) == -FI_EOPNOTSUPP);
    BOOST_TEST(set(FI_OPT_FI_HMEM_P2P, 17) == -FI_EINVAL);
    BOOST_TEST(set(FI_OPT_FI_HMEM_P2P, std::uint64_t{0}) == -FI_EINVAL); // Too long.
    for (const int unknown : {int{FI_OPT_CM_DATA_SIZE}, int{FI_OPT_BUFFERED_MIN}, int{FI_OPT_SEND_BUF_SIZE}, 11, 99})
        BOOST_TEST(set(unknown, std::size_t{1}) == -FI_ENOPROTOOPT);
    BOOST_TEST(fi_setopt(ep, 1, FI_OPT_MIN_MULTI_RECV, &size, sizeof size) == -FI_ENOPROTOOPT);
    std::uint8_t room = 0;
    size = sizeof room;
    BOOST_TEST(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &room, &size) == -FI_ETOOSMALL);
    BOOST_TEST(size == sizeof(std::size_t));
}

} // namespace
} // namespace nvlf::test
