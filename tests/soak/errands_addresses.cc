// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Address vectors: tables and maps, private and shared by name, and every way to fill them.
#include <unistd.h>

#include "soak/errand.hpp"

namespace nvlf::soak {

void address_vectors(Random& random) {
    Corner c{random, {.caps = FI_MSG | FI_SOURCE | FI_SHARED_AV | FI_AV_USER_ID, .av = FI_AV_MAP}};
    std::array<char, 64> name{}, found{};
    std::size_t size = name.size(), found_size = found.size(), text_size = 128;
    check(fi_getname(&c.ep[0]->fid, name.data(), &size), "fi_getname");
    const std::string shared = "soak " + std::to_string(::getpid()) + ' ' + std::to_string(random());
    for (const bool named : {false, true}) {
        fi_av_attr attr{};
        attr.type = chance(random, 50) || named ? FI_AV_MAP : FI_AV_TABLE;
        attr.name = named ? shared.c_str() : nullptr;
        const auto open = [&] {
            return open_object<fid_av>("fi_av_open",
                                       [&](fid_av** a) { return fi_av_open(c.domain.get(), &attr, a, nullptr); });
        };
        const auto av = open();
        fi_addr_t address = FI_ADDR_NOTAVAIL;
        if (fi_av_insert(av.get(), name.data(), 1, &address, 0, nullptr) != 1)
            throw test::FabricError{"fi_av_insert", FI_EINVAL};
        if (named) {
            const auto reader = open();
            check(fi_av_lookup(reader.get(), address, found.data(), &found_size), "fi_av_lookup");
        } else {
            check(fi_av_lookup(av.get(), address, found.data(), &found_size), "fi_av_lookup");
            std::array<fi_addr_t, 4> several{};
            require(fi_av_insertsvc(av.get(), "localhost", "7", several.data(), 0, nullptr) == 1, "fi_av_insertsvc");
            require(fi_av_insertsym(av.get(), "gpu1", 2, "10", 2, several.data(), 0, nullptr) == 4, "fi_av_insertsym");
            check(fi_av_remove(av.get(), several.data(), several.size(), 0), "fi_av_remove");
        }
        require(found_size == size && found == name, "an address is looked up differently");
        std::array<char, 128> text{};
        require(fi_av_straddr(av.get(), name.data(), text.data(), &text_size) != nullptr && text[0] != 0,
                "an address has no text");
        check(fi_av_remove(av.get(), &address, 1, 0), "fi_av_remove");
    }
    // One that completions call by another name.
    fi_addr_t mine = 4711, in_from = FI_ADDR_UNSPEC;
    check(fi_av_remove(c.av.get(), &c.to[0], 1, 0), "fi_av_remove");
    if (fi_av_insert(c.av.get(), name.data(), 1, &mine, FI_AV_USER_ID, nullptr) != 1)
        throw test::FabricError{"fi_av_insert", FI_EINVAL};
    std::uint64_t in = 0, out = random();
    check(fi_recv(c.ep[1].get(), &in, 8, nullptr, FI_ADDR_UNSPEC, &in), "recv");
    c.post("inject", [&] { return fi_inject(c.ep[0].get(), &out, 8, c.to[1]); });
    fi_cq_tagged_entry entry{};
    c.until("a word", [&] {
        const ssize_t n = fi_cq_readfrom(c.cq.get(), &entry, 1, &in_from);
        if (n != -FI_EAGAIN) check(n, "fi_cq_readfrom");
        return n == 1;
    });
    require(in == out && in_from == 4711, "a word comes from another name");
}

} // namespace nvlf::soak
