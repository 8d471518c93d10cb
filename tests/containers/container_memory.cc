// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// usage: container_memory write MIB    allocates, fills, and prints "TOKEN POINTER WORDS"; waits for the end of its input, and
//                                      then checks what the other one wrote
//        container_memory read TOKEN POINTER WORDS  checks every word through that pointer, and writes its complement
//
// More memory than a container's /dev/shm has, through one pointer in two processes.
#include <nvlf/nvlf.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

void check(int result, const char* call) {
    if (result < 0) throw std::runtime_error{std::string{call} + ": " + ::strerrordesc_np(-result)};
}

struct Close {
    void operator()(nvlf_fabric* fabric) const noexcept { ::nvlf_close(fabric); }
    void operator()(nvlf_mem* mem) const noexcept { ::nvlf_mem_put(mem); }
};
using Fabric = std::unique_ptr<nvlf_fabric, Close>;
using Mem = std::unique_ptr<nvlf_mem, Close>;

Fabric attach() {
    nvlf_fabric* fabric = nullptr;
    if (::nvlf_open(nullptr, &fabric) < 0) throw std::runtime_error{::nvlf_open_error()};
    Fabric open{fabric};
    std::uint32_t device = 0;
    check(::nvlf_attach(fabric, NVLF_DEVICE_ANY, &device), "nvlf_attach");
    return open;
}

std::uint64_t* map(nvlf_mem* mem) {
    void* pointer = nullptr;
    check(::nvlf_mem_map(mem, &pointer), "nvlf_mem_map");
    return static_cast<std::uint64_t*>(pointer);
}

// Says where it is, so that no page can pass for another.
std::uint64_t word(std::uint64_t i) { return i * 0x9e3779b97f4a7c15ULL + 1; }

void expect(const std::uint64_t* words, std::uint64_t count, std::uint64_t flip) {
    for (std::uint64_t i = 0; i < count; ++i)
        if (words[i] != (word(i) ^ flip)) throw std::runtime_error{"word " + std::to_string(i) + " differs"};
}

constexpr std::uint64_t complement = ~std::uint64_t{0};

int write(std::uint64_t bytes) {
    const Fabric fabric = attach();
    nvlf_mem* raw = nullptr;
    check(::nvlf_mem_alloc(fabric.get(), 0, bytes, 0, &raw), "nvlf_mem_alloc");
    const Mem mem{raw};
    std::uint64_t* words = map(raw);
    const std::uint64_t count = bytes / sizeof *words;
    for (std::uint64_t i = 0; i < count; ++i) words[i] = word(i);
    std::uint8_t token[NVLF_TOKEN_LEN];
    check(::nvlf_mem_export(raw, NVLF_ACCESS_READ | NVLF_ACCESS_WRITE, token), "nvlf_mem_export");
    for (const std::uint8_t byte : token) std::printf("%02x", byte);
    std::printf(" %p %llu\n", static_cast<void*>(words), static_cast<unsigned long long>(count));
    std::fflush(stdout);
    while (std::getchar() != EOF) {}
    expect(words, count, complement);
    std::printf("the other process read and wrote all %llu words\n", static_cast<unsigned long long>(count));
    return 0;
}

int read(const std::string& text, const std::string& pointer, std::uint64_t count) {
    std::uint8_t token[NVLF_TOKEN_LEN];
    if (text.size() != 2 * sizeof token) throw std::runtime_error{"a token is 64 hexadecimal digits"};
    for (std::size_t i = 0; i < sizeof token; ++i)
        token[i] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
    const Fabric fabric = attach();
    nvlf_mem* raw = nullptr;
    check(::nvlf_mem_import(fabric.get(), token, &raw), "nvlf_mem_import");
    const Mem mem{raw};
    std::uint64_t* const mapped = map(raw);
    auto* words = reinterpret_cast<std::uint64_t*>(std::stoull(pointer, nullptr, 16)); // As the other process has it.
    if (words != mapped) throw std::runtime_error{"it is mapped elsewhere than at " + pointer};
    expect(words, count, 0);
    for (std::uint64_t i = 0; i < count; ++i) words[i] ^= complement;
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    try {
        if (what == "write" && argc == 3) return write(std::stoull(argv[2]) << 20);
        if (what == "read" && argc == 5) return read(argv[2], argv[3], std::stoull(argv[4]));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "container_memory: %s\n", error.what());
        return 1;
    }
    std::fprintf(stderr, "usage: container_memory write MIB | container_memory read TOKEN POINTER WORDS\n");
    return 2;
}
