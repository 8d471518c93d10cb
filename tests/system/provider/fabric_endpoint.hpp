// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// An endpoint on libfabric's public calls alone, with what it stands on, for the processes of these tests. What goes wrong
// while it is set up is an exception that names the call; what a completion queue reports is a value: it is what the
// tests are about.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace nvlf::test {

struct FidCloser {
    template <class F>
    void operator()(F* f) const noexcept {
        static_cast<void>(fi_close(&f->fid));
    }
};
template <class F>
using FidPtr = std::unique_ptr<F, FidCloser>;

struct InfoDeleter {
    void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoDeleter>;

class FabricError : public std::runtime_error {
public:
    FabricError(const char* what, int code)
        : runtime_error{std::string{what} + ": " + fi_strerror(code)}, code_{code} {}
    [[nodiscard]] int code() const noexcept { return code_; }

private:
    int code_; // FI_E*
};

inline ssize_t check(ssize_t result, const char* what) {
    if (result < 0) throw FabricError{what, static_cast<int>(-result)};
    return result;
}

// One thing that a completion queue said.
struct Completion {
    std::uintptr_t context = 0; // What the operation was posted with.
    std::size_t bytes = 0;
    int error = 0; // FI_E*
};

class FabricEndpoint {
public:
    // `service` empty: no name. `wait` as of the completion queue. `more_caps`: with FI_COLLECTIVE, there is an event queue.
    explicit FabricEndpoint(const std::string& service = {}, enum fi_wait_obj wait = FI_WAIT_NONE,
                            std::uint64_t more_caps = 0) {
        info_ = get_info(service, FI_SOURCE, more_caps);
        fabric_ =
            open<fid_fabric>("fi_fabric", [&](fid_fabric** f) { return fi_fabric(info_->fabric_attr, f, nullptr); });
        domain_ = open<fid_domain>("fi_domain",
                                   [&](fid_domain** d) { return fi_domain(fabric_.get(), info_.get(), d, nullptr); });
        fi_av_attr av{};
        av.type = FI_AV_TABLE;
        av_ = open<fid_av>("fi_av_open", [&](fid_av** a) { return fi_av_open(domain_.get(), &av, a, nullptr); });
        fi_cq_attr cq{};
        cq.format = FI_CQ_FORMAT_TAGGED;
        cq.wait_obj = wait;
        cq_ = open<fid_cq>("fi_cq_open", [&](fid_cq** c) { return fi_cq_open(domain_.get(), &cq, c, nullptr); });
        ep_ = open<fid_ep>("fi_endpoint",
                           [&](fid_ep** e) { return fi_endpoint(domain_.get(), info_.get(), e, nullptr); });
        check(fi_ep_bind(ep_.get(), &av_->fid, 0), "fi_ep_bind, av");
        check(fi_ep_bind(ep_.get(), &cq_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind, cq");
        if ((more_caps & FI_COLLECTIVE) != 0) {
            fi_eq_attr eq{};
            eq_ = open<fid_eq>("fi_eq_open", [&](fid_eq** q) { return fi_eq_open(fabric_.get(), &eq, q, nullptr); });
            check(fi_ep_bind(ep_.get(), &eq_->fid, 0), "fi_ep_bind, eq");
        }
        check(fi_enable(ep_.get()), "fi_enable");
    }

    // The address of a service of this fabric, whether it is there yet or not.
    fi_addr_t service(const std::string& name) { return insert(get_info(name, 0)->dest_addr); }

    fi_addr_t insert(const void* address) {
        fi_addr_t result = FI_ADDR_NOTAVAIL;
        if (fi_av_insert(av_.get(), address, 1, &result, 0, nullptr) != 1) throw FabricError{"fi_av_insert", FI_EINVAL};
        return result;
    }

    [[nodiscard]] std::vector<char> name() const {
        std::vector<char> bytes(64);
        std::size_t size = bytes.size();
        check(fi_getname(&ep_->fid, bytes.data(), &size), "fi_getname");
        bytes.resize(size);
        return bytes;
    }

    void receive(void* buffer, std::size_t bytes, std::uintptr_t context) {
        check(fi_recv(ep_.get(), buffer, bytes, nullptr, FI_ADDR_UNSPEC, reinterpret_cast<void*>(context)), "fi_recv");
    }

    // -FI_EAGAIN and other refusals are the caller's business.
    ssize_t send(const void* buffer, std::size_t bytes, fi_addr_t to, std::uintptr_t context) {
        return fi_send(ep_.get(), buffer, bytes, nullptr, to, reinterpret_cast<void*>(context));
    }

    // One look; nothing when there is nothing.
    std::optional<Completion> poll() {
        fi_cq_tagged_entry entry{};
        return take(fi_cq_read(cq_.get(), &entry, 1), entry);
    }

    // Sleeps in libfabric, `timeout_ms` at most.
    std::optional<Completion> sleep(int timeout_ms) {
        fi_cq_tagged_entry entry{};
        return take(fi_cq_sread(cq_.get(), &entry, 1, nullptr, timeout_ms), entry);
    }

    [[nodiscard]] int wait_descriptor() {
        int fd = -1;
        check(fi_control(&cq_->fid, FI_GETWAIT, &fd), "FI_GETWAIT");
        return fd;
    }

    // True: the descriptor may be slept on.
    [[nodiscard]] bool may_sleep() {
        fid* object = &cq_->fid;
        const int result = fi_trywait(fabric_.get(), &object, 1);
        if (result == -FI_EAGAIN) return false;
        check(result, "fi_trywait");
        return true;
    }

    // A group of all of these addresses, joined; -FI_E* when that failed.
    int join(const std::vector<fi_addr_t>& members, FidPtr<fid_mc>& ret_group) {
        fi_av_set_attr attr{};
        attr.start_addr = attr.end_addr = FI_ADDR_NOTAVAIL;
        const auto set =
            open<fid_av_set>("fi_av_set", [&](fid_av_set** s) { return fi_av_set(av_.get(), &attr, s, nullptr); });
        for (const fi_addr_t member : members) check(fi_av_set_insert(set.get(), member), "fi_av_set_insert");
        ret_group = open<fid_mc>("fi_join_collective", [&](fid_mc** mc) {
            return fi_join_collective(ep_.get(), FI_ADDR_NOTAVAIL, set.get(), 0, mc, nullptr);
        });
        for (;;) { // Whoever starts us bounds it.
            std::uint32_t event = 0;
            fi_eq_entry entry{};
            const ssize_t result = fi_eq_read(eq_.get(), &event, &entry, sizeof entry, 0);
            if (result == static_cast<ssize_t>(sizeof entry) && event == FI_JOIN_COMPLETE) return 0;
            if (result == -FI_EAGAIN) continue;
            fi_eq_err_entry failure{};
            check(fi_eq_readerr(eq_.get(), &failure, 0), "fi_eq_readerr");
            return -failure.err;
        }
    }

    [[nodiscard]] fid_ep* ep() const noexcept { return ep_.get(); }

private:
    template <class F, class Open>
    static FidPtr<F> open(const char* what, Open&& call) {
        F* object = nullptr;
        check(call(&object), what);
        return FidPtr<F>{object};
    }

    static InfoPtr get_info(const std::string& service, std::uint64_t flags, std::uint64_t more_caps = 0) {
        const InfoPtr hints{fi_allocinfo()};
        hints->caps = FI_MSG | FI_TAGGED | FI_RMA | more_caps;
        hints->mode = FI_CONTEXT;
        hints->ep_attr->type = FI_EP_RDM;
        hints->domain_attr->threading = FI_THREAD_DOMAIN;
        hints->fabric_attr->prov_name = ::strdup("nvlf");
        fi_info* found = nullptr;
        const char* name = service.empty() ? nullptr : service.c_str();
        check(fi_getinfo(FI_VERSION(1, 17), nullptr, name, name != nullptr ? flags : 0, hints.get(), &found),
              "fi_getinfo");
        return InfoPtr{found};
    }

    std::optional<Completion> take(ssize_t result, const fi_cq_tagged_entry& entry) {
        if (result == -FI_EAGAIN) return std::nullopt;
        if (result == 1) return Completion{reinterpret_cast<std::uintptr_t>(entry.op_context), entry.len, 0};
        if (result != -FI_EAVAIL) return Completion{0, 0, static_cast<int>(-result)}; // The queue itself.
        fi_cq_err_entry failure{};
        check(fi_cq_readerr(cq_.get(), &failure, 0), "fi_cq_readerr");
        return Completion{reinterpret_cast<std::uintptr_t>(failure.op_context), failure.len, failure.err};
    }

    // In the order of opening: closed in the reverse.
    InfoPtr info_;
    FidPtr<fid_fabric> fabric_;
    FidPtr<fid_eq> eq_;
    FidPtr<fid_domain> domain_;
    FidPtr<fid_av> av_;
    FidPtr<fid_cq> cq_;
    FidPtr<fid_ep> ep_;
};

} // namespace nvlf::test
