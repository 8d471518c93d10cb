// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fabric_memory_test - "nvlf ops v1": an application that knows libfabric and nothing else allocates the fabric's memory,
// has peers reach it by themselves, and shares it by token.
#define BOOST_TEST_MODULE fabric_memory
#include <array>
#include <cstring>
#include <string>

#include "nvlf/fi_nvlf.h"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::size_t page = 2u << 20;
constexpr std::uint32_t read_write = NVLF_ACCESS_READ | NVLF_ACCESS_WRITE;
using Token = std::array<std::uint8_t, NVLF_TOKEN_LEN>;

nvlf_fi_ops_v1& ops_of(fid& object) {
    void* ops = nullptr;
    check(fi_open_ops(&object, NVLF_FI_OPS_V1, 0, &ops, nullptr), "fi_open_ops");
    return *static_cast<nvlf_fi_ops_v1*>(ops);
}

struct World {
    TwoEndpoints pair{};
    nvlf_fi_ops_v1& ops = ops_of(pair.b.domain->fid);

    char* alloc(const Side& side, std::uint32_t device, nvlf_fi_mem*& ret_mem) const {
        void* at = nullptr;
        check(ops.alloc(side.domain.get(), device, 1, &ret_mem, &at), "alloc");
        return static_cast<char*>(at);
    }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(table, World)

BOOST_AUTO_TEST_CASE(it_is_had_from_a_domain_or_a_fabric_by_its_name_alone) {
    BOOST_TEST(ops.size == sizeof(nvlf_fi_ops_v1));
    BOOST_TEST(&ops_of(pair.a.fabric->fid) == &ops);
    void* other = nullptr;
    BOOST_TEST(fi_open_ops(&pair.b.domain->fid, "nvlf ops v0", 0, &other, nullptr) == -FI_ENOSYS);
    BOOST_TEST(fi_open_ops(&pair.b.domain->fid, NVLF_FI_OPS_V1, 1, &other, nullptr) == -FI_EBADFLAGS);
    BOOST_TEST(fi_open_ops(&pair.b.domain->fid, nullptr, 0, &other, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_open_ops(&pair.b.domain->fid, NVLF_FI_OPS_V1, 0, nullptr, nullptr) == -FI_EINVAL);
    BOOST_TEST(fi_open_ops(&pair.b.ep->fid, NVLF_FI_OPS_V1, 0, &other, nullptr) == -FI_ENOSYS);
    BOOST_TEST(other == nullptr);
}

BOOST_AUTO_TEST_CASE(what_it_allocates_peers_reach_without_the_target) {
    nvlf_fi_mem* mem = nullptr;
    char* const data = alloc(pair.b, NVLF_DEVICE_ANY, mem);
    BOOST_TEST(data[page - 1] == 0); // Zeroed, and rounded up.
    fid_mr* mr = nullptr;
    check(fi_mr_reg(pair.b.domain.get(), data, page, FI_REMOTE_WRITE, 0, 3, 0, &mr, nullptr), "fi_mr_reg");
    const std::string out = "stored by the initiator";
    BOOST_REQUIRE(fi_write(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, 7, 3, nullptr) == 0);
    BOOST_TEST(poll(pair.a.cq.get()).has_value());
    BOOST_TEST(std::memcmp(data + 7, out.data(), out.size()) == 0);
    BOOST_TEST(fi_close(&mr->fid) == 0);
    BOOST_TEST(ops.free(mem) == 0);
}

BOOST_AUTO_TEST_CASE(a_token_gives_another_domain_the_same_memory_with_no_more_rights_than_it_says) {
    nvlf_fi_mem *mem = nullptr, *imported = nullptr;
    char* const data = alloc(pair.b, 0, mem);
    Token token{};
    check(ops.export_token(mem, read_write, token.data()), "export_token");
    void* at = nullptr;
    check(ops.import_token(pair.a.domain.get(), token.data(), &imported, &at), "import_token");
    BOOST_TEST(at == data); // One address in the whole fabric.
    std::strcpy(static_cast<char*>(at), "shared");
    BOOST_TEST(std::string{data} == "shared");
    BOOST_TEST(ops.export_token(imported, read_write, token.data()) == -FI_EPERM);
    BOOST_TEST(ops.free(mem) == 0);
    BOOST_TEST(std::string{static_cast<char*>(at)} == "shared"); // Lives while somebody has it.
    BOOST_TEST(ops.free(imported) == 0);
    token[0] ^= 1;
    nvlf_fi_mem* none = nullptr;
    BOOST_TEST(ops.import_token(pair.a.domain.get(), token.data(), &none, &at) == -FI_EACCES);
    BOOST_TEST(none == nullptr);
}

BOOST_AUTO_TEST_CASE(it_tells_where_an_address_lies_and_what_libfabric_calls_the_device) {
    std::array<int, 2> seen{}; // GPUs, Trainium chips.
    nvlf_device device{};
    for (std::uint32_t index = 0; ops.device(pair.a.domain.get(), index, &device) == 0; ++index) {
        nvlf_fi_mem* mem = nullptr;
        char* const data = alloc(pair.b, index, mem);
        nvlf_fi_place place{};
        BOOST_REQUIRE(ops.query(pair.a.domain.get(), data + 100, 50, &place) == 0);
        BOOST_TEST(place.base == data);
        BOOST_TEST(place.bytes == page);
        BOOST_TEST(place.device == index);
        BOOST_TEST((place.access & read_write) == read_write);
        const bool trainium = device.kind == NVLF_DEVICE_TRAINIUM;
        BOOST_TEST(place.iface == (trainium ? FI_HMEM_NEURON : FI_HMEM_CUDA));
        BOOST_TEST(place.ordinal == seen[trainium ? 1 : 0]++);
        BOOST_TEST(ops.query(pair.a.domain.get(), data + 100, page, &place) == -FI_ENOENT); // Past its end.
        int fd = -1;
        BOOST_TEST(ops.descriptor(mem, &fd) == 0);
        BOOST_TEST(fd >= 0);
        BOOST_TEST(ops.free(mem) == 0);
        BOOST_TEST(ops.query(pair.a.domain.get(), data, 1, &place) == -FI_ENOENT);
    }
    BOOST_TEST(seen[0] > 1);
    BOOST_TEST(seen[1] > 1);
    BOOST_TEST(ops.device(pair.a.domain.get(), 100'000, &device) == -FI_EINVAL);
    std::uint32_t own = NVLF_DEVICE_ANY;
    BOOST_REQUIRE(ops.domain_device(pair.a.domain.get(), &own) == 0);
    BOOST_REQUIRE(ops.device(pair.a.domain.get(), own, &device) == 0);
    BOOST_TEST(std::string{device.name} == pair.a.info->domain_attr->name);
}

BOOST_AUTO_TEST_CASE(memory_keeps_its_domain_open) {
    Side side;
    nvlf_fi_mem* mem = nullptr;
    void* at = nullptr;
    check(ops.alloc(side.domain.get(), NVLF_DEVICE_ANY, 1, &mem, &at), "alloc");
    side.ep.reset();
    side.cq.reset();
    side.av.reset();
    BOOST_TEST(fi_close(&side.domain->fid) == -FI_EBUSY);
    BOOST_TEST(ops.free(mem) == 0);
    BOOST_TEST(fi_close(&side.domain.release()->fid) == 0);
}

BOOST_AUTO_TEST_CASE(nonsense_is_refused) {
    nvlf_fi_mem* mem = nullptr;
    void* at = nullptr;
    int fd = 0;
    std::uint32_t index = 0;
    nvlf_fi_place place{};
    nvlf_device device{};
    Token token{};
    fid_domain* const domain = pair.a.domain.get();
    auto* const no_domain = reinterpret_cast<fid_domain*>(pair.a.fabric.get());
    for (fid_domain* wrong : {static_cast<fid_domain*>(nullptr), no_domain}) {
        BOOST_TEST(ops.alloc(wrong, 0, 1, &mem, &at) == -FI_EINVAL);
        BOOST_TEST(ops.import_token(wrong, token.data(), &mem, &at) == -FI_EINVAL);
        BOOST_TEST(ops.query(wrong, &at, 1, &place) == -FI_EINVAL);
        BOOST_TEST(ops.domain_device(wrong, &index) == -FI_EINVAL);
        BOOST_TEST(ops.device(wrong, 0, &device) == -FI_EINVAL);
    }
    BOOST_TEST(ops.alloc(domain, 0, 0, &mem, &at) == -FI_EINVAL);
    BOOST_TEST(ops.alloc(domain, 0, 1, nullptr, &at) == -FI_EINVAL);
    BOOST_TEST(ops.alloc(domain, 0, 1, &mem, nullptr) == -FI_EINVAL);
    BOOST_TEST(ops.alloc(domain, 100'000, 1, &mem, &at) == -FI_EINVAL);
    BOOST_TEST(ops.alloc(domain, 0, ~std::uint64_t{0}, &mem, &at) < 0);
    BOOST_TEST(ops.free(nullptr) == 0);
    BOOST_TEST(ops.export_token(nullptr, read_write, token.data()) == -FI_EINVAL);
    BOOST_TEST(ops.import_token(domain, nullptr, &mem, &at) == -FI_EINVAL);
    BOOST_TEST(ops.descriptor(nullptr, &fd) == -FI_EINVAL);
    BOOST_TEST(ops.query(domain, nullptr, 1, &place) == -FI_EINVAL);
    BOOST_TEST(ops.query(domain, &at, 1, nullptr) == -FI_EINVAL);
    BOOST_TEST(ops.query(domain, &at, 1, &place) == -FI_ENOENT);
    BOOST_TEST(ops.device(domain, 0, nullptr) == -FI_EINVAL);
    BOOST_TEST(mem == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
