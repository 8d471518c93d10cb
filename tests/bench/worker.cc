// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See worker.hpp. The other half of each exchange is in team.cc.
#include "worker.hpp"

#include "packets.hpp"
#include "processors.hpp"
#include "work.hpp"

#include <map>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

namespace nvlf::bench {
namespace {

using nlohmann::json;

EndpointOptions options_of(const json& order, std::size_t rank) {
    return {.provider = order.at("provider"),
            .service = fmt::format("bench-{}-{}", ::getpid(), rank),
            .thread_safe = order.at("thread_safe"),
            .wait_fd = order.at("wait_fd"),
            .patience = order.at("patience")};
}

// Names itself and learns of the others.
std::unique_ptr<Member> join(const Packets& boss, std::size_t rank) {
    const json order = boss.receive();
    if (!pin(order.at("processor"))) throw std::runtime_error{"cannot be pinned to its processor"};
    const EndpointOptions options = options_of(order, rank);
    Endpoint endpoint{options};
    Memories memories = register_memories(endpoint);
    json mine{{"name", endpoint.name()}, {"memory", json::object()}};
    for (const auto& [kind, memory] : memories) mine["memory"][kind] = memory.remote();
    boss.send(mine);

    const json all = boss.receive();
    std::vector<std::vector<std::uint8_t>> names;
    std::vector<std::map<std::string, RemoteMemory>> remote;
    for (const json& one : all) {
        names.push_back(one.at("name"));
        remote.push_back(one.at("memory"));
    }
    endpoint.insert(names);
    return std::make_unique<Member>(Member{.endpoint = std::move(endpoint),
                                           .memories = std::move(memories),
                                           .rank = rank,
                                           .size = names.size(),
                                           .remote = std::move(remote),
                                           .options = options,
                                           .daemon = order.at("daemon")});
}

Figures perform(Member& member, const Job& job) {
    static const std::map<std::string, Figures (*)(Member&, const Job&)> works{
        {"ping_pong", ping_pong},   {"stream", stream},      {"inject", inject}, {"wake", wake},
        {"all_to_all", all_to_all}, {"write", write},        {"read", read},     {"add", add},
        {"fetch_add", fetch_add},   {"footprint", footprint}};
    return works.at(job.work)(member, job);
}

} // namespace

int serve(const std::string& socket, std::size_t rank) {
    const Packets boss = Packets::connect(socket);
    boss.send({{"rank", rank}});
    try {
        const auto member = join(boss, rank);
        for (json order = boss.receive(); !order.is_null(); order = boss.receive()) {
            try {
                boss.send(perform(*member, order));
            } catch (const NotOffered& gap) {
                boss.send({{"not_offered", gap.what()}});
            }
        }
    } catch (const NotOffered& gap) {
        boss.send({{"not_offered", gap.what()}});
    } catch (const std::exception& error) {
        boss.send({{"error", error.what()}});
        return 1;
    }
    return 0;
}

} // namespace nvlf::bench
