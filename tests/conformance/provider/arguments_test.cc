// SPDX-License-Identifier: MIT OR GPL-2.0-only
// arguments_test - arguments that make no sense, to every call of every object: each is answered by its documented error, and
// nothing has come of it. After each table a message of either kind and a one-sided operation pass as before.
//
// The object itself is not among the arguments: libfabric's inline functions look into it before we are asked. Nor are data
// buffers: those are the application's memory, and a pointer into nowhere faults.
#define BOOST_TEST_MODULE arguments
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_trigger.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>

#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_COLLECTIVE | FI_DIRECTED_RECV | FI_SOURCE;
constexpr std::uint64_t unknown_flag = std::uint64_t{1} << 62;
constexpr fi_addr_t nobody = 4711; // Never inserted.
constexpr std::uint64_t key = 77;

struct Row {
    const char* call;
    ssize_t expected;
    std::function<ssize_t()> make;
};

struct Case {
    Case() {
        fid_mr* m = nullptr;
        check(fi_mr_reg(pair.b.domain.get(), memory.data(), memory.size(), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0,
                        &m, nullptr),
              "fi_mr_reg");
        mr.reset(m);
    }

    void walk(const std::vector<Row>& rows) {
        for (const Row& row : rows) {
            const ssize_t answer = row.make();
            BOOST_TEST(answer == row.expected, row.call << ": " << fi_strerror(static_cast<int>(-answer)) << " ("
                                                        << answer << "), not "
                                                        << fi_strerror(static_cast<int>(-row.expected)));
        }
        passes();
    }

    // Nothing is left of what was refused: no completion, no receive that takes what others wait for.
    void passes() {
        BOOST_TEST(!poll(pair.a.cq.get()).has_value());
        BOOST_TEST(!poll(pair.b.cq.get()).has_value());
        const auto out = pattern(20'000, 7);
        std::vector<char> in(out.size());
        int context = 0;
        check(fi_recv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, &context), "recv");
        pair.post("send",
                  [&] { return fi_send(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, nullptr); });
        BOOST_TEST(pair.wait(pair.b, "message").entry.op_context == &context);
        BOOST_TEST(in == out);
        BOOST_TEST(pair.wait(pair.a, "send").error == 0);
        check(fi_trecv(pair.b.ep.get(), in.data(), 8, nullptr, pair.b_knows_a(), 5, 0, &context), "trecv");
        pair.post("tsend", [&] { return fi_tsend(pair.a.ep.get(), &context, 4, nullptr, pair.to_b, 5, nullptr); });
        BOOST_TEST(pair.wait(pair.b, "tagged message").entry.tag == 5U);
        BOOST_TEST(pair.wait(pair.a, "tsend").error == 0);
        pair.post("write",
                  [&] { return fi_write(pair.a.ep.get(), out.data(), 64, nullptr, pair.to_b, 0, key, nullptr); });
        BOOST_TEST(pair.wait(pair.a, "write").error == 0);
        BOOST_TEST(std::memcmp(memory.data(), out.data(), 64) == 0);
    }

    struct Pair : TwoEndpoints {
        using TwoEndpoints::TwoEndpoints;
        [[nodiscard]] fi_addr_t b_knows_a() const { return to_a; }
    };
    std::vector<char> memory = std::vector<char>(4096);
    Pair pair{SideOptions{.caps = caps}, SideOptions{.caps = caps}};
    FidPtr<fid_mr> mr;

    fid_ep* ep = pair.a.ep.get();
    fid_domain* domain = pair.a.domain.get();
    fid_fabric* fabric = pair.a.fabric.get();
    fid_av* av = pair.a.av.get();
    fid_cq* cq = pair.a.cq.get();
    fi_addr_t to = pair.to_b;
};

template <class Attr>
Attr attr_with(const std::function<void(Attr&)>& set) {
    Attr attr{};
    set(attr);
    return attr;
}

} // namespace

BOOST_AUTO_TEST_CASE(of_a_fabric) {
    Case c;
    fi_info* const info = c.pair.a.info.get();
    fid_domain* d = nullptr;
    fid_fabric* f = nullptr;
    fid_eq* eq = nullptr;
    fid_pep* pep = nullptr;
    fid_wait* w = nullptr;
    const InfoPtr spoiled{fi_dupinfo(info)};
    const auto spoil = [&](const std::function<void(fi_info&)>& set) {
        const InfoPtr copy{fi_dupinfo(info)};
        set(*copy);
        return fi_domain(c.fabric, copy.get(), &d, nullptr);
    };
    const auto eq_open = [&](const std::function<void(fi_eq_attr&)>& set) {
        fi_eq_attr attr = attr_with<fi_eq_attr>(set);
        return fi_eq_open(c.fabric, &attr, &eq, nullptr);
    };
    const auto wait_open = [&](const std::function<void(fi_wait_attr&)>& set) {
        fi_wait_attr attr = attr_with<fi_wait_attr>(set);
        return fi_wait_open(c.fabric, &attr, &w);
    };
    std::array<fid*, 2> objects{&c.cq->fid, nullptr};
    c.walk({
        {"fi_fabric, no attributes", -FI_EINVAL, [&] { return fi_fabric(nullptr, &f, nullptr); }},
        {"fi_domain, no info", -FI_EINVAL, [&] { return fi_domain(c.fabric, nullptr, &d, nullptr); }},
        {"fi_domain, nowhere to", -FI_EINVAL, [&] { return fi_domain(c.fabric, info, nullptr, nullptr); }},
        {"fi_domain, unknown capability", -FI_EINVAL,
         [&] { return spoil([](fi_info& i) { i.caps |= FI_MULTICAST; }); }},
        {"fi_domain, unknown threading", -FI_EINVAL,
         [&] { return spoil([](fi_info& i) { i.domain_attr->threading = static_cast<enum fi_threading>(7); }); }},
        {"fi_domain, no such device", -FI_ENODEV,
         [&] {
             return spoil([](fi_info& i) {
                 ::free(i.domain_attr->name);
                 i.domain_attr->name = ::strdup("no such device");
             });
         }},
        {"fi_passive_ep", -FI_ENOSYS, [&] { return fi_passive_ep(c.fabric, info, &pep, nullptr); }},
        {"fi_eq_open, no attributes", -FI_EINVAL, [&] { return fi_eq_open(c.fabric, nullptr, &eq, nullptr); }},
        {"fi_eq_open, unknown flag", -FI_EBADFLAGS, [&] { return eq_open([](auto& a) { a.flags = unknown_flag; }); }},
        {"fi_eq_open, no such wait object", -FI_EINVAL,
         [&] { return eq_open([](auto& a) { a.wait_obj = static_cast<enum fi_wait_obj>(7); }); }},
        {"fi_eq_open, no wait set", -FI_EINVAL, [&] { return eq_open([](auto& a) { a.wait_obj = FI_WAIT_SET; }); }},
        {"fi_eq_open, mutex", -FI_ENOSYS, [&] { return eq_open([](auto& a) { a.wait_obj = FI_WAIT_MUTEX_COND; }); }},
        {"fi_eq_open, too long", -FI_EINVAL, [&] { return eq_open([](auto& a) { a.size = SIZE_MAX; }); }},
        {"fi_wait_open, no attributes", -FI_EINVAL, [&] { return fi_wait_open(c.fabric, nullptr, &w); }},
        {"fi_wait_open, unknown flag", -FI_EBADFLAGS,
         [&] { return wait_open([](auto& a) { a.flags = unknown_flag; }); }},
        {"fi_wait_open, what cannot wait", -FI_EINVAL,
         [&] { return wait_open([](auto& a) { a.wait_obj = FI_WAIT_NONE; }); }},
        {"fi_trywait, less than nothing", -FI_EINVAL, [&] { return fi_trywait(c.fabric, objects.data(), -1); }},
        {"fi_trywait, no list", -FI_EINVAL, [&] { return fi_trywait(c.fabric, nullptr, 1); }},
        {"fi_trywait, a hole in it", -FI_EINVAL, [&] { return fi_trywait(c.fabric, objects.data(), 2); }},
        {"fi_control", -FI_ENOSYS, [&] { return fi_control(&c.fabric->fid, 9999, nullptr); }},
        {"fi_close, with a domain", -FI_EBUSY, [&] { return fi_close(&c.fabric->fid); }},
    });
}

