// SPDX-License-Identifier: MIT OR GPL-2.0-only
// mr_test - fi_mr(3): registrations as objects. What is moved through them is rma_test's subject; here, who may reach them
// from when on, what they may be bound to, and which memory they may be of.
#define BOOST_TEST_MODULE mr
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "nvlf/nvlf.h"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::uint64_t remote_access = FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t hmem_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_HMEM;
constexpr std::size_t page = 2u << 20;

// Device memory, as an application that knows libnvlf allocates it.
class DeviceMemory {
public:
    explicit DeviceMemory(std::uint32_t device, std::size_t bytes = page) {
        check(nvlf_open(nullptr, &fabric_), nvlf_open_error());
        check(nvlf_mem_alloc(fabric_, device, bytes, 0, &memory_), "nvlf_mem_alloc");
        void* at = nullptr;
        check(nvlf_mem_map(memory_, &at), "nvlf_mem_map");
        data = static_cast<char*>(at);
    }
    ~DeviceMemory() {
        (void)nvlf_mem_put(memory_);
        (void)nvlf_close(fabric_);
    }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    [[nodiscard]] nvlf_mem* memory() const { return memory_; }
    char* data = nullptr;

private:
    nvlf_fabric* fabric_ = nullptr;
    nvlf_mem* memory_ = nullptr;
};

// The index of the n-th device of a kind.
std::uint32_t device_of(std::uint32_t kind, int n) {
    nvlf_fabric* fabric = nullptr;
    check(nvlf_open(nullptr, &fabric), nvlf_open_error());
    nvlf_device device{};
    std::uint32_t index = 0;
    for (; nvlf_get_device(fabric, index, &device) == 0; ++index)
        if (device.kind == kind && n-- == 0) break;
    (void)nvlf_close(fabric);
    return index;
}

FidPtr<fid_mr> reg(const Side& side, void* data, std::size_t bytes, std::uint64_t key, std::uint64_t flags = 0) {
    fid_mr* mr = nullptr;
    check(fi_mr_reg(side.domain.get(), data, bytes, remote_access, 0, key, flags, &mr, nullptr), "fi_mr_reg");
    return FidPtr<fid_mr>{mr};
}

// FI_E* of one write of a's to b.
int write_to_b(TwoEndpoints& pair, std::uint64_t address, std::uint64_t key, const std::vector<char>& data) {
    pair.post("write", [&] {
        return fi_write(pair.a.ep.get(), data.data(), data.size(), nullptr, pair.to_b, address, key, nullptr);
    });
    return pair.wait(pair.a, "write").error;
}

int reg_device(const Side& side, void* data, std::size_t bytes, enum fi_hmem_iface iface, int ordinal,
               std::uint64_t flags, FidPtr<fid_mr>& ret_mr, std::uint64_t key = 7) {
    const iovec iov{data, bytes};
    fi_mr_attr attr{};
    attr.mr_iov = &iov;
    attr.iov_count = 1;
    attr.access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | remote_access;
    attr.requested_key = key;
    attr.iface = iface;
    attr.device.cuda = ordinal;
    fid_mr* mr = nullptr;
    const int ret = fi_mr_regattr(side.domain.get(), &attr, flags, &mr);
    if (ret == 0) ret_mr.reset(mr);
    return ret;
}

const std::vector<char> word(8, 'w');

} // namespace

