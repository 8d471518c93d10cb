// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Every call form of messages, tagged and not, with every level of completion; and every kind of receive.
#include <algorithm>

#include "soak/errand.hpp"

namespace nvlf::soak {
namespace {

struct Form {
    bool tagged;
    bool data; // With remote CQ data.
    bool injected;
    unsigned call;
};

constexpr std::uint64_t tag = 0x1234, remote_data = 0xfeedf00d;
constexpr std::size_t inject_size = 4096;

ssize_t send_by(const Corner& c, const Form& form, std::vector<char>& out, std::uint64_t flags, void* context) {
    fid_ep* const ep = c.ep[0].get();
    const fi_addr_t to = c.to[1];
    const std::size_t half = out.size() / 2;
    const std::array<iovec, 2> parts{{{out.data(), half}, {out.data() + half, out.size() - half}}};
    if (form.injected && form.data)
        return form.tagged ? fi_tinjectdata(ep, out.data(), out.size(), remote_data, to, tag)
                           : fi_injectdata(ep, out.data(), out.size(), remote_data, to);
    if (form.injected)
        return form.tagged ? fi_tinject(ep, out.data(), out.size(), to, tag)
                           : fi_inject(ep, out.data(), out.size(), to);
    if (form.call == 0 && form.data)
        return form.tagged ? fi_tsenddata(ep, out.data(), out.size(), nullptr, remote_data, to, tag, context)
                           : fi_senddata(ep, out.data(), out.size(), nullptr, remote_data, to, context);
    if (form.call == 0)
        return form.tagged ? fi_tsend(ep, out.data(), out.size(), nullptr, to, tag, context)
                           : fi_send(ep, out.data(), out.size(), nullptr, to, context);
    if (form.call == 1 && !form.data)
        return form.tagged ? fi_tsendv(ep, parts.data(), nullptr, 2, to, tag, context)
                           : fi_sendv(ep, parts.data(), nullptr, 2, to, context);
    if (form.data) flags |= FI_REMOTE_CQ_DATA;
    const fi_msg_tagged tagged{parts.data(), nullptr, 2, to, tag, 0, context, remote_data};
    const fi_msg plain{parts.data(), nullptr, 2, to, context, remote_data};
    return form.tagged ? fi_tsendmsg(ep, &tagged, flags | FI_COMPLETION)
                       : fi_sendmsg(ep, &plain, flags | FI_COMPLETION);
}

ssize_t receive_by(const Corner& c, bool tagged, unsigned call, std::vector<char>& in, void* context) {
    fid_ep* const ep = c.ep[1].get();
    const std::size_t third = in.size() / 3;
    const std::array<iovec, 3> parts{
        {{in.data(), third}, {in.data() + third, third}, {in.data() + 2 * third, in.size() - 2 * third}}};
    if (call == 0)
        return tagged ? fi_trecv(ep, in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, tag, 0, context)
                      : fi_recv(ep, in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, context);
    if (call == 1)
        return tagged ? fi_trecvv(ep, parts.data(), nullptr, 3, FI_ADDR_UNSPEC, tag, 0, context)
                      : fi_recvv(ep, parts.data(), nullptr, 3, FI_ADDR_UNSPEC, context);
    const fi_msg_tagged tagged_msg{parts.data(), nullptr, 3, FI_ADDR_UNSPEC, tag, 0, context, 0};
    const fi_msg msg{parts.data(), nullptr, 3, FI_ADDR_UNSPEC, context, 0};
    return tagged ? fi_trecvmsg(ep, &tagged_msg, FI_COMPLETION) : fi_recvmsg(ep, &msg, FI_COMPLETION);
}

} // namespace

void every_form_of_message(Random& random) {
    Corner c{random};
    constexpr std::uint64_t levels[] = {
        0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE, FI_MORE, FI_FENCE};
    for (int i = 0; i < 20; ++i) {
        const Form form{chance(random, 50), chance(random, 30), chance(random, 30),
                        static_cast<unsigned>(draw(random, 3))};
        const std::size_t most = form.injected ? inject_size : std::size_t{1} << draw(random, 19);
        auto out = bytes_of(random(), draw(random, most + 1));
        std::vector<char> in(out.size());
        int sent = 0, received = 0;
        const bool late = chance(random, 30); // The message waits for its receive.
        const auto receive = [&] {
            c.post("receive",
                   [&] { return receive_by(c, form.tagged, static_cast<unsigned>(draw(random, 3)), in, &in); });
        };
        if (!late) receive();
        c.post("send", [&] { return send_by(c, form, out, levels[draw(random, std::size(levels))], &out); });
        if (late) receive();
        for (const int wanted = form.injected ? 1 : 2; sent + received < wanted;) {
            const auto entry = c.next("a message");
            if (entry.op_context == &out) ++sent;
            else {
                ++received;
                require(entry.op_context == &in && entry.len == out.size(), "a receive tells of another message");
                require(!form.data || (entry.data == remote_data && (entry.flags & FI_REMOTE_CQ_DATA) != 0),
                        "remote data are lost");
                require(!form.tagged || entry.tag == tag, "the tag is another one");
            }
        }
        require(in == out, "a message's bytes differ");
    }
}

namespace {

void look_before_receiving(Corner& c, Random& random) {
    auto out = bytes_of(random(), draw(random, 60'000));
    std::vector<char> in(out.size());
    c.post("tsend", [&] { return fi_tsend(c.ep[0].get(), out.data(), out.size(), nullptr, c.to[1], 5, &out); });
    const iovec whole{in.data(), in.size()};
    fi_msg_tagged msg{&whole, nullptr, 1, FI_ADDR_UNSPEC, 5, 0, &in, 0};
    const bool claims = chance(random, 60);
    bool sent = false;
    for (bool there = false; !there;) { // A look that finds nothing is told as an error.
        check(fi_trecvmsg(c.ep[1].get(), &msg, FI_PEEK | (claims ? FI_CLAIM : 0)), "peek");
        c.until("a peek", [&] {
            fi_cq_tagged_entry entry{};
            const ssize_t n = fi_cq_read(c.cq.get(), &entry, 1);
            if (n == 1) (entry.op_context == &in ? there : sent) = true;
            if (n == -FI_EAVAIL) {
                fi_cq_err_entry failure{};
                check(fi_cq_readerr(c.cq.get(), &failure, 0), "fi_cq_readerr");
                if (failure.err != FI_ENOMSG) throw test::FabricError{"peek", failure.err};
            }
            return n == -FI_EAVAIL || there;
        });
    }
    const bool discards = claims && chance(random, 50);
    const std::uint64_t flags = claims ? FI_CLAIM | (discards ? FI_DISCARD : 0) : 0;
    check(fi_trecvmsg(c.ep[1].get(), &msg, flags), "receive after a peek");
    for (bool received = false; !sent || !received;)
        (c.next("what was peeked at").op_context == &in ? received : sent) = true;
    require(discards || in == out, "what was peeked at differs");
}

void one_buffer_for_many(Corner& c, Random& random) {
    constexpr std::size_t count = 8, bytes = 500;
    const std::size_t least = bytes;
    check(fi_setopt(&c.ep[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), "fi_setopt");
    std::size_t told = 0, size = sizeof told;
    check(fi_getopt(&c.ep[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &told, &size), "fi_getopt");
    require(told == least, "an option is another one");
    std::vector<char> in(count * bytes + bytes - 1); // After the last message too little is left.
    const iovec whole{in.data(), in.size()};
    const fi_msg msg{&whole, nullptr, 1, FI_ADDR_UNSPEC, &in, 0};
    check(fi_recvmsg(c.ep[1].get(), &msg, FI_MULTI_RECV | FI_COMPLETION), "multi-receive");
    const auto out = bytes_of(random(), bytes);
    for (std::size_t i = 0; i < count; ++i)
        c.post("inject", [&] { return fi_inject(c.ep[0].get(), out.data(), out.size(), c.to[1]); });
    bool last = false;
    for (std::size_t i = 0; i < count; ++i) {
        const auto entry = c.next("a message of many");
        require(!last && std::equal(out.begin(), out.end(), static_cast<char*>(entry.buf)), "one of many differs");
        last = (entry.flags & FI_MULTI_RECV) != 0;
    }
    require(last, "a full buffer is not given back");
}

} // namespace

void receives_of_every_kind(Random& random) {
    Corner c{random, {.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_MULTI_RECV | FI_DIRECTED_RECV}};
    look_before_receiving(c, random);
    // From whom it is to come; and one that is taken back.
    std::uint64_t in = 0, never = 0, out = random();
    check(fi_recv(c.ep[1].get(), &never, 8, nullptr, c.to[1], &never), "recv");
    check(fi_recv(c.ep[1].get(), &in, 8, nullptr, c.to[0], &in), "recv");
    c.post("inject", [&] { return fi_inject(c.ep[0].get(), &out, 8, c.to[1]); });
    require(c.next("a directed message").op_context == &in, "a receive took a message from somebody else");
    require(in == out, "a directed message differs");
    check(fi_cancel(&c.ep[1]->fid, &never), "fi_cancel");
    fi_cq_err_entry failure{};
    c.until("a cancelled receive", [&] { return fi_cq_readerr(c.cq.get(), &failure, 0) == 1; });
    if (failure.err != FI_ECANCELED) throw test::FabricError{"cancelled", failure.err};
    require(failure.op_context == &never, "another receive was cancelled");
    one_buffer_for_many(c, random);
    FidPtr<fid_ep> alias = open_object<fid_ep>(
        "fi_ep_alias", [&](fid_ep** e) { return fi_ep_alias(c.ep[0].get(), e, FI_TRANSMIT | FI_DELIVERY_COMPLETE); });
    check(fi_recv(c.ep[1].get(), &in, 8, nullptr, FI_ADDR_UNSPEC, &in), "recv");
    c.post("send by an alias", [&] { return fi_send(alias.get(), &out, 8, nullptr, c.to[1], &out); });
    (void)c.next("by an alias"), (void)c.next("by an alias");
}

} // namespace nvlf::soak