BOOST_AUTO_TEST_CASE(of_a_domain) {
    Case c;
    fi_info* const info = c.pair.a.info.get();
    fid_av* av = nullptr;
    fid_cq* cq = nullptr;
    fid_cntr* cntr = nullptr;
    fid_ep* ep = nullptr;
    fid_stx* stx = nullptr;
    fid_poll* poll_set = nullptr;
    fid_mr* mr = nullptr;
    char byte = 0;
    const auto av_open = [&](const std::function<void(fi_av_attr&)>& set) {
        fi_av_attr attr = attr_with<fi_av_attr>(set);
        return fi_av_open(c.domain, &attr, &av, nullptr);
    };
    const auto cq_open = [&](const std::function<void(fi_cq_attr&)>& set) {
        fi_cq_attr attr = attr_with<fi_cq_attr>(set);
        return fi_cq_open(c.domain, &attr, &cq, nullptr);
    };
    const auto cntr_open = [&](const std::function<void(fi_cntr_attr&)>& set) {
        fi_cntr_attr attr = attr_with<fi_cntr_attr>(set);
        return fi_cntr_open(c.domain, &attr, &cntr, nullptr);
    };
    const auto endpoint = [&](const std::function<void(fi_info&)>& set, auto open) {
        const InfoPtr copy{fi_dupinfo(info)};
        set(*copy);
        return open(c.domain, copy.get(), &ep, nullptr);
    };
    const auto reg = [&](const void* at, std::size_t bytes, std::uint64_t access, std::uint64_t offset,
                         std::uint64_t flags) {
        return fi_mr_reg(c.domain, at, bytes, access, offset, 1, flags, &mr, nullptr);
    };
    fi_poll_attr poll_attr{unknown_flag};
    fi_atomic_attr atomic_attr{};
    fi_collective_attr coll_attr{};
    const std::array<iovec, 8> pieces{};
    c.walk({
        {"fi_av_open, no attributes", -FI_EINVAL, [&] { return fi_av_open(c.domain, nullptr, &av, nullptr); }},
        {"fi_av_open, unknown flag", -FI_EBADFLAGS, [&] { return av_open([](auto& a) { a.flags = unknown_flag; }); }},
        {"fi_av_open, unknown type", -FI_EINVAL,
         [&] { return av_open([](auto& a) { a.type = static_cast<enum fi_av_type>(3); }); }},
        {"fi_av_open, too many", -FI_EINVAL, [&] { return av_open([](auto& a) { a.count = SIZE_MAX; }); }},
        {"fi_av_open, too many context bits", -FI_EINVAL, [&] { return av_open([](auto& a) { a.rx_ctx_bits = 64; }); }},
        {"fi_av_open, to read what has no name", -FI_EINVAL,
         [&] { return av_open([](auto& a) { a.flags = FI_READ; }); }},
        {"fi_cq_open, no attributes", -FI_EINVAL, [&] { return fi_cq_open(c.domain, nullptr, &cq, nullptr); }},
        {"fi_cq_open, unknown flag", -FI_EBADFLAGS, [&] { return cq_open([](auto& a) { a.flags = unknown_flag; }); }},
        {"fi_cq_open, unknown format", -FI_EINVAL,
         [&] { return cq_open([](auto& a) { a.format = static_cast<enum fi_cq_format>(7); }); }},
        {"fi_cq_open, unknown wait object", -FI_EINVAL,
         [&] { return cq_open([](auto& a) { a.wait_obj = static_cast<enum fi_wait_obj>(7); }); }},
        {"fi_cq_open, too long", -FI_EINVAL, [&] { return cq_open([](auto& a) { a.size = SIZE_MAX; }); }},
        {"fi_cntr_open, no attributes", -FI_EINVAL, [&] { return fi_cntr_open(c.domain, nullptr, &cntr, nullptr); }},
        {"fi_cntr_open, unknown flag", -FI_EBADFLAGS,
         [&] { return cntr_open([](auto& a) { a.flags = unknown_flag; }); }},
        {"fi_cntr_open, unknown events", -FI_ENOSYS,
         [&] { return cntr_open([](auto& a) { a.events = static_cast<enum fi_cntr_events>(1); }); }},
        {"fi_endpoint, no info", -FI_EINVAL, [&] { return fi_endpoint(c.domain, nullptr, &ep, nullptr); }},
        {"fi_endpoint, nowhere to", -FI_EINVAL, [&] { return fi_endpoint(c.domain, info, nullptr, nullptr); }},
        {"fi_endpoint, connected", -FI_EINVAL,
         [&] { return endpoint([](fi_info& i) { i.ep_attr->type = FI_EP_MSG; }, fi_endpoint); }},
        {"fi_endpoint, several contexts", -FI_EINVAL,
         [&] { return endpoint([](fi_info& i) { i.ep_attr->tx_ctx_cnt = 2; }, fi_endpoint); }},
        {"fi_scalable_ep, no info", -FI_EINVAL, [&] { return fi_scalable_ep(c.domain, nullptr, &ep, nullptr); }},
        {"fi_scalable_ep, too many contexts", -FI_EINVAL,
         [&] { return endpoint([](fi_info& i) { i.ep_attr->tx_ctx_cnt = 1u << 20; }, fi_scalable_ep); }},
        {"fi_stx_context, nowhere to", -FI_EINVAL, [&] { return fi_stx_context(c.domain, nullptr, nullptr, nullptr); }},
        {"fi_stx_context, too much", -FI_EINVAL,
         [&] {
             fi_tx_attr attr{};
             attr.inject_size = SIZE_MAX;
             return fi_stx_context(c.domain, &attr, &stx, nullptr);
         }},
        {"fi_srx_context, nowhere to", -FI_EINVAL, [&] { return fi_srx_context(c.domain, nullptr, nullptr, nullptr); }},
        {"fi_poll_open, no attributes", -FI_EINVAL, [&] { return fi_poll_open(c.domain, nullptr, &poll_set); }},
        {"fi_poll_open, unknown flag", -FI_EBADFLAGS, [&] { return fi_poll_open(c.domain, &poll_attr, &poll_set); }},
        {"fi_mr_reg, no length", -FI_EINVAL, [&] { return reg(&byte, 0, FI_REMOTE_READ, 0, 0); }},
        {"fi_mr_reg, past the end of memory", -FI_EINVAL, [&] { return reg(&byte, SIZE_MAX, FI_REMOTE_READ, 0, 0); }},
        {"fi_mr_reg, unknown access", -FI_EINVAL, [&] { return reg(&byte, 1, unknown_flag, 0, 0); }},
        {"fi_mr_reg, an offset", -FI_EINVAL, [&] { return reg(&byte, 1, FI_REMOTE_READ, 1, 0); }},
        {"fi_mr_reg, unknown flag", -FI_EBADFLAGS, [&] { return reg(&byte, 1, FI_REMOTE_READ, 0, unknown_flag); }},
        {"fi_mr_reg, nowhere to", -FI_EINVAL,
         [&] { return fi_mr_reg(c.domain, &byte, 1, FI_REMOTE_READ, 0, 1, 0, nullptr, nullptr); }},
        {"fi_mr_regv, no list", -FI_EINVAL,
         [&] { return fi_mr_regv(c.domain, nullptr, 1, FI_REMOTE_READ, 0, 1, 0, &mr, nullptr); }},
        {"fi_mr_regv, too many", -FI_EINVAL,
         [&] { return fi_mr_regv(c.domain, pieces.data(), 8, FI_REMOTE_READ, 0, 1, 0, &mr, nullptr); }},
        {"fi_mr_regattr, no attributes", -FI_EINVAL, [&] { return fi_mr_regattr(c.domain, nullptr, 0, &mr); }},
        {"fi_query_atomic, nowhere to", -FI_EINVAL,
         [&] { return fi_query_atomic(c.domain, FI_UINT8, FI_SUM, nullptr, 0); }},
        {"fi_query_atomic, unknown flag", -FI_EBADFLAGS,
         [&] { return fi_query_atomic(c.domain, FI_UINT8, FI_SUM, &atomic_attr, unknown_flag); }},
        {"fi_query_atomic, no such thing", -FI_EOPNOTSUPP,
         [&] { return fi_query_atomic(c.domain, FI_FLOAT, FI_BAND, &atomic_attr, 0); }},
        {"fi_query_collective, nowhere to", -FI_EINVAL,
         [&] { return fi_query_collective(c.domain, FI_BARRIER, nullptr, 0); }},
        {"fi_query_collective, unknown flag", -FI_EBADFLAGS,
         [&] { return fi_query_collective(c.domain, FI_BARRIER, &coll_attr, unknown_flag); }},
        {"fi_domain_bind, nothing", -FI_EINVAL, [&] { return fi_domain_bind(c.domain, nullptr, 0); }},
        {"fi_domain_bind, a queue", -FI_EINVAL, [&] { return fi_domain_bind(c.domain, &c.cq->fid, 0); }},
        {"fi_mr_map_raw, no key", -FI_EINVAL, [&] { return fi_mr_map_raw(c.domain, 0, nullptr, 8, nullptr, 0); }},
        {"FI_QUEUE_WORK, none", -FI_EINVAL, [&] { return fi_control(&c.domain->fid, FI_QUEUE_WORK, nullptr); }},
        {"fi_control", -FI_ENOSYS, [&] { return fi_control(&c.domain->fid, 9999, nullptr); }},
        {"fi_close, with an endpoint", -FI_EBUSY, [&] { return fi_close(&c.domain->fid); }},
    });
}

