// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The libfabric objects of one life of a soak's process: an endpoint with its queue and addresses, and a window of memory
// that the others read and write. Which of the many ways to set that up it takes is drawn by lot.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <memory>
#include <random>

#include "nvlf/nvlf.h"
#include "soak/board.hpp"
#include "system/provider/fabric_endpoint.hpp"

namespace nvlf::soak {

using Random = std::mt19937_64;
inline std::uint64_t draw(Random& random, std::uint64_t below) { return random() % below; }
inline bool chance(Random& random, unsigned percent) { return draw(random, 100) < percent; }

// A window on a device of the fabric, or on the heap.
class Window {
public:
    explicit Window(bool on_device);
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    [[nodiscard]] char* data() const noexcept { return data_; }

private:
    nvlf_fabric* fabric_ = nullptr;
    nvlf_mem* memory_ = nullptr;
    std::unique_ptr<char[]> heap_;
    char* data_ = nullptr;
};

struct Station {
    Station(Random& random, unsigned threads);

    [[nodiscard]] Presence presence(std::uint64_t life) const;

    bool blocks; // The queue can be slept on.
    bool atomics;
    test::InfoPtr info;
    Window window;
    test::FidPtr<fid_fabric> fabric;
    test::FidPtr<fid_domain> domain;
    test::FidPtr<fid_mr> mr;
    test::FidPtr<fid_av> av;
    test::FidPtr<fid_cq> cq;
    test::FidPtr<fid_ep> ep; // Last: it goes first.
};

} // namespace nvlf::soak
