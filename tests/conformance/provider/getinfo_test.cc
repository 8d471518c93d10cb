// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fi_getinfo as applications meet it: through libfabric's core.
#define BOOST_TEST_MODULE provider_getinfo
#include <boost/test/unit_test.hpp>
#include <set>

#include "conformance/provider/objects.hpp"
#include "nvlf/nvlf.h"

using namespace nvlf::test;

namespace {
BOOST_TEST_GLOBAL_FIXTURE(RunningFabric);

std::vector<std::string> domains(const InfoPtr& list) {
    std::vector<std::string> names;
    for (const fi_info* i = list.get(); i != nullptr; i = i->next) names.emplace_back(i->domain_attr->name);
    return names;
}

nvlf_addr addr_in(const void* bytes, std::size_t length) {
    BOOST_REQUIRE(bytes != nullptr);
    BOOST_REQUIRE_EQUAL(length, sizeof(nvlf_addr));
    nvlf_addr addr;
    std::memcpy(&addr, bytes, sizeof addr);
    return addr;
}
} // namespace

BOOST_AUTO_TEST_CASE(each_device_is_listed_once_and_as_ours_alone) {
    const InfoPtr list = info_for();
    const auto names = domains(list);
    BOOST_TEST(names.size() == 8U);
    BOOST_TEST((std::set<std::string>{names.begin(), names.end()}.size() == names.size()));
    for (const fi_info* i = list.get(); i != nullptr; i = i->next) {
        BOOST_TEST(i->fabric_attr->prov_name == std::string{"nvlf"}); // No layered provider runs on us.
        BOOST_TEST(i->fabric_attr->name == std::string{"nvlf:t"});
        BOOST_TEST(i->ep_attr->type == FI_EP_RDM);
        BOOST_REQUIRE(i->nic != nullptr);
        BOOST_TEST(i->nic->device_attr->name == std::string{i->domain_attr->name});
        BOOST_TEST(i->nic->link_attr->speed > 0U);
        const nvlf_addr source = addr_in(i->src_addr, i->src_addrlen);
        BOOST_TEST(source.magic == NVLF_ADDR_MAGIC);
        BOOST_TEST(i->dest_addr == nullptr);
    }
}

BOOST_AUTO_TEST_CASE(names_in_hints_select_and_unknown_ones_select_nothing) {
    InfoPtr list;
    BOOST_TEST(get_info(list, [](fi_info& h) { h.domain_attr->name = ::strdup("trn2"); }) == 0);
    BOOST_TEST((domains(list) == std::vector<std::string>{"trn2"}));
    BOOST_TEST(get_info(list, [](fi_info& h) { h.domain_attr->name = ::strdup("trn"); }) == -FI_ENODATA);
    BOOST_TEST(get_info(list, [](fi_info& h) { h.fabric_attr->name = ::strdup("nvlf:t"); }) == 0);
    BOOST_TEST(get_info(list, [](fi_info& h) { h.fabric_attr->name = ::strdup("127.0.0.0/8"); }) == -FI_ENODATA);
    BOOST_TEST(get_info(list, [](fi_info& h) { h.fabric_attr->name = ::strdup("nvlf:"); }) == -FI_ENODATA);
}

BOOST_AUTO_TEST_CASE(the_device_that_the_environment_names_comes_first_and_a_wrong_name_is_no_device) {
    ::setenv("NVLF_DEVICE", "trn1", 1);
    const auto names = domains(info_for());
    BOOST_TEST(names.front() == "trn1");
    BOOST_TEST(names.size() == 8U);
    ::setenv("NVLF_DEVICE", "tpu0", 1);
    InfoPtr list;
    BOOST_TEST(get_info(list) == -FI_ENODATA);
    ::unsetenv("NVLF_DEVICE");
}

BOOST_AUTO_TEST_CASE(a_node_and_a_service_become_the_destination_or_with_source_the_own_address) {
    InfoPtr list;
    BOOST_TEST(get_info(list, {}, "127.0.0.1", "9228") == 0);
    nvlf_addr dest = addr_in(list->dest_addr, list->dest_addrlen);
    BOOST_TEST(dest.service == 9228U);
    BOOST_TEST(dest.device == NVLF_DEVICE_ANY);
    BOOST_TEST(addr_in(list->src_addr, list->src_addrlen).service == 0U);

    BOOST_TEST(get_info(list, {}, "trn0", "web") == 0);
    dest = addr_in(list->dest_addr, list->dest_addrlen);
    BOOST_TEST(dest.service == nvlf_service("web"));
    BOOST_TEST(dest.device != NVLF_DEVICE_ANY);
    BOOST_TEST(domains(list).size() == 8U);

    BOOST_TEST(get_info(list, {}, "localhost", "9228", FI_SOURCE) == 0);
    BOOST_TEST(list->dest_addr == nullptr);
    BOOST_TEST(addr_in(list->src_addr, list->src_addrlen).service == 9228U);
    BOOST_TEST(get_info(list, {}, "trn0:5", nullptr, FI_SOURCE) == 0);
    BOOST_TEST((domains(list) == std::vector<std::string>{"trn0"}));
    BOOST_TEST(addr_in(list->src_addr, list->src_addrlen).service == 5U);
}

