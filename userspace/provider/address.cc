// SPDX-License-Identifier: MIT OR GPL-2.0-only
// address.cc - see address.hpp.
#include "address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace nvlf::ofi {
namespace {

// A numeric address, or what getifaddrs says of an interface, in one comparable shape.
struct Ip {
    int family = AF_UNSPEC;
    in_addr v4{};
    in6_addr v6{};

    friend bool operator==(const Ip& a, const Ip& b) noexcept {
        if (a.family != b.family) return false;
        if (a.family == AF_INET) return a.v4.s_addr == b.v4.s_addr;
        return std::memcmp(&a.v6, &b.v6, sizeof a.v6) == 0;
    }
};

Ip parse_ip(const char* text) noexcept {
    Ip ip;
    if (::inet_pton(AF_INET, text, &ip.v4) == 1) ip.family = AF_INET;
    else if (::inet_pton(AF_INET6, text, &ip.v6) == 1) ip.family = AF_INET6;
    return ip;
}

Ip ip_of(const sockaddr& addr) noexcept {
    Ip ip;
    ip.family = addr.sa_family;
    // The sockaddr may be aligned for less than its concrete type.
    if (ip.family == AF_INET) {
        sockaddr_in in;
        std::memcpy(&in, &addr, sizeof in);
        ip.v4 = in.sin_addr;
    } else if (ip.family == AF_INET6) {
        sockaddr_in6 in6;
        std::memcpy(&in6, &addr, sizeof in6);
        ip.v6 = in6.sin6_addr;
    } else {
        ip.family = AF_UNSPEC;
    }
    return ip;
}

bool is_loopback(const Ip& ip) noexcept {
    if (ip.family == AF_INET) return (ntohl(ip.v4.s_addr) >> 24) == IN_LOOPBACKNET;
    return ip.family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&ip.v6);
}

bool on_an_interface(const Ip& ip) noexcept {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) return false;
    bool found = false;
    for (const ifaddrs* i = list; i != nullptr && !found; i = i->ifa_next)
        found = i->ifa_addr != nullptr && ip_of(*i->ifa_addr) == ip;
    ::freeifaddrs(list);
    return found;
}

bool is_local(const Ip& ip) noexcept { return is_loopback(ip) || on_an_interface(ip); }

// Never asks a name server: getinfo must not block, and a host that only DNS knows is not this one for certain.
bool is_this_host(const char* node) noexcept {
    if (::strcasecmp(node, "localhost") == 0) return true;
    char name[256];
    if (::gethostname(name, sizeof name) == 0) {
        name[sizeof name - 1] = '\0'; // Not promised when it was cut.
        if (::strcasecmp(node, name) == 0) return true;
    }
    const Ip ip = parse_ip(node);
    return ip.family != AF_UNSPEC && is_local(ip);
}

bool find_device(const nvlf_state& state, std::string_view name, std::uint32_t& ret_device) noexcept {
    const nvlf_device* devices = nvlf_state_devices(&state);
    for (std::uint32_t i = 0; i < state.device_count; ++i) {
        const std::string_view its{devices[i].name, ::strnlen(devices[i].name, sizeof devices[i].name)};
        if (its == name) {
            ret_device = i;
            return true;
        }
    }
    return false;
}

// One number out of `text`, up to `end`, which follows it. False: that is not what is there.
template <class T>
bool take_number(std::string_view& text, int base, std::string_view end, T& ret) noexcept {
    const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), ret, base);
    if (error != std::errc{}) return false;
    text.remove_prefix(static_cast<std::size_t>(at - text.data()));
    if (!text.starts_with(end)) return false;
    text.remove_prefix(end.size());
    return true;
}

// What addr_text() made.
bool parse_text(std::string_view text, nvlf_addr& ret_addr) noexcept {
    nvlf_addr addr = service_addr(0, NVLF_DEVICE_ANY, 0);
    const std::size_t query = text.find("?service=");
    if (query != std::string_view::npos) {
        std::string_view number = text.substr(query + 9);
        if (!take_number(number, 10, "", addr.service) || !number.empty()) return false;
        text = text.substr(0, query);
    }
    if (!text.starts_with('/') && !take_number(text, 16, "", addr.fabric)) return false;
    if (!text.starts_with('/')) return false;
    text.remove_prefix(1);
    if (text.starts_with("any")) text.remove_prefix(3);
    else if (!take_number(text, 10, "", addr.device)) return false;
    if (!text.empty()) {
        text.remove_prefix(text.front() == '/' ? 1 : text.size());
        if (!take_number(text, 10, ".", addr.endpoint) || !take_number(text, 10, "", addr.epoch)) return false;
    }
    ret_addr = addr;
    return text.empty() && addr_valid(addr);
}

} // namespace

