// SPDX-License-Identifier: MIT OR GPL-2.0-only
// large_test - messages and one-sided transfers that are too large for a slot, whichever way they take: through the lane,
// or copied by one end straight from the other's memory where the kernel allows that. Run a second time with that
// switched off (FI_NVLF_CMA=off); a process that the kernel refuses it is made here by a seccomp filter.
#define BOOST_TEST_MODULE large
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>

#include "support/child_process.hpp"
#include "two_endpoints.hpp"

namespace {

using namespace nvlf::test;

BOOST_TEST_GLOBAL_FIXTURE(OwnFabric);

// Around every size at which the way may change, and beyond the data ring.
constexpr std::array<std::size_t, 20> sizes{511,    512,    4095,    4096,          4097,    8191,   8192,
                                            8193,   16383,  16384,   16385,         32768,   65535,  131072,
                                            131073, 262144, 1 << 20, (1 << 20) + 1, 3 << 20, 5000001};

// Whether one process may copy to and from another here, and whether the provider was told to.
bool copies_across() {
    const char* off = std::getenv("FI_NVLF_CMA");
    if (off != nullptr && std::strcmp(off, "off") == 0) return false;
    int from = 1;
    int to = 0;
    const iovec here{&to, sizeof to};
    const iovec there{&from, sizeof from};
    return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(sizeof to);
}

boost::test_tools::assertion_result may_copy(boost::unit_test::test_unit_id) { return copies_across(); }

// Half of the sizes go in one piece, which both ends may copy at a time, the others in four unequal ones.
std::size_t pieces_for(std::size_t bytes) { return bytes % 2 == 0 ? 1 : 4; }

// Cuts a buffer into four unequal pieces, or takes it as it is.
std::array<iovec, 4> in_four(char* data, std::size_t bytes) {
    std::array<iovec, 4> iov{};
    if (pieces_for(bytes) == 1) return iov[0] = {data, bytes}, iov;
    const std::array<std::size_t, 4> parts{bytes / 3, bytes / 7, 1, bytes - bytes / 3 - bytes / 7 - 1};
    for (std::size_t i = 0; i < 4; ++i) {
        iov[i] = {data, parts[i]};
        data += parts[i];
    }
    return iov;
}

ssize_t send_in_four(const Side& side, fi_addr_t to, std::uint64_t tag, char* data, std::size_t bytes) {
    const auto iov = in_four(data, bytes);
    return fi_tsendv(side.ep.get(), iov.data(), nullptr, pieces_for(bytes), to, tag, nullptr);
}
ssize_t receive_in_four(const Side& side, std::uint64_t tag, char* data, std::size_t bytes) {
    const auto iov = in_four(data, bytes);
    return fi_trecvv(side.ep.get(), iov.data(), nullptr, pieces_for(bytes), FI_ADDR_UNSPEC, tag, 0, nullptr);
}

// Polls one side alone.
std::optional<Event> wait_alone(const Side& side, std::chrono::milliseconds bound = std::chrono::seconds{20}) {
    const auto deadline = std::chrono::steady_clock::now() + bound;
    while (std::chrono::steady_clock::now() < deadline)
        if (auto event = poll(side.cq.get())) return event;
    return std::nullopt;
}

FidPtr<fid_mr> registered(const Side& side, void* data, std::size_t bytes, std::uint64_t key) {
    fid_mr* mr = nullptr;
    check(fi_mr_reg(side.domain.get(), data, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &mr, nullptr),
          "fi_mr_reg");
    return FidPtr<fid_mr>{mr};
}

// ---- A peer in a process of its own ----------------------------------------------------------------------------------

void say(int socket, const void* data, std::size_t bytes) {
    if (::send(socket, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) std::abort();
}
void hear(int socket, void* data, std::size_t bytes) {
    if (::recv(socket, data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) std::abort();
}

// Both introduce themselves.
fi_addr_t meet(const Side& side, int socket) {
    std::vector<char> name = side.name();
    say(socket, name.data(), name.size());
    hear(socket, name.data(), name.size());
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    if (fi_av_insert(side.av.get(), name.data(), 1, &address, 0, nullptr) != 1) std::abort();
    return address;
}

// Every process_vm_* call fails from here on, as in a container.
bool forbid_copies() {
    const auto number = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
    std::array<sock_filter, 5> code{{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program{code.size(), code.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct OtherProcess {
    explicit OtherProcess(const std::function<int(int)>& body)
        : child{ChildProcess::fork([&] {
              ::close(sockets[0]);
              return body(sockets[1]);
          })} {
        ::close(sockets[1]);
    }
    ~OtherProcess() { ::close(sockets[0]); }
    OtherProcess(const OtherProcess&) = delete;
    OtherProcess& operator=(const OtherProcess&) = delete;

    [[nodiscard]] int socket() const { return sockets[0]; }

    std::array<int, 2> sockets = [] {
        std::array<int, 2> pair{};
        BOOST_REQUIRE_EQUAL(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
        return pair;
    }();
    ChildProcess child;
};

// Nothing of Boost's in a child: its checks are the parent's.
int finished(const Side& side, int completions) {
    for (; completions > 0; --completions) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        fi_cq_tagged_entry entry{};
        ssize_t n = -FI_EAGAIN;
        while (n == -FI_EAGAIN && std::chrono::steady_clock::now() < deadline) n = fi_cq_read(side.cq.get(), &entry, 1);
        if (n != 1) return 2;
    }
    return 0;
}

// Sends each message back that it gets.
int echo(int socket, bool forbidden) {
    if (forbidden && !forbid_copies()) return 3;
    const Side side;
    const fi_addr_t to = meet(side, socket);
    for (const std::size_t bytes : sizes) {
        std::vector<char> data(bytes);
        if (receive_in_four(side, bytes, data.data(), bytes) != 0 || finished(side, 1) != 0) return 4;
        ssize_t sent = -FI_EAGAIN;
        while (sent == -FI_EAGAIN)
            sent = send_in_four(side, to, bytes, data.data(), bytes), (void)fi_cq_read(side.cq.get(), nullptr, 0);
        if (sent != 0 || finished(side, 1) != 0) return 5;
    }
    char done = 0;
    while (::recv(socket, &done, 1, MSG_DONTWAIT) < 0) (void)fi_cq_read(side.cq.get(), nullptr, 0);
    return 0;
}

void talk_to_echo(bool forbidden) {
    OtherProcess other{[&](int socket) { return echo(socket, forbidden); }};
    const Side side;
    const fi_addr_t to = meet(side, other.socket());
    for (const std::size_t bytes : sizes) {
        auto out = pattern(bytes, static_cast<unsigned>(bytes));
        std::vector<char> in(bytes);
        check(receive_in_four(side, bytes, in.data(), bytes), "receive");
        ssize_t sent = -FI_EAGAIN;
        while (sent == -FI_EAGAIN) {
            sent = send_in_four(side, to, bytes, out.data(), bytes);
            (void)fi_cq_read(side.cq.get(), nullptr, 0);
        }
        check(sent, "send");
        for (int i = 0; i < 2; ++i) {
            const auto event = wait_alone(side);
            BOOST_REQUIRE_MESSAGE(event.has_value(), bytes << " bytes: nothing came in 20 s");
            BOOST_REQUIRE_EQUAL(event->error, 0);
        }
        BOOST_TEST((in == out), bytes << " bytes came back changed");
    }
    say(other.socket(), "", 1);
    BOOST_TEST(other.child.wait(std::chrono::seconds{20}).exited_with(0));
}

} // namespace

BOOST_AUTO_TEST_CASE(messages_of_every_size_and_in_pieces_arrive_whole) {
    TwoEndpoints pair;
    for (const std::size_t bytes : sizes)
        for (const bool early : {false, true}) { // Before its receive, or after.
            auto out = pattern(bytes, static_cast<unsigned>(bytes));
            std::vector<char> in(bytes + 2, '!');
            const auto receive = [&] { check(receive_in_four(pair.b, 5, in.data() + 1, bytes), "receive"); };
            if (!early) receive();
            pair.post("send", [&] { return send_in_four(pair.a, pair.to_b, 5, out.data(), bytes); });
            if (early) {
                for (int i = 0; i < 10; ++i) (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
                receive();
            }
            const Event got = pair.wait(pair.b, "receive");
            BOOST_TEST(got.error == 0);
            BOOST_TEST(got.entry.len == bytes);
            BOOST_TEST(std::equal(out.begin(), out.end(), in.begin() + 1));
            BOOST_TEST((in.front() == '!' && in.back() == '!'));
            BOOST_TEST(pair.wait(pair.a, "send").error == 0);
        }
}

BOOST_AUTO_TEST_CASE(messages_between_processes_arrive_whole) { talk_to_echo(false); }

BOOST_AUTO_TEST_CASE(a_process_that_may_not_copy_gets_and_sends_everything_through_the_lane) { talk_to_echo(true); }

BOOST_AUTO_TEST_CASE(a_large_message_asks_nothing_of_its_sender_once_it_is_announced,
                     *boost::unit_test::precondition(may_copy)) {
    TwoEndpoints pair;
    auto out = pattern((3 << 20) + 1, 1); // In four pieces, when it is cut.
    std::vector<char> in(out.size());
    // First contact takes both sides.
    pair.post("send", [&] { return fi_tsend(pair.a.ep.get(), out.data(), 8, nullptr, pair.to_b, 1, nullptr); });
    check(fi_trecv(pair.b.ep.get(), in.data(), 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), "fi_trecv");
    BOOST_TEST(pair.wait(pair.b, "a small message").error == 0);
    BOOST_TEST(pair.wait(pair.a, "its completion").error == 0);

    for (const bool in_pieces : {false, true}) {
        std::fill(in.begin(), in.end(), '\0');
        check(in_pieces ? send_in_four(pair.a, pair.to_b, 2, out.data(), out.size())
                        : fi_tsend(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, 2, nullptr),
              "send");
        check(fi_trecv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr), "fi_trecv");
        const auto got = wait_alone(pair.b);
        BOOST_REQUIRE(got.has_value());
        BOOST_TEST(got->error == 0);
        BOOST_TEST((in == out));
        BOOST_TEST(pair.wait(pair.a, "the send's completion").error == 0);
    }
}

BOOST_AUTO_TEST_CASE(transfers_on_ordinary_memory_ask_nothing_of_the_target,
                     *boost::unit_test::precondition(may_copy)) {
    TwoEndpoints pair;
    std::vector<char> there(4 << 20);
    const auto mr = registered(pair.b, there.data(), there.size(), 9);
    const auto out = pattern(there.size(), 3);
    std::vector<char> in(there.size());
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{65537}, there.size()}) {
        std::fill(there.begin(), there.end(), '\0');
        pair.post("write",
                  [&] { return fi_write(pair.a.ep.get(), out.data(), bytes, nullptr, pair.to_b, 0, 9, nullptr); });
        auto done = wait_alone(pair.a);
        BOOST_REQUIRE(done.has_value());
        BOOST_TEST(done->error == 0);
        BOOST_TEST(std::equal(there.begin(), there.begin() + static_cast<std::ptrdiff_t>(bytes), out.begin()));
        BOOST_TEST(std::all_of(there.begin() + static_cast<std::ptrdiff_t>(bytes), there.end(),
                               [](char c) { return c == 0; }));
        check(fi_read(pair.a.ep.get(), in.data(), bytes, nullptr, pair.to_b, 0, 9, nullptr), "fi_read");
        done = wait_alone(pair.a);
        BOOST_REQUIRE(done.has_value());
        BOOST_TEST(done->error == 0);
        BOOST_TEST(std::equal(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(bytes), out.begin()));
    }
}

BOOST_AUTO_TEST_CASE(transfers_by_a_process_that_may_not_copy_take_the_targets_progress) {
    OtherProcess other{[](int socket) {
        if (!forbid_copies()) return 3;
        const Side side;
        const fi_addr_t to = meet(side, socket);
        auto data = pattern(300000, 8);
        ssize_t n = -FI_EAGAIN;
        while (n == -FI_EAGAIN) n = fi_write(side.ep.get(), data.data(), data.size(), nullptr, to, 10, 9, nullptr);
        if (n != 0 || finished(side, 1) != 0) return 4;
        std::vector<char> back(data.size());
        n = -FI_EAGAIN;
        while (n == -FI_EAGAIN) n = fi_read(side.ep.get(), back.data(), back.size(), nullptr, to, 10, 9, nullptr);
        if (n != 0 || finished(side, 1) != 0 || back != data) return 5;
        return 0;
    }};
    const Side side;
    std::vector<char> memory(300020, '!');
    const auto mr = registered(side, memory.data(), memory.size(), 9);
    (void)meet(side, other.socket());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (other.child.wait(std::chrono::milliseconds{0}).running() && std::chrono::steady_clock::now() < deadline)
        (void)fi_cq_read(side.cq.get(), nullptr, 0);
    BOOST_TEST(other.child.wait(std::chrono::milliseconds{0}).exited_with(0));
    const auto data = pattern(300000, 8);
    BOOST_TEST(std::equal(data.begin(), data.end(), memory.begin() + 10));
    BOOST_TEST((memory[9] == '!' && memory[300010] == '!'));
}

BOOST_AUTO_TEST_CASE(a_registration_that_is_closed_or_too_short_refuses_large_transfers) {
    TwoEndpoints pair;
    std::vector<char> there(1 << 20, 'x');
    auto mr = registered(pair.b, there.data(), there.size(), 9);
    std::vector<char> data(1 << 20, 'y');
    const auto write = [&](std::uint64_t at, std::size_t bytes) {
        pair.post("write",
                  [&] { return fi_write(pair.a.ep.get(), data.data(), bytes, nullptr, pair.to_b, at, 9, nullptr); });
        return pair.wait(pair.a, "write").error;
    };
    BOOST_TEST(write(0, 65536) == 0);
    BOOST_TEST(write(1, 1 << 20) == FI_EKEYREJECTED);
    mr.reset();
    BOOST_TEST(write(0, 65536) == FI_EKEYREJECTED);
    // The key again, for other memory: nothing goes to the old one.
    std::vector<char> other(1 << 20, 'z');
    std::fill(there.begin(), there.end(), 'x');
    mr = registered(pair.b, other.data(), other.size(), 9);
    BOOST_TEST(write(0, 65536) == 0);
    BOOST_TEST((other[0] == 'y' && there[0] == 'x'));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_cut_and_both_sides_are_told) {
    TwoEndpoints pair;
    const auto out = pattern(1 << 20, 4);
    std::vector<char> in(100001, '!');
    check(fi_trecv(pair.b.ep.get(), in.data(), 100000, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), "fi_trecv");
    pair.post("send",
              [&] { return fi_tsend(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, 7, nullptr); });
    const Event got = pair.wait(pair.b, "receive");
    BOOST_TEST(got.error == FI_ETRUNC);
    BOOST_TEST(got.entry.len == 100000U);
    BOOST_TEST(got.lost == out.size() - 100000U);
    BOOST_TEST(std::equal(in.begin(), in.end() - 1, out.begin()));
    BOOST_TEST(in.back() == '!');
    BOOST_TEST(pair.wait(pair.a, "send").error == 0);
}

BOOST_AUTO_TEST_CASE(large_and_small_messages_match_in_the_order_in_which_they_were_sent) {
    TwoEndpoints pair;
    const auto large = pattern(200000, 5);
    const auto small = pattern(100, 6);
    std::vector<char> first(200000);
    std::vector<char> second(200000);
    int one = 0;
    int two = 0;
    check(fi_trecv(pair.b.ep.get(), first.data(), first.size(), nullptr, FI_ADDR_UNSPEC, 7, 0, &one), "fi_trecv");
    check(fi_trecv(pair.b.ep.get(), second.data(), second.size(), nullptr, FI_ADDR_UNSPEC, 7, 0, &two), "fi_trecv");
    pair.post("send",
              [&] { return fi_tsend(pair.a.ep.get(), large.data(), large.size(), nullptr, pair.to_b, 7, nullptr); });
    pair.post("send",
              [&] { return fi_tsend(pair.a.ep.get(), small.data(), small.size(), nullptr, pair.to_b, 7, nullptr); });
    for (int i = 0; i < 2; ++i) {
        const Event got = pair.wait(pair.b, "receive");
        BOOST_TEST(got.error == 0);
        BOOST_TEST(got.entry.len == (got.entry.op_context == &one ? large.size() : small.size()));
    }
    BOOST_TEST((first == large));
    BOOST_TEST(std::equal(small.begin(), small.end(), second.begin()));
}

BOOST_AUTO_TEST_CASE(large_messages_fill_a_multi_receive_buffer_one_after_the_other) {
    TwoEndpoints pair;
    std::vector<char> room(1 << 20);
    const iovec iov{room.data(), room.size()};
    fi_msg post{&iov, nullptr, 1, FI_ADDR_UNSPEC, nullptr, 0};
    check(fi_recvmsg(pair.b.ep.get(), &post, FI_MULTI_RECV), "fi_recvmsg");
    const auto out = pattern(300000, 11);
    for (int i = 0; i < 4; ++i) // The fourth finds 148576 bytes.
        pair.post("send",
                  [&] { return fi_send(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, nullptr); });
    for (int i = 0; i < 4; ++i) { // They end in any order.
        const Event got = pair.wait(pair.b, "receive");
        const auto at = static_cast<std::size_t>(static_cast<char*>(got.entry.buf) - room.data());
        const bool whole = at < 3 * out.size();
        const std::size_t bytes = whole ? out.size() : room.size() - at;
        BOOST_TEST(at % out.size() == 0U);
        BOOST_TEST(got.error == (whole ? 0 : FI_ETRUNC));
        BOOST_TEST(got.entry.len == bytes);
        BOOST_TEST(((got.entry.flags & FI_MULTI_RECV) != 0) == (i == 3));
        BOOST_TEST(std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(bytes),
                              static_cast<char*>(got.entry.buf)));
    }
    for (int i = 0; i < 4; ++i) BOOST_TEST(pair.wait(pair.a, "send").error == 0);
}

BOOST_AUTO_TEST_CASE(a_cancelled_multi_receive_is_over_only_after_what_is_in_flight_into_it) {
    SideOptions options;
    options.caps |= FI_MULTI_RECV;
    TwoEndpoints pair{options, options};
    std::vector<char> buffer(std::size_t{4} << 20);
    iovec iov{buffer.data(), buffer.size()};
    int context = 0;
    const fi_msg msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, &context, 0};
    check(fi_recvmsg(pair.b.ep.get(), &msg, FI_MULTI_RECV), "recvmsg");
    const auto out = pattern(std::size_t{1} << 20, 3);
    pair.post("send", [&] { return fi_send(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, nullptr); });
    (void)fi_cq_read(pair.b.cq.get(), nullptr, 0); // Matched; through the lane, nothing of it has come yet.
    check(fi_cancel(&pair.b.ep->fid, &context), "cancel");
    const Event message = pair.wait(pair.b, "the message");
    BOOST_TEST(message.error == 0);
    BOOST_TEST(message.entry.len == out.size());
    BOOST_TEST((message.entry.flags & FI_MULTI_RECV) == 0U);
    BOOST_TEST(std::memcmp(buffer.data(), out.data(), out.size()) == 0);
    const Event end = pair.wait(pair.b, "the end of the buffer");
    BOOST_TEST(end.error == FI_ECANCELED);
    BOOST_TEST((end.entry.flags & FI_MULTI_RECV) != 0U);
    BOOST_TEST(end.entry.op_context == &context);
}

BOOST_AUTO_TEST_CASE(delivery_is_complete_when_the_message_is_in_its_buffer_and_not_before) {
    TwoEndpoints pair{{.op_flags = FI_DELIVERY_COMPLETE}};
    const auto out = pattern(500000, 12);
    std::vector<char> in(out.size());
    pair.post("send",
              [&] { return fi_tsend(pair.a.ep.get(), out.data(), out.size(), nullptr, pair.to_b, 7, nullptr); });
    for (int i = 0; i < 1000; ++i) {
        BOOST_TEST(!poll(pair.a.cq.get()).has_value());
        (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
    }
    check(fi_trecv(pair.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), "fi_trecv");
    BOOST_TEST(pair.wait(pair.a, "send").error == 0);
    BOOST_TEST((in == out));
    BOOST_TEST(pair.wait(pair.b, "receive").error == 0);
}

BOOST_AUTO_TEST_CASE(a_sender_that_dies_in_the_middle_of_a_message_fails_its_receive) {
    constexpr std::size_t bytes = 64 << 20;
    for (const bool begun : {false, true}) { // Killed while the message waits, or while it moves.
        OtherProcess other{[](int socket) {
            const Side side;
            const fi_addr_t to = meet(side, socket);
            std::vector<char> data(bytes, 'd');
            ssize_t n = -FI_EAGAIN;
            while (n == -FI_EAGAIN) n = fi_tsend(side.ep.get(), data.data(), bytes, nullptr, to, 7, nullptr);
            if (n != 0) return 4;
            say(socket, "", 1);
            for (;;) (void)fi_cq_read(side.cq.get(), nullptr, 0); // Until it is killed.
        }};
        const Side side;
        (void)meet(side, other.socket());
        char announced = 0;
        while (::recv(other.socket(), &announced, 1, MSG_DONTWAIT) != 1) (void)fi_cq_read(side.cq.get(), nullptr, 0);
        std::vector<char> in(bytes);
        if (!begun) other.child.kill();
        check(fi_trecv(side.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), "fi_trecv");
        if (begun) {
            BOOST_TEST(!poll(side.cq.get()).has_value()); // One step of many.
            other.child.kill();
        }
        const auto got = wait_alone(side);
        BOOST_REQUIRE(got.has_value());
        BOOST_TEST(got->error == FI_ECONNABORTED);
    }
}
