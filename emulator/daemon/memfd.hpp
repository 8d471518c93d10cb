// SPDX-License-Identifier: MIT OR GPL-2.0-only
// memfd.hpp - the memory objects that nvlfd hands out.
//
// Each is a memfd whose size is sealed, so that no holder can make another holder's access a SIGBUS. A holder of a
// descriptor can normally trade it for a better one by opening /proc/self/fd/N again; the mode of the file decides, so
// it is 0400: another uid gets nothing at all that way, and nvlfd, the owner, makes read-only descriptors by it. (A
// process of the same uid could also attach a debugger to us; modes are no wall between such.)
#pragma once

#include <cstdint>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace nvlf::daemon {

// The errnos of the contract: EMFILE when descriptors ran out, ENOMEM for anything else that the host refuses.
[[nodiscard]] Errno resource_errno(Errno error) noexcept;

// Zeroed, sparse: untouched pages cost nothing. `name` shows in /proc/<pid>/maps.
[[nodiscard]] Result<Fd> make_memory(const char* name, std::uint64_t bytes);

// A second descriptor of the same memory that can only be mapped for reading. Needs /proc.
[[nodiscard]] Result<Fd> open_read_only(int memory);

[[nodiscard]] Result<Fd> duplicate(int fd);

// size: it cannot change any more. size_and_future_writes: nor can a writable mapping be made from now on, by whatever
// descriptor; those made before stay.
enum class Seal { size, size_and_future_writes };
[[nodiscard]] Errno seal(int memory, Seal what) noexcept;

} // namespace nvlf::daemon
