// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/memfd.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

namespace nvlf::daemon {

Errno resource_errno(Errno error) noexcept {
    const bool descriptors = error == Errno{EMFILE} || error == Errno{ENFILE};
    return descriptors ? Errno{EMFILE} : Errno{ENOMEM};
}

Result<Fd> make_memory(const char* name, std::uint64_t bytes) {
    Fd fd{::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (!fd) return resource_errno(last_errno());
    if (::fchmod(fd.get(), S_IRUSR) != 0 || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
        return resource_errno(last_errno());
    return fd;
}

Result<Fd> open_read_only(int memory) {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    Fd fd{::open(path, O_RDONLY | O_CLOEXEC)};
    if (!fd) return resource_errno(last_errno());
    return fd;
}

Result<Fd> duplicate(int fd) {
    Fd copy{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    if (!copy) return resource_errno(last_errno());
    return copy;
}

Errno seal(int memory, Seal what) noexcept {
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (what == Seal::size_and_future_writes) seals |= F_SEAL_FUTURE_WRITE;
    return ::fcntl(memory, F_ADD_SEALS, seals) == 0 ? Errno{} : last_errno();
}

} // namespace nvlf::daemon
