// SPDX-License-Identifier: MIT OR GPL-2.0-only
// fabric_memory.hpp - memory of the fabric for applications that know only libfabric: the table of nvlf/fi_nvlf.h.
//
// It is libnvlf's memory, allocated through the open fabric of a domain; each piece holds the domain open.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <memory>

#include "nvlf/nvlf.h"

namespace nvlf::ofi {

struct MemPut {
    void operator()(nvlf_mem* memory) const noexcept { (void)nvlf_mem_put(memory); }
};
using MemRef = std::unique_ptr<nvlf_mem, MemPut>;

// fi_ops.ops_open of fabrics and domains.
int open_nvlf_ops(fid* object, const char* name, std::uint64_t flags, void** ret_ops, void* context);

} // namespace nvlf::ofi
