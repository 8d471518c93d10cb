// SPDX-License-Identifier: MIT OR GPL-2.0-only
// work.cc - see work.hpp.
#include "work.hpp"

#include <rdma/fabric.h>

#include <mutex>

#include "cntr.hpp"
#include "endpoint.hpp"

namespace nvlf::ofi {
namespace {

void change(const CntrRequest& request) noexcept {
    if (request.set) request.cntr->set(request.value);
    else request.cntr->add(request.value);
}

struct Start {
    Endpoint* endpoint;
    RxContext* rx;

    ssize_t operator()(const CntrRequest& request) const noexcept {
        change(request);
        return 0;
    }
    ssize_t operator()(const SendRequest& request) const noexcept { return endpoint->send(request); }
    ssize_t operator()(const RmaRequest& request) const noexcept { return endpoint->one_sided(request); }
    ssize_t operator()(const AtomicRequest& request) const noexcept { return endpoint->atomic(request); }
    ssize_t operator()(const ReceiveRequest& request) const noexcept { return rx->receive(request); }
};

struct Fail {
    Endpoint* endpoint;
    RxContext* rx;
    int error;

    void operator()(const CntrRequest&) const noexcept {}
    void operator()(const ReceiveRequest& request) const noexcept { rx->fail(request, error); }
    template <class Request>
    void operator()(const Request& request) const noexcept {
        const std::lock_guard guard{endpoint->lock()};
        request.tx->fail(request.completes_as(), request.context, error);
    }
};

struct FlagsOf {
    std::uint64_t operator()(const CntrRequest&) const noexcept { return 0; }
    template <class Request>
    std::uint64_t operator()(const Request& request) const noexcept {
        return request.flags;
    }
};

} // namespace

ssize_t Work::start() noexcept {
    const Request posted = request; // A copy: the work may be over, and gone, before the call returns.
    return std::visit(Start{endpoint, rx}, posted);
}

void Work::fail(int error) noexcept {
    const Request failed = request;
    std::visit(Fail{endpoint, rx, error}, failed);
}

// As a queue is not told of success, nor is it of a failure that a counter knows of; but a failure is never lost.
bool Work::heard_by_endpoint(int error) const noexcept {
    return (std::visit(FlagsOf{}, request) & FI_COMPLETION) != 0 || (error != 0 && completion == nullptr);
}

void Work::sent(std::uint64_t kind, void* its_context, int error) noexcept {
    if (heard_by_endpoint(error)) {
        if (error == 0) tx->complete(kind, FI_COMPLETION, its_context, false);
        else tx->fail(kind, its_context, error);
    }
    end(error);
}

bool Work::received(int error) noexcept {
    const bool heard = heard_by_endpoint(error);
    end(error);
    return heard;
}

void Work::end(int error) noexcept {
    if (completion != nullptr) {
        if (error == 0) completion->add(1);
        else completion->add_error(1);
    }
    queue.ended(*this);
}

} // namespace nvlf::ofi
