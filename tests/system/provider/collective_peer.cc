// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// usage: collective_peer NAME COUNT INDEX ROUNDS
//
// One of COUNT processes NAME.0, NAME.1 ... that form a group and do collectives of several kinds and sizes, ROUNDS times
// (0: for ever), and compare what they get with what they must get. Lines and exit codes as pingpong_peer's: 0 done, 3 a
// member or the fabric is gone, 1 something is wrong.
#include "fabric_endpoint.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

using namespace nvlf::test;

namespace {

constexpr int exit_gone = 3;

void say(const std::string& words) {
    std::printf("%s at %lld\n", words.c_str(),
                static_cast<long long>(std::chrono::steady_clock::now().time_since_epoch().count()));
    std::fflush(stdout);
}

int gone(int error, const char* where) {
    say("gone: " + std::string{where} + ": " + fi_strerror(error));
    return exit_gone;
}

struct Member {
    FabricEndpoint endpoint;
    std::size_t count;
    std::size_t index;
    FidPtr<fid_mc> group;

    // One collective, to its end. FI_E*
    int run(const std::function<ssize_t(fid_ep* ep, fi_addr_t address)>& call) {
        check(call(endpoint.ep(), fi_mc_addr(group.get())), "a collective");
        for (;;) // Whoever starts us bounds it.
            if (const auto completion = endpoint.poll()) return completion->error;
    }
};

void expect(bool right, const char* what) {
    if (!right) throw std::runtime_error{std::string{what} + ": a result is wrong"};
}

// One of each kind, on `words` numbers; members begin with what tells them and the round apart.
int round_of(Member& me, std::uint64_t round, std::size_t words) {
    const auto brings = [&](std::size_t member) { return round * 1000 + member; };
    std::vector<std::uint64_t> in(words, brings(me.index)), sum(words), all(words * me.count), mixed(words * me.count);
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < me.count; ++i) total += brings(i);

    int error = me.run([&](fid_ep* ep, fi_addr_t group) {
        return fi_allreduce(ep, in.data(), words, nullptr, sum.data(), nullptr, group, FI_UINT64, FI_SUM, 0, nullptr);
    });
    if (error != 0) return error;
    expect(sum == std::vector<std::uint64_t>(words, total), "allreduce");

    error = me.run([&](fid_ep* ep, fi_addr_t group) {
        return fi_allgather(ep, in.data(), words, nullptr, all.data(), nullptr, group, FI_UINT64, 0, nullptr);
    });
    if (error != 0) return error;
    for (std::size_t k = 0; k < all.size(); ++k) expect(all[k] == brings(k / words), "allgather");

    error = me.run([&](fid_ep* ep, fi_addr_t group) {
        return fi_alltoall(ep, all.data(), words, nullptr, mixed.data(), nullptr, group, FI_UINT64, 0, nullptr);
    });
    if (error != 0) return error;
    expect(mixed == std::vector<std::uint64_t>(mixed.size(), brings(me.index)), "alltoall");

    const fi_addr_t root = round % me.count;
    error = me.run([&](fid_ep* ep, fi_addr_t group) {
        return fi_broadcast(ep, in.data(), words, nullptr, group, root, FI_UINT64, 0, nullptr);
    });
    if (error != 0) return error;
    expect(in == std::vector<std::uint64_t>(words, brings(root)), "broadcast");
    return me.run([](fid_ep* ep, fi_addr_t group) { return fi_barrier(ep, group, nullptr); });
}

int take_part(const std::string& name, std::size_t count, std::size_t index, std::size_t rounds) {
    Member me{FabricEndpoint{name + '.' + std::to_string(index), FI_WAIT_NONE, FI_COLLECTIVE}, count, index, {}};
    std::vector<fi_addr_t> members;
    for (std::size_t i = 0; i < count; ++i) members.push_back(me.endpoint.service(name + '.' + std::to_string(i)));
    if (const int error = me.endpoint.join(members, me.group); error != 0) return gone(-error, "join");
    for (std::size_t round = 1; rounds == 0 || round <= rounds; ++round) {
        for (const std::size_t words : {std::size_t{1}, std::size_t{700}, std::size_t{30'000}})
            if (const int error = round_of(me, round, words); error != 0) return gone(error, "collective");
        if (round == 1) say("running");
    }
    say("done");
    return 0;
}

} // namespace

int main(int argc, char** argv) try {
    if (argc != 5) {
        std::fprintf(stderr, "usage: collective_peer NAME COUNT INDEX ROUNDS\n");
        return 2;
    }
    const auto number = [&](int i) { return static_cast<std::size_t>(std::strtoul(argv[i], nullptr, 10)); };
    return take_part(argv[1], number(2), number(3), number(4));
} catch (const FabricError& error) {
    std::fprintf(stderr, "collective_peer: %s\n", error.what());
    // A group that was left is no group any more, nor is a fabric that is going away.
    return error.code() == FI_ENODEV || error.code() == FI_ECONNABORTED ? exit_gone : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "collective_peer: %s\n", error.what());
    return 1;
}
