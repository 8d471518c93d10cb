// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Collectives of three members in one process, and the sets of addresses that groups are made of.
#include "soak/errand.hpp"

namespace nvlf::soak {
namespace {

constexpr std::size_t members = 3;
using Words = std::vector<std::uint64_t>;

FidPtr<fid_av_set> make_set(const Corner& c, const std::vector<fi_addr_t>& addresses) {
    fi_av_set_attr attr{};
    attr.start_addr = attr.end_addr = FI_ADDR_NOTAVAIL;
    auto set =
        open_object<fid_av_set>("fi_av_set", [&](fid_av_set** s) { return fi_av_set(c.av.get(), &attr, s, nullptr); });
    for (const fi_addr_t address : addresses) check(fi_av_set_insert(set.get(), address), "fi_av_set_insert");
    return set;
}

class Group {
public:
    Group(Corner& c, fid_av_set* set) : c_{c} {
        fi_addr_t address = FI_ADDR_UNSPEC;
        check(fi_av_set_addr(set, &address), "fi_av_set_addr");
        for (std::size_t i = 0; i < members; ++i)
            group_[i] = open_object<fid_mc>("fi_join_collective", [&](fid_mc** mc) {
                return fi_join_collective(c.ep[i].get(), address, set, 0, mc, nullptr);
            });
        for (std::size_t joined = 0; joined < members;) {
            std::uint32_t event = 0;
            fi_eq_entry entry{};
            const ssize_t n = fi_eq_read(c.eq.get(), &event, &entry, sizeof entry, 0);
            if (n > 0) joined += event == FI_JOIN_COMPLETE ? 1 : 0;
            else if (n == -FI_EAVAIL) {
                fi_eq_err_entry failure{};
                check(fi_eq_readerr(c.eq.get(), &failure, 0), "fi_eq_readerr");
                throw test::FabricError{"join", failure.err};
            } else if (n != -FI_EAGAIN) check(n, "fi_eq_read");
            if (Clock::now() > end_) throw Finding{"a join hangs"};
            (void)fi_cq_read(c.cq.get(), nullptr, 0);
        }
    }
    // `call` at every member, and its end at all of them.
    template <class F>
    void all(const char* what, F&& call) {
        for (std::size_t i = 0; i < members; ++i)
            c_.post(what, [&] { return call(i, c_.ep[i].get(), fi_mc_addr(group_[i].get())); });
        for (std::size_t i = 0; i < members; ++i) (void)c_.next(what);
    }

private:
    Corner& c_;
    const Clock::time_point end_ = Clock::now() + std::chrono::seconds{60};
    std::array<FidPtr<fid_mc>, members> group_;
};

} // namespace

void collectives(Random& random) {
    Corner c{random, {.caps = FI_MSG | FI_TAGGED | FI_COLLECTIVE}, members};
    // All of them, made of parts.
    const auto set = make_set(c, {c.to[0], c.to[1]});
    const auto other = make_set(c, {c.to[1], c.to[2]});
    check(fi_av_set_union(set.get(), other.get()), "fi_av_set_union");
    check(fi_av_set_intersect(other.get(), set.get()), "fi_av_set_intersect");
    check(fi_av_set_diff(other.get(), make_set(c, {c.to[2]}).get()), "fi_av_set_diff");
    check(fi_av_set_remove(other.get(), c.to[1]), "fi_av_set_remove");
    fi_collective_attr attr{};
    attr.op = FI_SUM;
    attr.datatype = FI_UINT64;
    check(fi_query_collective(c.domain.get(), FI_ALLREDUCE, &attr, 0), "fi_query_collective");
    Group group{c, set.get()};

    const std::size_t n = 1 + draw(random, 3000);
    std::array<Words, members> in, out;
    for (std::size_t i = 0; i < members; ++i) {
        in[i].resize(n * members);
        out[i].assign(n * members, 0);
        for (auto& word : in[i]) word = random();
    }
    const auto sum = [&](std::size_t k) { return in[0][k] + in[1][k] + in[2][k]; };
    const auto holds = [&](bool right) { require(right, "a collective's result differs"); };
    const fi_addr_t root = draw(random, members);
    group.all("barrier", [&](std::size_t, fid_ep* ep, fi_addr_t mc) { return fi_barrier(ep, mc, nullptr); });
    group.all("allreduce", [&](std::size_t i, fid_ep* ep, fi_addr_t mc) {
        return fi_allreduce(ep, in[i].data(), n, nullptr, out[i].data(), nullptr, mc, FI_UINT64, FI_SUM, 0, nullptr);
    });
    for (const Words& result : out)
        for (std::size_t k = 0; k < n; ++k) holds(result[k] == sum(k));
    group.all("reduce", [&](std::size_t i, fid_ep* ep, fi_addr_t mc) {
        return fi_reduce(ep, in[i].data(), n, nullptr, i == root ? out[i].data() : nullptr, nullptr, mc, root,
                         FI_UINT64, FI_SUM, 0, nullptr);
    });
    for (std::size_t k = 0; k < n; ++k) holds(out[root][k] == sum(k));
    group.all("reduce-scatter", [&](std::size_t i, fid_ep* ep, fi_addr_t mc) {
        return fi_reduce_scatter(ep, in[i].data(), n, nullptr, out[i].data(), nullptr, mc, FI_UINT64, FI_SUM, 0,
                                 nullptr);
    });
    for (std::size_t i = 0; i < members; ++i)
        for (std::size_t k = 0; k < n; ++k) holds(out[i][k] == sum(i * n + k));
    group.all("allgather", [&](std::size_t i, fid_ep* ep, fi_addr_t mc) {
        return fi_allgather(ep, in[i].data(), n, nullptr, out[i].data(), nullptr, mc, FI_UINT64, 0, nullptr);
    });
    for (std::size_t i = 0; i < members; ++i)
        for (std::size_t k = 0; k < n; ++k) holds(out[0][i * n + k] == in[i][k]);
    group.all("alltoall", [&](std::size_t i, fid_ep* ep, fi_addr_t mc) {
        return fi_alltoall(ep, in[i].data(), n, nullptr, out[i].data(), nullptr, mc, FI_UINT64, 0, nullptr);
    });
    for (std::size_t i = 0; i < members; ++i)
        for (std::size_t k = 0; k < n; ++k) holds(out[1][i * n + k] == in[i][n + k]);
    group.all("gather", [&](std::size_t i, fid_ep* ep, fi_addr_t mc) {
        return fi_gather(ep, in[i].data(), n, nullptr, i == root ? out[i].data() : nullptr, nullptr, mc, root,
                         FI_UINT64, 0, nullptr);
    });
    for (std::size_t i = 0; i < members; ++i)
        for (std::size_t k = 0; k < n; ++k) holds(out[root][i * n + k] == in[i][k]);
    group.all("scatter", [&](std::size_t i, fid_ep* ep, fi_addr_t mc) {
        return fi_scatter(ep, i == root ? in[root].data() : nullptr, n, nullptr, out[i].data(), nullptr, mc, root,
                          FI_UINT64, 0, nullptr);
    });
    for (std::size_t i = 0; i < members; ++i)
        for (std::size_t k = 0; k < n; ++k) holds(out[i][k] == in[root][i * n + k]);
    Words sent = in[root];
    group.all("broadcast", [&](std::size_t i, fid_ep* ep, fi_addr_t mc) {
        return fi_broadcast(ep, i == root ? sent.data() : out[i].data(), n, nullptr, mc, root, FI_UINT64, 0, nullptr);
    });
    for (std::size_t i = 0; i < members; ++i)
        for (std::size_t k = 0; k < n; ++k) holds(i == root || out[i][k] == sent[k]);
}

} // namespace nvlf::soak
