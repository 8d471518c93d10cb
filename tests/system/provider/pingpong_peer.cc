// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// usage: pingpong_peer serve NAME            answers every message with the same bytes, for ever
//        pingpong_peer call NAME SIZE COUNT  that many round trips with the service, checked; 0: for ever
//        pingpong_peer insist NAME           sends to one address for ever, and tells how that goes
//        pingpong_peer sleep-fd|sleep-sread NAME [PEER]  greets PEER; then sleeps until something comes, and again
//        pingpong_peer all NAME COUNT INDEX ROUNDS       one of COUNT processes NAME.0, NAME.1 ... which all send to all
//
// One end of a conversation, on libfabric's calls alone: fi_pingpong has a control channel over TCP, which may end it or
// hang it for reasons of its own, so only a program without one shows what the data path does. It says what happens in
// lines with the monotonic time in nanoseconds, which is the same in every process of a machine. Its exit code is 0 when
// done, 3 when a completion or a call said that peer or fabric is gone, 1 when something is wrong.
#include "fabric_endpoint.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include <poll.h>

using namespace nvlf::test;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int exit_gone = 3;
constexpr std::size_t largest = std::size_t{4} << 20;
constexpr std::size_t greeting_bytes = 32;          // An address: "answer me here". No other message has this size.
constexpr auto patience = std::chrono::seconds{30}; // For what others have to do first.

constexpr std::uintptr_t received = 1, sent = 2;

void say(const std::string& words) {
    std::printf("%s at %lld\n", words.c_str(), static_cast<long long>(Clock::now().time_since_epoch().count()));
    std::fflush(stdout);
}

int gone(int error, const char* where) {
    say("gone: " + std::string{where} + ": " + fi_strerror(error));
    return exit_gone;
}

std::size_t number(std::string_view text) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        throw std::runtime_error{"not a number: " + std::string{text}};
    return value;
}

// Differs from round to round and from place to place.
void fill(std::vector<char>& bytes, std::uint64_t round) {
    auto state = static_cast<std::uint32_t>(round * 2654435761U + 1);
    for (char& c : bytes) {
        state = state * 1664525U + 1013904223U;
        c = static_cast<char>(state >> 24);
    }
}

// Sends, for as long as the answer is "not now". The error that ended it, or 0; progress is made by the poll between.
int send_all(FabricEndpoint& ep, const void* data, std::size_t bytes, fi_addr_t to,
             std::optional<Completion>& ret_seen) {
    for (const auto end = Clock::now() + patience; Clock::now() < end;) {
        const ssize_t result = ep.send(data, bytes, to, sent);
        if (result != -FI_EAGAIN) return static_cast<int>(-result);
        if (!ret_seen) ret_seen = ep.poll();
        if (ret_seen && ret_seen->error != 0) return ret_seen->error;
    }
    throw std::runtime_error{"a send was refused for too long"};
}

int serve(const std::string& name) {
    FabricEndpoint ep{name};
    std::vector<char> in(largest), out(largest);
    fi_addr_t back = FI_ADDR_NOTAVAIL;
    ep.receive(in.data(), in.size(), received);
    say("ready");
    for (bool sending = false;;) { // Until somebody kills us, or says that the caller is gone.
        std::optional<Completion> c = ep.poll();
        if (!c) continue;
        if (c->error != 0) return gone(c->error, "completion");
        if (c->context == sent) {
            sending = false;
            continue;
        }
        if (c->bytes == greeting_bytes) {
            back = ep.insert(in.data());
            ep.receive(in.data(), in.size(), received);
            continue;
        }
        // A caller has one message under way: its next one is the proof that ours came, not that our buffer is free.
        for (const auto end = Clock::now() + patience; sending && Clock::now() < end;) {
            const auto done = ep.poll();
            if (done && done->error != 0) return gone(done->error, "completion of an answer");
            sending = !(done && done->context == sent);
        }
        const std::size_t bytes = c->bytes;
        std::copy_n(in.begin(), bytes, out.begin());
        ep.receive(in.data(), in.size(), received);
        std::optional<Completion> early;
        if (const int error = send_all(ep, out.data(), bytes, back, early); error != 0) return gone(error, "answer");
        sending = true;
        if (early) throw std::runtime_error{"a completion came that nothing asked for"};
    }
}

