// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "base/mapping.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace nvlf {

Mapping::Mapping(Mapping&& other) noexcept
    : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    if (this != &other) {
        reset();
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
    }
    return *this;
}

void Mapping::reset() noexcept {
    if (data_ != nullptr) ::munmap(data_, size_);
    data_ = nullptr;
    size_ = 0;
}

Result<Mapping> Mapping::map(int fd, std::size_t bytes, Access access) {
    struct stat st {};
    if (::fstat(fd, &st) != 0) return last_errno();
    if (bytes == 0 || st.st_size < 0 || static_cast<std::size_t>(st.st_size) < bytes) return Errno{EPROTO};
    const int prot = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
    void* data = ::mmap(nullptr, bytes, prot, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return last_errno();
    return Mapping{data, bytes};
}

void Mapping::populate(std::size_t offset, std::size_t bytes) noexcept {
    const std::size_t skipped = offset % static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::byte* const first = static_cast<std::byte*>(data_) + (offset - skipped);
    static_cast<void>(::madvise(first, bytes + skipped, MADV_POPULATE_WRITE)); // EINVAL before Linux 5.14.
}

bool sealed(int fd) noexcept {
    const int seals = ::fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

} // namespace nvlf
