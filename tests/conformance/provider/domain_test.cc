// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Fabrics, domains and registrations: what opens, what is refused, and that nothing closes under what stands on it.
#define BOOST_TEST_MODULE provider_domain
#include <boost/test/unit_test.hpp>

#include "conformance/provider/objects.hpp"

using namespace nvlf::test;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(RunningFabric);

int reg(Objects& o, void* buf, std::size_t len, std::uint64_t key, FidPtr<fid_mr>& ret_mr,
        std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE, std::uint64_t flags = 0) {
    fid_mr* mr = nullptr;
    const int ret = fi_mr_reg(o.domain.get(), buf, len, access, 0, key, flags, &mr, nullptr);
    if (ret == 0) ret_mr.reset(mr);
    return ret;
}

void basic(fi_info& hints) { hints.domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY; }
} // namespace

BOOST_AUTO_TEST_CASE(objects_close_only_when_nothing_stands_on_them) {
    Objects o;
    BOOST_TEST(fi_close(&o.fabric->fid) == -FI_EBUSY);
    int memory = 0;
    FidPtr<fid_mr> mr;
    check(reg(o, &memory, sizeof memory, 1, mr), "fi_mr_reg");
    BOOST_TEST(fi_close(&o.domain->fid) == -FI_EBUSY);
    mr.reset();
    BOOST_TEST(fi_close(&o.domain->fid) == 0);
    static_cast<void>(o.domain.release());
    BOOST_TEST(fi_close(&o.fabric->fid) == 0);
    static_cast<void>(o.fabric.release());
}

BOOST_AUTO_TEST_CASE(a_context_is_kept_and_the_version_is_the_applications) {
    int context = 0;
    const InfoPtr info = info_for();
    fid_fabric* fabric = nullptr;
    BOOST_REQUIRE(fi_fabric(info->fabric_attr, &fabric, &context) == 0);
    BOOST_TEST(fabric->fid.context == &context);
    BOOST_TEST(fabric->api_version == api_now);
    BOOST_TEST(fi_close(&fabric->fid) == 0);
}

BOOST_AUTO_TEST_CASE(a_fabric_that_does_not_run_and_must_not_be_started_is_an_error_not_a_hang) {
    const InfoPtr info = info_for();
    fi_fabric_attr attr = *info->fabric_attr;
    std::string name = "nvlf:nosuch";
    attr.name = name.data();
    fid_fabric* fabric = nullptr;
    BOOST_REQUIRE(fi_fabric(&attr, &fabric, nullptr) == 0);
    fid_domain* domain = nullptr;
    BOOST_TEST(fi_domain(fabric, info.get(), &domain, nullptr) == -FI_ENOENT);
    BOOST_TEST(fi_close(&fabric->fid) == 0);
}

BOOST_AUTO_TEST_CASE(a_domain_of_no_device_or_of_demands_that_were_not_offered_is_refused) {
    Objects o;
    fid_domain* domain = nullptr;
    InfoPtr info{fi_dupinfo(o.info.get())};
    info->tx_attr->inject_size = 1 << 20;
    BOOST_TEST(fi_domain(o.fabric.get(), info.get(), &domain, nullptr) == -FI_EINVAL);
    info.reset(fi_dupinfo(o.info.get()));
    std::free(info->domain_attr->name);
    info->domain_attr->name = ::strdup("tpu0");
    BOOST_TEST(fi_domain(o.fabric.get(), info.get(), &domain, nullptr) == -FI_ENODEV);
    std::free(info->domain_attr->name);
    info->domain_attr->name = nullptr;
    BOOST_TEST(fi_domain(o.fabric.get(), info.get(), &domain, nullptr) == -FI_EINVAL);
}

BOOST_AUTO_TEST_CASE(what_a_domain_does_not_offer_answers_enosys) {
    Objects o;
    fid_pep* pep = nullptr;
    BOOST_TEST(fi_passive_ep(o.fabric.get(), o.info.get(), &pep, nullptr) == -FI_ENOSYS);
    void* ops = nullptr;
    BOOST_TEST(fi_open_ops(&o.domain->fid, "nosuch", 0, &ops, nullptr) == -FI_ENOSYS);
}

BOOST_AUTO_TEST_CASE(without_prov_key_the_application_chooses_keys_and_none_twice) {
    Objects o;
    char memory[64];
    FidPtr<fid_mr> first, second;
    check(reg(o, memory, 32, 17, first), "fi_mr_reg");
    BOOST_TEST(fi_mr_key(first.get()) == 17U);
    BOOST_TEST(fi_mr_desc(first.get()) != nullptr);
    BOOST_TEST(reg(o, memory, 32, 17, second) == -FI_ENOKEY);
    BOOST_TEST(reg(o, memory, 32, FI_KEY_NOTAVAIL, second) == -FI_EINVAL);
    first.reset();
    check(reg(o, memory, 32, 17, second), "the key is free again");
}

BOOST_AUTO_TEST_CASE(with_prov_key_keys_are_ours_and_differ) {
    Objects o{basic};
    char memory[64];
    FidPtr<fid_mr> first, second;
    check(reg(o, memory, 32, 17, first), "fi_mr_reg");
    check(reg(o, memory, 32, 17, second), "fi_mr_reg of the same memory");
    BOOST_TEST(fi_mr_key(first.get()) != fi_mr_key(second.get()));
}