// ---- Modes that ask for more ------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(with_mr_endpoint_a_registration_is_reached_once_it_is_bound_and_enabled) {
    TwoEndpoints pair{{}, {.imposed_mr_mode = FI_MR_ENDPOINT}};
    for (const bool on_fabric : {false, true}) BOOST_TEST_CONTEXT((on_fabric ? "fabric memory" : "heap")) {
            DeviceMemory device{0};
            std::vector<char> heap(64);
            char* const data = on_fabric ? device.data : heap.data();
            const auto mr = reg(pair.b, data, 64, 5);
            BOOST_TEST(write_to_b(pair, 0, 5, word) == FI_EKEYREJECTED);
            BOOST_TEST(fi_mr_enable(mr.get()) == -FI_EINVAL); // Bound to nothing.
            BOOST_TEST(fi_mr_bind(mr.get(), &pair.b.ep->fid, FI_REMOTE_WRITE) == -FI_EBADFLAGS);
            BOOST_TEST(fi_mr_bind(mr.get(), &pair.a.ep->fid, 0) == -FI_EINVAL); // Of another domain.
            BOOST_TEST(fi_mr_bind(mr.get(), &pair.b.av->fid, 0) == -FI_EINVAL);
            BOOST_REQUIRE(fi_mr_bind(mr.get(), &pair.b.ep->fid, 0) == 0);
            BOOST_TEST(fi_mr_bind(mr.get(), &pair.b.ep->fid, 0) == -FI_EINVAL); // Twice.
            BOOST_TEST(write_to_b(pair, 0, 5, word) == FI_EKEYREJECTED);
            BOOST_REQUIRE(fi_mr_enable(mr.get()) == 0);
            BOOST_TEST(write_to_b(pair, 0, 5, word) == 0);
            BOOST_TEST(std::memcmp(data, word.data(), word.size()) == 0);
            BOOST_TEST(fi_mr_bind(mr.get(), &pair.b.ep->fid, 0) == -FI_EOPBADSTATE); // Too late.
            BOOST_TEST(fi_mr_enable(mr.get()) == 0);                                 // Again: no harm.
            BOOST_TEST(fi_close(&pair.b.ep->fid) == -FI_EBUSY);
        }
}

BOOST_AUTO_TEST_CASE(a_registration_bound_to_one_endpoint_is_not_reached_through_another) {
    for (const bool on_fabric : {false, true}) BOOST_TEST_CONTEXT((on_fabric ? "fabric memory" : "heap")) {
            TwoEndpoints pair{{}, {.imposed_mr_mode = FI_MR_ENDPOINT}};
            fid_ep* second = nullptr;
            check(fi_endpoint(pair.b.domain.get(), pair.b.info.get(), &second, nullptr), "fi_endpoint");
            const FidPtr<fid_ep> other{second};
            check(fi_ep_bind(second, &pair.b.av->fid, 0), "bind av");
            check(fi_ep_bind(second, &pair.b.cq->fid, FI_TRANSMIT | FI_RECV), "bind cq");
            check(fi_enable(second), "fi_enable");
            DeviceMemory device{0};
            std::vector<char> heap(64);
            const auto mr = reg(pair.b, on_fabric ? device.data : heap.data(), 64, 5);
            check(fi_mr_bind(mr.get(), &second->fid, 0), "fi_mr_bind");
            check(fi_mr_enable(mr.get()), "fi_mr_enable");
            BOOST_TEST(write_to_b(pair, 0, 5, word) == FI_EKEYREJECTED);
        }
}

BOOST_AUTO_TEST_CASE(without_such_a_mode_it_is_enabled_at_once_and_enabling_is_harmless) {
    TwoEndpoints pair;
    std::vector<char> heap(64);
    const auto mr = reg(pair.b, heap.data(), heap.size(), 5);
    BOOST_TEST(fi_mr_enable(mr.get()) == 0);
    BOOST_TEST(write_to_b(pair, 0, 5, word) == 0);
    BOOST_TEST(fi_mr_bind(mr.get(), nullptr, 0) == -FI_EINVAL);
    BOOST_TEST(fi_mr_bind(mr.get(), &pair.b.ep->fid, 0) == 0);
    BOOST_TEST(write_to_b(pair, 8, 5, word) == 0);
}

// ---- Refresh ----------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_refreshed_registration_reaches_what_lies_at_its_addresses_now) {
    TwoEndpoints pair;
    // Addresses before there is memory: known because the fabric gives the same ones again.
    char* where = nullptr;
    {
        const DeviceMemory device{0};
        where = device.data;
    }
    const auto mr = reg(pair.b, where, page, 5);
    const DeviceMemory device{0};
    BOOST_REQUIRE(device.data == where);
    BOOST_REQUIRE(fi_mr_refresh(mr.get(), nullptr, 0, 0) == 0);
    // The initiator alone does it: the target has found out that this is fabric memory.
    BOOST_REQUIRE(fi_write(pair.a.ep.get(), word.data(), 8, nullptr, pair.to_b, 16, 5, nullptr) == 0);
    BOOST_TEST(poll(pair.a.cq.get()).has_value());
    BOOST_TEST(std::memcmp(where + 16, word.data(), 8) == 0);
    iovec part{where + page - 8, 8};
    BOOST_TEST(fi_mr_refresh(mr.get(), &part, 1, 0) == 0);
    part.iov_len = 9;
    BOOST_TEST(fi_mr_refresh(mr.get(), &part, 1, 0) == -FI_EINVAL);
    BOOST_TEST(fi_mr_refresh(mr.get(), nullptr, 1, 0) == -FI_EINVAL);
    BOOST_TEST(fi_mr_refresh(mr.get(), nullptr, 0, 1) == -FI_EBADFLAGS);
}

