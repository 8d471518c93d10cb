// SPDX-License-Identifier: MIT OR GPL-2.0-only
// none.cc - see none.hpp.
#include "none.hpp"

namespace nvlf::ofi {

fi_ops_cm none_cm{sizeof(fi_ops_cm), none, none, none, none, none, none, none, none, none};

fi_ops_msg none_msg{sizeof(fi_ops_msg), none, none, none, none, none, none, none, none, none};

fi_ops_rma none_rma{sizeof(fi_ops_rma), none, none, none, none, none, none, none, none, none};

fi_ops_tagged none_tagged{sizeof(fi_ops_tagged), none, none, none, none, none, none, none, none, none};

fi_ops_atomic none_atomic{
    sizeof(fi_ops_atomic), none, none, none, none, none, none, none, none, none, none, none, none, none};

fi_ops_collective none_collective{
    sizeof(fi_ops_collective), none, none, none, none, none, none, none, none, none, none, none};

fi_ops_msg idle_msg{sizeof(fi_ops_msg), none,        none,        none,        not_enabled,
                    not_enabled,        not_enabled, not_enabled, not_enabled, not_enabled};

fi_ops_rma idle_rma{sizeof(fi_ops_rma), not_enabled, not_enabled, not_enabled, not_enabled,
                    not_enabled,        not_enabled, not_enabled, not_enabled, not_enabled};

fi_ops_tagged idle_tagged{sizeof(fi_ops_tagged), none,        none,        none,        not_enabled,
                          not_enabled,           not_enabled, not_enabled, not_enabled, not_enabled};

fi_ops_atomic idle_atomic{sizeof(fi_ops_atomic), not_enabled, not_enabled, not_enabled, not_enabled,
                          not_enabled,           not_enabled, not_enabled, not_enabled, not_enabled,
                          not_enabled,           not_enabled, not_enabled, not_enabled};

int no_bind(fid*, fid*, std::uint64_t) { return -FI_ENOSYS; }
int no_control(fid*, int, void*) { return -FI_ENOSYS; }
int no_ops_open(fid*, const char*, std::uint64_t, void**, void*) { return -FI_ENOSYS; }
int no_tostr(const fid*, char*, std::size_t) { return -FI_ENOSYS; }
int no_ops_set(fid*, const char*, std::uint64_t, void*, void*) { return -FI_ENOSYS; }

} // namespace nvlf::ofi