BOOST_AUTO_TEST_CASE(of_an_address_vector) {
    Case c;
    const std::vector<char> name = c.pair.a.name();
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    std::array<char, 64> room{};
    std::size_t bytes = room.size();
    fid_av_set* set = nullptr;
    fi_av_set_attr set_attr{};
    set_attr.flags = unknown_flag;
    c.walk({
        {"fi_av_insert, no list", -FI_EINVAL, [&] { return fi_av_insert(c.av, nullptr, 1, &address, 0, nullptr); }},
        {"fi_av_insert, too many", -FI_EINVAL,
         [&] { return fi_av_insert(c.av, name.data(), SIZE_MAX, &address, 0, nullptr); }},
        {"fi_av_insert, unknown flag", -FI_EBADFLAGS,
         [&] { return fi_av_insert(c.av, name.data(), 1, &address, unknown_flag, nullptr); }},
        {"fi_av_insert, no errors wanted where they go", -FI_EINVAL,
         [&] { return fi_av_insert(c.av, name.data(), 1, &address, FI_SYNC_ERR, nullptr); }},
        {"fi_av_insert, nonsense", 0, [&] { return fi_av_insert(c.av, room.data(), 1, &address, 0, nullptr); }},
        {"fi_av_insertsvc, no service", -FI_EINVAL,
         [&] { return fi_av_insertsvc(c.av, "localhost", nullptr, &address, 0, nullptr); }},
        {"fi_av_insertsvc, unknown host", -FI_EADDRNOTAVAIL,
         [&] { return fi_av_insertsvc(c.av, "g00n13s", "1", &address, 0, nullptr); }},
        {"fi_av_insertsym, no host", -FI_EINVAL,
         [&] { return fi_av_insertsym(c.av, nullptr, 1, "1", 1, &address, 0, nullptr); }},
        {"fi_av_insertsym, too many", -FI_EINVAL,
         [&] { return fi_av_insertsym(c.av, "localhost", SIZE_MAX, "1", 2, &address, 0, nullptr); }},
        {"fi_av_remove, no list", -FI_EINVAL, [&] { return fi_av_remove(c.av, nullptr, 1, 0); }},
        {"fi_av_remove, unknown flag", -FI_EBADFLAGS, [&] { return fi_av_remove(c.av, &c.to, 1, unknown_flag); }},
        {"fi_av_remove, who is not there", -FI_EINVAL,
         [&] {
             fi_addr_t gone = nobody;
             return fi_av_remove(c.av, &gone, 1, 0);
         }},
        {"fi_av_lookup, who is not there", -FI_EINVAL, [&] { return fi_av_lookup(c.av, nobody, room.data(), &bytes); }},
        {"fi_av_lookup, no length", -FI_EINVAL, [&] { return fi_av_lookup(c.av, c.to, room.data(), nullptr); }},
        {"fi_av_lookup, nowhere to", -FI_EINVAL,
         [&] {
             bytes = 1;
             return fi_av_lookup(c.av, c.to, nullptr, &bytes);
         }},
        {"fi_av_bind, nothing", -FI_EINVAL, [&] { return fi_av_bind(c.av, nullptr, 0); }},
        {"fi_av_bind, a queue", -FI_EINVAL, [&] { return fi_av_bind(c.av, &c.cq->fid, 0); }},
        {"fi_av_set, no attributes", -FI_EINVAL, [&] { return fi_av_set(c.av, nullptr, &set, nullptr); }},
        {"fi_av_set, unknown flag", -FI_EBADFLAGS, [&] { return fi_av_set(c.av, &set_attr, &set, nullptr); }},
        {"fi_control", -FI_ENOSYS, [&] { return fi_control(&c.av->fid, 9999, nullptr); }},
        {"fi_close, with an endpoint", -FI_EBUSY, [&] { return fi_close(&c.av->fid); }},
    });
}

