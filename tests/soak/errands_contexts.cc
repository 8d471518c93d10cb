// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Several endpoints of one context, and several contexts of one endpoint.
#include "soak/errand.hpp"

namespace nvlf::soak {

void shared_contexts(Random& random) {
    Corner c{random, {.caps = FI_MSG | FI_TAGGED | FI_SOURCE}, 1}; // The plain endpoint that talks to the others.
    const test::InfoPtr info{fi_dupinfo(c.info.get())};
    if (info == nullptr) throw test::FabricError{"fi_dupinfo", FI_ENOMEM};
    info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    const auto srx = open_object<fid_ep>(
        "fi_srx_context", [&](fid_ep** e) { return fi_srx_context(c.domain.get(), info->rx_attr, e, nullptr); });
    const auto stx = open_object<fid_stx>(
        "fi_stx_context", [&](fid_stx** s) { return fi_stx_context(c.domain.get(), info->tx_attr, s, nullptr); });
    check(fi_enable(srx.get()), "fi_enable");
    std::array<FidPtr<fid_ep>, 2> ep;
    std::array<fi_addr_t, 2> to{};
    for (std::size_t i = 0; i < ep.size(); ++i) {
        ep[i] = open_object<fid_ep>("fi_endpoint",
                                    [&](fid_ep** e) { return fi_endpoint(c.domain.get(), info.get(), e, nullptr); });
        for (fid* object : {&c.av->fid, &srx->fid, &stx->fid}) check(fi_ep_bind(ep[i].get(), object, 0), "bind");
        check(fi_ep_bind(ep[i].get(), &c.cq->fid, FI_TRANSMIT | FI_RECV), "bind cq");
        check(fi_enable(ep[i].get()), "fi_enable");
        std::array<char, 64> name{};
        std::size_t size = name.size();
        check(fi_getname(&ep[i]->fid, name.data(), &size), "fi_getname");
        if (fi_av_insert(c.av.get(), name.data(), 1, &to[i], 0, nullptr) != 1)
            throw test::FabricError{"fi_av_insert", FI_EINVAL};
    }
    for (int i = 0; i < 10; ++i) {
        const std::size_t which = draw(random, 2);
        std::uint64_t out = random(), in = 0, back = 0;
        check(fi_recv(srx.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, &in), "recv by a shared context");
        c.post("inject", [&] { return fi_inject(c.ep[0].get(), &out, 8, to[which]); });
        require(c.next("a word for a shared context").op_context == &in && in == out,
                "a shared context got another word");
        check(fi_recv(c.ep[0].get(), &back, 8, nullptr, FI_ADDR_UNSPEC, &back), "recv");
        c.post("inject", [&] { return fi_inject(ep[which].get(), &in, 8, c.to[0]); });
        require(c.next("an answer").op_context == &back && back == out, "an answer differs");
    }
}

void scalable_endpoints(Random& random) {
    constexpr std::size_t contexts = 3;
    constexpr int bits = 2;
    Corner c{random,
             {.caps = FI_MSG | FI_TAGGED | FI_NAMED_RX_CTX | FI_SOURCE, .contexts = contexts, .rx_ctx_bits = bits},
             0};
    const auto sep = open_object<fid_ep>(
        "fi_scalable_ep", [&](fid_ep** e) { return fi_scalable_ep(c.domain.get(), c.info.get(), e, nullptr); });
    check(fi_scalable_ep_bind(sep.get(), &c.av->fid, 0), "fi_scalable_ep_bind");
    std::array<FidPtr<fid_ep>, contexts> tx, rx;
    for (std::size_t i = 0; i < contexts; ++i) {
        const int index = static_cast<int>(i);
        tx[i] = open_object<fid_ep>("fi_tx_context",
                                    [&](fid_ep** e) { return fi_tx_context(sep.get(), index, nullptr, e, nullptr); });
        rx[i] = open_object<fid_ep>("fi_rx_context",
                                    [&](fid_ep** e) { return fi_rx_context(sep.get(), index, nullptr, e, nullptr); });
        check(fi_ep_bind(tx[i].get(), &c.cq->fid, FI_TRANSMIT), "bind tx");
        check(fi_ep_bind(rx[i].get(), &c.cq->fid, FI_RECV), "bind rx");
        check(fi_enable(tx[i].get()), "enable tx");
        check(fi_enable(rx[i].get()), "enable rx");
    }
    check(fi_enable(sep.get()), "fi_enable");
    std::array<char, 64> name{};
    std::size_t size = name.size();
    check(fi_getname(&sep->fid, name.data(), &size), "fi_getname");
    fi_addr_t self = FI_ADDR_NOTAVAIL;
    if (fi_av_insert(c.av.get(), name.data(), 1, &self, 0, nullptr) != 1)
        throw test::FabricError{"fi_av_insert", FI_EINVAL};
    for (int i = 0; i < 10; ++i) {
        const std::size_t from = draw(random, contexts), to = draw(random, contexts);
        std::uint64_t out = random(), in = 0;
        check(fi_recv(rx[to].get(), &in, 8, nullptr, FI_ADDR_UNSPEC, &in), "recv by a context");
        c.post("inject",
               [&] { return fi_inject(tx[from].get(), &out, 8, fi_rx_addr(self, static_cast<int>(to), bits)); });
        require(c.next("a word for a context").op_context == &in && in == out, "a context got another word");
    }
    for (auto& context : rx) context.reset(); // Contexts close before their endpoint.
    for (auto& context : tx) context.reset();
}

} // namespace nvlf::soak