BOOST_AUTO_TEST_CASE(registrations_that_make_no_sense_are_refused) {
    Objects o;
    char memory[64];
    FidPtr<fid_mr> mr;
    BOOST_TEST(reg(o, memory, 0, 1, mr) == -FI_EINVAL);
    BOOST_TEST(reg(o, memory, SIZE_MAX, 1, mr) == -FI_EINVAL); // Past the end of the address space.
    BOOST_TEST(reg(o, memory, 8, 1, mr, FI_ATOMIC) == -FI_EINVAL);
    BOOST_TEST(reg(o, memory, 8, 1, mr, FI_REMOTE_READ, FI_FENCE) == -FI_EBADFLAGS);
    std::vector<iovec> pieces(5, iovec{memory, 8});
    fid_mr* out = nullptr;
    BOOST_TEST(fi_mr_regv(o.domain.get(), pieces.data(), 5, FI_REMOTE_READ, 0, 1, 0, &out, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_mr_regv(o.domain.get(), pieces.data(), 0, FI_REMOTE_READ, 0, 1, 0, &out, nullptr) == -FI_EINVAL);
    BOOST_REQUIRE(fi_mr_regv(o.domain.get(), pieces.data(), 4, FI_REMOTE_READ, 0, 1, 0, &out, nullptr) == 0);
    mr.reset(out);
    fi_mr_attr attr{};
    attr.mr_iov = pieces.data();
    attr.iov_count = 1;
    attr.access = FI_REMOTE_READ;
    attr.requested_key = 2;
    BOOST_REQUIRE(fi_mr_regattr(o.domain.get(), &attr, 0, &out) == 0);
    BOOST_TEST(fi_mr_enable(out) == 0);
    BOOST_TEST(fi_close(&out->fid) == 0);
}

BOOST_AUTO_TEST_CASE(a_domain_bound_for_it_reports_registrations_in_its_event_queue) {
    Objects o, other;
    fi_eq_attr attr{};
    attr.size = 8;
    fid_eq* opened = nullptr;
    check(fi_eq_open(o.fabric.get(), &attr, &opened, nullptr), "fi_eq_open");
    FidPtr<fid_eq> eq{opened};
    BOOST_TEST(fi_domain_bind(other.domain.get(), &eq->fid, FI_REG_MR) == -FI_EINVAL); // Of another fabric.
    BOOST_TEST(fi_domain_bind(o.domain.get(), &eq->fid, FI_SEND) == -FI_EBADFLAGS);
    BOOST_TEST(fi_domain_bind(o.domain.get(), &o.fabric->fid, FI_REG_MR) == -FI_EINVAL);
    BOOST_REQUIRE(fi_domain_bind(o.domain.get(), &eq->fid, FI_REG_MR) == 0);
    BOOST_TEST(fi_domain_bind(o.domain.get(), &eq->fid, FI_REG_MR) == -FI_EINVAL); // Twice.
    BOOST_TEST(fi_close(&eq->fid) == -FI_EBUSY);
    char memory[64];
    int context = 0;
    fid_mr* mr = nullptr;
    check(fi_mr_reg(o.domain.get(), memory, sizeof memory, FI_REMOTE_READ, 0, 5, 0, &mr, &context), "fi_mr_reg");
    std::uint32_t event = 0;
    fi_eq_entry entry{};
    BOOST_TEST(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0) == static_cast<ssize_t>(sizeof entry));
    BOOST_TEST(event == static_cast<std::uint32_t>(FI_MR_COMPLETE));
    BOOST_TEST(entry.fid == &mr->fid);
    BOOST_TEST(entry.context == &context);
    FidPtr<fid_mr> refused;
    BOOST_TEST(reg(o, memory, sizeof memory, 5, refused) ==
               -FI_ENOKEY); // A failure is the call's, no event tells of it.
    BOOST_TEST(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0) == -FI_EAGAIN);
    BOOST_TEST(fi_close(&mr->fid) == 0);
    o.domain.reset();
    BOOST_TEST(fi_close(&eq.release()->fid) == 0);
}

BOOST_AUTO_TEST_CASE(raw_keys_go_there_and_back) {
    Objects o{basic};
    char memory[64];
    FidPtr<fid_mr> mr;
    check(reg(o, memory, sizeof memory, 0, mr), "fi_mr_reg");
    std::uint64_t base = 0;
    std::uint8_t raw[8] = {};
    std::size_t size = 4;
    BOOST_TEST(fi_mr_raw_attr(mr.get(), &base, raw, &size, 0) == -FI_ETOOSMALL);
    BOOST_TEST(size == 8U);
    BOOST_REQUIRE(fi_mr_raw_attr(mr.get(), &base, raw, &size, 0) == 0);
    BOOST_TEST(base == reinterpret_cast<std::uintptr_t>(memory));
    std::uint64_t key = 0;
    BOOST_REQUIRE(fi_mr_map_raw(o.domain.get(), base, raw, size, &key, 0) == 0);
    BOOST_TEST(key == fi_mr_key(mr.get()));
    BOOST_TEST(fi_mr_unmap_key(o.domain.get(), key) == 0);
}
