// SPDX-License-Identifier: MIT OR GPL-2.0-only
// two_endpoints.hpp - two endpoints of one process that know each other, driven by one thread.
//
// Each has its own fabric, domain, address vector and completion queue, as two processes would; a message between them
// takes the same way. The tests use libfabric's public calls alone. Progress is manual, so a wait polls both queues; it
// is bounded, and a test that runs into the bound says what it was waiting for.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/provider/whose.hpp"
#include "support/fabric_daemon.hpp"

namespace nvlf::test {

// The executable's own fabric, up before libfabric is asked for anything. Declare once with BOOST_TEST_GLOBAL_FIXTURE.
struct OwnFabric {
    OwnFabric() {
        skip_what_is_not_claimed();
        ::setenv("NVLF_DIR", daemon.dir().c_str(), 1);
        ::setenv("NVLF_FABRIC", daemon.fabric().c_str(), 1);
        ::setenv("NVLF_ON_DEMAND", "0", 1);
    }
    FabricDaemon daemon;
};

struct FidCloser {
    template <class F>
    void operator()(F* f) const noexcept {
        if (f != nullptr) (void)fi_close(&f->fid);
    }
};
template <class F>
using FidPtr = std::unique_ptr<F, FidCloser>;

struct InfoDeleter {
    void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoDeleter>;

inline void check(ssize_t result, const char* what) {
    if (foreign() && not_claimed(result)) throw NotClaimed{what};
    BOOST_REQUIRE_MESSAGE(result >= 0, what << ": " << fi_strerror(static_cast<int>(-result)));
}

struct SideOptions {
    std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE;
    std::uint64_t op_flags = 0; // Of transmits.
    std::uint64_t msg_order = 0;
    std::uint64_t bind_flags = 0; // FI_SELECTIVE_COMPLETION
    std::uint64_t mode = FI_CONTEXT | FI_CONTEXT2;
    int mr_mode = 0;
    int imposed_mr_mode = 0;   // Set in the info although fi_getinfo left it out.
    std::uint64_t counted = 0; // FI_SEND, FI_RECV, ...: bound to a counter each.
    enum fi_threading threading = FI_THREAD_DOMAIN;
    enum fi_progress progress = FI_PROGRESS_UNSPEC;
    std::string device{};  // Domain name; empty: the first.
    std::string service{}; // Of its address; empty: it has none that is known beforehand.
    std::uint32_t version = FI_VERSION(1, 17);
    bool event_queue = false; // Bound to the endpoint.
};

// One endpoint with all it stands on.
class Side {
public:
    explicit Side(const SideOptions& options = {}) {
        InfoPtr hints{fi_allocinfo()};
        hints->caps = options.caps;
        hints->mode = options.mode;
        hints->ep_attr->type = FI_EP_RDM;
        hints->domain_attr->mr_mode = options.mr_mode;
        hints->domain_attr->threading = options.threading;
        hints->domain_attr->control_progress = options.progress;
        hints->domain_attr->data_progress = options.progress;
        hints->tx_attr->op_flags = options.op_flags;
        hints->tx_attr->msg_order = options.msg_order;
        hints->fabric_attr->prov_name = ::strdup(provider_name());
        if (foreign() && !options.device.empty()) throw NotClaimed{"devices of ours"};
        if (!options.device.empty()) hints->domain_attr->name = ::strdup(options.device.c_str());
        fi_info* found = nullptr;
        const bool named = !options.service.empty();
        const char* const service = named ? options.service.c_str() : nullptr;
        const std::uint64_t flags = named ? FI_SOURCE : 0;
        int result = fi_getinfo(options.version, nullptr, service, flags, hints.get(), &found);
        if (foreign() && result == -FI_ENODATA) { // It may want addresses where we want nothing.
            hints->domain_attr->mr_mode |= FI_MR_VIRT_ADDR;
            result = fi_getinfo(options.version, nullptr, service, flags, hints.get(), &found);
        }
        check(result, "fi_getinfo");
        info.reset(found);
        if (foreign() && (found->mode & (FI_CONTEXT | FI_CONTEXT2)) != 0) throw NotClaimed{"contexts of any kind"};
        info->domain_attr->mr_mode |= options.imposed_mr_mode;
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
        fi_cq_attr cq_attr{};
        cq_attr.format = FI_CQ_FORMAT_TAGGED;
        cq_attr.wait_obj = foreign() ? FI_WAIT_NONE : FI_WAIT_FD; // Not all others have that.
        fid_cq* c = nullptr;
        check(fi_cq_open(d, &cq_attr, &c, nullptr), "fi_cq_open");
        cq.reset(c);
        fid_ep* e = nullptr;
        check(fi_endpoint(d, info.get(), &e, nullptr), "fi_endpoint");
        ep.reset(e);
        check(fi_ep_bind(e, &a->fid, 0), "bind av");
        check(fi_ep_bind(e, &c->fid, FI_TRANSMIT | FI_RECV | options.bind_flags), "bind cq");
        if (options.event_queue) {
            fi_eq_attr eq_attr{};
            eq_attr.wait_obj = FI_WAIT_UNSPEC;
            fid_eq* q = nullptr;
            check(fi_eq_open(f, &eq_attr, &q, nullptr), "fi_eq_open");
            eq.reset(q);
            check(fi_ep_bind(e, &q->fid, 0), "bind eq");
        }
        for (std::uint64_t bit = 1; bit != 0; bit <<= 1) {
            if ((options.counted & bit) == 0) continue;
            counter[bit] = open_counter();
            check(fi_ep_bind(e, &counter[bit]->fid, bit), "bind cntr");
        }
        check(fi_enable(e), "fi_enable");
    }