BOOST_AUTO_TEST_CASE(unknown_hosts_and_sources_without_a_name_are_refused) {
    InfoPtr list;
    BOOST_TEST(get_info(list, {}, "g00n13s", "9228") == -FI_ENODATA);
    BOOST_TEST(get_info(list, {}, "192.0.2.77", nullptr) == -FI_ENODATA);
    BOOST_TEST(get_info(list, {}, nullptr, nullptr, FI_SOURCE) != 0);
}

BOOST_AUTO_TEST_CASE(addresses_in_hints_come_back_and_others_providers_do_not_pass) {
    nvlf_addr peer{};
    peer.magic = NVLF_ADDR_MAGIC;
    peer.version = NVLF_ADDR_VERSION;
    peer.device = 3;
    peer.endpoint = 9;
    peer.epoch = 1;
    const auto with = [&](const void* bytes, std::size_t length) {
        return [=](fi_info& h) {
            h.dest_addr = std::malloc(length);
            std::memcpy(h.dest_addr, bytes, length);
            h.dest_addrlen = length;
        };
    };
    InfoPtr list;
    BOOST_TEST(get_info(list, with(&peer, sizeof peer)) == 0);
    const nvlf_addr echoed = addr_in(list->dest_addr, list->dest_addrlen);
    BOOST_TEST(std::memcmp(&echoed, &peer, sizeof peer) == 0);
    BOOST_TEST(get_info(list, with("fi_shm://1234567890123456789012345", 35)) == -FI_ENODATA);
    BOOST_TEST(get_info(list, with(&peer, 16)) == -FI_ENODATA);
}

BOOST_AUTO_TEST_CASE(other_endpoint_types_have_nothing_here_not_even_in_layers) {
    InfoPtr list;
    for (const enum fi_ep_type type : {FI_EP_MSG, FI_EP_DGRAM})
        BOOST_TEST(get_info(list, [type](fi_info& h) { h.ep_attr->type = type; }) == -FI_ENODATA);
}

BOOST_AUTO_TEST_CASE(hints_as_open_mpi_mpich_and_nvshmem_send_them_are_answered_as_they_insist) {
    InfoPtr list;
    // Open MPI, mtl/ofi.
    BOOST_TEST(get_info(
                   list,
                   [](fi_info& h) {
                       h.caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV;
                       h.mode = FI_CONTEXT | FI_CONTEXT2;
                       h.ep_attr->type = FI_EP_RDM;
                       h.domain_attr->threading = FI_THREAD_DOMAIN;
                       h.domain_attr->av_type = FI_AV_MAP;
                       h.domain_attr->resource_mgmt = FI_RM_ENABLED;
                       h.tx_attr->msg_order = FI_ORDER_SAS;
                       h.rx_attr->msg_order = FI_ORDER_SAS;
                       h.rx_attr->op_flags = FI_COMPLETION;
                       h.tx_attr->op_flags = FI_COMPLETION;
                   },
                   nullptr, nullptr, 0, FI_VERSION(1, 5)) == 0);
    BOOST_TEST(list->domain_attr->cq_data_size >= 4U);
    BOOST_TEST(list->ep_attr->max_msg_size >= 16384U);
    BOOST_TEST((list->ep_attr->mem_tag_format >> 63) == 1U);
    // MPICH, whose check of threading is for equality.
    for (const enum fi_threading threading : {FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_SAFE}) {
        BOOST_TEST(get_info(list, [threading](fi_info& h) {
                       h.caps = FI_TAGGED | FI_DIRECTED_RECV | FI_RMA | FI_MSG | FI_MULTI_RECV;
                       h.domain_attr->threading = threading;
                       h.domain_attr->control_progress = FI_PROGRESS_MANUAL;
                       h.domain_attr->data_progress = FI_PROGRESS_MANUAL;
                       h.domain_attr->av_type = FI_AV_TABLE;
                       h.tx_attr->op_flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
                   }) == 0);
        BOOST_TEST(list->domain_attr->threading == threading);
        BOOST_TEST(list->domain_attr->mr_mode == 0);
    }
    // NVSHMEM and GASNet: all three bits, or none.
    const int basic = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    BOOST_TEST(get_info(list, [basic](fi_info& h) {
                   h.caps = FI_RMA;
                   h.domain_attr->mr_mode = basic | FI_MR_ENDPOINT;
               }) == 0);
    BOOST_TEST(list->domain_attr->mr_mode == basic);
}

BOOST_AUTO_TEST_CASE(a_copy_of_an_info_owns_all_it_points_to) {
    InfoPtr list = info_for();
    const InfoPtr copy{fi_dupinfo(list.get())};
    list.reset();
    BOOST_REQUIRE(copy != nullptr);
    BOOST_TEST(copy->nic->device_attr->driver == std::string{"nvlf"});
    BOOST_TEST(addr_in(copy->src_addr, copy->src_addrlen).magic == NVLF_ADDR_MAGIC);
}
