// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "driver/fabric.hpp"

#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/cancel.hpp"
#include "driver/state_check.hpp"

namespace nvlf {
namespace {

std::string version(std::uint32_t abi) { return std::to_string(abi >> 16) + '.' + std::to_string(abi & 0xffff); }

bool power_of_two(std::uint64_t value) noexcept { return value != 0 && (value & (value - 1)) == 0; }

bool sound(const nvlf_ioc_info& info) noexcept {
    const bool names_end = std::memchr(info.fabric, 0, sizeof info.fabric) != nullptr &&
                           std::memchr(info.topology, 0, sizeof info.topology) != nullptr;
    const bool arena = power_of_two(info.page_bytes) && info.arena_base != 0 && info.arena_bytes != 0 &&
                       info.arena_base % info.page_bytes == 0 && info.arena_bytes % info.page_bytes == 0 &&
                       info.arena_bytes <= std::numeric_limits<std::uint64_t>::max() - info.arena_base;
    return names_end && arena;
}

// A UUID is written big end first: its low 64 bits are its last eight bytes in that order.
std::uint64_t low_half(const __u8 (&uuid)[16]) noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = 8; i < 16; ++i) value = value << 8 | uuid[i];
    return value;
}

Uuid uuid_of(const nvlf_ioc_info& info) noexcept {
    Uuid uuid{};
    std::copy_n(info.uuid, uuid.size(), uuid.begin());
    return uuid;
}

// From now on the barriers that sleepers of other processes issue reach our threads (see wait.cc). Idempotent.
bool join_membarriers() noexcept {
    return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

} // namespace

bool mappable(const nvlf_ioc_info& info, int fd) noexcept { return (info.caps & NVLF_CAP_MEMFD) == 0 || sealed(fd); }

bool complete_address(const nvlf_fabric& fabric, const ::nvlf_addr& address) noexcept {
    return address.magic == NVLF_ADDR_MAGIC && address.version == NVLF_ADDR_VERSION && address.epoch != 0 &&
           address.fabric == fabric.address_id && address.endpoint < fabric.region().endpoint_count &&
           address.device < fabric.region().device_count;
}

// What an errno on the first question means for whoever wants to open the fabric.
std::string first_answer(Errno error) {
    const std::string asked = "the carrier did not tell about the fabric (GET_INFO): ";
    switch (error.value()) {
    case ENODEV: return asked + "it closed the connection; it ended, or has no room for one more client";
    case ETIMEDOUT: return asked + "no answer came; is it stopped?";
    default: return asked + ::strerrordesc_np(error.value());
    }
}

Errno ask_info(Carrier& carrier, nvlf_ioc_info& info, std::string& why) {
    info = {};
    info.abi_wanted = NVLF_ABI_VERSION;
    const Errno error = carrier.ask(NVLF_CMD_GET_INFO, info);
    if (error == Errno{EPROTONOSUPPORT}) {
        why = "the fabric speaks version " + version(info.abi) + " of the contract, this library " +
              version(NVLF_ABI_VERSION) + ": they must be of one release";
        return error;
    }
    if (error.failed()) {
        why = first_answer(error);
        return error;
    }
    if (info.abi >> 16 == NVLF_ABI_MAJOR && sound(info)) return Errno{};
    carrier.condemn();
    why = "what the carrier tells about the fabric (GET_INFO) contradicts itself";
    return Errno{EPROTO};
}

