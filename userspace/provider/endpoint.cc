// SPDX-License-Identifier: MIT OR GPL-2.0-only
// endpoint.cc - fi_endpoint(3): open, bind, enable, name, options, cancel, close.
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
#include "none.hpp"
#include "params.hpp"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

// ---- Binding ---------------------------------------------------------------------------------------------------------

// `tx`, `rx`: what is being bound; nullptr: it has no such side.
int bind_cq(TxContext* tx, RxBinding* rx, Cq& cq, std::uint64_t flags) noexcept {
    if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) != 0) return -FI_EBADFLAGS;
    const bool transmit = (flags & FI_TRANSMIT) != 0;
    const bool receive = (flags & FI_RECV) != 0;
    if (!transmit && !receive) return -FI_EINVAL;
    if ((transmit && (tx == nullptr || tx->cq != nullptr)) || (receive && (rx == nullptr || rx->cq != nullptr)))
        return -FI_EINVAL;
    if (transmit) {
        tx->cq = &cq;
        tx->selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
        cq.refs.fetch_add(1, std::memory_order_relaxed);
    }
    if (receive) {
        rx->cq = &cq;
        rx->selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
        cq.refs.fetch_add(1, std::memory_order_relaxed);
    }
    return 0;
}

int bind_cntr(TxContext& tx, RxBinding& rx, Cntr& cntr, std::uint64_t flags) noexcept {
    constexpr std::uint64_t known = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    if ((flags & ~known) != 0 || flags == 0) return -FI_EBADFLAGS;
    const std::pair<std::uint64_t, Cntr**> places[] = {
        {FI_SEND, &tx.send_cntr},   {FI_RECV, &rx.recv_cntr},
        {FI_READ, &tx.read_cntr},   {FI_REMOTE_READ, &rx.remote_read_cntr},
        {FI_WRITE, &tx.write_cntr}, {FI_REMOTE_WRITE, &rx.remote_write_cntr}};
    for (const auto& [flag, place] : places)
        if ((flags & flag) != 0 && *place != nullptr) return -FI_EINVAL;
    for (const auto& [flag, place] : places) {
        if ((flags & flag) == 0) continue;
        *place = &cntr;
        cntr.refs.fetch_add(1, std::memory_order_relaxed);
    }
    return 0;
}

// What is reported there: joined groups.
int bind_eq(Endpoint& ep, Eq& eq, std::uint64_t flags) noexcept {
    if (flags != 0) return -FI_EBADFLAGS;
    if (ep.eq != nullptr || &eq.fabric != &ep.domain.fabric) return -FI_EINVAL;
    ep.eq = &eq;
    eq.refs.fetch_add(1, std::memory_order_relaxed);
    return 0;
}

int ep_bind(::fid* object, ::fid* other, std::uint64_t flags) {
    Endpoint& ep = endpoint_of(reinterpret_cast<fid_ep*>(object));
    return other != nullptr ? ep.bind(other, flags) : -FI_EINVAL;
}

// ---- Options ---------------------------------------------------------------------------------------------------------

