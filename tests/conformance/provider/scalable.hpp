// SPDX-License-Identifier: MIT OR GPL-2.0-only
// scalable.hpp - a scalable endpoint with some contexts of either kind, and all it stands on. As two_endpoints.hpp.
#pragma once

#include <array>

#include "conformance/provider/two_endpoints.hpp"

namespace nvlf::test {

inline constexpr int bits = 2;
inline constexpr std::size_t contexts = 3;

struct Scalable {
    explicit Scalable(std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_NAMED_RX_CTX | FI_SOURCE,
                      bool endpoint_first = false) {
        InfoPtr hints{fi_allocinfo()};
        hints->caps = caps;
        hints->mode = FI_CONTEXT;
        hints->ep_attr->type = FI_EP_RDM;
        hints->ep_attr->tx_ctx_cnt = contexts;
        hints->ep_attr->rx_ctx_cnt = contexts;
        hints->fabric_attr->prov_name = ::strdup(provider_name());
        fi_info* found = nullptr;
        check(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo");
        info.reset(found);
        fid_fabric* f = nullptr;
        check(fi_fabric(info->fabric_attr, &f, nullptr), "fi_fabric");
        fabric.reset(f);
        fid_domain* d = nullptr;
        check(fi_domain(f, info.get(), &d, nullptr), "fi_domain");
        domain.reset(d);
        fi_av_attr av_attr{};
        av_attr.type = FI_AV_TABLE;
        av_attr.rx_ctx_bits = bits;
        fid_av* a = nullptr;
        check(fi_av_open(d, &av_attr, &a, nullptr), "fi_av_open");
        av.reset(a);
        fid_ep* e = nullptr;
        check(fi_scalable_ep(d, info.get(), &e, nullptr), "fi_scalable_ep");
        ep.reset(e);
        check(fi_scalable_ep_bind(e, &a->fid, 0), "fi_scalable_ep_bind");
        if (endpoint_first) check(fi_enable(e), "fi_enable");
        for (int i = 0; i < static_cast<int>(contexts); ++i) {
            open(i, true);
            open(i, false);
        }
        check(fi_enable(e), "fi_enable");
    }

    void open(int index, bool transmit) {
        auto& queue = transmit ? tx_cq : rx_cq;
        auto& context = transmit ? tx : rx;
        const auto i = static_cast<std::size_t>(index);
        fi_cq_attr cq_attr{};
        cq_attr.format = FI_CQ_FORMAT_TAGGED;
        fid_cq* c = nullptr;
        check(fi_cq_open(domain.get(), &cq_attr, &c, nullptr), "fi_cq_open");
        queue[i].reset(c);
        fid_ep* e = nullptr;
        check(transmit ? fi_tx_context(ep.get(), index, nullptr, &e, nullptr)
                       : fi_rx_context(ep.get(), index, nullptr, &e, nullptr),
              "context");
        context[i].reset(e);
        check(fi_ep_bind(e, &c->fid, transmit ? FI_TRANSMIT : FI_RECV), "bind context");
        check(fi_enable(e), "enable context");
    }

    void progress() const { (void)fi_cq_read(tx_cq[0].get(), nullptr, 0); }

    [[nodiscard]] fi_addr_t insert(const Scalable& other) const {
        std::array<char, 64> name{};
        std::size_t size = name.size();
        check(fi_getname(&other.ep->fid, name.data(), &size), "fi_getname");
        fi_addr_t result = FI_ADDR_NOTAVAIL;
        BOOST_REQUIRE_EQUAL(fi_av_insert(av.get(), name.data(), 1, &result, 0, nullptr), 1);
        return result;
    }

    // Destroyed in the reverse order: contexts before their queues, both before the endpoint.
    InfoPtr info;
    FidPtr<fid_fabric> fabric;
    FidPtr<fid_domain> domain;
    FidPtr<fid_av> av;
    FidPtr<fid_ep> ep;
    std::array<FidPtr<fid_cq>, contexts> tx_cq, rx_cq;
    std::array<FidPtr<fid_ep>, contexts> tx, rx;
};

} // namespace nvlf::test