BOOST_AUTO_TEST_CASE(of_queues_and_counters) {
    Case c;
    const FidPtr<fid_cntr> cntr = c.pair.a.open_counter();
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = FI_WAIT_UNSPEC;
    fid_eq* e = nullptr;
    check(fi_eq_open(c.fabric, &eq_attr, &e, nullptr), "fi_eq_open");
    const FidPtr<fid_eq> eq{e};
    fi_poll_attr poll_attr{};
    fid_poll* p = nullptr;
    check(fi_poll_open(c.domain, &poll_attr, &p), "fi_poll_open");
    const FidPtr<fid_poll> poll_set{p};
    fi_wait_attr wait_attr{};
    wait_attr.wait_obj = FI_WAIT_UNSPEC;
    fid_wait* w = nullptr;
    check(fi_wait_open(c.fabric, &wait_attr, &w), "fi_wait_open");
    const FidPtr<fid_wait> wait_set{w};
    fi_cq_err_entry failure{};
    std::uint32_t event = 0;
    std::array<char, 64> room{};
    c.walk({
        {"fi_cq_read, nowhere to", -FI_EINVAL, [&] { return fi_cq_read(c.cq, nullptr, 1); }},
        {"fi_cq_readfrom, nowhere to", -FI_EINVAL, [&] { return fi_cq_readfrom(c.cq, nullptr, 1, &c.to); }},
        {"fi_cq_sread, nowhere to", -FI_EINVAL, [&] { return fi_cq_sread(c.cq, nullptr, 1, nullptr, 0); }},
        {"fi_cq_readerr, nowhere to", -FI_EINVAL, [&] { return fi_cq_readerr(c.cq, nullptr, 0); }},
        {"fi_cq_readerr, unknown flag", -FI_EBADFLAGS, [&] { return fi_cq_readerr(c.cq, &failure, unknown_flag); }},
        {"fi_cq_readerr, none", -FI_EAGAIN, [&] { return fi_cq_readerr(c.cq, &failure, 0); }},
        {"FI_GETWAIT, nowhere to", -FI_EINVAL, [&] { return fi_control(&c.cq->fid, FI_GETWAIT, nullptr); }},
        {"fi_control of a queue", -FI_ENOSYS, [&] { return fi_control(&c.cq->fid, 9999, nullptr); }},
        {"fi_close of a queue in use", -FI_EBUSY, [&] { return fi_close(&c.cq->fid); }},
        {"fi_cntr_wait, no time", -FI_ETIMEDOUT, [&] { return fi_cntr_wait(cntr.get(), 1, 0); }},
        {"fi_control of a counter", -FI_ENOSYS, [&] { return fi_control(&cntr->fid, 9999, nullptr); }},
        {"fi_eq_read, nowhere to", -FI_EINVAL, [&] { return fi_eq_read(eq.get(), &event, nullptr, 8, 0); }},
        {"fi_eq_read, unknown flag", -FI_EBADFLAGS,
         [&] { return fi_eq_read(eq.get(), &event, room.data(), 8, unknown_flag); }},
        {"fi_eq_sread, unknown flag", -FI_EBADFLAGS,
         [&] { return fi_eq_sread(eq.get(), &event, room.data(), 8, 0, unknown_flag); }},
        {"fi_eq_readerr, nowhere to", -FI_EINVAL, [&] { return fi_eq_readerr(eq.get(), nullptr, 0); }},
        {"fi_eq_write, not open for that", -FI_EINVAL,
         [&] { return fi_eq_write(eq.get(), FI_NOTIFY, room.data(), 8, 0); }},
        {"fi_eq_write, unknown flag", -FI_EBADFLAGS,
         [&] { return fi_eq_write(eq.get(), FI_NOTIFY, room.data(), 8, unknown_flag); }},
        {"fi_control of an event queue", -FI_ENOSYS, [&] { return fi_control(&eq->fid, 9999, nullptr); }},
        {"fi_poll, nowhere to", -FI_EINVAL, [&] { return fi_poll(poll_set.get(), nullptr, 1); }},
        {"fi_poll, less than nothing", -FI_EINVAL, [&] { return fi_poll(poll_set.get(), nullptr, -1); }},
        {"fi_poll_add, nothing", -FI_EINVAL, [&] { return fi_poll_add(poll_set.get(), nullptr, 0); }},
        {"fi_poll_add, an endpoint", -FI_EINVAL, [&] { return fi_poll_add(poll_set.get(), &c.ep->fid, 0); }},
        {"fi_poll_add, unknown flag", -FI_EBADFLAGS,
         [&] { return fi_poll_add(poll_set.get(), &c.cq->fid, unknown_flag); }},
        {"fi_poll_del, what is not in it", -FI_ENOENT, [&] { return fi_poll_del(poll_set.get(), &c.cq->fid, 0); }},
        {"FI_GETWAIT of a wait set, nowhere to", -FI_EINVAL,
         [&] { return fi_control(&wait_set->fid, FI_GETWAITOBJ, nullptr); }},
        {"fi_control of a wait set", -FI_ENOSYS, [&] { return fi_control(&wait_set->fid, 9999, nullptr); }},
    });
}