int call(const std::string& name, std::size_t size, std::size_t count) {
    FabricEndpoint ep;
    const fi_addr_t to = ep.service(name);
    std::vector<char> out(size), in(size);
    const auto greeting = ep.name();
    std::optional<Completion> early;
    if (const int error = send_all(ep, greeting.data(), greeting.size(), to, early); error != 0)
        return gone(error, "greeting");
    int pending = early && early->context == sent ? 0 : 1; // Sends without a completion so far.
    for (std::size_t round = 1; count == 0 || round <= count; ++round) {
        fill(out, round);
        ep.receive(in.data(), in.size(), received);
        early.reset();
        if (const int error = send_all(ep, out.data(), size, to, early); error != 0) return gone(error, "send");
        ++pending;
        bool answered = false;
        for (const auto end = Clock::now() + patience; !answered || pending > 0;) {
            const auto c = early ? std::exchange(early, std::nullopt) : ep.poll();
            if (!c) {
                if (Clock::now() >= end) throw std::runtime_error{"no answer"};
                continue;
            }
            if (c->error != 0) return gone(c->error, "completion");
            if (c->context == sent) --pending;
            else answered = true;
        }
        if (in != out) throw std::runtime_error{"the answer to round " + std::to_string(round) + " differs"};
        if (round == 1) say("running");
    }
    say("done");
    return 0;
}

// What does one who sends for ever hear? Each change is a line.
int insist(const std::string& name) {
    FabricEndpoint ep;
    const fi_addr_t to = ep.service(name);
    const std::array<char, 100> data{}; // No greeting: whoever reads it asks for nothing.
    int verdict = -1;                   // The last one that was said.
    const auto hear = [&](int error) {
        if (error == verdict) return;
        verdict = error;
        say(error == 0 ? "delivered" : "refused: " + std::string{fi_strerror(error)});
    };
    for (std::size_t under_way = 0;;) {
        if (under_way < 8) {
            const ssize_t result = ep.send(data.data(), data.size(), to, sent);
            if (result == 0) ++under_way;
            else hear(static_cast<int>(-result));
        }
        if (const auto c = ep.poll()) {
            --under_way;
            hear(c->error);
        }
    }
}

int sleep_and_tell(bool by_descriptor, const std::string& name, const std::string& peer) {
    FabricEndpoint ep{name, by_descriptor ? FI_WAIT_FD : FI_WAIT_UNSPEC};
    std::vector<char> in(largest);
    if (!peer.empty()) {
        const auto greeting = ep.name();
        std::optional<Completion> early;
        if (const int error = send_all(ep, greeting.data(), greeting.size(), ep.service(peer), early); error != 0)
            return gone(error, "greeting");
        for (const auto end = Clock::now() + patience; !early && Clock::now() < end;) early = ep.poll();
        if (!early || early->error != 0) return gone(early ? early->error : FI_ETIMEDOUT, "greeting");
    }
    ep.receive(in.data(), in.size(), received);
    say("sleeping");
    std::size_t wakes = 0;
    for (;;) {
        std::optional<Completion> c;
        if (!by_descriptor) {
            c = ep.sleep(-1);
        } else if (ep.may_sleep()) {
            pollfd waited{.fd = ep.wait_descriptor(), .events = POLLIN, .revents = 0};
            ::poll(&waited, 1, -1); // The test bounds it: it kills us.
            c = ep.poll();
        } else {
            c = ep.poll();
        }
        ++wakes;
        if (!c) continue;
        if (c->error != 0) return gone(c->error, ("completion after " + std::to_string(wakes) + " wakes").c_str());
        say("woken by " + std::to_string(c->bytes) + " bytes after " + std::to_string(wakes) + " wakes");
        ep.receive(in.data(), in.size(), received);
    }
}