int ep_getopt(fid* object, int level, int name, void* value, std::size_t* bytes) {
    const RxContext& context = *ep_fid_of(object).rx;
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    if (name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    if (value == nullptr || bytes == nullptr) return -FI_EINVAL;
    if (*bytes < sizeof(std::size_t)) return -FI_ETOOSMALL;
    std::memcpy(value, &context.min_multi_recv, sizeof(std::size_t));
    *bytes = sizeof(std::size_t);
    return 0;
}

int ep_setopt(fid* object, int level, int name, const void* value, std::size_t bytes) {
    RxContext& context = *ep_fid_of(object).rx;
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    if (name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    if (value == nullptr || bytes != sizeof(std::size_t)) return -FI_EINVAL;
    const std::lock_guard guard{context.store.lock};
    std::memcpy(&context.min_multi_recv, value, sizeof(std::size_t));
    return 0;
}

int ep_control(fid* object, int command, void* arg) {
    EpFid& ep = ep_fid_of(object);
    switch (command) {
    case FI_ENABLE: return ep.endpoint->enable();
    case FI_GETOPSFLAG: {
        if (arg == nullptr) return -FI_EINVAL;
        auto& flags = *static_cast<std::uint64_t*>(arg);
        if ((flags & FI_TRANSMIT) != 0 && (flags & FI_RECV) != 0) return -FI_EINVAL;
        if ((flags & (FI_TRANSMIT | FI_RECV)) == 0) return -FI_EINVAL;
        flags = (flags & FI_TRANSMIT) != 0 ? ep.tx_flags : ep.rx_flags;
        return 0;
    }
    case FI_SETOPSFLAG: {
        if (arg == nullptr) return -FI_EINVAL;
        const std::uint64_t flags = *static_cast<const std::uint64_t*>(arg);
        if ((flags & FI_TRANSMIT) != 0 && (flags & FI_RECV) != 0) return -FI_EINVAL;
        if ((flags & FI_TRANSMIT) != 0) ep.tx_flags = flags & ~FI_TRANSMIT;
        else if ((flags & FI_RECV) != 0) ep.rx_flags = flags & ~FI_RECV;
        else return -FI_EINVAL;
        return 0;
    }
    default: return -FI_ENOSYS;
    }
}

ssize_t ep_cancel(fid* object, void* context) { return ep_fid_of(object).rx->cancel(context); }

int ep_getname(fid* object, void* address, std::size_t* bytes) {
    return endpoint_of(reinterpret_cast<fid_ep*>(object)).name(address, bytes);
}

int ep_close(fid* object) {
    Endpoint& ep = endpoint_of(reinterpret_cast<fid_ep*>(object));
    if (ep.mrs.load(std::memory_order_acquire) != 0) return -FI_EBUSY;
    if (ep.collectives != nullptr && ep.collectives->any_group()) return -FI_EBUSY;
    delete &ep;
    return 0;
}

fi_ops ep_fid_ops{sizeof(fi_ops), ep_close, ep_bind, ep_control, no_ops_open, no_tostr, no_ops_set};
fi_ops_ep ep_ops{sizeof(fi_ops_ep), ep_cancel, ep_getopt, ep_setopt, none, none, none, none};
fi_ops_cm ep_cm_ops{sizeof(fi_ops_cm), none, ep_getname, none, none, none, none, none, none, join_collective};

} // namespace

std::atomic<unsigned> Generation::forks{0};

int endpoint_open(fid_domain* domain_fid, fi_info* info, fid_ep** ret_ep, void* context) noexcept try {
    static const int counting =
        ::pthread_atfork(nullptr, nullptr, [] { Generation::forks.fetch_add(1, std::memory_order_relaxed); });
    if (counting != 0) return -FI_ENOMEM;
    Domain& domain = domain_of(domain_fid);
    if (ret_ep == nullptr || info->ep_attr == nullptr) return -FI_EINVAL;
    if (info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC) return -FI_ENOSYS;
    if (info->ep_attr->tx_ctx_cnt > 1 || info->ep_attr->rx_ctx_cnt > 1) return -FI_EINVAL;
    auto endpoint = std::make_unique<Endpoint>(domain, *info);
    if ((info->caps & FI_COLLECTIVE) != 0) {
        endpoint->collectives = std::make_unique<Collectives>(*endpoint);
        endpoint->fid.collective = &collective_ops;
    }
    endpoint->fid.fid.context = context;
    *ret_ep = &endpoint.release()->fid;
    return 0;
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

Endpoint::Endpoint(Domain& d, const fi_info& info)
    : domain{d},
      caps{info.caps},
      order{info.tx_attr},
      own_store{d.locks(), params().unexpected_limit},
      rx_bindings(1),
      tx_contexts(1) {
    own_contexts.push_back(std::make_unique<RxContext>(own_store, caps));
    rx_bindings[0] = {.endpoint = this, .context = own_contexts[0].get(), .caps = caps};
    endpoint = this;
    rx = rx_bindings[0].context;
    tx = &tx_contexts[0];
    fid.fid.fclass = FI_CLASS_EP;
    fid.fid.ops = &ep_fid_ops;
    fid.ops = &ep_ops;
    fid.cm = &ep_cm_ops;
    fid.msg = &msg_ops;
    fid.rma = &rma_ops;
    fid.tagged = &tagged_ops;
    fid.atomic = &atomic_ops;
    fid.collective = &none_collective;
    if (info.tx_attr != nullptr) tx_flags = info.tx_attr->op_flags;
    if (info.rx_attr != nullptr) rx_flags = info.rx_attr->op_flags;
    if (info.src_addr != nullptr && info.src_addrlen >= sizeof(nvlf_addr)) {
        nvlf_addr wanted{};
        std::memcpy(&wanted, info.src_addr, sizeof wanted);
        if (wanted.magic == NVLF_ADDR_MAGIC) service = wanted.service;
    }
    domain.refs.fetch_add(1, std::memory_order_relaxed);
}

Endpoint::~Endpoint() {
    domain.remove_endpoint(*this);
    leave_queues();
    leave_contexts();
    for_each_queue([](auto* bound) {
        if (bound != nullptr) bound->refs.fetch_sub(1, std::memory_order_relaxed);
    });
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
    domain.refs.fetch_sub(1, std::memory_order_relaxed);
}

int Endpoint::bind(::fid* object, std::uint64_t flags) noexcept {
    if (ep != nullptr) return -FI_EOPBADSTATE;
    switch (object->fclass) {
    case FI_CLASS_CQ: {
        Cq& cq = cq_of(reinterpret_cast<fid_cq*>(object));
        return &cq.domain == &domain ? bind_cq(&tx_contexts[0], &rx_bindings[0], cq, flags) : -FI_EINVAL;
    }
    case FI_CLASS_CNTR: {
        Cntr& cntr = cntr_of(reinterpret_cast<fid_cntr*>(object));
        return &cntr.domain == &domain ? bind_cntr(tx_contexts[0], rx_bindings[0], cntr, flags) : -FI_EINVAL;
    }
    case FI_CLASS_AV: {
        Av& vector = av_of(reinterpret_cast<fid_av*>(object));
        if (av != nullptr || &vector.domain != &domain) return -FI_EINVAL;
        av = &vector;
        av->refs.fetch_add(1, std::memory_order_relaxed);
        return 0;
    }
    case FI_CLASS_EQ: return bind_eq(*this, eq_of(reinterpret_cast<fid_eq*>(object)), flags);
    default: return -FI_EINVAL;
    }
}

// Publishes the endpoint. From here on peers may find it.
int Endpoint::enable() noexcept {
    if (ep != nullptr) return 0;
    if (av == nullptr) return -FI_ENOAV;
    if ((caps & (FI_SEND | FI_MSG | FI_TAGGED)) != 0 && !any_queue()) return -FI_ENOCQ;
    if (const int refused = nvlf_ep_publish(domain.nvlf, domain.device, service, region_bytes, &ep); refused != 0) {
        FI_WARN(&provider, FI_LOG_EP_CTRL, "cannot publish an endpoint on device %u, service %llu: %s\n", domain.device,
                static_cast<unsigned long long>(service), std::strerror(-refused));
        return refused;
    }
    open_directory(*this);
    notices_seen = nvlf_ep_notices(ep);
    av_changes = av->changes();
    int e = join_contexts();
    if (e == 0) e = join_queues();
    if (e == 0 && !domain.add_endpoint(*this)) e = -FI_ENOMEM;
    if (e == 0) return 0;
    leave_queues();
    leave_contexts();
    (void)nvlf_ep_put(std::exchange(ep, nullptr));
    return e;
}

// From now on messages are matched.
int Endpoint::join_contexts() noexcept {
    const std::lock_guard guard{lock()};
    for (RxBinding& binding : rx_bindings)
        if (!binding.context->join(binding)) return -FI_ENOMEM;
    return 0;
}

void Endpoint::leave_contexts() noexcept {
    const std::lock_guard guard{lock()};
    for (RxBinding& binding : rx_bindings) binding.context->leave(binding);
}

bool Endpoint::any_queue() const noexcept {
    bool any = false;
    for_each_queue([&](const auto* bound) { any = any || bound != nullptr; });
    return any;
}

// From now on reads of these drive the endpoint. Counted: an object that serves two directions is joined twice.
int Endpoint::join_queues() noexcept {
    int e = 0;
    for_each_queue([&](auto* bound) {
        if (e == 0 && bound != nullptr && (e = bound->add_endpoint(*this)) == 0) ++joined;
    });
    return e;
}

void Endpoint::leave_queues() noexcept {
    for_each_queue([&](auto* bound) {
        if (bound != nullptr && joined > 0) bound->remove_endpoint(*this), --joined;
    });
}

int Endpoint::name(void* address, std::size_t* bytes) const noexcept {
    if (bytes == nullptr || (address == nullptr && *bytes > 0)) return -FI_EINVAL;
    if (ep == nullptr) return -FI_EOPBADSTATE;
    const std::size_t room = std::exchange(*bytes, sizeof(nvlf_addr));
    if (room > 0) std::memcpy(address, nvlf_ep_addr(ep), std::min(room, sizeof(nvlf_addr)));
    return room < sizeof(nvlf_addr) ? -FI_ETOOSMALL : 0;
}

} // namespace nvlf::ofi
