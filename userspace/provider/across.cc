// SPDX-License-Identifier: MIT OR GPL-2.0-only
// across.cc - one-sided operations on ordinary memory, by the initiator alone.
//
// A target lists registrations of ordinary memory like those of fabric memory (directory.hpp), with the address in place
// of a token. Where the kernel lets the initiator copy between the two address spaces (cma.hpp), it holds itself to what
// the entry says (range and rights), as on fabric memory, and the target does nothing. Where not, and for what is so small
// that a system call costs more than a slot, the operation goes by messages (onesided.cc), and so do all refusals.
#include "endpoint.hpp"
#include "params.hpp"

namespace nvlf::ofi {

// True: done, completion included.
bool Endpoint::try_across(Peer& peer, const RmaRequest& request) noexcept {
    if (request.local.total < params().rma_copy_from) return false;
    const std::uint64_t access = request.write ? FI_REMOTE_WRITE : FI_REMOTE_READ;
    const std::span<const RmaSegment> segments{request.segment.data(), request.segments};
    Buffers there;
    std::uint64_t events = 0;
    if (!reach_across(peer, segments, access, there, events) || !may_notify(peer, request, events)) return false;
    const std::size_t bytes = request.local.total;
    if (request.write) {
        if (peer.cma.write(request.local, 0, there, 0, bytes).failed()) return false;
    } else {
        if (peer.cma.read(request.local, 0, there, 0, bytes).failed()) return false;
        // What a registration that is closed by now was read from may have been anything.
        if (!reach_across(peer, segments, access, there, events)) return false;
    }
    finish_direct(peer, request, events);
    return true;
}

} // namespace nvlf::ofi
