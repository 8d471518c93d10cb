// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Address vectors through libfabric.
#define BOOST_TEST_MODULE provider_av_calls
#include <array>
#include <boost/test/unit_test.hpp>

#include "conformance/provider/objects.hpp"
#include "nvlf/nvlf.h"

using namespace nvlf::test;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(RunningFabric);

struct Vector : Objects {
    explicit Vector(std::uint64_t flags = 0) {
        fi_av_attr attr{};
        attr.flags = flags;
        fid_av* a = nullptr;
        check(fi_av_open(domain.get(), &attr, &a, nullptr), "fi_av_open");
        BOOST_TEST(attr.type == FI_AV_TABLE);
        av.reset(a);
    }
    FidPtr<fid_av> av;
};

nvlf_addr by_service(std::uint64_t service) {
    nvlf_addr addr{};
    addr.magic = NVLF_ADDR_MAGIC;
    addr.version = NVLF_ADDR_VERSION;
    addr.device = NVLF_DEVICE_ANY;
    addr.service = service;
    return addr;
}

int open_with(Objects& o, const std::function<void(fi_av_attr&)>& set) {
    fi_av_attr attr{};
    set(attr);
    fid_av* av = nullptr;
    const int ret = fi_av_open(o.domain.get(), &attr, &av, nullptr);
    if (ret == 0) fi_close(&av->fid);
    return ret;
}
} // namespace

BOOST_AUTO_TEST_CASE(vectors_that_are_not_offered_are_refused_cleanly) {
    Objects o;
    BOOST_TEST(open_with(o, [](fi_av_attr& a) { a.type = FI_AV_MAP; }) == 0);
    BOOST_TEST(open_with(o, [](fi_av_attr& a) { a.rx_ctx_bits = 8; }) == 0);
    BOOST_TEST(open_with(o, [](fi_av_attr& a) { a.rx_ctx_bits = 9; }) == -FI_EINVAL);
    BOOST_TEST(open_with(o, [](fi_av_attr& a) { a.rx_ctx_bits = -1; }) == -FI_EINVAL);
    BOOST_TEST(open_with(o, [](fi_av_attr& a) { a.flags = FI_READ; }) == -FI_EINVAL); // What is nobody else's.
    BOOST_TEST(open_with(o, [](fi_av_attr& a) { a.flags = FI_MORE; }) == -FI_EBADFLAGS);
}