// ---- Memory of more than one place ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(every_piece_of_a_vector_is_reached) {
    for (const int mode : {0, FI_MR_VIRT_ADDR}) BOOST_TEST_CONTEXT("mr_mode " << mode) {
            TwoEndpoints pair{{.mr_mode = mode}, {.mr_mode = mode}};
            const DeviceMemory device{0};
            std::vector<char> heap(3000);
            const std::array<iovec, 4> pieces{
                {{heap.data(), 1000}, {device.data + 500, 700}, {heap.data() + 2000, 300}, {device.data, 100}}};
            fid_mr* opened = nullptr;
            check(
                fi_mr_regv(pair.b.domain.get(), pieces.data(), pieces.size(), remote_access, 0, 9, 0, &opened, nullptr),
                "fi_mr_regv");
            const FidPtr<fid_mr> mr{opened};
            std::uint64_t offset = 0;
            for (const iovec& piece : pieces) {
                const auto out = pattern(piece.iov_len, static_cast<unsigned>(piece.iov_len));
                const auto address = mode != 0 ? reinterpret_cast<std::uintptr_t>(piece.iov_base) : offset;
                BOOST_TEST(write_to_b(pair, address, 9, out) == 0);
                BOOST_TEST(std::memcmp(piece.iov_base, out.data(), out.size()) == 0);
                offset += piece.iov_len;
            }
            if (mode == 0) BOOST_TEST(write_to_b(pair, offset - 7, 9, word) == FI_EKEYREJECTED); // One byte too far.
            // Between the pieces lies what was not registered.
            if (mode != 0)
                BOOST_TEST(write_to_b(pair, reinterpret_cast<std::uintptr_t>(heap.data() + 1500), 9, word) ==
                           FI_EKEYREJECTED);
        }
}

BOOST_AUTO_TEST_CASE(what_a_vector_does_not_grant_fails_at_the_initiator) {
    for (const int mode : {0, FI_MR_VIRT_ADDR}) BOOST_TEST_CONTEXT("mr_mode " << mode) {
            TwoEndpoints pair{{.mr_mode = mode}, {.mr_mode = mode}};
            const DeviceMemory device{0};
            std::vector<char> heap(1000);
            const std::array<iovec, 2> pieces{{{heap.data(), 100}, {device.data, 200}}};
            fid_mr* opened = nullptr;
            check(fi_mr_regv(pair.b.domain.get(), pieces.data(), 2, FI_REMOTE_READ, 0, 9, 0, &opened, nullptr),
                  "fi_mr_regv");
            FidPtr<fid_mr> mr{opened};
            const auto base = mode != 0 ? reinterpret_cast<std::uintptr_t>(device.data) : 100;
            std::vector<char> in(200);
            const auto read = [&](std::uint64_t address, std::size_t bytes, std::uint64_t key) {
                pair.post("read", [&] {
                    return fi_read(pair.a.ep.get(), in.data(), bytes, nullptr, pair.to_b, address, key, nullptr);
                });
                return pair.wait(pair.a, "read").error;
            };
            BOOST_TEST(write_to_b(pair, base, 9, word) == FI_EACCES);
            BOOST_TEST(read(base, 200, 10) == FI_EKEYREJECTED);
            BOOST_TEST(read(base + 1, 200, 9) == FI_EKEYREJECTED);
            BOOST_TEST(read(base + ~0ULL - 300, 200, 9) == FI_EKEYREJECTED);
            BOOST_TEST(read(base, 200, 9) == 0);
            mr.reset();
            BOOST_TEST(read(base, 200, 9) == FI_EKEYREJECTED);
            BOOST_TEST(device.data[0] == 0);
        }
}

