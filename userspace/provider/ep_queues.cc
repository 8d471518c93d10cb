// SPDX-License-Identifier: MIT OR GPL-2.0-only
// ep_queues.cc - see ep_queues.hpp.
#include "ep_queues.hpp"

#include <utility>

namespace nvlf::ofi {
namespace {

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

int bind_cntr(TxContext* tx, RxBinding* rx, Cntr& cntr, std::uint64_t flags) noexcept {
    constexpr std::uint64_t known = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    if ((flags & ~known) != 0 || flags == 0) return -FI_EBADFLAGS;
    const std::pair<std::uint64_t, Cntr**> places[] = {
        {FI_SEND, tx != nullptr ? &tx->send_cntr : nullptr},
        {FI_READ, tx != nullptr ? &tx->read_cntr : nullptr},
        {FI_WRITE, tx != nullptr ? &tx->write_cntr : nullptr},
        {FI_RECV, rx != nullptr ? &rx->recv_cntr : nullptr},
        {FI_REMOTE_READ, rx != nullptr ? &rx->remote_read_cntr : nullptr},
        {FI_REMOTE_WRITE, rx != nullptr ? &rx->remote_write_cntr : nullptr}};
    for (const auto& [flag, place] : places)
        if ((flags & flag) != 0 && (place == nullptr || *place != nullptr)) return -FI_EINVAL;
    for (const auto& [flag, place] : places) {
        if ((flags & flag) == 0) continue;
        *place = &cntr;
        cntr.refs.fetch_add(1, std::memory_order_relaxed);
    }
    return 0;
}

} // namespace

int bind_queue(Domain& domain, TxContext* tx, RxBinding* rx, ::fid& object, std::uint64_t flags) noexcept {
    if (object.fclass == FI_CLASS_CQ) {
        Cq& cq = cq_of(reinterpret_cast<fid_cq*>(&object));
        return &cq.domain == &domain ? bind_cq(tx, rx, cq, flags) : -FI_EINVAL;
    }
    Cntr& cntr = cntr_of(reinterpret_cast<fid_cntr*>(&object));
    return &cntr.domain == &domain ? bind_cntr(tx, rx, cntr, flags) : -FI_EINVAL;
}

} // namespace nvlf::ofi