    [[nodiscard]] std::vector<char> name() const {
        std::vector<char> bytes(512);
        std::size_t size = bytes.size();
        check(fi_getname(&ep->fid, bytes.data(), &size), "fi_getname");
        bytes.resize(size);
        return bytes;
    }

    [[nodiscard]] FidPtr<fid_cntr> open_counter() const {
        fi_cntr_attr attr{};
        attr.wait_obj = FI_WAIT_UNSPEC;
        fid_cntr* c = nullptr;
        check(fi_cntr_open(domain.get(), &attr, &c, nullptr), "fi_cntr_open");
        return FidPtr<fid_cntr>{c};
    }

    fi_addr_t insert(const std::vector<char>& address) const {
        fi_addr_t result = FI_ADDR_NOTAVAIL;
        BOOST_REQUIRE_EQUAL(fi_av_insert(av.get(), address.data(), 1, &result, 0, nullptr), 1);
        return result;
    }

    // Declared in the order of opening: destroyed in the reverse.
    InfoPtr info;
    FidPtr<fid_fabric> fabric;
    FidPtr<fid_eq> eq;
    FidPtr<fid_domain> domain;
    FidPtr<fid_av> av;
    FidPtr<fid_cq> cq;
    std::map<std::uint64_t, FidPtr<fid_cntr>> counter; // By what it counts.
    FidPtr<fid_ep> ep;
};

// What a queue said: a completion, or an error entry.
struct Event {
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    int error = 0; // FI_E*
    std::size_t lost = 0;
};

inline std::optional<Event> poll(fid_cq* cq) {
    Event event;
    const ssize_t n = fi_cq_readfrom(cq, &event.entry, 1, &event.source);
    if (n == 1) return event;
    if (n == -FI_EAGAIN) return std::nullopt;
    BOOST_REQUIRE_EQUAL(n, -FI_EAVAIL);
    fi_cq_err_entry failure{};
    BOOST_REQUIRE_EQUAL(fi_cq_readerr(cq, &failure, 0), 1);
    event.entry = {failure.op_context, failure.flags, failure.len, failure.buf, failure.data, failure.tag};
    event.error = failure.err;
    event.lost = failure.olen;
    return event;
}

class TwoEndpoints {
public:
    explicit TwoEndpoints(const SideOptions& first = {}, const SideOptions& second = {}) : a{first}, b{second} {
        to_b = a.insert(b.name());
        to_a = b.insert(a.name());
        const bool tells = (first.bind_flags | second.bind_flags) == 0; // Of what did not ask for it.
        if (foreign() && tells && (first.caps & second.caps & FI_MSG) != 0) acquaint();
    }

    // Others answer -FI_EAGAIN until they have met, which cases that are not about that do not expect.
    void acquaint() {
        char word = 0;
        for (int way = 0; way < 2; ++way) {
            Side& from = way == 0 ? a : b;
            Side& to = way == 0 ? b : a;
            post("recv", [&] { return fi_recv(to.ep.get(), &word, 1, nullptr, FI_ADDR_UNSPEC, nullptr); });
            post("inject", [&] { return fi_inject(from.ep.get(), &word, 1, way == 0 ? to_b : to_a); });
            (void)wait(to, "acquaintance");
        }
    }

    // The next event of one side, while the other is driven too.
    Event wait(Side& side, const char* what) {
        Side& other = &side == &a ? b : a;
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (std::chrono::steady_clock::now() < deadline) {
            if (auto event = poll(side.cq.get())) return *event;
            // Events of the other side stay in its queue: a zero-length read only drives it.
            (void)fi_cq_read(other.cq.get(), nullptr, 0);
        }
        BOOST_FAIL("nothing came in 20 s: " << what);
        return {};
    }

    // Tries again while the lane is full, driving both sides.
    template <class F>
    void post(const char* what, F&& call) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        ssize_t result = 0;
        do {
            result = call();
            if (result != -FI_EAGAIN) break;
            (void)fi_cq_read(a.cq.get(), nullptr, 0);
            (void)fi_cq_read(b.cq.get(), nullptr, 0);
        } while (std::chrono::steady_clock::now() < deadline);
        check(result, what);
    }

    Side a;
    Side b;
    fi_addr_t to_b = FI_ADDR_NOTAVAIL; // As a knows it.
    fi_addr_t to_a = FI_ADDR_NOTAVAIL;
};

// Bytes that differ from place to place and from seed to seed.
inline std::vector<char> pattern(std::size_t bytes, unsigned seed) {
    std::vector<char> result(bytes);
    std::uint32_t state = seed * 2654435761U + 1;
    for (char& c : result) {
        state = state * 1664525U + 1013904223U;
        c = static_cast<char>(state >> 24);
    }
    return result;
}

} // namespace nvlf::test