BOOST_AUTO_TEST_CASE(a_registration_may_span_two_allocations) {
    TwoEndpoints pair;
    const DeviceMemory first{0}, second{0};
    char* const low = std::min(first.data, second.data);
    BOOST_REQUIRE(std::max(first.data, second.data) == low + page);
    const auto mr = reg(pair.b, low, 2 * page, 5);
    const auto out = pattern(10'000, 1);
    BOOST_TEST(write_to_b(pair, page - 5000, 5, out) == 0);
    BOOST_TEST(std::memcmp(low + page - 5000, out.data(), out.size()) == 0);
}

BOOST_AUTO_TEST_CASE(more_registrations_than_the_directory_has_slots_are_all_reached) {
    constexpr std::uint64_t count = 600; // Of 512 slots.
    TwoEndpoints pair;
    const DeviceMemory device{0};
    std::vector<FidPtr<fid_mr>> mrs;
    for (std::uint64_t key = 0; key < count; ++key) mrs.push_back(reg(pair.b, device.data + key * 8, 8, key));
    for (std::uint64_t key = 0; key < count; ++key) {
        const auto out = pattern(8, static_cast<unsigned>(key));
        BOOST_TEST_REQUIRE(write_to_b(pair, 0, key, out) == 0);
        BOOST_TEST_REQUIRE(std::memcmp(device.data + key * 8, out.data(), 8) == 0);
    }
    // Places that become free are used again: the initiator alone does it.
    mrs.clear();
    const auto mr = reg(pair.b, device.data, 8, 1'000'000);
    BOOST_REQUIRE(fi_write(pair.a.ep.get(), word.data(), 8, nullptr, pair.to_b, 0, 1'000'000, nullptr) == 0);
    BOOST_TEST(poll(pair.a.cq.get()).has_value());
}

// ---- Device memory ----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(device_memory_is_registered_under_its_device_and_moved_by_every_kind_of_transfer) {
    struct Kind {
        std::uint32_t kind;
        enum fi_hmem_iface iface;
    };
    for (const Kind& from : {Kind{NVLF_DEVICE_NVIDIA, FI_HMEM_CUDA}, Kind{NVLF_DEVICE_TRAINIUM, FI_HMEM_NEURON}}) {
        const Kind to = from.kind == NVLF_DEVICE_NVIDIA ? Kind{NVLF_DEVICE_TRAINIUM, FI_HMEM_NEURON}
                                                        : Kind{NVLF_DEVICE_NVIDIA, FI_HMEM_CUDA};
        TwoEndpoints pair{{.caps = hmem_caps, .mr_mode = FI_MR_HMEM}, {.caps = hmem_caps, .mr_mode = FI_MR_HMEM}};
        BOOST_TEST(pair.a.info->domain_attr->mr_mode == FI_MR_HMEM);
        BOOST_TEST((pair.a.info->caps & FI_HMEM) != 0U);
        const DeviceMemory source{device_of(from.kind, 1)}, sink{device_of(to.kind, 0)};
        const auto data = pattern(page, from.kind);
        std::memcpy(source.data, data.data(), page);
        FidPtr<fid_mr> source_mr, sink_mr;
        BOOST_REQUIRE(reg_device(pair.a, source.data, page, from.iface, 1, FI_HMEM_DEVICE_ONLY, source_mr) == 0);
        BOOST_REQUIRE(reg_device(pair.b, sink.data, page, to.iface, 0, 0, sink_mr) == 0);
        const auto moved = [&](const char* how) {
            BOOST_TEST(std::memcmp(sink.data, data.data(), page) == 0, how);
            std::memset(sink.data, 0, page);
        };
        void* const out_desc = fi_mr_desc(source_mr.get());
        void* const in_desc = fi_mr_desc(sink_mr.get());

        check(fi_recv(pair.b.ep.get(), sink.data, page, in_desc, FI_ADDR_UNSPEC, nullptr), "fi_recv");
        pair.post("send", [&] { return fi_send(pair.a.ep.get(), source.data, page, out_desc, pair.to_b, nullptr); });
        BOOST_TEST(pair.wait(pair.b, "message").error == 0);
        BOOST_TEST(pair.wait(pair.a, "send").error == 0);
        moved("message");
        check(fi_trecv(pair.b.ep.get(), sink.data, page, in_desc, FI_ADDR_UNSPEC, 3, 0, nullptr), "fi_trecv");
        pair.post("tsend",
                  [&] { return fi_tsend(pair.a.ep.get(), source.data, page, out_desc, pair.to_b, 3, nullptr); });
        BOOST_TEST(pair.wait(pair.b, "tagged message").error == 0);
        BOOST_TEST(pair.wait(pair.a, "tsend").error == 0);
        moved("tagged message");
        pair.post("write",
                  [&] { return fi_write(pair.a.ep.get(), source.data, page, out_desc, pair.to_b, 0, 7, nullptr); });
        BOOST_TEST(pair.wait(pair.a, "write").error == 0);
        moved("write");
        pair.post("read", [&] { return fi_read(pair.b.ep.get(), sink.data, page, in_desc, pair.to_a, 0, 7, nullptr); });
        BOOST_TEST(pair.wait(pair.b, "read").error == 0);
        moved("read");
    }
}