BOOST_AUTO_TEST_CASE(good_addresses_are_counted_and_bad_ones_marked) {
    Vector v;
    std::array<nvlf_addr, 3> addrs{by_service(1), {}, by_service(3)};
    std::array<fi_addr_t, 3> indices{};
    std::array<int, 3> errors{-1, -1, -1};
    BOOST_TEST(fi_av_insert(v.av.get(), addrs.data(), 3, indices.data(), FI_SYNC_ERR, errors.data()) == 2);
    BOOST_TEST(indices[0] == 0U);
    BOOST_TEST(indices[1] == FI_ADDR_NOTAVAIL);
    BOOST_TEST(indices[2] == 1U);
    BOOST_TEST(errors[0] == 0);
    BOOST_TEST(errors[1] == FI_EINVAL);
    BOOST_TEST(errors[2] == 0);
    BOOST_TEST(fi_av_insert(v.av.get(), addrs.data(), 0, indices.data(), 0, nullptr) == 0);
    BOOST_TEST(fi_av_insert(v.av.get(), nullptr, 1, indices.data(), 0, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_av_insert(v.av.get(), addrs.data(), 1, indices.data(), FI_PEEK, nullptr) == -FI_EBADFLAGS);
    BOOST_TEST(fi_av_insert(v.av.get(), addrs.data(), 1, nullptr, FI_AV_USER_ID, nullptr) == -FI_EINVAL); // Which?
    BOOST_TEST(fi_av_insert(v.av.get(), addrs.data(), 1, nullptr, FI_MORE, nullptr) == 1);
}

BOOST_AUTO_TEST_CASE(a_lookup_gives_back_what_was_inserted_cut_to_the_buffer) {
    Vector v;
    const nvlf_addr addr = by_service(77);
    fi_addr_t index = 0;
    BOOST_REQUIRE(fi_av_insert(v.av.get(), &addr, 1, &index, 0, nullptr) == 1);
    nvlf_addr back{};
    std::size_t size = sizeof back;
    BOOST_TEST(fi_av_lookup(v.av.get(), index, &back, &size) == 0);
    BOOST_TEST(size == sizeof back);
    BOOST_TEST(std::memcmp(&back, &addr, sizeof addr) == 0);
    std::array<char, 4> little{};
    size = 2;
    BOOST_TEST(fi_av_lookup(v.av.get(), index, little.data(), &size) == 0);
    BOOST_TEST(size == sizeof addr);
    BOOST_TEST(std::memcmp(little.data(), &addr, 2) == 0);
    BOOST_TEST(little[2] == 0);
    BOOST_TEST(fi_av_lookup(v.av.get(), index + 1, &back, &size) == -FI_EINVAL);
}

BOOST_AUTO_TEST_CASE(an_address_prints_into_any_buffer) {
    Vector v;
    const nvlf_addr addr = by_service(77);
    char text[64];
    std::size_t size = sizeof text;
    BOOST_TEST(fi_av_straddr(v.av.get(), &addr, text, &size) == std::string{"nvlf:///any?service=77"});
    BOOST_TEST(size == std::strlen(text) + 1);
    char little[5];
    size = sizeof little;
    BOOST_TEST(fi_av_straddr(v.av.get(), &addr, little, &size) == std::string{"nvlf"});
    BOOST_TEST(size == std::strlen(text) + 1);
}

BOOST_AUTO_TEST_CASE(services_are_resolved_singly_and_in_symmetric_ranges) {
    Vector v;
    fi_addr_t index = 99;
    BOOST_TEST(fi_av_insertsvc(v.av.get(), "localhost", "7", &index, 0, nullptr) == 1);
    BOOST_TEST(index == 0U);
    BOOST_TEST(fi_av_insertsvc(v.av.get(), "g00n13s", "7", &index, 0, nullptr) == -FI_EADDRNOTAVAIL);
    BOOST_TEST(fi_av_insertsvc(v.av.get(), "localhost", nullptr, &index, 0, nullptr) == -FI_EINVAL);
    std::array<fi_addr_t, 4> indices{};
    BOOST_TEST(fi_av_insertsym(v.av.get(), "gpu1", 2, "10", 2, indices.data(), 0, nullptr) == 4);
    std::vector<std::pair<std::uint32_t, std::uint64_t>> got;
    for (const fi_addr_t i : indices) {
        nvlf_addr addr{};
        std::size_t size = sizeof addr;
        BOOST_REQUIRE(fi_av_lookup(v.av.get(), i, &addr, &size) == 0);
        got.emplace_back(addr.device, addr.service);
    }
    const std::uint32_t gpu1 = got[0].first;
    BOOST_TEST((got == decltype(got){{gpu1, 10}, {gpu1, 11}, {gpu1 + 1, 10}, {gpu1 + 1, 11}}));
    BOOST_TEST(fi_av_insertsym(v.av.get(), "gpu1", 100, "10", 1, indices.data(), 0, nullptr) == -FI_EADDRNOTAVAIL);
    BOOST_TEST(fi_av_insertsym(v.av.get(), "localhost", 2, "10", 1, indices.data(), 0, nullptr) == -FI_EINVAL);
}

BOOST_AUTO_TEST_CASE(removed_addresses_are_gone_and_may_come_back) {
    Vector v;
    const nvlf_addr addr = by_service(5);
    fi_addr_t index = 0;
    BOOST_REQUIRE(fi_av_insert(v.av.get(), &addr, 1, &index, 0, nullptr) == 1);
    BOOST_TEST(fi_av_remove(v.av.get(), &index, 1, 0) == 0);
    BOOST_TEST(fi_av_remove(v.av.get(), &index, 1, 0) == -FI_EINVAL);
    BOOST_TEST(fi_av_remove(v.av.get(), &index, 1, FI_MORE) == -FI_EBADFLAGS);
    fi_addr_t again = 99;
    BOOST_REQUIRE(fi_av_insert(v.av.get(), &addr, 1, &again, 0, nullptr) == 1);
    BOOST_TEST(again == index);
}

BOOST_AUTO_TEST_CASE(asynchronous_insertions_report_each_failure_and_then_how_many_there_are) {
    Vector v{FI_EVENT};
    std::array<nvlf_addr, 2> addrs{by_service(1), {}};
    std::array<fi_addr_t, 2> indices{};
    int context = 0;
    BOOST_TEST(fi_av_insert(v.av.get(), addrs.data(), 2, indices.data(), 0, &context) == -FI_ENOEQ);
    fi_eq_attr attr{};
    fid_eq* e = nullptr;
    check(fi_eq_open(v.fabric.get(), &attr, &e, nullptr), "fi_eq_open");
    FidPtr<fid_eq> eq{e};
    BOOST_TEST(fi_av_bind(v.av.get(), &e->fid, 1) == -FI_EINVAL);
    BOOST_REQUIRE(fi_av_bind(v.av.get(), &e->fid, 0) == 0);
    BOOST_TEST(fi_close(&e->fid) == -FI_EBUSY);
    BOOST_TEST(fi_av_insert(v.av.get(), addrs.data(), 2, indices.data(), 0, &context) == 0);

    std::uint32_t event = 0;
    fi_eq_entry entry{};
    BOOST_TEST(fi_eq_read(e, &event, &entry, sizeof entry, 0) == -FI_EAVAIL);
    fi_eq_err_entry error{};
    BOOST_TEST(fi_eq_readerr(e, &error, 0) == static_cast<ssize_t>(sizeof error));
    BOOST_TEST(error.data == 1U);
    BOOST_TEST(error.err == FI_EINVAL);
    BOOST_TEST(error.context == &context);
    BOOST_TEST(fi_eq_read(e, &event, &entry, sizeof entry, 0) == static_cast<ssize_t>(sizeof entry));
    BOOST_TEST(event == static_cast<std::uint32_t>(FI_AV_COMPLETE));
    BOOST_TEST(entry.fid == &v.av->fid);
    BOOST_TEST(entry.context == &context);
    BOOST_TEST(entry.data == 1U);
    v.av.reset();
}