BOOST_AUTO_TEST_CASE(of_a_registration) {
    Case c;
    fid_mr* const mr = c.mr.get();
    std::uint64_t base = 0;
    std::size_t size = 0;
    std::array<std::uint8_t, 8> raw{};
    fi_mr_modify unknown{};
    unknown.flags = unknown_flag;
    c.walk({
        {"fi_mr_bind, nothing", -FI_EINVAL, [&] { return fi_mr_bind(mr, nullptr, 0); }},
        {"fi_mr_bind, a queue", -FI_EINVAL, [&] { return fi_mr_bind(mr, &c.pair.b.cq->fid, 0); }},
        {"fi_mr_bind, a stranger's endpoint", -FI_EINVAL, [&] { return fi_mr_bind(mr, &c.ep->fid, 0); }},
        {"fi_mr_bind, unknown flag", -FI_EBADFLAGS, [&] { return fi_mr_bind(mr, &c.pair.b.ep->fid, unknown_flag); }},
        {"fi_mr_raw_attr, no length", -FI_EINVAL, [&] { return fi_mr_raw_attr(mr, &base, raw.data(), nullptr, 0); }},
        {"fi_mr_raw_attr, no room", -FI_ETOOSMALL, [&] { return fi_mr_raw_attr(mr, &base, raw.data(), &size, 0); }},
        {"fi_mr_raw_attr, unknown flag", -FI_EBADFLAGS,
         [&] { return fi_mr_raw_attr(mr, &base, raw.data(), &size, unknown_flag); }},
        {"FI_REFRESH, nothing", -FI_EINVAL, [&] { return fi_control(&mr->fid, FI_REFRESH, nullptr); }},
        {"FI_REFRESH, unknown flag", -FI_EBADFLAGS, [&] { return fi_control(&mr->fid, FI_REFRESH, &unknown); }},
        {"fi_control", -FI_ENOSYS, [&] { return fi_control(&mr->fid, 9999, nullptr); }},
    });
}

BOOST_AUTO_TEST_CASE(of_an_endpoint) {
    Case c;
    fid_ep* made = nullptr;
    check(fi_endpoint(c.domain, c.pair.a.info.get(), &made, nullptr), "fi_endpoint");
    const FidPtr<fid_ep> fresh{made};
    const Side other;
    const FidPtr<fid_cntr> cntr = c.pair.a.open_counter();
    std::size_t size = 1;
    char byte = 0;
    std::uint64_t flags = 0;
    fid_ep* alias = nullptr;
    fid_ep* context = nullptr;
    fid_mc* mc = nullptr;
    c.walk({
        {"fi_ep_bind, nothing", -FI_EINVAL, [&] { return fi_ep_bind(made, nullptr, 0); }},
        {"fi_ep_bind, an endpoint", -FI_EINVAL, [&] { return fi_ep_bind(made, &c.ep->fid, 0); }},
        {"fi_ep_bind, a stranger's queue", -FI_EINVAL, [&] { return fi_ep_bind(made, &other.cq->fid, FI_RECV); }},
        {"fi_ep_bind, a stranger's vector", -FI_EINVAL, [&] { return fi_ep_bind(made, &other.av->fid, 0); }},
        {"fi_ep_bind, a queue for nothing", -FI_EINVAL, [&] { return fi_ep_bind(made, &c.cq->fid, 0); }},
        {"fi_ep_bind, a queue for what it is not", -FI_EBADFLAGS,
         [&] { return fi_ep_bind(made, &c.cq->fid, FI_RECV | unknown_flag); }},
        {"fi_ep_bind, a counter for nothing", -FI_EBADFLAGS, [&] { return fi_ep_bind(made, &cntr->fid, 0); }},
        {"fi_ep_bind, too late", -FI_EOPBADSTATE, [&] { return fi_ep_bind(c.ep, &cntr->fid, FI_SEND); }},
        {"fi_enable, no vector", -FI_ENOAV, [&] { return fi_enable(made); }},
        {"fi_enable, no queue", -FI_ENOCQ,
         [&] {
             check(fi_ep_bind(made, &c.av->fid, 0), "bind av");
             return fi_enable(made);
         }},
        {"fi_send, not enabled", -FI_EOPBADSTATE, [&] { return fi_send(made, &byte, 1, nullptr, c.to, nullptr); }},
        {"fi_recv, not enabled", -FI_EOPBADSTATE,
         [&] { return fi_recv(made, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr); }},
        {"fi_getname, not enabled", -FI_EOPBADSTATE, [&] { return fi_getname(&made->fid, &byte, &size); }},
        {"fi_getname, no length", -FI_EINVAL, [&] { return fi_getname(&c.ep->fid, &byte, nullptr); }},
        {"fi_getname, nowhere to", -FI_EINVAL,
         [&] {
             size = 64;
             return fi_getname(&c.ep->fid, nullptr, &size);
         }},
        {"fi_getname, no room", -FI_ETOOSMALL,
         [&] {
             size = 1;
             return fi_getname(&c.ep->fid, &byte, &size);
         }},
        {"fi_setopt, unknown level", -FI_ENOPROTOOPT,
         [&] { return fi_setopt(&c.ep->fid, 99, FI_OPT_MIN_MULTI_RECV, &size, sizeof size); }},
        {"fi_setopt, unknown option", -FI_ENOPROTOOPT,
         [&] { return fi_setopt(&c.ep->fid, FI_OPT_ENDPOINT, 9999, &size, sizeof size); }},
        {"fi_setopt, no value", -FI_EINVAL,
         [&] { return fi_setopt(&c.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, nullptr, sizeof size); }},
        {"fi_setopt, half a value", -FI_EINVAL,
         [&] { return fi_setopt(&c.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size, 1); }},
        {"fi_getopt, unknown option", -FI_ENOPROTOOPT,
         [&] { return fi_getopt(&c.ep->fid, FI_OPT_ENDPOINT, 9999, &size, &size); }},
        {"fi_getopt, nowhere to", -FI_EINVAL,
         [&] { return fi_getopt(&c.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, nullptr, &size); }},
        {"fi_getopt, no room", -FI_ETOOSMALL,
         [&] {
             size = 1;
             return fi_getopt(&c.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &byte, &size);
         }},
        {"FI_GETOPSFLAG, of neither direction", -FI_EINVAL,
         [&] { return fi_control(&c.ep->fid, FI_GETOPSFLAG, &flags); }},
        {"FI_SETOPSFLAG, no flags", -FI_EINVAL, [&] { return fi_control(&c.ep->fid, FI_SETOPSFLAG, nullptr); }},
        {"FI_SETOPSFLAG, unknown flag", -FI_EBADFLAGS,
         [&] {
             flags = FI_TRANSMIT | unknown_flag;
             return fi_control(&c.ep->fid, FI_SETOPSFLAG, &flags);
         }},
        {"fi_ep_alias, of neither direction", -FI_EINVAL, [&] { return fi_ep_alias(c.ep, &alias, 0); }},
        {"fi_ep_alias, unknown flag", -FI_EBADFLAGS,
         [&] { return fi_ep_alias(c.ep, &alias, FI_TRANSMIT | unknown_flag); }},
        {"fi_tx_context, not scalable", -FI_ENOSYS, [&] { return fi_tx_context(c.ep, 0, nullptr, &context, nullptr); }},
        {"fi_connect", -FI_ENOSYS, [&] { return fi_connect(c.ep, &byte, nullptr, 0); }},
        {"fi_listen", -FI_ENOSYS, [&] { return fi_listen(reinterpret_cast<fid_pep*>(c.ep)); }},
        {"fi_accept", -FI_ENOSYS, [&] { return fi_accept(c.ep, nullptr, 0); }},
        {"fi_shutdown", -FI_ENOSYS, [&] { return fi_shutdown(c.ep, 0); }},
        {"fi_join, no multicast", -FI_ENOSYS, [&] { return fi_join(c.ep, &byte, 0, &mc, nullptr); }},
        {"fi_control", -FI_ENOSYS, [&] { return fi_control(&c.ep->fid, 9999, nullptr); }},
        {"fi_cancel, what is not there", 0, [&] { return fi_cancel(&c.ep->fid, &byte); }},
    });
}

