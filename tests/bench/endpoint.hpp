// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// An endpoint of any provider, on libfabric's public calls alone, as an application would open it: reliable datagrams,
// tagged messages and one-sided operations, one completion queue. All providers are asked for the same and used alike;
// what one does not offer is NotOffered, which leaves a gap in the table, while everything else that goes wrong is an
// exception that names the call.
//
// Completions carry no more than which kind of operation ended, so that counting them is all the loops have to do.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <sched.h>

namespace nvlf::bench {

struct FidCloser {
    template <class F>
    void operator()(F* f) const noexcept {
        static_cast<void>(fi_close(&f->fid));
    }
};
template <class F>
using FidPtr = std::unique_ptr<F, FidCloser>;

struct NotOffered : std::runtime_error {
    using runtime_error::runtime_error;
};

struct FabricError : std::runtime_error {
    FabricError(const char* call, int code) : runtime_error{std::string{call} + ": " + fi_strerror(code)} {}
};

inline ssize_t check(ssize_t result, const char* call) {
    if (result < 0) throw FabricError{call, static_cast<int>(-result)};
    return result;
}

struct EndpointOptions {
    std::string provider{};
    std::string service{};       // A name that nobody else has: some providers know no other way to tell two apart.
    bool thread_safe = false;    // FI_THREAD_SAFE; else FI_THREAD_DOMAIN.
    bool wait_fd = false;        // The queue can be slept on.
    unsigned patience = 100'000; // Looks in vain before the processor is yielded.
};

class Endpoint {
public:
    enum class Kind : std::uint8_t { sent, received, control, one_sided };
    static constexpr std::size_t kinds = 4;

    explicit Endpoint(const EndpointOptions& options);

    [[nodiscard]] std::vector<std::uint8_t> name() const;
    void insert(const std::vector<std::vector<std::uint8_t>>& names); // A peer's place in it is its rank from now on.

    [[nodiscard]] fid_ep* ep() const noexcept { return ep_.get(); }
    [[nodiscard]] fid_domain* domain() const noexcept { return domain_.get(); }
    [[nodiscard]] const fi_info& info() const noexcept { return *info_; }
    [[nodiscard]] fi_addr_t peer(std::size_t rank) const { return peers_.at(rank); }
    [[nodiscard]] static void* context(Kind kind) noexcept { return &marks_[static_cast<std::size_t>(kind)]; }

    [[nodiscard]] std::uint64_t count(Kind kind) const noexcept { return counts_[static_cast<std::size_t>(kind)]; }

    // Sends, by the cheapest call that fits the size; progresses while there is no room.
    void send(fi_addr_t to, const void* data, std::size_t bytes, std::uint64_t tag) {
        while (!(bytes <= inject_size_ ? try_inject(to, data, bytes, tag) : try_send(to, data, bytes, tag))) progress();
    }
    // False: no room now.
    [[nodiscard]] bool try_send(fi_addr_t to, const void* data, std::size_t bytes, std::uint64_t tag) {
        const ssize_t result = fi_tsend(ep_.get(), data, bytes, nullptr, to, tag, context(Kind::sent));
        if (result == -FI_EAGAIN) return false;
        check(result, "fi_tsend");
        ++sends_;
        return true;
    }
    [[nodiscard]] bool try_inject(fi_addr_t to, const void* data, std::size_t bytes, std::uint64_t tag) {
        const ssize_t result = fi_tinject(ep_.get(), data, bytes, to, tag);
        if (result != -FI_EAGAIN) check(result, "fi_tinject");
        return result == 0;
    }
    void receive(void* data, std::size_t bytes, std::uint64_t tag, Kind kind = Kind::received) {
        ssize_t result = 0;
        while ((result = fi_trecv(ep_.get(), data, bytes, nullptr, FI_ADDR_UNSPEC, tag, 0, context(kind))) ==
               -FI_EAGAIN)
            progress();
        check(result, "fi_trecv");
    }

    // Takes what the queue holds and counts it; false when that was nothing.
    bool progress() {
        std::array<fi_cq_entry, 64> entries; // NOLINT: written by the call.
        const ssize_t got = fi_cq_read(cq_.get(), entries.data(), entries.size());
        if (got == -FI_EAGAIN || got == 0) {
            if (++in_vain_ >= patience_) give_way();
            return false;
        }
        if (got < 0) failed(got);
        in_vain_ = 0;
        for (ssize_t i = 0; i < got; ++i)
            ++counts_[static_cast<std::size_t>(static_cast<char*>(entries[static_cast<std::size_t>(i)].op_context) -
                                               marks_.data())];
        return true;
    }
    void wait_for(Kind kind, std::uint64_t goal) {
        while (count(kind) < goal) progress();
    }
    [[nodiscard]] std::uint64_t sends_in_flight() const noexcept { return sends_ - count(Kind::sent); }
    void flush() { wait_for(Kind::sent, sends_); }

    // Sleeps until the queue may hold something. Only with wait_fd.
    void sleep();

private:
    [[noreturn]] void failed(ssize_t result);
    void give_way() {
        in_vain_ = 0;
        ::sched_yield();
    }

    struct InfoFree {
        void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
    };

    // A completion's context is the address of one of these.
    static inline std::array<char, kinds> marks_{};

    // In the order of opening: closed in the reverse.
    std::unique_ptr<fi_info, InfoFree> info_{};
    FidPtr<fid_fabric> fabric_{};
    FidPtr<fid_domain> domain_{};
    FidPtr<fid_av> av_{};
    FidPtr<fid_cq> cq_{};
    FidPtr<fid_ep> ep_{};

    std::vector<fi_addr_t> peers_{};
    std::array<std::uint64_t, kinds> counts_{};
    std::uint64_t sends_ = 0; // Those that complete.
    std::size_t inject_size_ = 0;
    unsigned patience_;
    unsigned in_vain_ = 0;
    int wait_fd_ = -1;
};

} // namespace nvlf::bench
