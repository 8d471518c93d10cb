// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Scalable endpoints: one address, several contexts, each with a completion queue of its own.
#define BOOST_TEST_MODULE scalable
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>

#include "conformance/provider/scalable.hpp"

namespace nvlf::test {
namespace {

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

struct Pair {
    explicit Pair(bool endpoint_first = false)
        : a{caps, endpoint_first}, b{caps, endpoint_first}, to_b{a.insert(b)}, to_a{b.insert(a)} {}

    Event wait(fid_cq* cq, const char* what) const {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (std::chrono::steady_clock::now() < deadline) {
            if (auto event = poll(cq)) return *event;
            a.progress();
            b.progress();
        }
        BOOST_FAIL("nothing came in 20 s: " << what);
        return {};
    }

    static constexpr std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_NAMED_RX_CTX | FI_SOURCE;
    Scalable a, b;
    fi_addr_t to_b, to_a;
};

BOOST_AUTO_TEST_CASE(a_message_goes_to_the_context_that_its_address_names) {
    Pair p;
    std::array<std::uint64_t, contexts> in{};
    std::array<std::uint64_t, contexts> out{10, 11, 12};
    for (std::size_t i = 0; i < contexts; ++i)
        check(fi_recv(p.b.rx[i].get(), &in[i], 8, nullptr, FI_ADDR_UNSPEC, &in[i]), "recv");
    for (std::size_t i = contexts; i-- > 0;) { // By other transmit contexts than receive ones.
        fid_ep* tx = p.a.tx[(i + 1) % contexts].get();
        check(fi_send(tx, &out[i], 8, nullptr, fi_rx_addr(p.to_b, static_cast<int>(i), bits), &out[i]), "send");
        BOOST_TEST(p.wait(p.a.tx_cq[(i + 1) % contexts].get(), "sent").entry.op_context == &out[i]);
    }
    for (std::size_t i = 0; i < contexts; ++i) {
        const Event event = p.wait(p.b.rx_cq[i].get(), "received");
        BOOST_TEST(event.error == 0);
        BOOST_TEST(event.entry.op_context == &in[i]);
        BOOST_TEST(event.source == p.to_a);
        BOOST_TEST(in[i] == out[i]);
    }
}

BOOST_AUTO_TEST_CASE(an_address_without_a_context_means_the_first) {
    Pair p{true};
    std::uint64_t in = 0, out = 5;
    check(fi_recv(p.b.rx[0].get(), &in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    check(fi_send(p.a.tx[2].get(), &out, 8, nullptr, p.to_b, nullptr), "send");
    BOOST_TEST(p.wait(p.b.rx_cq[0].get(), "received").error == 0);
    BOOST_TEST(in == 5U);
}

BOOST_AUTO_TEST_CASE(every_size_tags_cq_data_and_acknowledgements_reach_a_named_context) {
    Pair p;
    const fi_addr_t to = fi_rx_addr(p.to_b, 2, bits);
    for (const std::size_t bytes : {0U, 1U, 24U, 32U, 40U, 48U, 49U, 4096U, 16384U, 16385U, 1U << 20}) {
        const std::vector<char> out = pattern(bytes, static_cast<unsigned>(bytes));
        std::vector<char> in(bytes);
        check(fi_trecv(p.b.rx[2].get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, 77, 0, nullptr), "trecv");
        iovec iov{const_cast<char*>(out.data()), bytes};
        fi_msg_tagged msg{};
        msg.msg_iov = &iov;
        msg.iov_count = 1;
        msg.addr = to;
        msg.tag = 77;
        msg.data = 0x1122334455667788;
        check(fi_tsendmsg(p.a.tx[1].get(), &msg, FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE | FI_COMPLETION), "tsendmsg");
        const Event received = p.wait(p.b.rx_cq[2].get(), "received");
        BOOST_TEST(received.error == 0);
        BOOST_TEST(received.entry.len == bytes);
        BOOST_TEST(received.entry.data == 0x1122334455667788U);
        BOOST_TEST((received.entry.flags & FI_REMOTE_CQ_DATA) != 0);
        BOOST_TEST(p.wait(p.a.tx_cq[1].get(), "delivered").error == 0);
        BOOST_TEST((in == out));
    }
}

BOOST_AUTO_TEST_CASE(a_message_for_a_context_that_is_not_open_yet_waits_for_it) {
    Pair p;
    p.b.rx[1].reset();
    std::uint64_t in = 0, out = 9;
    check(fi_send(p.a.tx[0].get(), &out, 8, nullptr, fi_rx_addr(p.to_b, 1, bits), nullptr), "send");
    BOOST_TEST(p.wait(p.a.tx_cq[0].get(), "sent").error == 0);
    p.b.progress();
    p.b.open(1, false);
    check(fi_recv(p.b.rx[1].get(), &in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    BOOST_TEST(p.wait(p.b.rx_cq[1].get(), "received").error == 0);
    BOOST_TEST(in == 9U);
}

BOOST_AUTO_TEST_CASE(a_context_that_the_target_does_not_have_is_an_unknown_address) {
    Pair p; // Two bits name four contexts, of which there are three.
    const fi_addr_t nowhere = fi_rx_addr(p.to_b, 3, bits);
    for (const std::size_t bytes : {8U, 4096U, 100000U}) {
        std::vector<char> out(bytes), in(bytes);
        iovec iov{out.data(), bytes};
        fi_msg msg{};
        msg.msg_iov = &iov;
        msg.iov_count = 1;
        msg.addr = nowhere;
        check(fi_sendmsg(p.a.tx[0].get(), &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION), "sendmsg");
        BOOST_TEST(p.wait(p.a.tx_cq[0].get(), "refused").error == FI_EADDRNOTAVAIL);
        // And the conversation goes on.
        check(fi_recv(p.b.rx[0].get(), in.data(), bytes, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
        check(fi_send(p.a.tx[0].get(), out.data(), bytes, nullptr, p.to_b, nullptr), "send");
        BOOST_TEST(p.wait(p.b.rx_cq[0].get(), "received").error == 0);
        BOOST_TEST(p.wait(p.a.tx_cq[0].get(), "sent").error == 0);
    }
}

BOOST_AUTO_TEST_CASE(the_cq_data_of_a_write_goes_to_the_context_that_its_address_names) {
    Pair p;
    std::array<std::uint64_t, 4> target{};
    fid_mr* mr = nullptr;
    check(fi_mr_reg(p.b.domain.get(), target.data(), sizeof target, FI_REMOTE_WRITE, 0, 7, 0, &mr, nullptr), "mr");
    const FidPtr<fid_mr> owner{mr};
    const std::uint64_t out = 42;
    check(fi_writedata(p.a.tx[1].get(), &out, 8, nullptr, 99, fi_rx_addr(p.to_b, 1, bits), 0, 7, nullptr), "writedata");
    const Event told = p.wait(p.b.rx_cq[1].get(), "told of the write");
    BOOST_TEST(told.entry.data == 99U);
    BOOST_TEST((told.entry.flags & FI_REMOTE_WRITE) != 0);
    BOOST_TEST(target[0] == 42U);
    BOOST_TEST(p.wait(p.a.tx_cq[1].get(), "written").error == 0);
}

BOOST_AUTO_TEST_CASE(counters_are_bound_to_a_context_each) {
    Pair p;
    p.a.tx[0].reset();
    p.b.rx[0].reset();
    fi_cntr_attr attr{};
    fid_cntr* c = nullptr;
    check(fi_cntr_open(p.a.domain.get(), &attr, &c, nullptr), "cntr");
    FidPtr<fid_cntr> sent{c};
    check(fi_cntr_open(p.b.domain.get(), &attr, &c, nullptr), "cntr");
    FidPtr<fid_cntr> received{c};
    fid_ep* e = nullptr;
    check(fi_tx_context(p.a.ep.get(), 0, nullptr, &e, nullptr), "tx");
    FidPtr<fid_ep> tx{e};
    BOOST_TEST(fi_ep_bind(e, &sent->fid, FI_RECV) == -FI_EINVAL); // It does not receive.
    check(fi_ep_bind(e, &sent->fid, FI_SEND), "bind");
    check(fi_enable(e), "enable");
    check(fi_rx_context(p.b.ep.get(), 0, nullptr, &e, nullptr), "rx");
    FidPtr<fid_ep> rx{e};
    BOOST_TEST(fi_ep_bind(e, &received->fid, FI_SEND) == -FI_EINVAL);
    check(fi_ep_bind(e, &received->fid, FI_RECV), "bind");
    check(fi_enable(e), "enable");
    std::uint64_t in = 0, out = 3;
    check(fi_recv(rx.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    check(fi_send(tx.get(), &out, 8, nullptr, p.to_b, nullptr), "send");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (fi_cntr_read(received.get()) == 0 && std::chrono::steady_clock::now() < deadline) {}
    BOOST_TEST(fi_cntr_read(received.get()) == 1U);
    BOOST_TEST(fi_cntr_read(sent.get()) == 1U);
    BOOST_TEST(in == 3U);
}

BOOST_AUTO_TEST_CASE(cancelling_concerns_one_context_alone) {
    Pair p;
    std::uint64_t in[2] = {};
    int context = 0;
    check(fi_recv(p.b.rx[0].get(), &in[0], 8, nullptr, FI_ADDR_UNSPEC, &context), "recv");
    check(fi_recv(p.b.rx[1].get(), &in[1], 8, nullptr, FI_ADDR_UNSPEC, &context), "recv");
    check(fi_cancel(&p.b.rx[1]->fid, &context), "cancel");
    BOOST_TEST(p.wait(p.b.rx_cq[1].get(), "cancelled").error == FI_ECANCELED);
    std::uint64_t out = 6;
    check(fi_send(p.a.tx[0].get(), &out, 8, nullptr, p.to_b, nullptr), "send");
    BOOST_TEST(p.wait(p.b.rx_cq[0].get(), "received").error == 0);
    BOOST_TEST(in[0] == 6U);
}

BOOST_AUTO_TEST_CASE(wrong_uses_are_refused) {
    Scalable s;
    fid_ep* e = nullptr;
    char byte = 0;
    BOOST_TEST(fi_tx_context(s.ep.get(), 0, nullptr, &e, nullptr) == -FI_EBUSY); // Open already.
    BOOST_TEST(fi_tx_context(s.ep.get(), contexts, nullptr, &e, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_rx_context(s.ep.get(), -1, nullptr, &e, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_close(&s.ep->fid) == -FI_EBUSY);
    BOOST_TEST(fi_recv(s.tx[0].get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr) == -FI_ENOSYS);
    BOOST_TEST(fi_send(s.rx[0].get(), &byte, 1, nullptr, 0, nullptr) == -FI_ENOSYS);
    BOOST_TEST(fi_send(s.ep.get(), &byte, 1, nullptr, 0, nullptr) == -FI_ENOSYS);
    BOOST_TEST(fi_ep_bind(s.tx[0].get(), &s.tx_cq[0]->fid, FI_TRANSMIT) == -FI_EOPBADSTATE);
    s.tx[0].reset();
    s.rx[0].reset();
    check(fi_tx_context(s.ep.get(), 0, nullptr, &e, nullptr), "tx");
    FidPtr<fid_ep> tx{e};
    BOOST_TEST(fi_enable(e) == -FI_ENOCQ);
    BOOST_TEST(fi_send(e, &byte, 1, nullptr, 0, nullptr) == -FI_EOPBADSTATE);
    check(fi_rx_context(s.ep.get(), 0, nullptr, &e, nullptr), "rx");
    FidPtr<fid_ep> rx{e};
    BOOST_TEST(fi_recv(e, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr) == -FI_EOPBADSTATE);
    fid_ep* plain = nullptr;
    BOOST_TEST(fi_endpoint(s.domain.get(), s.info.get(), &plain, nullptr) == -FI_EINVAL); // Several contexts.
}

BOOST_AUTO_TEST_CASE(a_context_without_a_queue_is_for_those_who_send_no_messages) {
    for (const bool messages : {false, true}) {
        Scalable s{FI_RMA | (messages ? FI_MSG : 0)};
        s.rx[0].reset();
        fid_ep* e = nullptr;
        check(fi_rx_context(s.ep.get(), 0, nullptr, &e, nullptr), "rx");
        const FidPtr<fid_ep> rx{e};
        BOOST_TEST(fi_enable(e) == (messages ? -FI_ENOCQ : 0));
    }
}

BOOST_AUTO_TEST_CASE(receives_of_a_context_that_closes_are_forgotten_and_its_messages_kept) {
    Pair p;
    std::vector<char> out = pattern(1 << 20, 3), in(1 << 20);
    check(fi_recv(p.b.rx[1].get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
    p.b.rx[1].reset();
    check(fi_send(p.a.tx[0].get(), out.data(), out.size(), nullptr, fi_rx_addr(p.to_b, 1, bits), nullptr), "send");
    p.b.progress();
    p.b.open(1, false);
    check(fi_recv(p.b.rx[1].get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, in.data()), "recv");
    const Event event = p.wait(p.b.rx_cq[1].get(), "received");
    BOOST_TEST(event.error == 0);
    BOOST_TEST(event.entry.op_context == in.data());
    BOOST_TEST((in == out));
}

} // namespace
} // namespace nvlf::test