Errno map_state(Carrier& carrier, const nvlf_ioc_info& info, Mapping& state, Mapping* shared, std::string& why) {
    nvlf_ioc_state body{};
    Errno error = carrier.ask(NVLF_CMD_GET_STATE, body);
    if (error.failed()) {
        why = std::string{"the carrier did not give the state of the fabric (GET_STATE): "} +
              ::strerrordesc_np(error.value());
        return error;
    }
    const Fd state_fd = take_fd(body.state_fd);
    const Fd shared_fd = take_fd(body.shared_fd);
    const auto refuse = [&](Errno reason, const char* what) {
        carrier.condemn();
        why = std::string{"the state of the fabric (GET_STATE) cannot be used: "} + what;
        return reason;
    };
    if (!state_fd || !shared_fd || !mappable(info, state_fd.get()) || !mappable(info, shared_fd.get()))
        return refuse(Errno{EPROTO}, "it did not come as two sealed memory objects");
    Result<Mapping> region = Mapping::map(state_fd.get(), body.state_bytes, Mapping::Access::read);
    if (!region) return refuse(region.error(), "the state region cannot be mapped");
    error = check_state({static_cast<const std::byte*>(region->data()), region->size()});
    if (error.failed()) return refuse(error, "the state region contradicts itself");
    const auto& head = *static_cast<const nvlf_state*>(region->data());
    if (!std::equal(std::begin(head.uuid), std::end(head.uuid), std::begin(info.uuid)))
        return refuse(Errno{EPROTO}, "it is that of another fabric");
    if (shared != nullptr) {
        const std::uint64_t needed = 2ULL * head.link_count * sizeof(nvlf_link_shared);
        if (body.shared_bytes < needed) return refuse(Errno{EPROTO}, "the shared region is too small for its links");
        Result<Mapping> links = Mapping::map(shared_fd.get(), body.shared_bytes, Mapping::Access::read_write);
        if (!links) return refuse(links.error(), "the shared region cannot be mapped");
        *shared = *std::move(links);
    }
    state = *std::move(region);
    return Errno{};
}

Result<std::unique_ptr<nvlf_fabric>> make_fabric(std::unique_ptr<Carrier> carrier, std::string& why) {
    auto fabric = std::make_unique<nvlf_fabric>();
    fabric->carrier = std::move(carrier);
    nvlf_ioc_info& info = fabric->info;
    if (const Errno error = ask_info(*fabric->carrier, info, why); error.failed()) return error;
    const Errno error = map_state(*fabric->carrier, info, fabric->state, &fabric->shared, why);
    if (error.failed()) return error;
    fabric->address_id = low_half(info.uuid);
    fabric->shared_links = 2 * std::size_t{fabric->region().link_count};
    Result<std::shared_ptr<Arena>> arena = address_space().arena(uuid_of(info), info.arena_base, info.arena_bytes);
    if (!arena) {
        why = "the fabric is open in this process already, with another address arena";
        return arena.error();
    }
    fabric->arena = *std::move(arena);
    fabric->membarrier = join_membarriers();
    return fabric;
}

} // namespace nvlf

using namespace nvlf;

int nvlf_close(nvlf_fabric* fabric) noexcept {
    if (fabric == nullptr) return 0;
    // acquire: pairs with the release in ~FabricUse.
    if (fabric->objects.load(std::memory_order_acquire) != 0) return -EBUSY;
    delete fabric;
    return 0;
}

int nvlf_get_info(nvlf_fabric* fabric, nvlf_ioc_info* ret_info) noexcept {
    if (fabric == nullptr || ret_info == nullptr) return -EINVAL;
    return guarded([&] {
        nvlf_ioc_info info;
        std::string why;
        const Errno error = ask_info(*fabric->carrier, info, why);
        if (!error.failed()) *ret_info = info;
        return error.negative();
    });
}

const nvlf_state* nvlf_state_region(nvlf_fabric* fabric, size_t* ret_bytes) noexcept {
    if (fabric == nullptr) return nullptr;
    if (ret_bytes != nullptr) *ret_bytes = fabric->state.size();
    return &fabric->region();
}

nvlf_link_shared* nvlf_shared_region(nvlf_fabric* fabric, size_t* ret_count) noexcept {
    if (fabric == nullptr) return nullptr;
    if (ret_count != nullptr) *ret_count = fabric->shared_links;
    return static_cast<nvlf_link_shared*>(fabric->shared.data());
}

int nvlf_alive(nvlf_fabric* fabric) noexcept {
    if (fabric == nullptr) return -EINVAL;
    return static_cast<int>(fabric->carrier->usable() && !fabric->carrier->in_forked_child() &&
                            load_relaxed(fabric->region().serving) != 0);
}

int nvlf_poll_alive(nvlf_fabric* fabric) noexcept {
    const int alive = nvlf_alive(fabric);
    if (alive <= 0) return alive;
    const Uncancellable whole;
    // POLLIN says nothing: another thread's answer may be waiting. Hang-up is reported unasked.
    pollfd waited{fabric->carrier->fd(), POLLRDHUP, 0};
    return static_cast<int>(::poll(&waited, 1, 0) <= 0);
}
