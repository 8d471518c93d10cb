// SPDX-License-Identifier: MIT OR GPL-2.0-only
// none.hpp - "not offered", in the shape of any libfabric operation.
//
// The public wrappers call through the ops tables without looking for NULL, so every member of every table must be a
// function. `none` converts to a pointer to a function of any signature that answers -FI_ENOSYS, which lets a table
// name what it does not offer without a stub for each:
//
//     fi_ops_cm cm_ops{sizeof(fi_ops_cm), none, ep_getname, none, ...};
//
// -Wmissing-field-initializers then finds the table that forgot a member. `not_enabled` does the same for calls that an
// object will answer once it is enabled.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace nvlf::ofi {

template <int Error>
struct Refusal {
    template <class R, class... Args>
    using Function = R (*)(Args...);

    template <class R, class... Args>
    constexpr operator Function<R, Args...>() const noexcept {
        return [](Args...) -> R {
            if constexpr (std::is_pointer_v<R>) return nullptr;
            else if constexpr (!std::is_void_v<R>) return static_cast<R>(-Error);
        };
    }
};
inline constexpr Refusal<FI_ENOSYS> none;
inline constexpr Refusal<FI_EOPBADSTATE> not_enabled;

// Whole tables, for what an endpoint does not offer at all.
extern fi_ops_cm none_cm;
extern fi_ops_msg none_msg;
extern fi_ops_rma none_rma;
extern fi_ops_tagged none_tagged;
extern fi_ops_atomic none_atomic;
extern fi_ops_collective none_collective;

// Of a transmit context that is not enabled yet.
extern fi_ops_msg idle_msg;
extern fi_ops_rma idle_rma;
extern fi_ops_tagged idle_tagged;
extern fi_ops_atomic idle_atomic;

// fi_control and fi_bind of objects that have no such thing.
int no_bind(fid* object, fid* other, std::uint64_t flags);
int no_control(fid* object, int command, void* arg);
int no_ops_open(fid* object, const char* name, std::uint64_t flags, void** ops, void* context);
int no_tostr(const fid* object, char* buf, std::size_t len);
int no_ops_set(fid* object, const char* name, std::uint64_t flags, void* ops, void* context);

} // namespace nvlf::ofi
