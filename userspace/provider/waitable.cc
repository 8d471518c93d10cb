// SPDX-License-Identifier: MIT OR GPL-2.0-only
// waitable.cc - see waitable.hpp.
#include "waitable.hpp"

#include "cntr.hpp"
#include "cq.hpp"
#include "eq.hpp"

namespace nvlf::ofi {

std::optional<Waitable> waitable_of(fid& object) noexcept {
    switch (object.fclass) {
    case FI_CLASS_CQ: return cq_of(reinterpret_cast<fid_cq*>(&object)).waitable();
    case FI_CLASS_CNTR: return cntr_of(reinterpret_cast<fid_cntr*>(&object)).waitable();
    case FI_CLASS_EQ: return eq_of(reinterpret_cast<fid_eq*>(&object)).waitable();
    default: return std::nullopt;
    }
}

void stop_waiting(fid& object) noexcept {
    if (const auto waitable = waitable_of(object); waitable && waitable->wait.armed()) end_try_wait(*waitable);
}

int try_wait(fid& object) noexcept {
    switch (object.fclass) {
    case FI_CLASS_CQ: return cq_of(reinterpret_cast<fid_cq*>(&object)).try_wait();
    case FI_CLASS_CNTR: return cntr_of(reinterpret_cast<fid_cntr*>(&object)).try_wait();
    case FI_CLASS_EQ: return eq_of(reinterpret_cast<fid_eq*>(&object)).try_wait();
    default: return -FI_EINVAL;
    }
}

bool look_for_news(fid& object) noexcept {
    switch (object.fclass) {
    case FI_CLASS_CQ: {
        Cq& cq = cq_of(reinterpret_cast<fid_cq*>(&object));
        if (cq.peek() == -FI_EAGAIN) cq.progress();
        return cq.peek() != -FI_EAGAIN;
    }
    case FI_CLASS_CNTR: {
        Cntr& cntr = cntr_of(reinterpret_cast<fid_cntr*>(&object));
        cntr.progress();
        return cntr.news();
    }
    case FI_CLASS_EQ: return !eq_of(reinterpret_cast<fid_eq*>(&object)).empty();
    default: return false;
    }
}

} // namespace nvlf::ofi
