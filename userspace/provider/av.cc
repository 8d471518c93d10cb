// SPDX-License-Identifier: MIT OR GPL-2.0-only
// av.cc - see av.hpp.
#include "av.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "address.hpp"
#include "av_set.hpp"
#include "eq.hpp"
#include "none.hpp"
#include "provider.hpp"

namespace nvlf::ofi {

std::size_t Av::Hash::operator()(const nvlf_addr& addr) const noexcept {
    // Distinguishes what differs between the endpoints of a fabric; a multiplication spreads it.
    const std::uint64_t mixed =
        (std::uint64_t{addr.endpoint} << 32 | addr.epoch) ^ addr.service ^ (std::uint64_t{addr.device} << 17);
    return static_cast<std::size_t>((mixed * 0x9e3779b97f4a7c15ULL) >> 16);
}

bool Av::Equal::operator()(const nvlf_addr& a, const nvlf_addr& b) const noexcept { return addr_equal(a, b); }

nvlf_addr Av::key(nvlf_addr addr) const noexcept {
    if (addr.epoch == 0) addr.fabric = 0;
    return addr;
}

// What the table has at this index, made known to the way back. bad_alloc leaves it as it was known before.
void Av::note(std::size_t index) {
    if (index >= noted_.size()) noted_.resize(std::max(index + 1, noted_.size() * 2));
    Noted& noted = noted_[index];
    const std::uint64_t state = table.state(index);
    if (state == noted.state) return;
    if (noted.state != 0) {
        const auto [first, last] = by_addr_.equal_range(noted.addr);
        by_addr_.erase(std::find_if(first, last, [index](const auto& item) { return item.second == index; }));
        noted.state = 0;
    }
    nvlf_addr addr;
    if (state == 0 || !table.lookup(index, addr)) return; // Gone again: the next change tells.
    if (by_addr_.count(key(addr)) != 0) repeats_.store(true, std::memory_order_relaxed);
    by_addr_.emplace(key(addr), index);
    noted = {state, key(addr)};
}

// False: there was no memory to learn of all of it.
bool Av::catch_up() noexcept try {
    const std::uint32_t changes = table.changes(); // Before we look: what changes from now on is seen next time.
    if (changes == noted_changes_) return true;
    const std::size_t end = table.end();
    for (std::size_t i = 0; i < end; ++i) note(i);
    noted_changes_ = changes;
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

Result<fi_addr_t> Av::insert(const nvlf_addr& addr) noexcept {
    if (table.read_only()) return Errno{EACCES};
    if (!addr_valid(addr)) return Errno{EINVAL};
    if (addr.fabric != 0 && addr.fabric != domain.fabric_id) return Errno{EXDEV};
    const std::lock_guard guard{lock_};
    const Result<fi_addr_t> index = table.insert(addr);
    if (!index) return index;
    user_ids_.erase(*index);
    // While nobody else changes the table we are up to date with it at no cost.
    if (table.count_change() != noted_changes_) return index;
    try {
        note(*index);
        ++noted_changes_;
    } catch (const std::bad_alloc&) {} // find() will try again.
    return index;
}

bool Av::remove(fi_addr_t index) noexcept {
    const std::lock_guard guard{lock_};
    if (table.read_only() || !table.remove(index)) return false;
    user_ids_.erase(index);
    if (table.count_change() == noted_changes_ && index < noted_.size()) {
        note(index); // Needs no memory.
        ++noted_changes_;
    }
    return true;
}

fi_addr_t Av::lowest(const nvlf_addr& addr) const noexcept {
    fi_addr_t index = FI_ADDR_NOTAVAIL; // The highest there is.
    const auto [first, last] = by_addr_.equal_range(key(addr));
    for (auto it = first; it != last; ++it) index = std::min(index, it->second);
    return index;
}

fi_addr_t Av::find(const nvlf_addr& addr) noexcept {
    const std::lock_guard guard{lock_};
    if (!catch_up()) return FI_ADDR_NOTAVAIL;
    if (const fi_addr_t index = lowest(addr); index != FI_ADDR_NOTAVAIL || addr.service == 0) return index;
    // Whoever inserted it knew the endpoint by its service, on any device or on this one.
    const fi_addr_t index = lowest(service_addr(0, NVLF_DEVICE_ANY, addr.service));
    return index != FI_ADDR_NOTAVAIL ? index : lowest(service_addr(0, addr.device, addr.service));
}

fi_addr_t Av::first_of(fi_addr_t addr) noexcept {
    nvlf_addr its;
    if (!lookup(addr, its)) return addr;
    const std::lock_guard guard{lock_};
    const fi_addr_t index = catch_up() ? lowest(its) : FI_ADDR_NOTAVAIL;
    return index != FI_ADDR_NOTAVAIL ? index : addr;
}

void Av::remember_host(fi_addr_t index, std::uint32_t host) noexcept try {
    if (domain.addr_format != FI_SOCKADDR_IN) return;
    const std::lock_guard guard{lock_};
    hosts_[index] = host;
} catch (const std::bad_alloc&) {} // Then it was this host's first name.

std::uint32_t Av::host_of(fi_addr_t index) noexcept {
    const std::lock_guard guard{lock_};
    const auto host = hosts_.find(index);
    return host != hosts_.end() ? host->second : htonl(INADDR_LOOPBACK);
}

fi_addr_t Av::reported(fi_addr_t index) noexcept {
    const std::lock_guard guard{lock_};
    const auto id = user_ids_.find(index);
    return id != user_ids_.end() ? id->second : index;
}

// Counts as a change: whoever remembers what completions say must ask again.
Errno Av::set_user_id(fi_addr_t index, fi_addr_t id) noexcept try {
    const std::lock_guard guard{lock_};
    nvlf_addr addr;
    if (!table.lookup(index, addr)) return Errno{ENOENT};
    user_ids_[index] = id;
    if (!table.read_only() && table.count_change() == noted_changes_) ++noted_changes_;
    return Errno{};
} catch (const std::bad_alloc&) {
    return Errno{ENOMEM};
}

namespace {

constexpr std::uint64_t insert_flags = FI_MORE | FI_SYNC_ERR | FI_AV_USER_ID;

// One call of the insert family: counts successes and reports each failure where the application asked for it.
class Insertion {
public:
    Insertion(Av& av, fi_addr_t* ret_index, std::uint64_t flags, void* context) noexcept
        : av_{av},
          ret_index_{ret_index},
          context_{context},
          errors_{(flags & FI_SYNC_ERR) != 0 ? static_cast<int*>(context) : nullptr},
          user_ids_{(flags & FI_AV_USER_ID) != 0} {}

    void add(const Result<Address>& address) noexcept {
        Result<fi_addr_t> index = address ? av_.insert(address->addr) : Result<fi_addr_t>{address.error()};
        if (index) av_.remember_host(*index, address->host);
        if (index && user_ids_) index = identify(*index, ret_index_[done_]);
        if (ret_index_ != nullptr) ret_index_[done_] = index ? *index : FI_ADDR_NOTAVAIL;
        if (errors_ != nullptr) errors_[done_] = index.error().value();
        if (index) {
            ++inserted_;
        } else {
            FI_INFO(&provider, FI_LOG_AV, "address %zu of an insertion: %s\n", done_,
                    fi_strerror(index.error().value()));
            if (av_.eq != nullptr) report(index.error().value());
        }
        ++done_;
    }

    // What the call returns.
    [[nodiscard]] int end() noexcept {
        if (av_.eq == nullptr) return static_cast<int>(inserted_);
        const fi_eq_entry entry{.fid = &av_.fid.fid, .context = context_, .data = inserted_};
        return av_.eq->push(FI_AV_COMPLETE, &entry, sizeof entry);
    }

private:
    // With the user's id, or not at all.
    Result<fi_addr_t> identify(fi_addr_t index, fi_addr_t id) noexcept {
        const Errno error = av_.set_user_id(index, id);
        if (!error.failed()) return index;
        av_.remove(index);
        return error;
    }

    void report(int error) noexcept {
        fi_eq_err_entry entry{};
        entry.fid = &av_.fid.fid;
        entry.context = context_;
        entry.data = done_;
        entry.err = error;
        entry.prov_errno = error;
        if (av_.eq->push_error(entry) != 0)
            FI_WARN(&provider, FI_LOG_AV, "event queue has no room for the error of address %zu\n", done_);
    }

    Av& av_;
    fi_addr_t* ret_index_;
    void* context_;
    int* errors_;
    bool user_ids_; // ret_index_ holds them.
    std::size_t done_ = 0;
    std::size_t inserted_ = 0;
};

int check_insertion(const Av& av, const fi_addr_t* ret_index, std::uint64_t flags, const void* context) noexcept {
    if ((flags & ~insert_flags) != 0) return -FI_EBADFLAGS;
    if (av.table.read_only()) return -FI_EACCES;
    if ((flags & FI_AV_USER_ID) != 0 && ret_index == nullptr) return -FI_EINVAL;
    if (av.async && av.eq == nullptr) return -FI_ENOEQ;
    if ((flags & FI_SYNC_ERR) != 0 && (av.async || context == nullptr)) return -FI_EINVAL;
    return 0;
}

int insert(fid_av* fid, const void* addrs, std::size_t count, fi_addr_t* ret_index, std::uint64_t flags,
           void* context) {
    Av& av = av_of(fid);
    if (const int ret = check_insertion(av, ret_index, flags, context); ret != 0) return ret;
    if ((addrs == nullptr && count > 0) || count > av_limit) return -FI_EINVAL;
    Insertion insertion{av, ret_index, flags, context};
    const std::uint32_t format = av.domain.addr_format;
    for (std::size_t i = 0; i < count; ++i)
        insertion.add(read_addr(format, static_cast<const std::byte*>(addrs) + i * addr_bytes(format)));
    return insertion.end();
}

// The service address of a node and a service; one without a service names nobody.
int resolve_service(const Av& av, const char* node, const char* service, Address& ret_address) {
    const nvlf_state* state = nvlf_state_region(av.domain.nvlf, nullptr);
    if (state == nullptr) return -FI_ENODEV;
    const Result<Address> target = resolve(*state, node, service);
    if (!target) return target.error() == Errno{EADDRNOTAVAIL} ? -FI_EADDRNOTAVAIL : target.error().negative();
    if (!addr_valid(target->addr)) return -FI_EINVAL;
    ret_address = *target;
    return 0;
}

int insertsvc(fid_av* fid, const char* node, const char* service, fi_addr_t* ret_index, std::uint64_t flags,
              void* context) try {
    Av& av = av_of(fid);
    if (const int ret = check_insertion(av, ret_index, flags, context); ret != 0) return ret;
    Address address;
    if (const int ret = resolve_service(av, node, service, address); ret != 0) return ret;
    Insertion insertion{av, ret_index, flags, context};
    insertion.add(address);
    return insertion.end();
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

// "gpu0" and 2 make "gpu2", "10.1.1.9" and 2 make "10.1.1.11". False: it does not end in a number.
bool advance(const char* text, std::size_t steps, std::string& ret_text) {
    std::string_view stem{text};
    const std::size_t last = stem.find_last_not_of("0123456789");
    const std::size_t digits = last == std::string_view::npos ? 0 : last + 1;
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text + digits, text + stem.size(), number);
    if (error != std::errc{} || end != text + stem.size()) return false;
    ret_text = std::string{stem.substr(0, digits)} + std::to_string(number + steps);
    return true;
}

int insertsym(fid_av* fid, const char* node, std::size_t nodes, const char* service, std::size_t services,
              fi_addr_t* ret_index, std::uint64_t flags, void* context) try {
    Av& av = av_of(fid);
    if (const int ret = check_insertion(av, ret_index, flags, context); ret != 0) return ret;
    if (node == nullptr || service == nullptr) return -FI_EINVAL;
    if (nodes > av_limit || services > av_limit || nodes * services > av_limit) return -FI_EINVAL;

    // Resolve all of them before the first is inserted: half a symmetric range is of no use.
    std::vector<Address> addrs;
    addrs.reserve(nodes * services);
    std::string its_node = node;
    std::string its_service = service;
    for (std::size_t n = 0; n < nodes; ++n) {
        if (n > 0 && !advance(node, n, its_node)) return -FI_EINVAL;
        for (std::size_t s = 0; s < services; ++s) {
            if (s == 0) its_service = service;
            else if (!advance(service, s, its_service)) return -FI_EINVAL;
            Address address;
            if (const int ret = resolve_service(av, its_node.c_str(), its_service.c_str(), address); ret != 0)
                return ret;
            addrs.push_back(address);
        }
    }
    Insertion insertion{av, ret_index, flags, context};
    for (const Address& address : addrs) insertion.add(address);
    return insertion.end();
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

int remove(fid_av* fid, fi_addr_t* indices, std::size_t count, std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    if (av_of(fid).table.read_only()) return -FI_EACCES;
    if (indices == nullptr && count > 0) return -FI_EINVAL;
    int ret = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (!av_of(fid).remove(indices[i])) ret = -FI_EINVAL;
    }
    return ret;
}

int lookup(fid_av* fid, fi_addr_t index, void* ret_addr, std::size_t* bytes) {
    if (bytes == nullptr || (ret_addr == nullptr && *bytes > 0)) return -FI_EINVAL;
    Av& av = av_of(fid);
    Address address;
    if (!av.lookup(index, address.addr)) return -FI_EINVAL;
    address.host = av.host_of(av.index_of(index));
    std::byte whole[sizeof(nvlf_addr)]; // The larger of the two.
    write_addr(av.domain.addr_format, address, whole);
    const std::size_t size = addr_bytes(av.domain.addr_format);
    if (*bytes > 0) std::memcpy(ret_addr, whole, std::min(*bytes, size));
    *bytes = size;
    return 0;
}

std::string bytes_text(std::uint32_t format, const void* bytes) {
    Address address;
    if (format == FI_SOCKADDR_IN) {
        sockaddr_in in;
        std::memcpy(&in, bytes, sizeof in);
        address = {.addr = service_addr(0, NVLF_DEVICE_ANY, ntohs(in.sin_port)), .host = in.sin_addr.s_addr};
    } else {
        std::memcpy(&address.addr, bytes, sizeof address.addr);
    }
    return addr_text(format, address);
}

const char* straddr(fid_av* fid, const void* bytes, char* buf, std::size_t* len) try {
    if (bytes == nullptr || len == nullptr) return nullptr;
    // It need not be one of ours, nor anybody's.
    const std::uint32_t format = av_of(fid).domain.addr_format;
    const std::string text = bytes_text(format, bytes);
    if (buf != nullptr && *len > 0) {
        const std::size_t fits = std::min(*len - 1, text.size());
        std::memcpy(buf, text.data(), fits);
        buf[fits] = '\0';
    }
    *len = text.size() + 1;
    return buf;
} catch (const std::bad_alloc&) {
    return nullptr;
}

int av_close(fid* object) {
    Av& av = av_of(reinterpret_cast<fid_av*>(object));
    if (av.refs.load(std::memory_order_acquire) != 0) return -FI_EBUSY;
    if (av.eq != nullptr) av.eq->refs.fetch_sub(1, std::memory_order_acq_rel);
    av.domain.refs.fetch_sub(1, std::memory_order_acq_rel);
    delete &av;
    return 0;
}

int av_bind(fid* object, fid* other, std::uint64_t flags) {
    Av& av = av_of(reinterpret_cast<fid_av*>(object));
    if (other == nullptr || other->fclass != FI_CLASS_EQ || flags != 0 || !av.async || av.eq != nullptr)
        return -FI_EINVAL;
    av.eq = &eq_of(reinterpret_cast<fid_eq*>(other));
    av.eq->refs.fetch_add(1, std::memory_order_acq_rel);
    return 0;
}

fi_ops av_fid_ops{sizeof(fi_ops), av_close, av_bind, no_control, no_ops_open, no_tostr, no_ops_set};

int set_user_id(fid_av* fid, fi_addr_t index, fi_addr_t id, std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    const Errno error = av_of(fid).set_user_id(index, id);
    return error == Errno{ENOENT} ? -FI_EINVAL : error.negative();
}

// With what libfabric 2 put at the end of the table; an older one looks at no more than it knows.
struct AvOps {
    fi_ops_av ops;
    int (*insert_auth_key)(fid_av*, const void*, std::size_t, fi_addr_t*, std::uint64_t);
    int (*lookup_auth_key)(fid_av*, fi_addr_t, void*, std::size_t*);
    int (*set_user_id)(fid_av*, fi_addr_t, fi_addr_t, std::uint64_t);
};

AvOps av_ops{
    .ops = {.size = sizeof(AvOps),
            .insert = insert,
            .insertsvc = insertsvc,
            .insertsym = insertsym,
            .remove = remove,
            .lookup = lookup,
            .straddr = straddr,
            .av_set = av_set_open},
    .insert_auth_key = none,
    .lookup_auth_key = none,
    .set_user_id = set_user_id,
};

// -FI_ENOENT: opened for reading, and nobody made it.
int open_table(Av& av, fi_av_attr& attr) noexcept {
    if (attr.name == nullptr) return av.table.open_private().negative();
    const bool read_only = (attr.flags & FI_READ) != 0;
    const Errno error = av.table.open_shared(av.domain.nvlf, av.domain.device, attr.name, attr.count, read_only);
    if (error.failed()) {
        FI_INFO(&provider, FI_LOG_AV, "shared address vector '%s' cannot be opened: %s\n", attr.name,
                fi_strerror(error.value()));
        return error.negative();
    }
    if (attr.map_addr == nullptr) attr.map_addr = av.table.map_addr();
    return 0;
}

} // namespace

int av_open(fid_domain* fid, fi_av_attr* attr, fid_av** ret_av, void* context) noexcept {
    if (attr == nullptr || ret_av == nullptr) return -FI_EINVAL;
    constexpr std::uint64_t known = FI_EVENT | FI_SYMMETRIC | FI_READ | FI_AV_USER_ID;
    if ((attr->flags & ~known) != 0) return -FI_EBADFLAGS;
    if (attr->type > FI_AV_TABLE || attr->count > av_limit) return -FI_EINVAL;
    if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > rx_ctx_bits_limit) return -FI_EINVAL;
    if ((attr->flags & FI_READ) != 0 && attr->name == nullptr) return -FI_EINVAL;
    std::unique_ptr<Av> av{new (std::nothrow) Av{domain_of(fid)}};
    if (!av) return -FI_ENOMEM;
    if (const int ret = open_table(*av, *attr); ret != 0) return ret;
    if (attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
    av->async = (attr->flags & FI_EVENT) != 0;
    av->rx_ctx_bits = attr->rx_ctx_bits;
    av->fid = {.fid = {.fclass = FI_CLASS_AV, .context = context, .ops = &av_fid_ops}, .ops = &av_ops.ops};
    av->domain.refs.fetch_add(1, std::memory_order_acq_rel);
    *ret_av = &av.release()->fid;
    return 0;
}

} // namespace nvlf::ofi
