// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Hints against what we offer: what is refused, and what comes back.
#define BOOST_TEST_MODULE provider_info
#include <rdma/fi_errno.h>

#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>

#include "address.hpp"
#include "info.hpp"

using namespace nvlf::ofi;

namespace {

struct Free {
    void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, Free>;
constexpr std::uint32_t now = FI_VERSION(1, 17);

Info hints(const std::function<void(fi_info&)>& set = [](fi_info&) {}) {
    Info info{fi_allocinfo()};
    set(*info);
    return info;
}

int checked(const std::function<void(fi_info&)>& set, std::uint32_t version = now) {
    return check_info(version, *hints(set));
}

Info filled(const std::function<void(fi_info&)>& set, std::uint32_t version = now) {
    const Info wish = hints(set);
    BOOST_REQUIRE(check_info(version, *wish) == 0);
    Info info{fi_allocinfo()};
    fill_info(version, wish.get(), *info);
    return info;
}

} // namespace

BOOST_AUTO_TEST_CASE(empty_hints_and_missing_attributes_ask_for_nothing) {
    BOOST_TEST(checked([](fi_info&) {}) == 0);
    fi_info bare{};
    BOOST_TEST(check_info(now, bare) == 0);
    Info info{fi_allocinfo()};
    fill_info(now, nullptr, *info);
    BOOST_TEST(info->caps == all_caps);
    BOOST_TEST(info->tx_attr->caps == tx_caps);
    BOOST_TEST(info->rx_attr->caps == rx_caps);
    BOOST_TEST(info->domain_attr->mr_mode == 0);
    BOOST_TEST(info->mode == 0U);
}

BOOST_AUTO_TEST_CASE(atomics_are_asked_for_and_bring_the_directions_of_one_sided_operations) {
    const Info info = filled([](fi_info& i) { i.caps = FI_ATOMIC; });
    BOOST_TEST((info->caps & (FI_ATOMIC | FI_RMA)) == FI_ATOMIC);
    BOOST_TEST(info->tx_attr->caps == (FI_ATOMIC | FI_FENCE | FI_TRIGGER | FI_READ | FI_WRITE));
    constexpr std::uint64_t targets = FI_REMOTE_READ | FI_REMOTE_WRITE;
    BOOST_TEST((info->rx_attr->caps & (FI_ATOMIC | FI_READ | FI_WRITE | targets)) == (FI_ATOMIC | targets));
    const Info less = filled([](fi_info& i) { i.caps = FI_ATOMIC | FI_WRITE; });
    BOOST_TEST((less->caps & (FI_READ | FI_WRITE | targets)) == FI_WRITE);
    BOOST_TEST((filled([](fi_info& i) { i.caps = FI_RMA; })->caps & FI_ATOMIC) == 0U);
}

BOOST_AUTO_TEST_CASE(wishes_beyond_the_offer_are_refused_and_at_the_offer_granted) {
    struct Case {
        const char* what;
        std::function<void(fi_info&, std::size_t over)> set;
    };
    const Case cases[] = {
        {"inject_size", [](fi_info& i, std::size_t o) { i.tx_attr->inject_size = inject_size + o; }},
        {"tx size", [](fi_info& i, std::size_t o) { i.tx_attr->size = queue_size + o; }},
        {"rx size", [](fi_info& i, std::size_t o) { i.rx_attr->size = queue_size + o; }},
        {"tx iov_limit", [](fi_info& i, std::size_t o) { i.tx_attr->iov_limit = iov_limit + o; }},
        {"rx iov_limit", [](fi_info& i, std::size_t o) { i.rx_attr->iov_limit = iov_limit + o; }},
        {"rma_iov_limit", [](fi_info& i, std::size_t o) { i.tx_attr->rma_iov_limit = rma_iov_limit + o; }},
        {"max_msg_size", [](fi_info& i, std::size_t o) { i.ep_attr->max_msg_size = max_msg_size + o; }},
        {"tx_ctx_cnt", [](fi_info& i, std::size_t o) { i.ep_attr->tx_ctx_cnt = contexts_per_ep + o; }},
        {"rx_ctx_cnt", [](fi_info& i, std::size_t o) { i.ep_attr->rx_ctx_cnt = contexts_per_ep + o; }},
        {"protocol_version",
         [](fi_info& i, std::size_t o) {
             i.ep_attr->protocol_version = protocol_version + static_cast<std::uint32_t>(o);
         }},
        {"cq_data_size", [](fi_info& i, std::size_t o) { i.domain_attr->cq_data_size = cq_data_size + o; }},
        {"mr_key_size", [](fi_info& i, std::size_t o) { i.domain_attr->mr_key_size = mr_key_size + o; }},
        {"ep_cnt", [](fi_info& i, std::size_t o) { i.domain_attr->ep_cnt = NVLF_MAX_ENDPOINTS_PER_FILE + o; }},
    };
    for (const Case& c : cases) {
        BOOST_TEST(checked([&](fi_info& i) { c.set(i, 0); }) == 0, c.what);
        BOOST_TEST(checked([&](fi_info& i) { c.set(i, 1); }) == -FI_ENODATA, c.what);
    }
}

BOOST_AUTO_TEST_CASE(kinds_that_we_are_not_are_refused) {
    BOOST_TEST(checked([](fi_info& i) { i.ep_attr->type = FI_EP_MSG; }) == -FI_ENODATA);
    BOOST_TEST(checked([](fi_info& i) { i.ep_attr->type = FI_EP_DGRAM; }) == -FI_ENODATA);
    BOOST_TEST(checked([](fi_info& i) { i.ep_attr->protocol = FI_PROTO_SHM; }) == -FI_ENODATA);
    BOOST_TEST(checked([](fi_info& i) { i.addr_format = FI_SOCKADDR_IB; }) == -FI_ENODATA);
    BOOST_TEST(checked([](fi_info& i) { i.addr_format = addr_nvlf; }) == 0);
    BOOST_TEST(checked([](fi_info& i) { i.caps = FI_MULTICAST; }) == -FI_ENODATA);
    BOOST_TEST(checked([](fi_info& i) { i.tx_attr->msg_order = FI_ORDER_SAS; }) == 0);
    BOOST_TEST(checked([](fi_info& i) { i.tx_attr->msg_order = FI_ORDER_STRICT; }) == 0);
    BOOST_TEST(checked([](fi_info& i) { i.tx_attr->msg_order = 1ULL << 50; }) == -FI_ENODATA);
    BOOST_TEST(checked([](fi_info& i) { i.tx_attr->comp_order = FI_ORDER_STRICT; }) == -FI_ENODATA);
    BOOST_TEST(checked([](fi_info& i) { i.tx_attr->op_flags = FI_DELIVERY_COMPLETE; }) == 0);
    BOOST_TEST(checked([](fi_info& i) { i.tx_attr->op_flags = FI_FENCE; }) == -FI_ENODATA);
    BOOST_TEST(checked([](fi_info& i) { i.domain_attr->data_progress = FI_PROGRESS_AUTO; }) == 0);
    BOOST_TEST(checked([](fi_info& i) { i.domain_attr->threading = static_cast<enum fi_threading>(7); }) ==
               -FI_ENODATA);
}

BOOST_AUTO_TEST_CASE(what_a_client_sets_comes_back_as_it_set_it) {
    const Info info = filled([](fi_info& i) {
        i.domain_attr->threading = FI_THREAD_DOMAIN;
        i.domain_attr->control_progress = FI_PROGRESS_MANUAL;
        i.domain_attr->av_type = FI_AV_TABLE;
        i.tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
        i.tx_attr->inject_size = 8;
        i.tx_attr->size = 16;
        i.tx_attr->iov_limit = 1;
        i.rx_attr->size = 32;
        i.rx_attr->total_buffered_recv = 1234;
    });
    BOOST_TEST(info->domain_attr->threading == FI_THREAD_DOMAIN);
    BOOST_TEST(info->domain_attr->av_type == FI_AV_TABLE);
    BOOST_TEST(info->tx_attr->op_flags == (FI_COMPLETION | FI_DELIVERY_COMPLETE));
    BOOST_TEST(info->tx_attr->inject_size == 8U);
    BOOST_TEST(info->tx_attr->size == 16U);
    BOOST_TEST(info->tx_attr->iov_limit == 1U);
    BOOST_TEST(info->rx_attr->size == 32U);
    BOOST_TEST(info->rx_attr->total_buffered_recv == 1234U);
}

BOOST_AUTO_TEST_CASE(capabilities_are_those_asked_for_with_directions_implied_and_the_free_ones_added) {
    const Info tagged = filled([](fi_info& i) { i.caps = FI_TAGGED; });
    BOOST_TEST(tagged->caps == (FI_TAGGED | FI_FENCE | FI_TRIGGER | FI_SEND | FI_RECV | FI_SOURCE | FI_MULTI_RECV |
                                FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV | FI_AV_USER_ID));
    BOOST_TEST(tagged->tx_attr->caps == (FI_TAGGED | FI_FENCE | FI_TRIGGER | FI_SEND));
    BOOST_TEST(tagged->rx_attr->caps == (FI_TAGGED | FI_TRIGGER | FI_RECV | FI_SOURCE | FI_MULTI_RECV));
    const Info writer = filled([](fi_info& i) { i.caps = FI_RMA | FI_WRITE; });
    BOOST_TEST((writer->caps & FI_WRITE) != 0U);
    BOOST_TEST((writer->caps & (FI_READ | FI_REMOTE_WRITE | FI_SEND | FI_MSG)) == 0U);
}

BOOST_AUTO_TEST_CASE(registration_modes_are_mirrored_and_the_old_enumeration_stands_alone) {
    const auto mode = [](int wanted, std::uint32_t version = now) {
        return filled([wanted](fi_info& i) { i.domain_attr->mr_mode = wanted; }, version)->domain_attr->mr_mode;
    };
    BOOST_TEST(mode(0) == 0);
    BOOST_TEST(mode(~3) == FI_MR_HMEM); // Copes with everything, and need not.
    BOOST_TEST(mode(~(3 | FI_MR_LOCAL | FI_MR_HMEM)) == mr_mode_basic_bits);
    const auto mode_for = [](std::uint64_t caps) {
        return filled([caps](fi_info& i) {
                   i.caps = caps;
                   i.domain_attr->mr_mode = FI_MR_HMEM;
               })
            ->domain_attr->mr_mode;
    };
    BOOST_TEST(mode_for(FI_RMA | FI_HMEM) == FI_MR_HMEM);
    BOOST_TEST(mode_for(FI_RMA) == 0);
    BOOST_TEST(mode(FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT) == mr_mode_basic_bits);
    BOOST_TEST(mode(FI_MR_ENDPOINT | FI_MR_LOCAL) == 0);
    BOOST_TEST(mode(FI_MR_BASIC) == FI_MR_BASIC);
    BOOST_TEST(mode(FI_MR_SCALABLE) == FI_MR_SCALABLE);
    BOOST_TEST(mode(FI_MR_UNSPEC, FI_VERSION(1, 4)) == FI_MR_SCALABLE);
    BOOST_TEST(mode(FI_MR_BASIC, FI_VERSION(1, 4)) == FI_MR_BASIC);
    BOOST_TEST(checked([](fi_info& i) { i.domain_attr->mr_mode = FI_MR_BASIC | FI_MR_LOCAL; }) == -FI_ENODATA);
    BOOST_TEST(checked([](fi_info& i) { i.domain_attr->mr_mode = FI_MR_VIRT_ADDR; }, FI_VERSION(1, 4)) == -FI_ENODATA);
    BOOST_TEST(mr_mode_bits(FI_MR_BASIC) == static_cast<std::uint64_t>(mr_mode_basic_bits));
    BOOST_TEST(mr_mode_bits(FI_MR_SCALABLE) == 0U);
    BOOST_TEST(mr_mode_bits(FI_MR_PROV_KEY | FI_MR_LOCAL) == (FI_MR_PROV_KEY | FI_MR_LOCAL));
}

BOOST_AUTO_TEST_CASE(a_card_survives_its_original_when_duplicated) {
    nvlf_device device{};
    device.name[0] = 'g';
    device.kind = NVLF_DEVICE_TRAINIUM;
    device.index = 300;
    device.node = 4;
    device.rate = 100;
    device.state = NVLF_STATE_DOWN;
    fid_nic* nic = nic_new(device);
    fid_nic* copy = nullptr;
    BOOST_REQUIRE(fi_control(&nic->fid, FI_DUP, &copy) == 0);
    BOOST_REQUIRE(fi_close(&nic->fid) == 0);
    BOOST_TEST(copy->device_attr->name == std::string{"g"});
    BOOST_TEST(copy->device_attr->vendor_id == std::string{"0x1d0f"});
    BOOST_TEST(copy->bus_attr->attr.pci.domain_id == 4);
    BOOST_TEST(copy->bus_attr->attr.pci.bus_id == 300 % 256);
    BOOST_TEST(copy->bus_attr->attr.pci.device_id == 300 / 256);
    BOOST_TEST(copy->link_attr->speed == 800U);
    BOOST_TEST(copy->link_attr->state == FI_LINK_DOWN);
    BOOST_REQUIRE(fi_close(&copy->fid) == 0);
}