BOOST_AUTO_TEST_CASE(memory_that_is_not_what_it_is_registered_as_is_refused) {
    const Side side{{.caps = hmem_caps, .mr_mode = FI_MR_HMEM}};
    const DeviceMemory gpu{device_of(NVLF_DEVICE_NVIDIA, 0)};
    std::vector<char> heap(64);
    FidPtr<fid_mr> mr;
    const auto attempt = [&](void* data, std::size_t bytes, enum fi_hmem_iface iface, int ordinal,
                             std::uint64_t flags = 0) {
        mr.reset();
        return reg_device(side, data, bytes, iface, ordinal, flags, mr);
    };
    BOOST_TEST(attempt(heap.data(), 64, FI_HMEM_CUDA, 0) == -FI_EOPNOTSUPP);
    BOOST_TEST(attempt(heap.data(), 64, FI_HMEM_NEURON, 0, FI_HMEM_DEVICE_ONLY) == -FI_EOPNOTSUPP);
    BOOST_TEST(attempt(gpu.data, page + 1, FI_HMEM_CUDA, 0) == -FI_EOPNOTSUPP); // Beyond its end.
    BOOST_TEST(attempt(gpu.data, page, FI_HMEM_CUDA, 1) == -FI_EINVAL);         // Another GPU's.
    BOOST_TEST(attempt(gpu.data, page, FI_HMEM_NEURON, 0) == -FI_EINVAL);
    BOOST_TEST(attempt(gpu.data, page, FI_HMEM_CUDA, 1000) == -FI_EINVAL);
    BOOST_TEST(attempt(gpu.data, page, FI_HMEM_CUDA, -1) == -FI_EINVAL);
    BOOST_TEST(attempt(gpu.data, page, FI_HMEM_ROCR, 0) == -FI_ENOSYS);
    BOOST_TEST(attempt(gpu.data, page, FI_HMEM_ZE, 0) == -FI_ENOSYS);
    BOOST_TEST(attempt(gpu.data, page, FI_HMEM_SYNAPSEAI, 0) == -FI_ENOSYS);
    BOOST_TEST(attempt(gpu.data, page, static_cast<fi_hmem_iface>(7), 0) == -FI_ENOSYS); // None yet.
    BOOST_TEST(attempt(gpu.data, page, FI_HMEM_CUDA, 0, FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC) == -FI_EINVAL);
    BOOST_TEST(attempt(heap.data(), 64, FI_HMEM_SYSTEM, 0, FI_HMEM_DEVICE_ONLY) == -FI_EINVAL);
    BOOST_TEST(attempt(gpu.data, page, FI_HMEM_CUDA, 0, FI_HMEM_DEVICE_ONLY) == 0);
    BOOST_TEST(attempt(gpu.data, page, FI_HMEM_SYSTEM, 0) == 0); // The processor reaches it, too.
    BOOST_TEST(attempt(heap.data(), 64, FI_HMEM_SYSTEM, 0) == 0);
    BOOST_TEST(attempt(heap.data(), 64, FI_HMEM_CUDA, 0, FI_HMEM_HOST_ALLOC) == 0); // The host's, by CUDA's hand.
    BOOST_TEST(attempt(heap.data(), 64, FI_HMEM_CUDA, 1000, FI_HMEM_HOST_ALLOC) == 0);
}

BOOST_AUTO_TEST_CASE(without_hmem_the_interface_is_ignored_and_its_flags_unknown) {
    const Side side;
    BOOST_TEST((side.info->caps & FI_HMEM) == 0U);
    std::vector<char> heap(64);
    FidPtr<fid_mr> mr;
    BOOST_TEST(reg_device(side, heap.data(), 64, FI_HMEM_CUDA, 0, 0, mr) == 0);
    BOOST_TEST(reg_device(side, heap.data(), 64, FI_HMEM_SYSTEM, 0, FI_HMEM_DEVICE_ONLY, mr, 8) == -FI_EBADFLAGS);
}

