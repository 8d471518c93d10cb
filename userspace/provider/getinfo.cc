// SPDX-License-Identifier: MIT OR GPL-2.0-only
// getinfo.cc - fi_getinfo: one fi_info for each device of the fabric, the one to use first.
//
// It looks at the running fabric, or at the image of the one that would be started, and never starts anything: every
// program that uses libfabric for something else comes by here.
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "address.hpp"
#include "base/cancel.hpp"
#include "fabric.hpp"
#include "info.hpp"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

// Set by the core when a layered provider (rxm, rxd) looks for something to run on. We have nothing for them: they would
// appear before us in the list, and an application that takes the first entry would run through them.
constexpr std::uint64_t probe_by_layered_provider = 1ULL << 59;

struct SnapshotClose {
    void operator()(nvlf_snapshot* snapshot) const noexcept { nvlf_snapshot_close(snapshot); }
};
using Snapshot = std::unique_ptr<nvlf_snapshot, SnapshotClose>;

struct InfoFree {
    void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoFree>;

// What the application asked for, apart from attributes.
struct Request {
    std::uint32_t version;
    const fi_info* hints;
    std::string fabric; // Without prefix; "": whichever the environment names.
    std::uint32_t format = addr_nvlf;
    Address source{}; // magic 0: none was given. Of a device: only this one's infos.
    Address dest{};   // magic 0: none was given.
};

// strdup for libfabric, which frees by free().
char* copy_string(const char* text, std::size_t bytes) { return ::strndup(text, bytes); }

bool copy_addr(std::uint32_t format, const Address& address, void*& ret_addr, std::size_t& ret_bytes) noexcept {
    ret_addr = std::malloc(addr_bytes(format));
    if (ret_addr == nullptr) return false;
    write_addr(format, address, ret_addr);
    ret_bytes = addr_bytes(format);
    return true;
}

// An address of an endpoint; or of a device or host without one, as fi_getinfo answers them for endpoints to come.
Result<Address> read_hint(std::uint32_t format, const void* bytes) noexcept {
    if (format == FI_SOCKADDR_IN) {
        sockaddr_in in;
        std::memcpy(&in, bytes, sizeof in);
        if (in.sin_family != AF_INET || in.sin_port != 0) return read_addr(format, bytes);
        return Address{.addr = service_addr(0, NVLF_DEVICE_ANY, 0), .host = in.sin_addr.s_addr};
    }
    Address address;
    std::memcpy(&address.addr, bytes, sizeof address.addr);
    if (address.addr.magic != NVLF_ADDR_MAGIC || address.addr.version != NVLF_ADDR_VERSION) return Errno{EINVAL};
    return address;
}

// Addresses in hints: raw names that a peer sent by other means, given back to us.
int take_hint_addr(std::uint32_t format, const void* bytes, std::size_t length, const char* which,
                   Address& ret_address) noexcept {
    if (bytes == nullptr || length == 0) return 0;
    if (length < addr_bytes(format)) {
        FI_INFO(&provider, FI_LOG_CORE, "%s has %zu bytes, an address of its format has %zu\n", which, length,
                addr_bytes(format));
        return -FI_ENODATA;
    }
    const Result<Address> address = read_hint(format, bytes);
    if (!address) {
        FI_INFO(&provider, FI_LOG_CORE, "%s is no address of this provider: %s\n", which,
                fi_strerror(address.error().value()));
        return -FI_ENODATA;
    }
    ret_address = *address;
    return 0;
}

int take_hints(const fi_info* hints, Request& request) {
    if (hints == nullptr) return 0;
    if (const int ret = check_info(request.version, *hints); ret != 0) return ret;
    if (hints->fabric_attr != nullptr) {
        // prov_name is the core's business: it may name a stack of layers of which we are one.
        if (hints->fabric_attr->prov_version > provider.version) return -FI_ENODATA;
        if (const char* name = hints->fabric_attr->name; name != nullptr) {
            if (std::strncmp(name, fabric_prefix, sizeof fabric_prefix - 1) != 0) return -FI_ENODATA;
            request.fabric = name + sizeof fabric_prefix - 1;
            if (request.fabric.empty()) return -FI_ENODATA;
        }
    }
    request.format = addr_format_for(hints->addr_format);
    if (const int ret =
            take_hint_addr(request.format, hints->src_addr, hints->src_addrlen, "hints->src_addr", request.source);
        ret != 0)
        return ret;
    return take_hint_addr(request.format, hints->dest_addr, hints->dest_addrlen, "hints->dest_addr", request.dest);
}

int take_node(const nvlf_state& state, const char* node, const char* service, std::uint64_t flags, Request& request) {
    if (node == nullptr && service == nullptr) return 0;
    const Result<Address> target = resolve(state, node, service);
    if (!target) {
        FI_INFO(&provider, FI_LOG_CORE, "node '%s' %s\n", node,
                target.error() == Errno{EADDRNOTAVAIL} ? "is neither this host nor a device of the fabric"
                                                       : "names a service, and another one is given");
        return -FI_ENODATA;
    }
    if (request.format == FI_SOCKADDR_IN && target->addr.service > UINT16_MAX) {
        FI_INFO(&provider, FI_LOG_CORE, "service '%s' is no port\n", service);
        return -FI_ENODATA;
    }
    ((flags & FI_SOURCE) != 0 ? request.source : request.dest) = *target;
    return 0;
}

bool wanted(const nvlf_device& device, const Request& request) noexcept {
    const nvlf_addr& source = request.source.addr;
    if (source.magic != 0 && source.device != NVLF_DEVICE_ANY && source.device != device.index) return false;
    const fi_domain_attr* attr = request.hints != nullptr ? request.hints->domain_attr : nullptr;
    return attr == nullptr || attr->name == nullptr || std::strncmp(attr->name, device.name, sizeof device.name) == 0;
}

// nullptr: no memory.
Info make_info(const nvlf_device& device, const std::string& fabric, const Request& request) {
    // From the core, so that attributes have the size that *it* knows, with what we do not know zero.
    Info info{fi_allocinfo()};
    if (!info) return nullptr;
    fill_info(request.version, request.hints, *info);
    info->domain_attr->name = copy_string(device.name, sizeof device.name);
    info->fabric_attr->name = copy_string(fabric.c_str(), fabric.size());
    info->fabric_attr->prov_version = provider.version;
    // prov_name stays NULL: the core sets it.
    Address source = request.source;
    if (source.addr.magic == 0 || source.addr.device == NVLF_DEVICE_ANY)
        source.addr = service_addr(0, device.index, source.addr.service);
    if (info->domain_attr->name == nullptr || info->fabric_attr->name == nullptr ||
        !copy_addr(request.format, source, info->src_addr, info->src_addrlen))
        return nullptr;
    if (request.dest.addr.magic != 0 && !copy_addr(request.format, request.dest, info->dest_addr, info->dest_addrlen))
        return nullptr;
    info->nic = nic_new(device);
    if (info->nic == nullptr) return nullptr;
    return info;
}

// Indices of the devices, the one that this process is to use first.
int order_devices(const nvlf_state& state, std::vector<std::uint32_t>& ret_order) {
    std::uint32_t first = 0;
    const int ret = nvlf_state_pick_device(&state, &first);
    if (ret == -EINVAL) {
        const char* name = std::getenv("NVLF_DEVICE");
        FI_WARN(&provider, FI_LOG_CORE, "NVLF_DEVICE is '%s', which the fabric does not have: `nvlf ls` lists them\n",
                name != nullptr ? name : "");
        return -FI_ENODATA;
    }
    if (ret == 0) ret_order.push_back(first);
    for (std::uint32_t i = 0; i < state.device_count; ++i)
        if (ret != 0 || i != first) ret_order.push_back(i);
    return 0;
}

int open_snapshot(const std::string& fabric, Snapshot& ret_snapshot) noexcept {
    nvlf_open_args args{};
    args.size = sizeof args;
    args.fabric = fabric.empty() ? nullptr : fabric.c_str();
    nvlf_snapshot* snapshot = nullptr;
    const int ret = nvlf_snapshot_open(&args, &snapshot);
    if (ret < 0) {
        // Programs that have nothing to do with us come by, too: no warning when there is just nothing here.
        const char* topology = std::getenv("NVLF_TOPOLOGY");
        const bool meant = topology != nullptr && *topology != '\0';
        if (ret == -ENOENT && !meant) FI_INFO(&provider, FI_LOG_CORE, "%s\n", nvlf_open_error());
        else FI_WARN(&provider, FI_LOG_CORE, "%s\n", nvlf_open_error());
        return ret == -ENOMEM ? -FI_ENOMEM : -FI_ENODATA;
    }
    ret_snapshot.reset(snapshot);
    return 0;
}

std::string full_fabric_name(const std::string& fabric) {
    const char* name = fabric.c_str();
    if (fabric.empty()) name = std::getenv("NVLF_FABRIC");
    if (name == nullptr || *name == '\0') name = "default";
    return std::string{fabric_prefix} + name;
}

int answer(const char* node, const char* service, std::uint64_t flags, Request& request, fi_info** ret_info) {
    if (const int ret = take_hints(request.hints, request); ret != 0) return ret;
    Snapshot snapshot;
    if (const int ret = open_snapshot(request.fabric, snapshot); ret != 0) return ret;
    const nvlf_state* state = nvlf_snapshot_state(snapshot.get(), nullptr);
    if (state == nullptr) return -FI_ENODATA;
    if (const int ret = take_node(*state, node, service, flags, request); ret != 0) return ret;
    std::vector<std::uint32_t> order;
    if (const int ret = order_devices(*state, order); ret != 0) return ret;

    const std::string fabric = full_fabric_name(request.fabric);
    const nvlf_device* devices = nvlf_state_devices(state);
    Info head;
    fi_info* tail = nullptr;
    for (const std::uint32_t index : order) {
        if (!wanted(devices[index], request)) continue;
        Info info = make_info(devices[index], fabric, request);
        if (!info) return -FI_ENOMEM;
        fi_info* last = info.get();
        if (tail == nullptr) head = std::move(info);
        else tail->next = info.release();
        tail = last;
    }
    if (!head) return -FI_ENODATA;
    *ret_info = head.release();
    return 0;
}

} // namespace

int getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
            fi_info** ret_info) noexcept try {
    const Uncancellable whole;
    if (ret_info == nullptr) return -FI_EINVAL;
    if ((flags & probe_by_layered_provider) != 0) return -FI_ENODATA;
    if ((flags & FI_SOURCE) != 0 && node == nullptr && service == nullptr) return -FI_EINVAL;
    Request request{.version = version, .hints = hints, .fabric = {}};
    return answer(node, service, flags, request, ret_info);
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

} // namespace nvlf::ofi