BOOST_AUTO_TEST_CASE(of_messages) {
    Case c;
    char byte = 0;
    const std::array<iovec, 8> many{};
    const iovec one{&byte, 1}, huge{&byte, SIZE_MAX / 2};
    const auto sendmsg = [&](const iovec* iov, std::size_t count, fi_addr_t to, std::uint64_t flags) {
        const fi_msg msg{iov, nullptr, count, to, nullptr, 0};
        return fi_sendmsg(c.ep, &msg, flags);
    };
    const auto recvmsg = [&](const iovec* iov, std::size_t count, std::uint64_t flags) {
        const fi_msg msg{iov, nullptr, count, FI_ADDR_UNSPEC, nullptr, 0};
        return fi_recvmsg(c.ep, &msg, flags);
    };
    const auto tsendmsg = [&](const iovec* iov, std::size_t count, fi_addr_t to, std::uint64_t flags) {
        const fi_msg_tagged msg{iov, nullptr, count, to, 1, 0, nullptr, 0};
        return fi_tsendmsg(c.ep, &msg, flags);
    };
    const auto trecvmsg = [&](const iovec* iov, std::size_t count, std::uint64_t flags) {
        const fi_msg_tagged msg{iov, nullptr, count, FI_ADDR_UNSPEC, 1, 0, &byte, 0};
        return fi_trecvmsg(c.ep, &msg, flags);
    };
    c.walk({
        {"fi_send, to nobody", -FI_EINVAL, [&] { return fi_send(c.ep, &byte, 1, nullptr, nobody, nullptr); }},
        {"fi_send, to no address", -FI_EINVAL,
         [&] { return fi_send(c.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr); }},
        {"fi_send, too long", -FI_EMSGSIZE, [&] { return fi_send(c.ep, &byte, SIZE_MAX, nullptr, c.to, nullptr); }},
        {"fi_sendv, no list", -FI_EINVAL, [&] { return fi_sendv(c.ep, nullptr, nullptr, 1, c.to, nullptr); }},
        {"fi_sendv, too many", -FI_EINVAL, [&] { return fi_sendv(c.ep, many.data(), nullptr, 8, c.to, nullptr); }},
        {"fi_sendmsg, no message", -FI_EINVAL, [&] { return fi_sendmsg(c.ep, nullptr, 0); }},
        {"fi_sendmsg, too long", -FI_EMSGSIZE, [&] { return sendmsg(&huge, 1, c.to, 0); }},
        {"fi_sendmsg, unknown flag", -FI_EBADFLAGS, [&] { return sendmsg(&one, 1, c.to, unknown_flag); }},
        {"fi_sendmsg, a receive's flag", -FI_EBADFLAGS, [&] { return sendmsg(&one, 1, c.to, FI_MULTI_RECV); }},
        {"fi_inject, too long", -FI_EMSGSIZE, [&] { return fi_inject(c.ep, c.memory.data(), 1u << 20, c.to); }},
        {"fi_inject, to nobody", -FI_EINVAL, [&] { return fi_inject(c.ep, &byte, 1, nobody); }},
        {"fi_senddata, to nobody", -FI_EINVAL,
         [&] { return fi_senddata(c.ep, &byte, 1, nullptr, 1, nobody, nullptr); }},
        {"fi_injectdata, too long", -FI_EMSGSIZE,
         [&] { return fi_injectdata(c.ep, c.memory.data(), 1u << 20, 1, c.to); }},
        {"fi_recvv, no list", -FI_EINVAL, [&] { return fi_recvv(c.ep, nullptr, nullptr, 1, FI_ADDR_UNSPEC, nullptr); }},
        {"fi_recvv, too many", -FI_EINVAL,
         [&] { return fi_recvv(c.ep, many.data(), nullptr, 8, FI_ADDR_UNSPEC, nullptr); }},
        {"fi_recvmsg, no message", -FI_EINVAL, [&] { return fi_recvmsg(c.ep, nullptr, 0); }},
        {"fi_recvmsg, unknown flag", -FI_EBADFLAGS, [&] { return recvmsg(&one, 1, unknown_flag); }},
        {"fi_recvmsg, several messages into several buffers", -FI_EINVAL,
         [&] { return recvmsg(many.data(), 2, FI_MULTI_RECV); }},
        {"fi_recvmsg, discard what", -FI_EBADFLAGS, [&] { return recvmsg(&one, 1, FI_DISCARD); }},
        {"fi_recvmsg, claim what", -FI_EINVAL, [&] { return recvmsg(&one, 1, FI_CLAIM); }},
        {"fi_tsend, to nobody", -FI_EINVAL, [&] { return fi_tsend(c.ep, &byte, 1, nullptr, nobody, 1, nullptr); }},
        {"fi_tsend, too long", -FI_EMSGSIZE,
         [&] { return fi_tsend(c.ep, &byte, SIZE_MAX, nullptr, c.to, 1, nullptr); }},
        {"fi_tsendv, no list", -FI_EINVAL, [&] { return fi_tsendv(c.ep, nullptr, nullptr, 1, c.to, 1, nullptr); }},
        {"fi_tsendmsg, no message", -FI_EINVAL, [&] { return fi_tsendmsg(c.ep, nullptr, 0); }},
        {"fi_tsendmsg, unknown flag", -FI_EBADFLAGS, [&] { return tsendmsg(&one, 1, c.to, unknown_flag); }},
        {"fi_tsendmsg, too many", -FI_EINVAL, [&] { return tsendmsg(many.data(), 8, c.to, 0); }},
        {"fi_tinject, too long", -FI_EMSGSIZE, [&] { return fi_tinject(c.ep, c.memory.data(), 1u << 20, c.to, 1); }},
        {"fi_trecvv, too many", -FI_EINVAL,
         [&] { return fi_trecvv(c.ep, many.data(), nullptr, 8, FI_ADDR_UNSPEC, 1, 0, nullptr); }},
        {"fi_trecvmsg, no message", -FI_EINVAL, [&] { return fi_trecvmsg(c.ep, nullptr, 0); }},
        {"fi_trecvmsg, unknown flag", -FI_EBADFLAGS, [&] { return trecvmsg(&one, 1, unknown_flag); }},
        {"fi_trecvmsg, several messages", -FI_EINVAL, [&] { return trecvmsg(&one, 1, FI_MULTI_RECV); }},
        {"fi_trecvmsg, claim what", -FI_EINVAL, [&] { return trecvmsg(&one, 1, FI_CLAIM); }},
    });
}

