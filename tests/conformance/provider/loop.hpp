// SPDX-License-Identifier: MIT OR GPL-2.0-only
// loop.hpp - queues, counters, event queues, and an endpoint that sends to itself to fill them.
#pragma once

#include <poll.h>

#include <utility>

#include "conformance/provider/objects.hpp"

namespace nvlf::test {

constexpr int bound_ms = 20'000; // Of whatever blocks.

inline FidPtr<fid_cq> open_cq(Objects& o, enum fi_wait_obj wait, enum fi_cq_format format = FI_CQ_FORMAT_UNSPEC,
                              fid_wait* set = nullptr) {
    fi_cq_attr attr{};
    attr.wait_obj = wait;
    attr.wait_set = set;
    attr.format = format;
    fid_cq* cq = nullptr;
    check(fi_cq_open(o.domain.get(), &attr, &cq, nullptr), "fi_cq_open");
    return FidPtr<fid_cq>{cq};
}

inline FidPtr<fid_cntr> open_cntr(Objects& o, enum fi_wait_obj wait, fid_wait* set = nullptr) {
    fi_cntr_attr attr{};
    attr.wait_obj = wait;
    attr.wait_set = set;
    fid_cntr* cntr = nullptr;
    check(fi_cntr_open(o.domain.get(), &attr, &cntr, nullptr), "fi_cntr_open");
    return FidPtr<fid_cntr>{cntr};
}

inline FidPtr<fid_eq> open_eq(Objects& o, enum fi_wait_obj wait, fid_wait* set = nullptr) {
    fi_eq_attr attr{};
    attr.flags = FI_WRITE;
    attr.wait_obj = wait;
    attr.wait_set = set;
    fid_eq* eq = nullptr;
    check(fi_eq_open(o.fabric.get(), &attr, &eq, nullptr), "fi_eq_open");
    return FidPtr<fid_eq>{eq};
}

inline bool readable(int fd) {
    pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&polled, 1, 0) == 1;
}

// An endpoint that knows itself, with a queue and a counter.
struct Loop : Objects {
    Loop(enum fi_wait_obj wait, enum fi_cq_format format) : Loop{} {
        open(open_cq(*this, wait, format), open_cntr(*this, FI_WAIT_UNSPEC));
    }
    Loop() = default; // Then open().
    void open(FidPtr<fid_cq> queue, FidPtr<fid_cntr> counter) {
        cq = std::move(queue);
        cntr = std::move(counter);
        fi_av_attr attr{};
        fid_av* a = nullptr;
        check(fi_av_open(domain.get(), &attr, &a, nullptr), "fi_av_open");
        av.reset(a);
        fid_ep* e = nullptr;
        check(fi_endpoint(domain.get(), info.get(), &e, nullptr), "fi_endpoint");
        ep.reset(e);
        check(fi_ep_bind(e, &a->fid, 0), "bind av");
        check(fi_ep_bind(e, &cq->fid, FI_TRANSMIT | FI_RECV), "bind cq");
        check(fi_ep_bind(e, &cntr->fid, FI_RECV), "bind cntr");
        check(fi_enable(e), "fi_enable");
        char name[64];
        std::size_t size = sizeof name;
        check(fi_getname(&e->fid, name, &size), "fi_getname");
        BOOST_REQUIRE(fi_av_insert(a, name, 1, &self, 0, nullptr) == 1);
    }
    void receive(void* context) {
        check(fi_recv(ep.get(), &inbox, sizeof inbox, nullptr, FI_ADDR_UNSPEC, context), "fi_recv");
    }
    void send() { check(fi_inject(ep.get(), &outbox, sizeof outbox, self), "fi_inject"); }

    FidPtr<fid_cq> cq;
    FidPtr<fid_cntr> cntr;
    FidPtr<fid_av> av;
    FidPtr<fid_ep> ep;
    fi_addr_t self = FI_ADDR_NOTAVAIL;
    std::uint64_t inbox = 0;
    std::uint64_t outbox = 0x1122334455667788;
};

} // namespace nvlf::test
