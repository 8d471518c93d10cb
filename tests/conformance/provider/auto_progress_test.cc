// SPDX-License-Identifier: MIT OR GPL-2.0-only
// auto_progress_test - FI_PROGRESS_AUTO: what the other end waits for happens, although the application at this end makes no
// call at all.
#define BOOST_TEST_MODULE auto_progress
#include <poll.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_trigger.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "objects.hpp"
#include "support/child_process.hpp"
#include "target_memory.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr std::uint64_t key = 9;
constexpr std::size_t large = 3 << 20;
const SideOptions manual{.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER};
const SideOptions automatic{
    .caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER, .counted = FI_RECV, .progress = FI_PROGRESS_AUTO};

bool by_environment() { return std::getenv("FI_NVLF_PROGRESS_THREAD") != nullptr; }

// The next event of one side, while nobody calls anything of the other.
Event alone(const Side& side, const char* what) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (std::chrono::steady_clock::now() < deadline)
        if (auto event = poll(side.cq.get())) return *event;
    BOOST_FAIL("nothing came in 20 s: " << what);
    return {};
}

// Before what a thread of that side's wrote is looked at: ThreadSanitizer, which does not know that two mappings are one
// memory, sees no order otherwise.
void order_after(const Side& side) { (void)fi_cq_read(side.cq.get(), nullptr, 0); }

// Calls until it is taken; drives the caller's side alone.
template <class F>
void post_alone(const Side& side, const char* what, F&& call) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    ssize_t result = -FI_EAGAIN;
    while ((result = call()) == -FI_EAGAIN && std::chrono::steady_clock::now() < deadline)
        (void)fi_cq_read(side.cq.get(), nullptr, 0);
    check(result, what);
}

void send(const TwoEndpoints& pair, const void* data, std::size_t bytes, std::uint64_t flags) {
    const iovec iov{const_cast<void*>(data), bytes};
    const fi_msg msg{&iov, nullptr, 1, pair.to_b, nullptr, 0};
    post_alone(pair.a, "sendmsg", [&] { return fi_sendmsg(pair.a.ep.get(), &msg, flags | FI_COMPLETION); });
}

void receive(const Side& side, void* data, std::size_t bytes) {
    check(fi_recv(side.ep.get(), data, bytes, nullptr, FI_ADDR_UNSPEC, nullptr), "recv");
}

FidPtr<fid_mr> registered(const Side& side, void* data, std::size_t bytes) {
    fid_mr* mr = nullptr;
    check(fi_mr_reg(side.domain.get(), data, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &mr, nullptr),
          "fi_mr_reg");
    return FidPtr<fid_mr>{mr};
}

// How often the threads of that name have gone to sleep.
std::uint64_t sleeps(int& ret_threads) {
    std::uint64_t sum = 0;
    ret_threads = 0;
    for (const auto& task : std::filesystem::directory_iterator{"/proc/self/task"}) {
        std::string name, line;
        std::getline(std::ifstream{task.path() / "comm"}, name);
        if (name != "nvlf-progress") continue;
        ++ret_threads;
        std::ifstream status{task.path() / "status"};
        while (std::getline(status, line))
            if (line.rfind("voluntary_ctxt_switches:", 0) == 0) sum += std::stoull(line.substr(line.find(':') + 1));
    }
    return sum;
}

} // namespace

BOOST_AUTO_TEST_CASE(it_is_granted_to_who_asks_for_it_and_to_nobody_else) {
    for (const auto wanted : {FI_PROGRESS_UNSPEC, FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO}) {
        const Side side{{.progress = wanted}};
        const bool expected = by_environment() || wanted == FI_PROGRESS_AUTO;
        const auto granted = expected ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
        BOOST_TEST(side.info->domain_attr->control_progress == granted);
        BOOST_TEST(side.info->domain_attr->data_progress == granted);
        int threads = 0;
        (void)sleeps(threads);
        BOOST_TEST(threads == (expected ? 1 : 0));
    }
    int threads = 0;
    (void)sleeps(threads);
    BOOST_TEST(threads == 0); // They end with their domains.
}