// Everybody sends to everybody in every round, and goes on when it has heard as much from all.
int all_to_all(const std::string& name, std::size_t count, std::size_t index, std::size_t rounds) {
    FabricEndpoint ep{name + '.' + std::to_string(index)};
    struct Message {
        std::uint64_t from, round;
        std::array<std::uint64_t, 30> check; // Above what fits one slot.
    };
    constexpr std::size_t window = 32;
    std::vector<Message> in(window);
    for (std::size_t i = 0; i < window; ++i) ep.receive(&in[i], sizeof in[i], received + 2 * (i + 1));
    std::vector<fi_addr_t> peers(count);
    for (std::size_t i = 0; i < count; ++i) peers[i] = ep.service(name + '.' + std::to_string(i));
    std::vector<std::uint64_t> next(count, 0); // The round that comes next from each.
    std::vector<Message> out(count);
    std::size_t to_send = 0, under_way = 0, heard = 0;
    const auto end = Clock::now() + 2 * patience;
    for (std::size_t round = 0; round < rounds;) {
        if (Clock::now() >= end) throw std::runtime_error{"not done in round " + std::to_string(round)};
        if (to_send < count) {
            Message& m = out[to_send];
            m.from = index;
            m.round = round;
            m.check.fill(index * 1'000'003 + round);
            const ssize_t result = ep.send(&m, sizeof m, peers[to_send], sent);
            if (result == 0) {
                ++to_send;
                ++under_way;
            } else if (result != -FI_EAGAIN) {
                return gone(static_cast<int>(-result), "send");
            }
        }
        if (const auto c = ep.poll()) {
            if (c->error != 0) return gone(c->error, "completion");
            if (c->context == sent) {
                --under_way;
            } else {
                const std::size_t slot = c->context / 2 - 1;
                const Message m = in.at(slot);
                if (c->bytes != sizeof m || m.from >= count || m.round != next[m.from]++ ||
                    m.check.back() != m.from * 1'000'003 + m.round)
                    throw std::runtime_error{"a message is not what was sent"};
                ++heard;
                ep.receive(&in[slot], sizeof in[slot], c->context);
            }
        }
        if (to_send == count && under_way == 0 && heard >= count * (round + 1)) {
            ++round;
            to_send = 0;
        }
    }
    // Our last messages are there, but a peer that needs our progress for its own may not be done: stay until all heard.
    say("done");
    return 0;
}

int usage() {
    std::fprintf(stderr, "usage: see the head of pingpong_peer.cc\n");
    return 2;
}

} // namespace

int main(int argc, char** argv) try {
    const std::vector<std::string> words{argv + std::min(argc, 1), argv + argc};
    const std::string verb = words.empty() ? "" : words[0];
    if (verb == "serve" && words.size() == 2) return serve(words[1]);
    if (verb == "call" && words.size() == 4) return call(words[1], number(words[2]), number(words[3]));
    if (verb == "insist" && words.size() == 2) return insist(words[1]);
    if ((verb == "sleep-fd" || verb == "sleep-sread") && (words.size() == 2 || words.size() == 3))
        return sleep_and_tell(verb == "sleep-fd", words[1], words.size() == 3 ? words[2] : "");
    if (verb == "all" && words.size() == 5)
        return all_to_all(words[1], number(words[2]), number(words[3]), number(words[4]));
    return usage();
} catch (const FabricError& error) {
    std::fprintf(stderr, "pingpong_peer: %s\n", error.what());
    // To open something on a fabric that is going away is to be told that it is gone.
    return error.code() == FI_ENODEV || error.code() == FI_ECONNABORTED || error.code() == FI_EHOSTUNREACH ? exit_gone
                                                                                                           : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "pingpong_peer: %s\n", error.what());
    return 1;
}