bool addr_equal(const nvlf_addr& a, const nvlf_addr& b) noexcept { return std::memcmp(&a, &b, sizeof a) == 0; }

nvlf_addr service_addr(std::uint64_t fabric, std::uint32_t device, std::uint64_t service) noexcept {
    return {.magic = NVLF_ADDR_MAGIC,
            .version = NVLF_ADDR_VERSION,
            .device = device,
            .fabric = fabric,
            .endpoint = 0,
            .epoch = 0,
            .service = service};
}

std::string addr_text(const nvlf_addr& addr) {
    std::string text = "nvlf://";
    if (addr.fabric != 0) {
        char id[17];
        std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(addr.fabric));
        text += id;
    }
    text += addr.device == NVLF_DEVICE_ANY ? "/any" : "/" + std::to_string(addr.device);
    if (addr.epoch != 0) text += "/" + std::to_string(addr.endpoint) + "." + std::to_string(addr.epoch);
    if (addr.service != 0) text += "?service=" + std::to_string(addr.service);
    return text;
}

std::string addr_text(std::uint32_t format, const Address& address) {
    if (format != FI_SOCKADDR_IN) return addr_text(address.addr);
    char host[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &address.host, host, sizeof host);
    return std::string{"fi_sockaddr_in://"} + host + ':' + std::to_string(address.addr.service);
}

Result<Address> read_addr(std::uint32_t format, const void* bytes) noexcept {
    Address address;
    if (format != FI_SOCKADDR_IN) {
        std::memcpy(&address.addr, bytes, sizeof address.addr);
        return addr_valid(address.addr) ? Result<Address>{address} : Errno{EINVAL};
    }
    sockaddr_in in;
    std::memcpy(&in, bytes, sizeof in);
    if (in.sin_family != AF_INET || in.sin_port == 0) return Errno{EINVAL};
    Ip ip;
    ip.family = AF_INET;
    ip.v4 = in.sin_addr;
    if (!is_local(ip)) return Errno{EADDRNOTAVAIL};
    address.addr = service_addr(0, NVLF_DEVICE_ANY, ntohs(in.sin_port));
    address.host = in.sin_addr.s_addr;
    return address;
}

void write_addr(std::uint32_t format, const Address& address, void* ret_bytes) noexcept {
    if (format != FI_SOCKADDR_IN) {
        std::memcpy(ret_bytes, &address.addr, sizeof address.addr);
        return;
    }
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(static_cast<std::uint16_t>(address.addr.service));
    in.sin_addr.s_addr = address.host;
    std::memcpy(ret_bytes, &in, sizeof in);
}

Result<Address> resolve(const nvlf_state& state, const char* node, const char* service) {
    Address target{.addr = service_addr(0, NVLF_DEVICE_ANY, nvlf_service(service))};
    if (node == nullptr || *node == '\0') return target;

    constexpr std::string_view scheme = "nvlf://";
    if (const std::string_view uri{node}; uri.starts_with(scheme)) {
        if (service != nullptr) return Errno{EINVAL};
        return parse_text(uri.substr(scheme.size()), target.addr) ? Result<Address>{target} : Errno{EADDRNOTAVAIL};
    }
    // Devices before hosts: "::1" has no device before its colon, and a host named like a device is reached as localhost.
    const std::string_view text{node};
    const std::size_t colon = text.find(':');
    if (find_device(state, text.substr(0, colon), target.addr.device)) {
        if (colon == std::string_view::npos) return target;
        if (target.addr.service != 0) return Errno{EINVAL}; // Two services.
        target.addr.service = nvlf_service(node + colon + 1);
        return target;
    }
    if (!is_this_host(node)) return Errno{EADDRNOTAVAIL};
    if (const Ip ip = parse_ip(node); ip.family == AF_INET) target.host = ip.v4.s_addr;
    return target;
}

} // namespace nvlf::ofi
