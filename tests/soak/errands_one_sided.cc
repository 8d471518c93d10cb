// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reads, writes and atomic operations in every call form, on ordinary memory and on the fabric's; registrations of every
// form; and what must be refused.
#include <algorithm>
#include <cstring>

#include "nvlf/fi_nvlf.h"
#include "soak/errand.hpp"

namespace nvlf::soak {
namespace {

constexpr std::size_t window = std::size_t{256} << 10;
constexpr std::uint64_t key = 7;

// Memory that the second endpoint registers: of the heap, or of the fabric by the provider's own table.
class Target {
public:
    Target(Corner& c, bool on_fabric) {
        if (on_fabric) {
            void* table = nullptr;
            check(fi_open_ops(&c.domain->fid, NVLF_FI_OPS_V1, 0, &table, nullptr), "fi_open_ops");
            ops_ = static_cast<nvlf_fi_ops_v1*>(table);
            void* at = nullptr;
            check(ops_->alloc(c.domain.get(), NVLF_DEVICE_ANY, window, &memory_, &at), "alloc");
            data = {static_cast<char*>(at), window};
        } else {
            heap_ = std::make_unique<char[]>(window + 64);
            const auto address = reinterpret_cast<std::uintptr_t>(heap_.get());
            data = {heap_.get() + (64 - address % 64), window};
        }
        mr = c.registered(data, key);
    }
    ~Target() {
        mr.reset();
        if (memory_ != nullptr) (void)ops_->free(memory_);
    }
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;