BOOST_AUTO_TEST_CASE(of_one_sided_operations) {
    Case c;
    std::uint64_t word = 0, result = 0;
    const iovec one{&word, sizeof word};
    const std::array<iovec, 8> many{};
    const fi_rma_iov there{0, sizeof word, key}, longer{0, sizeof word + 1, key};
    const auto message = [&](auto call, const iovec* iov, std::size_t count, const fi_rma_iov* remote,
                             std::size_t remotes, fi_addr_t to, std::uint64_t flags) {
        const fi_msg_rma msg{iov, nullptr, count, to, remote, remotes, nullptr, 0};
        return call(c.ep, &msg, flags);
    };
    const fi_ioc operand{&word, 1};
    const fi_rma_ioc element{0, 1, key};
    const auto atomic = [&](const fi_ioc* iov, std::size_t count, const fi_rma_ioc* remote, std::size_t remotes,
                            fi_addr_t to, enum fi_datatype type, enum fi_op op, std::uint64_t flags) {
        const fi_msg_atomic msg{iov, nullptr, count, to, remote, remotes, type, op, nullptr, 0};
        return fi_atomicmsg(c.ep, &msg, flags);
    };
    std::size_t count = 0;
    c.walk({
        {"fi_write, to nobody", -FI_EINVAL, [&] { return fi_write(c.ep, &word, 8, nullptr, nobody, 0, key, nullptr); }},
        {"fi_write, too long", -FI_EMSGSIZE,
         [&] { return fi_write(c.ep, &word, SIZE_MAX, nullptr, c.to, 0, key, nullptr); }},
        {"fi_writev, too many", -FI_EINVAL,
         [&] { return fi_writev(c.ep, many.data(), nullptr, 8, c.to, 0, key, nullptr); }},
        {"fi_writemsg, no message", -FI_EINVAL, [&] { return fi_writemsg(c.ep, nullptr, 0); }},
        {"fi_writemsg, unknown flag", -FI_EBADFLAGS,
         [&] { return message(fi_writemsg, &one, 1, &there, 1, c.to, unknown_flag); }},
        {"fi_writemsg, nowhere to", -FI_EINVAL, [&] { return message(fi_writemsg, &one, 1, &there, 0, c.to, 0); }},
        {"fi_writemsg, no list", -FI_EINVAL, [&] { return message(fi_writemsg, &one, 1, nullptr, 1, c.to, 0); }},
        {"fi_writemsg, too many", -FI_EINVAL, [&] { return message(fi_writemsg, &one, 1, &there, 100, c.to, 0); }},
        {"fi_writemsg, lengths that differ", -FI_EINVAL,
         [&] { return message(fi_writemsg, &one, 1, &longer, 1, c.to, 0); }},
        {"fi_inject_write, too long", -FI_EMSGSIZE,
         [&] { return fi_inject_write(c.ep, c.memory.data(), 1u << 20, c.to, 0, key); }},
        {"fi_writedata, to nobody", -FI_EINVAL,
         [&] { return fi_writedata(c.ep, &word, 8, nullptr, 1, nobody, 0, key, nullptr); }},
        {"fi_read, to nobody", -FI_EINVAL, [&] { return fi_read(c.ep, &word, 8, nullptr, nobody, 0, key, nullptr); }},
        {"fi_readmsg, no message", -FI_EINVAL, [&] { return fi_readmsg(c.ep, nullptr, 0); }},
        {"fi_readmsg, a write's flag", -FI_EBADFLAGS,
         [&] { return message(fi_readmsg, &one, 1, &there, 1, c.to, FI_REMOTE_CQ_DATA); }},
        {"fi_readmsg, lengths that differ", -FI_EINVAL,
         [&] { return message(fi_readmsg, &one, 1, &longer, 1, c.to, 0); }},
        {"fi_atomic, to nobody", -FI_EINVAL,
         [&] { return fi_atomic(c.ep, &word, 1, nullptr, nobody, 0, key, FI_UINT64, FI_SUM, nullptr); }},
        {"fi_atomic, no operand", -FI_EINVAL,
         [&] { return fi_atomic(c.ep, nullptr, 1, nullptr, c.to, 0, key, FI_UINT64, FI_SUM, nullptr); }},
        {"fi_atomic, nothing", -FI_EINVAL,
         [&] { return fi_atomic(c.ep, &word, 0, nullptr, c.to, 0, key, FI_UINT64, FI_SUM, nullptr); }},
        {"fi_atomic, too long", -FI_EMSGSIZE,
         [&] { return fi_atomic(c.ep, &word, SIZE_MAX, nullptr, c.to, 0, key, FI_UINT64, FI_SUM, nullptr); }},
        {"fi_atomic, no such operation", -FI_EOPNOTSUPP,
         [&] { return fi_atomic(c.ep, &word, 1, nullptr, c.to, 0, key, FI_FLOAT, FI_BXOR, nullptr); }},
        {"fi_atomicmsg, no message", -FI_EINVAL, [&] { return fi_atomicmsg(c.ep, nullptr, 0); }},
        {"fi_atomicmsg, unknown flag", -FI_EBADFLAGS,
         [&] { return atomic(&operand, 1, &element, 1, c.to, FI_UINT64, FI_SUM, unknown_flag); }},
        {"fi_atomicmsg, no target", -FI_EINVAL,
         [&] { return atomic(&operand, 1, nullptr, 1, c.to, FI_UINT64, FI_SUM, 0); }},
        {"fi_fetch_atomic, nowhere to", -FI_EINVAL,
         [&] {
             return fi_fetch_atomic(c.ep, &word, 1, nullptr, nullptr, nullptr, c.to, 0, key, FI_UINT64, FI_SUM,
                                    nullptr);
         }},
        {"fi_compare_atomic, with nothing", -FI_EINVAL,
         [&] {
             return fi_compare_atomic(c.ep, &word, 1, nullptr, nullptr, nullptr, &result, nullptr, c.to, 0, key,
                                      FI_UINT64, FI_CSWAP, nullptr);
         }},
        {"fi_atomicvalid, nowhere to", -FI_EINVAL, [&] { return fi_atomicvalid(c.ep, FI_UINT64, FI_SUM, nullptr); }},
        {"fi_atomicvalid, a compare's", -FI_EOPNOTSUPP,
         [&] { return fi_atomicvalid(c.ep, FI_UINT64, FI_CSWAP, &count); }},
    });
}

