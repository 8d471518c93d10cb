// SPDX-License-Identifier: MIT OR GPL-2.0-only
// threads_test - FI_THREAD_SAFE: several threads send, receive and sleep on the same two endpoints. What one thread reads
// from a queue may be the completion of another's operation, so they count together; under TSan this is the test of the
// provider's locks.
#define BOOST_TEST_MODULE threads
#include <atomic>
#include <thread>

#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

constexpr int threads_a_side = 2;
constexpr int messages = 2000; // Of each thread.
constexpr int all = threads_a_side * messages;
constexpr std::size_t largest = 50'000;

// In the slot, in the ring, and by rendezvous.
std::size_t size_of(int i) { return i % 50 == 0 ? largest : i % 7 == 0 ? 3000 : 8; }

// One side's threads together. Boost.Test's checks are for the main thread: the others count what is wrong.
struct Tally {
    std::atomic<int> done{0};
    std::atomic<int> wrong{0};
    [[nodiscard]] bool over() const { return done >= all || wrong > 0; }
    // Sleeps for a moment at most: the last completion may be another thread's to read.
    void read(fid_cq* cq) {
        fi_cq_tagged_entry entry{};
        const ssize_t n = fi_cq_sread(cq, &entry, 1, nullptr, 10);
        if (n == 1) ++done;
        else if (n != -FI_EAGAIN) ++wrong;
    }
};

} // namespace

BOOST_AUTO_TEST_CASE(threads_that_share_endpoints_and_queues_lose_nothing) {
    SideOptions options;
    options.threading = FI_THREAD_SAFE;
    TwoEndpoints pair{options, options};
    Tally sent;
    Tally received;
    const auto out = pattern(largest, 1);
    // Not the threads' own: a receive may be filled after the thread that posted it has counted enough.
    std::vector<std::vector<char>> in(threads_a_side, std::vector<char>(largest));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    const auto late = [deadline] { return std::chrono::steady_clock::now() > deadline; };

    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < threads_a_side; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < messages && !sent.over() && !late();) {
                const ssize_t result =
                    fi_tsend(pair.a.ep.get(), out.data(), size_of(i), nullptr, pair.to_b, t, nullptr);
                if (result == 0) ++i;
                else if (result == -FI_EAGAIN) sent.read(pair.a.cq.get());
                else ++sent.wrong;
            }
            while (!sent.over() && !late()) sent.read(pair.a.cq.get());
        });
        threads.emplace_back([&, t] {
            for (int i = 0; i < messages && !received.over() && !late(); ++i) {
                if (fi_trecv(pair.b.ep.get(), in[t].data(), largest, nullptr, FI_ADDR_UNSPEC, t, 0, nullptr) != 0)
                    ++received.wrong;
                received.read(pair.b.cq.get());
            }
            while (!received.over() && !late()) received.read(pair.b.cq.get());
        });
    }
    for (std::thread& thread : threads) thread.join();
    BOOST_TEST(sent.wrong == 0);
    BOOST_TEST(received.wrong == 0);
    BOOST_TEST(sent.done == all);
    BOOST_TEST(received.done == all);
}