    std::span<char> data;
    FidPtr<fid_mr> mr;

private:
    std::unique_ptr<char[]> heap_;
    nvlf_fi_ops_v1* ops_ = nullptr;
    nvlf_fi_mem* memory_ = nullptr;
};

struct Access {
    Corner& c;
    Target& target;
    fid_ep* ep = c.ep[0].get();
    fi_addr_t to = c.to[1];
    std::uint64_t k = fi_mr_key(target.mr.get());
    [[nodiscard]] std::uint64_t at(std::size_t offset) const {
        return c.remote(target.mr, target.data.data() + offset, target.data.data());
    }
};

// Answers whether it completes by itself.
bool write_by(const Access& a, unsigned call, std::vector<char>& out, std::size_t offset) {
    const std::size_t half = out.size() / 2;
    const std::array<iovec, 2> parts{{{out.data(), half}, {out.data() + half, out.size() - half}}};
    const fi_rma_iov there[2] = {{a.at(offset), half, a.k}, {a.at(offset + half), out.size() - half, a.k}};
    const fi_msg_rma msg{parts.data(), nullptr, 2, a.to, there, 2, &out, 77};
    const bool small = out.size() <= 4096;
    a.c.post("write", [&]() -> ssize_t {
        switch (call) {
        case 0: return fi_write(a.ep, out.data(), out.size(), nullptr, a.to, a.at(offset), a.k, &out);
        case 1: return fi_writev(a.ep, parts.data(), nullptr, 2, a.to, a.at(offset), a.k, &out);
        case 2: return fi_writemsg(a.ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION);
        case 3: return fi_writedata(a.ep, out.data(), out.size(), nullptr, 77, a.to, a.at(offset), a.k, &out);
        case 4: return small ? fi_inject_write(a.ep, out.data(), out.size(), a.to, a.at(offset), a.k) : 0;
        default: return small ? fi_inject_writedata(a.ep, out.data(), out.size(), 77, a.to, a.at(offset), a.k) : 0;
        }
    });
    return call < 4;
}

void read_by(const Access& a, unsigned call, std::vector<char>& in, std::size_t offset) {
    const std::size_t half = in.size() / 2;
    const std::array<iovec, 2> parts{{{in.data(), half}, {in.data() + half, in.size() - half}}};
    const fi_rma_iov there{a.at(offset), in.size(), a.k};
    const fi_msg_rma msg{parts.data(), nullptr, 2, a.to, &there, 1, &in, 0};
    a.c.post("read", [&]() -> ssize_t {
        switch (call) {
        case 0: return fi_read(a.ep, in.data(), in.size(), nullptr, a.to, a.at(offset), a.k, &in);
        case 1: return fi_readv(a.ep, parts.data(), nullptr, 2, a.to, a.at(offset), a.k, &in);
        default: return fi_readmsg(a.ep, &msg, FI_COMPLETION);
        }
    });
    // Remote data of writes are told of to the same queue.
    while (a.c.next("a read").op_context != &in) {}
}

} // namespace

void every_form_of_one_sided(Random& random) {
    Corner c{random, {.caps = FI_MSG | FI_RMA | FI_ATOMIC}};
    Target target{c, chance(random, 50)};
    const Access a{c, target};
    for (int i = 0; i < 12; ++i) {
        const auto call = static_cast<unsigned>(draw(random, 6));
        auto out = bytes_of(random(), 2 + draw(random, call >= 4 ? 4095 : std::size_t{1} << (1 + draw(random, 16))));
        const std::size_t offset = draw(random, window - out.size() + 1);
        if (write_by(a, call, out, offset))
            while (c.next("a write").op_context != &out) {}
        std::vector<char> in(out.size()); // Reads follow writes: FI_ORDER_RAW.
        read_by(a, static_cast<unsigned>(draw(random, 3)), in, offset);
        require(in == out, "what was written reads differently");
    }
    // Beyond the end, and with a key that nobody gave out.
    std::uint64_t word = 0;
    for (const bool wrong_key : {false, true}) {
        c.post("a read that is refused", [&] {
            return fi_read(c.ep[0].get(), &word, 8, nullptr, c.to[1], a.at(wrong_key ? 0 : window - 4),
                           wrong_key ? a.k + 1000 : a.k, &word);
        });
        fi_cq_err_entry failure{};
        c.until("a refusal", [&] {
            fi_cq_tagged_entry entry{};
            require(fi_cq_read(c.cq.get(), &entry, 1) != 1 || entry.op_context != &word, "a bad read was not refused");
            return fi_cq_readerr(c.cq.get(), &failure, 0) == 1;
        });
        if (failure.err == FI_ENODEV) throw test::FabricError{"refusal", failure.err};
        require(failure.op_context == &word, "another operation failed");
    }
}

void every_form_of_atomic(Random& random) {
    Corner c{random, {.caps = FI_MSG | FI_RMA | FI_ATOMIC}};
    Target target{c, chance(random, 50)};
    const Access a{c, target};
    std::memset(target.data.data(), 0, 64);
    std::uint64_t expected = 0;
    const fi_rma_ioc there{a.at(0), 1, a.k};
    for (int i = 0; i < 12; ++i) {
        std::uint64_t operand = 1 + draw(random, 1000), compare = expected, found = ~std::uint64_t{0};
        const fi_ioc value{&operand, 1}, other{&compare, 1};
        fi_ioc result{&found, 1};
        const fi_msg_atomic msg{&value, nullptr, 1, a.to, &there, 1, FI_UINT64, FI_SUM, &operand, 0};
        const fi_msg_atomic swap{&value, nullptr, 1, a.to, &there, 1, FI_UINT64, FI_CSWAP, &operand, 0};
        const auto call = static_cast<unsigned>(draw(random, 10));
        c.post("atomic", [&]() -> ssize_t {
            switch (call) {
            case 0: return fi_atomic(a.ep, &operand, 1, nullptr, a.to, a.at(0), a.k, FI_UINT64, FI_SUM, &operand);
            case 1: return fi_atomicv(a.ep, &value, nullptr, 1, a.to, a.at(0), a.k, FI_UINT64, FI_SUM, &operand);
            case 2: return fi_atomicmsg(a.ep, &msg, FI_COMPLETION);
            case 3: return fi_inject_atomic(a.ep, &operand, 1, a.to, a.at(0), a.k, FI_UINT64, FI_SUM);
            case 4:
                return fi_fetch_atomic(a.ep, &operand, 1, nullptr, &found, nullptr, a.to, a.at(0), a.k, FI_UINT64,
                                       FI_SUM, &operand);
            case 5:
                return fi_fetch_atomicv(a.ep, &value, nullptr, 1, &result, nullptr, 1, a.to, a.at(0), a.k, FI_UINT64,
                                        FI_SUM, &operand);
            case 6: return fi_fetch_atomicmsg(a.ep, &msg, &result, nullptr, 1, FI_COMPLETION);
            case 7:
                return fi_compare_atomic(a.ep, &operand, 1, nullptr, &compare, nullptr, &found, nullptr, a.to, a.at(0),
                                         a.k, FI_UINT64, FI_CSWAP, &operand);
            case 8:
                return fi_compare_atomicv(a.ep, &value, nullptr, 1, &other, nullptr, 1, &result, nullptr, 1, a.to,
                                          a.at(0), a.k, FI_UINT64, FI_CSWAP, &operand);
            default: return fi_compare_atomicmsg(a.ep, &swap, &other, nullptr, 1, &result, nullptr, 1, FI_COMPLETION);
            }
        });
        if (call != 3) require(c.next("an atomic operation").op_context == &operand, "another operation ended");
        if (call >= 4) require(found == expected, "an atomic operation found something else");
        expected = call >= 7 ? operand : expected + operand;
    }
    // The widest there is.
    std::size_t count = 0;
    check(fi_atomicvalid(a.ep, FI_UINT64, FI_SUM, &count), "fi_atomicvalid");
    std::vector<char> in(8);
    read_by(a, 0, in, 0);
    std::uint64_t last = 0;
    std::memcpy(&last, in.data(), sizeof last);
    require(last == expected, "atomic operations do not add up");
}

void registrations(Random& random) {
    Corner c{random, {.caps = FI_MSG | FI_RMA | FI_ATOMIC}};
    std::vector<char> memory = bytes_of(random(), 40'000), in(1000);
    const bool own_keys = (c.info->domain_attr->mr_mode & FI_MR_PROV_KEY) == 0;
    for (std::uint64_t i = 0; i < 6; ++i) {
        const std::size_t half = memory.size() / 2;
        const std::array<iovec, 2> parts{{{memory.data(), half}, {memory.data() + half, half}}};
        fi_mr_attr attr{};
        attr.mr_iov = parts.data();
        attr.iov_count = 2;
        attr.access = FI_REMOTE_READ;
        attr.requested_key = 100 + i;
        auto mr = open_object<fid_mr>("registration", [&](fid_mr** m) {
            if (i % 3 == 0)
                return fi_mr_reg(c.domain.get(), memory.data(), memory.size(), FI_REMOTE_READ, 0, 100 + i, 0, m,
                                 nullptr);
            if (i % 3 == 1)
                return fi_mr_regv(c.domain.get(), parts.data(), 2, FI_REMOTE_READ, 0, 100 + i, 0, m, nullptr);
            return fi_mr_regattr(c.domain.get(), &attr, 0, m);
        });
        require(!own_keys || fi_mr_key(mr.get()) == 100 + i, "the key is another one");
        check(fi_mr_refresh(mr.get(), parts.data(), 2, 0), "fi_mr_refresh");
        const std::size_t offset = draw(random, memory.size() - in.size());
        const std::uint64_t at = c.remote(mr, memory.data() + offset, memory.data());
        c.post("read", [&] {
            return fi_read(c.ep[0].get(), in.data(), in.size(), nullptr, c.to[1], at, fi_mr_key(mr.get()), &in);
        });
        (void)c.next("a read");
        require(std::equal(in.begin(), in.end(), memory.begin() + static_cast<std::ptrdiff_t>(offset)),
                "registered memory reads differently");
        // What was not granted.
        c.post("write", [&] {
            return fi_write(c.ep[0].get(), in.data(), 8, nullptr, c.to[1], at, fi_mr_key(mr.get()), &memory);
        });
        fi_cq_err_entry failure{};
        c.until("a refusal", [&] { return fi_cq_readerr(c.cq.get(), &failure, 0) == 1; });
        if (failure.err == FI_ENODEV) throw test::FabricError{"refusal", failure.err};
        require(failure.op_context == &memory, "another operation failed");
    }
}

} // namespace nvlf::soak