// ---- By descriptor, as libfabric has it from 1.20 on -----------------------------------------------------------------

namespace {

// From newer headers.
constexpr std::uint64_t mr_dmabuf = 1ULL << 40;
struct DmaBuf {
    int fd;
    std::uint64_t offset;
    std::size_t len;
    void* base_addr;
};
constexpr std::uint32_t dmabuf_version = FI_VERSION(1, 20);

boost::test_tools::assertion_result library_knows_dmabuf(boost::unit_test::test_unit_id) {
    return fi_version() >= dmabuf_version;
}

int reg_dmabuf(const Side& side, const DmaBuf& buffer, FidPtr<fid_mr>& ret_mr, std::size_t count = 1) {
    // As large as the newest struct: the library may look at all of it.
    alignas(fi_mr_attr) std::array<std::byte, 256> newest{};
    auto& attr = *new (newest.data()) fi_mr_attr{};
    attr.mr_iov = reinterpret_cast<const iovec*>(&buffer);
    attr.iov_count = count;
    attr.access = remote_access;
    attr.requested_key = 11;
    attr.iface = FI_HMEM_CUDA;
    fid_mr* mr = nullptr;
    const int ret = fi_mr_regattr(side.domain.get(), &attr, mr_dmabuf, &mr);
    if (ret == 0) ret_mr.reset(mr);
    return ret;
}

} // namespace

BOOST_AUTO_TEST_CASE(before_1_20_there_is_no_such_flag) {
    const Side side{{.caps = hmem_caps}};
    FidPtr<fid_mr> mr;
    BOOST_TEST(reg_dmabuf(side, {0, 0, 1, nullptr}, mr) == -FI_EBADFLAGS);
}

BOOST_AUTO_TEST_CASE(a_memfd_is_registered_like_a_dmabuf, *boost::unit_test::precondition(library_knows_dmabuf)) {
    const SideOptions options{.caps = hmem_caps, .mr_mode = FI_MR_VIRT_ADDR, .version = dmabuf_version};
    TwoEndpoints pair{options, options};
    const int fd = ::memfd_create("buffer", MFD_CLOEXEC);
    BOOST_REQUIRE(::ftruncate(fd, 8192) == 0);
    FidPtr<fid_mr> mr;
    BOOST_TEST(reg_dmabuf(pair.b, {fd, 4096, 4097, nullptr}, mr) == -FI_EINVAL);
    BOOST_TEST(reg_dmabuf(pair.b, {fd, 4096, 4096, nullptr}, mr, 2) == -FI_EINVAL);
    BOOST_REQUIRE(reg_dmabuf(pair.b, {fd, 4096, 4096, reinterpret_cast<void*>(0x100000)}, mr) == 0);
    BOOST_TEST(write_to_b(pair, 0x100000 + 4096 + 8, 11, word) == 0);
    BOOST_TEST(write_to_b(pair, 0x100000 + 8, 11, word) == FI_EKEYREJECTED); // Before what was registered.
    std::array<char, 8> back{};
    BOOST_REQUIRE(::pread(fd, back.data(), back.size(), 4096 + 8) == 8);
    BOOST_TEST(std::equal(back.begin(), back.end(), word.begin()));
    (void)::close(fd);
}

BOOST_AUTO_TEST_CASE(the_descriptor_of_device_memory_is_that_memory,
                     *boost::unit_test::precondition(library_knows_dmabuf)) {
    const SideOptions options{.caps = hmem_caps, .version = dmabuf_version};
    TwoEndpoints pair{options, options};
    const DeviceMemory device{0};
    FidPtr<fid_mr> mr;
    BOOST_REQUIRE(reg_dmabuf(pair.b, {nvlf_mem_fd(device.memory()), 64, 4096, nullptr}, mr) == 0);
    // The initiator alone does it.
    BOOST_REQUIRE(fi_write(pair.a.ep.get(), word.data(), 8, nullptr, pair.to_b, 8, 11, nullptr) == 0);
    BOOST_TEST(poll(pair.a.cq.get()).has_value());
    BOOST_TEST(std::memcmp(device.data + 64 + 8, word.data(), 8) == 0);
}
