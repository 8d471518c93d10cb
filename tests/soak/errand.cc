// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "soak/errand.hpp"

namespace nvlf::soak {
namespace {

constexpr Errand list[] = {
    {"message forms", every_form_of_message},
    {"kinds of receives", receives_of_every_kind},
    {"one-sided forms", every_form_of_one_sided},
    {"atomic forms", every_form_of_atomic},
    {"registrations", registrations},
    {"queues and counters", queues_and_counters},
    {"event queue", event_queue},
    {"poll and wait sets", poll_and_wait_sets},
    {"triggered operations", triggered_operations},
    {"deferred work", deferred_work},
    {"shared contexts", shared_contexts},
    {"scalable endpoints", scalable_endpoints},
    {"collectives", collectives},
    {"address vectors", address_vectors},
};
static_assert(std::size(list) == errand_count);

constexpr auto hang = std::chrono::seconds{60};

test::InfoPtr corner_info(Random& random, const CornerOptions& how) {
    const test::InfoPtr hints{fi_allocinfo()};
    hints->caps = how.caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->ep_attr->tx_ctx_cnt = hints->ep_attr->rx_ctx_cnt = how.contexts;
    hints->fabric_attr->prov_name = ::strdup("nvlf");
    constexpr enum fi_threading threading[] = {FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_SAFE};
    hints->domain_attr->threading = threading[draw(random, 3)];
    if (chance(random, 20)) hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
    if (chance(random, 50)) hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    fi_info* found = nullptr;
    check(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo");
    return test::InfoPtr{found};
}

} // namespace

std::span<const Errand> errands() noexcept { return list; }

std::vector<char> bytes_of(std::uint64_t number, std::size_t count) {
    std::vector<char> bytes(count);
    std::uint64_t state = number * 0x9e3779b97f4a7c15ULL + 1;
    for (char& byte : bytes) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        byte = static_cast<char>(state >> 56);
    }
    return bytes;
}

Corner::Corner(Random& random, const CornerOptions& options, std::size_t endpoints)
    : how{options}, info{corner_info(random, options)} {
    fabric =
        open_object<fid_fabric>("fi_fabric", [&](fid_fabric** f) { return fi_fabric(info->fabric_attr, f, nullptr); });
    fi_eq_attr eq_attr{};
    eq_attr.flags = FI_WRITE;
    eq_attr.wait_obj = FI_WAIT_UNSPEC;
    eq = open_object<fid_eq>("fi_eq_open", [&](fid_eq** e) { return fi_eq_open(fabric.get(), &eq_attr, e, nullptr); });
    domain = open_object<fid_domain>("fi_domain",
                                     [&](fid_domain** d) { return fi_domain(fabric.get(), info.get(), d, nullptr); });
    fi_av_attr av_attr{};
    av_attr.type = how.av;
    av_attr.rx_ctx_bits = static_cast<int>(how.rx_ctx_bits);
    av = open_object<fid_av>("fi_av_open", [&](fid_av** a) { return fi_av_open(domain.get(), &av_attr, a, nullptr); });
    fi_cq_attr cq_attr{};
    cq_attr.format = how.format;
    cq_attr.wait_obj = how.wait;
    cq = open_object<fid_cq>("fi_cq_open", [&](fid_cq** c) { return fi_cq_open(domain.get(), &cq_attr, c, nullptr); });
    cntr = counter();
    for (std::size_t i = 0; i < endpoints; ++i) add_endpoint();
}

void Corner::add_endpoint() {
    auto e = open_object<fid_ep>("fi_endpoint",
                                 [&](fid_ep** p) { return fi_endpoint(domain.get(), info.get(), p, nullptr); });
    check(fi_ep_bind(e.get(), &av->fid, 0), "bind av");
    check(fi_ep_bind(e.get(), &cq->fid, FI_TRANSMIT | FI_RECV | (how.selective ? FI_SELECTIVE_COMPLETION : 0)),
          "bind cq");
    if ((how.caps & FI_COLLECTIVE) != 0) check(fi_ep_bind(e.get(), &eq->fid, 0), "bind eq");
    if (how.counted != 0) check(fi_ep_bind(e.get(), &cntr->fid, how.counted), "bind cntr");
    check(fi_enable(e.get()), "fi_enable");
    std::array<char, 64> name{};
    std::size_t size = name.size();
    check(fi_getname(&e->fid, name.data(), &size), "fi_getname");
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    if (fi_av_insert(av.get(), name.data(), 1, &address, 0, nullptr) != 1)
        throw test::FabricError{"fi_av_insert", FI_EINVAL};
    ep.push_back(std::move(e));
    to.push_back(address);
}

void Corner::until(const char* what, const std::function<bool()>& done) {
    const auto end = Clock::now() + hang;
    while (!done()) {
        const ssize_t n = fi_cq_read(cq.get(), nullptr, 0);
        if (n < 0 && n != -FI_EAGAIN && n != -FI_EAVAIL) check(n, what);
        if (Clock::now() > end) throw Finding{std::string{what} + " hangs"};
    }
}

fi_cq_tagged_entry Corner::next(const char* what) {
    fi_cq_tagged_entry entry{};
    until(what, [&] {
        const ssize_t n = fi_cq_read(cq.get(), &entry, 1);
        if (n == -FI_EAVAIL) {
            fi_cq_err_entry failure{};
            check(fi_cq_readerr(cq.get(), &failure, 0), "fi_cq_readerr");
            throw test::FabricError{what, failure.err};
        }
        if (n != -FI_EAGAIN) check(n, what);
        return n == 1;
    });
    return entry;
}

void Corner::post(const char* what, const std::function<ssize_t()>& call) {
    ssize_t result = 0;
    until(what, [&] {
        result = call();
        return result != -FI_EAGAIN;
    });
    check(result, what);
}

FidPtr<fid_cntr> Corner::counter(enum fi_wait_obj wait, fid_wait* set) const {
    fi_cntr_attr attr{};
    attr.wait_obj = wait;
    attr.wait_set = set;
    return open_object<fid_cntr>("fi_cntr_open",
                                 [&](fid_cntr** c) { return fi_cntr_open(domain.get(), &attr, c, nullptr); });
}

fid_cntr* Corner::lasting_counter() {
    counters.push_back(counter());
    return counters.back().get();
}

FidPtr<fid_mr> Corner::registered(std::span<char> memory, std::uint64_t key) const {
    return open_object<fid_mr>("fi_mr_reg", [&](fid_mr** m) {
        return fi_mr_reg(domain.get(), memory.data(), memory.size(), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, m,
                         nullptr);
    });
}

std::uint64_t Corner::remote(const FidPtr<fid_mr>&, const void* address, const void* base) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0 ? at : at - reinterpret_cast<std::uintptr_t>(base);
}

} // namespace nvlf::soak