// What only the target can refuse is answered in the queue.
BOOST_AUTO_TEST_CASE(keys_and_ranges_that_are_not_the_initiators_end_in_error) {
    Case c;
    std::uint64_t word = 0;
    const auto ends = [&](const char* what, auto&& call) {
        BOOST_TEST_CONTEXT(what) {
            c.pair.post(what, call);
            BOOST_TEST(c.pair.wait(c.pair.a, what).error == FI_EKEYREJECTED);
        }
    };
    const std::uint64_t end = c.memory.size();
    for (const auto& [at_key, address] : std::map<std::uint64_t, std::uint64_t>{{12345, 0}, {key, end - 7}})
        for (const std::uint64_t at : {address, std::uint64_t{UINT64_MAX - 3}}) {
            ends("write", [&, k = at_key] { return fi_write(c.ep, &word, 8, nullptr, c.to, at, k, nullptr); });
            ends("read", [&, k = at_key] { return fi_read(c.ep, &word, 8, nullptr, c.to, at, k, nullptr); });
            ends("atomic", [&, k = at_key] {
                return fi_atomic(c.ep, &word, 1, nullptr, c.to, at, k, FI_UINT64, FI_SUM, nullptr);
            });
        }
    c.passes();
}

BOOST_AUTO_TEST_CASE(of_scalable_and_shared_contexts) {
    Case c;
    fid_ep *sep = nullptr, *tx = nullptr, *rx = nullptr, *srx = nullptr, *second = nullptr;
    fid_stx* stx = nullptr;
    const InfoPtr info{fi_dupinfo(c.pair.a.info.get())};
    info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 2;
    check(fi_scalable_ep(c.domain, info.get(), &sep, nullptr), "fi_scalable_ep");
    check(fi_tx_context(sep, 0, nullptr, &tx, nullptr), "fi_tx_context");
    check(fi_rx_context(sep, 0, nullptr, &rx, nullptr), "fi_rx_context");
    check(fi_stx_context(c.domain, nullptr, &stx, nullptr), "fi_stx_context");
    check(fi_srx_context(c.domain, nullptr, &srx, nullptr), "fi_srx_context");
    char byte = 0;
    c.walk({
        {"fi_tx_context, beyond the last", -FI_EINVAL,
         [&] { return fi_tx_context(sep, 2, nullptr, &second, nullptr); }},
        {"fi_tx_context, before the first", -FI_EINVAL,
         [&] { return fi_tx_context(sep, -1, nullptr, &second, nullptr); }},
        {"fi_tx_context, nowhere to", -FI_EINVAL, [&] { return fi_tx_context(sep, 1, nullptr, nullptr, nullptr); }},
        {"fi_tx_context, twice", -FI_EBUSY, [&] { return fi_tx_context(sep, 0, nullptr, &second, nullptr); }},
        {"fi_rx_context, beyond the last", -FI_EINVAL,
         [&] { return fi_rx_context(sep, 2, nullptr, &second, nullptr); }},
        {"fi_scalable_ep_bind, nothing", -FI_EINVAL, [&] { return fi_scalable_ep_bind(sep, nullptr, 0); }},
        {"fi_scalable_ep_bind, a queue", -FI_EINVAL, [&] { return fi_scalable_ep_bind(sep, &c.cq->fid, FI_TRANSMIT); }},
        {"fi_ep_bind of a context, nothing", -FI_EINVAL, [&] { return fi_ep_bind(tx, nullptr, 0); }},
        {"fi_send, context not enabled", -FI_EOPBADSTATE,
         [&] { return fi_send(tx, &byte, 1, nullptr, c.to, nullptr); }},
        {"fi_recv on a transmit context", -FI_ENOSYS,
         [&] { return fi_recv(tx, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr); }},
        {"fi_send on a shared receive context", -FI_ENOSYS,
         [&] { return fi_send(srx, &byte, 1, nullptr, c.to, nullptr); }},
        {"fi_close, with contexts", -FI_EBUSY, [&] { return fi_close(&sep->fid); }},
    });
    for (fid* object : {&tx->fid, &rx->fid, &sep->fid, &stx->fid, &srx->fid}) BOOST_TEST(fi_close(object) == 0);
}
