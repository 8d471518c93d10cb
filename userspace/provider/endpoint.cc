// SPDX-License-Identifier: MIT OR GPL-2.0-only
// endpoint.cc - fi_endpoint(3): open, bind, enable, name, close.
#include "endpoint.hpp"
#include "collectives.hpp"

#include <pthread.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "address.hpp"
#include "base/cancel.hpp"
#include "ep_calls.hpp"
#include "ep_queues.hpp"
#include "none.hpp"
#include "params.hpp"
#include "provider.hpp"
#include "shared_context.hpp"

namespace nvlf::ofi {
namespace {

// What is reported there: joined groups.
int bind_eq(Endpoint& ep, Eq& eq, std::uint64_t flags) noexcept {
    if (flags != 0) return -FI_EBADFLAGS;
    if (ep.eq != nullptr || &eq.fabric != &ep.domain.fabric) return -FI_EINVAL;
    ep.eq = &eq;
    eq.refs.fetch_add(1, std::memory_order_relaxed);
    return 0;
}

template <class Shared>
int bind_shared(Endpoint& ep, Shared& shared, Shared*& bound, bool wanted, std::uint64_t flags) noexcept {
    if (flags != 0) return -FI_EBADFLAGS;
    if (!wanted || bound != nullptr || &shared.domain != &ep.domain) return -FI_EINVAL;
    bound = &shared;
    shared.endpoints.fetch_add(1, std::memory_order_relaxed);
    return 0;
}

// Its receives, what waits for them, and the lock of both are the endpoint's from here on.
int bind_srx(Endpoint& ep, SharedRx& srx, std::uint64_t flags) noexcept {
    const int ret = bind_shared(ep, srx, ep.shared_rx, ep.wants_shared_rx, flags);
    if (ret != 0) return ret;
    ep.store = &srx.store;
    ep.rx_bindings.front().context = &srx.context;
    return 0;
}

int ep_bind(::fid* object, ::fid* other, std::uint64_t flags) {
    Endpoint& ep = endpoint_of(reinterpret_cast<fid_ep*>(object));
    return other != nullptr ? ep.bind(other, flags) : -FI_EINVAL;
}

int ep_control(::fid* object, int command, void* arg) {
    EpFid& ep = ep_fid_of(object);
    return command == FI_ENABLE ? ep.endpoint->enable() : ep_control_common(ep, command, arg);
}

int ep_close(fid* object) {
    Endpoint& ep = endpoint_of(reinterpret_cast<fid_ep*>(object));
    if (ep.busy()) return -FI_EBUSY;
    delete &ep;
    return 0;
}

fi_ops ep_fid_ops{sizeof(fi_ops), ep_close, ep_bind, ep_control, no_ops_open, no_tostr, no_ops_set};

} // namespace

std::atomic<unsigned> Generation::forks{0};

int count_forks() noexcept {
    static const int counting =
        ::pthread_atfork(nullptr, nullptr, [] { Generation::forks.fetch_add(1, std::memory_order_relaxed); });
    return counting == 0 ? 0 : -FI_ENOMEM;
}

int endpoint_open(fid_domain* domain_fid, fi_info* info, fid_ep** ret_ep, void* context) noexcept try {
    if (const int ret = count_forks(); ret != 0) return ret;
    Domain& domain = domain_of(domain_fid);
    if (ret_ep == nullptr || info->ep_attr == nullptr) return -FI_EINVAL;
    if (info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC) return -FI_ENOSYS;
    const auto one = [](std::size_t contexts) { return contexts <= 1 || contexts == FI_SHARED_CONTEXT; };
    if (!one(info->ep_attr->tx_ctx_cnt) || !one(info->ep_attr->rx_ctx_cnt)) return -FI_EINVAL; // fi_scalable_ep
    auto endpoint = std::make_unique<Endpoint>(domain, *info, 1, 1);
    endpoint->wants_shared_tx = info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
    endpoint->wants_shared_rx = info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
    endpoint->fid = {.fid = {.fclass = FI_CLASS_EP, .context = context, .ops = &ep_fid_ops},
                     .ops = &ep_ops,
                     .cm = &ep_cm_ops,
                     .msg = &msg_ops,
                     .rma = &rma_ops,
                     .tagged = &tagged_ops,
                     .atomic = &atomic_ops,
                     .collective = &none_collective};
    if (endpoint->wants_shared_rx) { // Receives are posted there.
        endpoint->rx = nullptr;
        endpoint->fid.msg = &msg_send_ops;
        endpoint->fid.tagged = &tagged_send_ops;
    }
    if ((info->caps & FI_COLLECTIVE) != 0) {
        endpoint->collectives = std::make_unique<Collectives>(*endpoint);
        endpoint->fid.collective = &collective_ops;
    }
    *ret_ep = &endpoint.release()->fid;
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

Endpoint::Endpoint(Domain& d, const fi_info& info, std::size_t transmit, std::size_t receive)
    : domain{d},
      caps{info.caps},
      order{info.tx_attr},
      rx_bindings(receive),
      own_store{d.work, d.locks(), params().unexpected_limit},
      tx_contexts(transmit) {
    for (RxBinding& binding : rx_bindings) {
        own_contexts.push_back(std::make_unique<RxContext>(own_store, caps));
        binding = {.endpoint = this, .context = own_contexts.back().get(), .caps = caps};
    }
    endpoint = this;
    rx = rx_bindings.front().context;
    tx = &tx_contexts.front();
    if (info.tx_attr != nullptr) {
        tx_flags = info.tx_attr->op_flags;
        msg_order = info.tx_attr->msg_order;
    }
    if (info.rx_attr != nullptr) rx_flags = info.rx_attr->op_flags;
    if (info.src_addr != nullptr && info.src_addrlen >= addr_bytes(domain.addr_format)) take_name(info.src_addr);
    domain.refs.fetch_add(1, std::memory_order_relaxed);
}

// The service under which it is to be published, and the host that it is to say.
void Endpoint::take_name(const void* source) noexcept {
    if (domain.addr_format == FI_SOCKADDR_IN) {
        sockaddr_in in;
        std::memcpy(&in, source, sizeof in);
        if (in.sin_family != AF_INET) return;
        service = ntohs(in.sin_port);
        if (in.sin_addr.s_addr != htonl(INADDR_ANY)) host = in.sin_addr.s_addr;
        return;
    }
    nvlf_addr wanted;
    std::memcpy(&wanted, source, sizeof wanted);
    if (wanted.magic == NVLF_ADDR_MAGIC) service = wanted.service;
}

Endpoint::~Endpoint() {
    domain.remove_endpoint(*this);
    domain.work.stop(this, nullptr);
    leave();
    domain.work.forget(this, nullptr);
    each_side([](const auto& side) { release_queues(side); });
    if (av != nullptr) av->refs.fetch_sub(1, std::memory_order_relaxed);
    if (eq != nullptr) eq->refs.fetch_sub(1, std::memory_order_relaxed);
    ::explicit_bzero(proof.data(), sizeof proof); // Buffers of ours are the application's from here on.
    say_bye();
    collectives.reset();
    for (auto& peer : peers) {
        peer->streams.clear();
        unshare(*peer);
        peer->fetches.clear();
        peer->unapplied.clear();
    }
    live.clear();
    for (auto& [key, memory] : published) (void)nvlf_mem_put(memory);
    peers.clear(); // Gives the channels back, which the endpoint must outlive.
    if (ep != nullptr) (void)nvlf_ep_put(ep);
    if (shared_tx != nullptr) shared_tx->endpoints.fetch_sub(1, std::memory_order_acq_rel);
    if (shared_rx != nullptr) shared_rx->endpoints.fetch_sub(1, std::memory_order_acq_rel);
    domain.refs.fetch_sub(1, std::memory_order_relaxed);
}

int Endpoint::bind(::fid* object, std::uint64_t flags) noexcept {
    if (ep != nullptr) return -FI_EOPBADSTATE;
    switch (object->fclass) {
    case FI_CLASS_CQ:
    case FI_CLASS_CNTR: return bind_queue(domain, &tx_contexts.front(), &rx_bindings.front(), *object, flags);
    case FI_CLASS_STX_CTX: return bind_shared(*this, shared_tx_of(object), shared_tx, wants_shared_tx, flags);
    case FI_CLASS_SRX_CTX: return bind_srx(*this, shared_rx_of(object), flags);
    case FI_CLASS_AV: {
        Av& vector = av_of(reinterpret_cast<fid_av*>(object));
        if (av != nullptr || &vector.domain != &domain) return -FI_EINVAL;
        av = &vector;
        av_mask = ~fi_addr_t{0} >> vector.rx_ctx_bits;
        av_changes_now = &vector.table.changes_word();
        av->refs.fetch_add(1, std::memory_order_relaxed);
        return 0;
    }
    case FI_CLASS_EQ: return bind_eq(*this, eq_of(reinterpret_cast<fid_eq*>(object)), flags);
    default: return -FI_EINVAL;
    }
}

// An FI_SOCKADDR_IN names no device, so a port must be one endpoint's in the whole fabric; without one, any that is free.
int Endpoint::publish() noexcept {
    if (domain.addr_format != FI_SOCKADDR_IN)
        return nvlf_ep_publish(domain.nvlf, domain.device, service, region_bytes, &ep);
    if (service != 0) return publish_port(service);
    constexpr unsigned first = 49152, count = 16384; // The dynamic ports of RFC 6335.
    const unsigned start = static_cast<unsigned>(Clock::now().time_since_epoch().count());
    int e = -FI_EADDRINUSE;
    for (unsigned i = 0; i < count && e == -FI_EADDRINUSE; ++i) {
        service = first + (start + i) % count;
        e = publish_port(service);
    }
    return e;
}

int Endpoint::publish_port(std::uint64_t port) noexcept {
    nvlf_addr found = service_addr(0, NVLF_DEVICE_ANY, port);
    if (nvlf_ep_lookup(domain.nvlf, &found) == 0) return -FI_EADDRINUSE;
    if (const int e = nvlf_ep_publish(domain.nvlf, domain.device, port, region_bytes, &ep); e != 0) return e;
    // Of two that did so at once on two devices, who was first is found.
    found = service_addr(0, NVLF_DEVICE_ANY, port);
    const int e = nvlf_ep_lookup(domain.nvlf, &found);
    if (e == 0 && addr_equal(found, *nvlf_ep_addr(ep))) return 0;
    (void)nvlf_ep_put(std::exchange(ep, nullptr));
    return e != 0 ? e : -FI_EADDRINUSE;
}

// Publishes the endpoint. From here on peers may find it.
int Endpoint::enable() noexcept {
    const Uncancellable whole;
    if (ep != nullptr) return 0;
    if (av == nullptr) return -FI_ENOAV;
    if ((wants_shared_tx && shared_tx == nullptr) || (wants_shared_rx && shared_rx == nullptr)) return -FI_EOPBADSTATE;
    if (fid.fid.fclass == FI_CLASS_EP) {
        bool reports = false;
        each_side([&](auto& side) { reports = reports || has_queue(side); });
        if (!reports && (caps & (FI_SEND | FI_MSG | FI_TAGGED)) != 0) return -FI_ENOCQ;
        each_side([](auto& side) { side.enabled = true; });
        if (shared_rx == nullptr) rx->open();
    }
    if (const int refused = publish(); refused != 0) {
        FI_WARN(&provider, FI_LOG_EP_CTRL, "cannot publish an endpoint on device %u, service %llu: %s\n", domain.device,
                static_cast<unsigned long long>(service), std::strerror(-refused));
        return refused;
    }
    open_directory(*this);
    notices_seen = nvlf_ep_notices(ep);
    av_changes = av->changes();
    int e = join();
    if (e == 0 && !domain.add_endpoint(*this)) e = -FI_ENOMEM;
    if (e == 0) return 0;
    leave();
    (void)nvlf_ep_put(std::exchange(ep, nullptr));
    return e;
}

// From now on messages are matched, and reads of the queues and counters of contexts that are enabled drive the endpoint.
int Endpoint::join() noexcept {
    {
        const std::lock_guard guard{lock()};
        for (RxBinding& binding : rx_bindings)
            if (!binding.context->join(binding)) return -FI_ENOMEM;
    }
    int e = 0;
    each_side([&](auto& side) {
        if (e == 0 && side.enabled) e = join_queues(*this, side);
    });
    if (e == 0 && eq != nullptr && collectives != nullptr && (e = eq->add_endpoint(*this)) == 0) eq_drives = true;
    return e;
}

void Endpoint::leave() noexcept {
    each_side([this](auto& side) { leave_queues(*this, side); });
    if (std::exchange(eq_drives, false)) eq->remove_endpoint(*this);
    const std::lock_guard guard{lock()};
    for (RxBinding& binding : rx_bindings) binding.context->leave(binding);
}

void Endpoint::disown(const TxContext& context) noexcept {
    tx_ops.for_each_used([&](TxOp& op) {
        if (op.tx == &context) op.tx = &nobody;
    });
}

bool Endpoint::busy() const noexcept {
    return aliases.load(std::memory_order_acquire) != 0 || mrs.load(std::memory_order_acquire) != 0 ||
           (collectives != nullptr && collectives->any_group());
}

int Endpoint::name(void* address, std::size_t* bytes) const noexcept {
    if (bytes == nullptr || (address == nullptr && *bytes > 0)) return -FI_EINVAL;
    if (ep == nullptr) return -FI_EOPBADSTATE;
    const std::size_t size = addr_bytes(domain.addr_format);
    std::byte whole[sizeof(nvlf_addr)]; // The larger of the two.
    write_addr(domain.addr_format, {.addr = *nvlf_ep_addr(ep), .host = host}, whole);
    const std::size_t room = std::exchange(*bytes, size);
    if (room > 0) std::memcpy(address, whole, std::min(room, size));
    return room < size ? -FI_ETOOSMALL : 0;
}

} // namespace nvlf::ofi