BOOST_AUTO_TEST_CASE(messages_of_every_size_are_delivered_to_who_makes_no_call) {
    const TwoEndpoints pair{manual, automatic};
    for (const std::size_t bytes :
         {std::size_t{8}, std::size_t{3000}, std::size_t{16384}, std::size_t{100'000}, large}) {
        const auto out = pattern(bytes, static_cast<unsigned>(bytes));
        std::vector<char> in(bytes);
        receive(pair.b, in.data(), bytes);
        send(pair, out.data(), bytes, FI_DELIVERY_COMPLETE);
        BOOST_TEST(alone(pair.a, "delivered").error == 0);
        order_after(pair.b);
        BOOST_TEST((in == out)); // No completion was read there: delivered means that it lies in the buffer.
    }
}

BOOST_AUTO_TEST_CASE(a_receive_that_finds_its_large_message_waiting_is_filled_without_another_call) {
    const TwoEndpoints pair{manual, automatic};
    const auto out = pattern(large, 2);
    std::vector<char> in(large);
    send(pair, out.data(), large, FI_DELIVERY_COMPLETE);
    // Until it has been announced, and the thread sleeps again.
    (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
    ::poll(nullptr, 0, 5);
    // In two parts, it is copied by its receiver alone, step by step.
    const std::array<iovec, 2> parts{{{in.data(), large / 2}, {in.data() + large / 2, large / 2}}};
    check(fi_recvv(pair.b.ep.get(), parts.data(), nullptr, parts.size(), FI_ADDR_UNSPEC, nullptr), "recvv");
    BOOST_TEST(alone(pair.a, "delivered").error == 0);
    order_after(pair.b);
    BOOST_TEST((in == out));
}

BOOST_AUTO_TEST_CASE(who_sends_a_large_message_need_not_call_again) {
    const TwoEndpoints pair{automatic, manual};
    const auto out = pattern(large, 3);
    std::vector<char> in(large);
    send(pair, out.data(), large, 0);
    receive(pair.b, in.data(), large);
    BOOST_TEST(alone(pair.b, "received").error == 0);
    BOOST_TEST((in == out));
}

BOOST_AUTO_TEST_CASE(ordinary_memory_is_read_written_and_changed_while_its_owner_makes_no_call) {
    const TwoEndpoints pair{manual, automatic};
    std::vector<char> memory(large);
    const auto mr = registered(pair.b, memory.data(), memory.size());
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{2000}, large}) {
        const auto out = pattern(bytes, static_cast<unsigned>(bytes) + 1);
        std::vector<char> in(bytes);
        const iovec local{const_cast<char*>(out.data()), bytes};
        const fi_rma_iov remote{0, bytes, key};
        const fi_msg_rma msg{&local, nullptr, 1, pair.to_b, &remote, 1, nullptr, 0};
        post_alone(pair.a, "write",
                   [&] { return fi_writemsg(pair.a.ep.get(), &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION); });
        BOOST_TEST(alone(pair.a, "written").error == 0);
        order_after(pair.b);
        BOOST_TEST(std::memcmp(memory.data(), out.data(), bytes) == 0);
        post_alone(pair.a, "read",
                   [&] { return fi_read(pair.a.ep.get(), in.data(), bytes, nullptr, pair.to_b, 0, key, nullptr); });
        BOOST_TEST(alone(pair.a, "read").error == 0);
        order_after(pair.b); // It read `memory`, which is written next.
        BOOST_TEST((in == out));
    }
    std::uint64_t one = 1, found = 0, before = 0;
    std::memcpy(&before, memory.data(), sizeof before);
    post_alone(pair.a, "fetch", [&] {
        return fi_fetch_atomic(pair.a.ep.get(), &one, 1, nullptr, &found, nullptr, pair.to_b, 0, key, FI_UINT64, FI_SUM,
                               nullptr);
    });
    BOOST_TEST(alone(pair.a, "fetched").error == 0);
    BOOST_TEST(found == before);
}

BOOST_AUTO_TEST_CASE(a_triggered_operation_starts_while_its_owner_makes_no_call) {
    const TwoEndpoints pair{manual, automatic};
    std::uint64_t question = 42, answer = 43, in_a = 0, in_b = 0;
    fi_triggered_context context{};
    context.event_type = FI_TRIGGER_THRESHOLD;
    context.trigger.threshold = {pair.b.counter.at(FI_RECV).get(), 1};
    const iovec iov{&answer, sizeof answer};
    const fi_msg msg{&iov, nullptr, 1, pair.to_a, &context, 0};
    check(fi_sendmsg(pair.b.ep.get(), &msg, FI_TRIGGER), "triggered send");
    receive(pair.a, &in_a, sizeof in_a);
    receive(pair.b, &in_b, sizeof in_b);
    send(pair, &question, sizeof question, 0);
    BOOST_TEST(((alone(pair.a, "one").entry.flags ^ alone(pair.a, "other").entry.flags) & (FI_SEND | FI_RECV)) ==
               (FI_SEND | FI_RECV));
    BOOST_TEST(in_a == answer);
}

BOOST_AUTO_TEST_CASE(a_thread_that_has_nothing_to_do_sleeps) {
    const TwoEndpoints pair{automatic, automatic};
    std::uint64_t out = 1, in = 0;
    receive(pair.b, &in, sizeof in);
    send(pair, &out, sizeof out, FI_DELIVERY_COMPLETE);
    BOOST_TEST(alone(pair.a, "delivered").error == 0);
    int threads = 0;
    std::uint64_t before = 0;
    // One that wakes by itself does so again and again; what the last message caused ends soon.
    for (int quiet = 0, rounds = 0; quiet < 5 && rounds < 200; ++rounds) {
        before = sleeps(threads);
        ::poll(nullptr, 0, 20);
        quiet = sleeps(threads) == before ? quiet + 1 : 0;
        if (rounds == 199) BOOST_ERROR("it wakes although nothing happens");
    }
    BOOST_TEST(threads == 2);
}

BOOST_AUTO_TEST_CASE(endpoints_close_in_the_middle_of_what_the_thread_does) {
    const Side target_keeper{manual}; // Its fabric stays open, whoever closes.
    for (int round = 0; round < 20; ++round) {
        auto pair = std::make_unique<TwoEndpoints>(manual, automatic);
        std::vector<char> memory(1 << 16);
        auto mr = registered(pair->b, memory.data(), memory.size());
        std::vector<std::uint64_t> in(16);
        for (auto& word : in) receive(pair->b, &word, sizeof word);
        const auto out = pattern(60'000, 5);
        for (int i = 0; i < 40; ++i) {
            (void)fi_inject(pair->a.ep.get(), out.data(), 8, pair->to_b);
            (void)fi_write(pair->a.ep.get(), out.data(), out.size(), nullptr, pair->to_b, 0, key, nullptr);
        }
        BOOST_TEST(fi_close(&pair->b.ep.release()->fid) == 0);
        mr.reset();
        pair.reset();
    }
}

BOOST_AUTO_TEST_CASE(a_child_that_is_forked_meanwhile_closes_what_it_inherited) {
    auto pair = std::make_unique<TwoEndpoints>(manual, automatic);
    std::atomic<bool> over{false};
    std::thread traffic{[&] {
        while (!over) {
            (void)fi_tinject(pair->a.ep.get(), "x", 1, pair->to_b, 1);
            (void)fi_cq_read(pair->a.cq.get(), nullptr, 0);
        }
    }};
    for (int i = 0; i < 20; ++i) {
        auto child = ChildProcess::fork([&] {
            pair->b.ep.reset();
            pair->b.cq.reset();
            pair->b.av.reset();
            pair->b.counter.clear();
            return fi_close(&pair->b.domain.release()->fid) == 0 ? 0 : 1;
        });
        const auto status = child.wait(std::chrono::seconds{20});
        BOOST_TEST(status.exited_with(0), status);
    }
    over = true;
    traffic.join();
    std::uint64_t in = 0;
    receive(pair->b, &in, sizeof in); // The parent's goes on.
    send(*pair, "12345678", 8, FI_DELIVERY_COMPLETE);
    BOOST_TEST(alone(pair->a, "delivered").error == 0);
}
