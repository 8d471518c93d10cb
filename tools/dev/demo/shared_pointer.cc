// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// One address space, in one page: a list linked by plain pointers, made by one process, walked by another.
//
//     shared_pointer write DEVICE    allocates on DEVICE, puts a list there, prints "TOKEN POINTER WORDS"; then waits for
//                                    the end of its input and prints the words once more, as they are by then
//     shared_pointer read TOKEN      imports the memory, walks the list, prints "POINTER WORDS", and puts the words in
//                                    capitals through the same pointers
//
// The device for which either acts is NVLF_DEVICE (nvlf run --device). Nothing but the token passes between the two: the
// pointers in the list are good in both, because memory of the fabric lies at its fabric address in every process.
#include <nvlf/nvlf.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

struct Node {
    Node* next;
    char word[24];
};

// Calls answer a negative errno.
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

Node* map(nvlf_mem* mem) {
    void* pointer = nullptr;
    check(::nvlf_mem_map(mem, &pointer), "nvlf_mem_map");
    return static_cast<Node*>(pointer);
}

std::string words_of(const Node* list) {
    std::string words;
    for (const Node* node = list; node != nullptr; node = node->next)
        words += (words.empty() ? "" : " ") + std::string{node->word};
    return words;
}

std::string hex(const std::uint8_t (&token)[NVLF_TOKEN_LEN]) {
    std::string text;
    for (const std::uint8_t byte : token) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

void unhex(const std::string& text, std::uint8_t (&token)[NVLF_TOKEN_LEN]) {
    if (text.size() != 2 * sizeof token) throw std::runtime_error{"a token is 64 hexadecimal digits"};
    for (std::size_t i = 0; i < sizeof token; ++i)
        token[i] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
}

int write_list(const char* where) {
    const Fabric fabric = attach();
    std::uint32_t device = 0;
    check(::nvlf_find_device(fabric.get(), where, &device), "nvlf_find_device");
    nvlf_mem* raw = nullptr;
    check(::nvlf_mem_alloc(fabric.get(), device, NVLF_PAGE_SIZE, 0, &raw), "nvlf_mem_alloc");
    const Mem mem{raw};
    Node* nodes = map(raw);
    const char* words[] = {"one", "address", "space"};
    for (std::size_t i = 0; i < std::size(words); ++i) {
        std::strcpy(nodes[i].word, words[i]); // Shorter than the array, both above.
        nodes[i].next = i + 1 < std::size(words) ? &nodes[i + 1] : nullptr;
    }
    std::uint8_t token[NVLF_TOKEN_LEN];
    check(::nvlf_mem_export(raw, NVLF_ACCESS_READ | NVLF_ACCESS_WRITE, token), "nvlf_mem_export");
    std::printf("%s %p %s\n", hex(token).c_str(), static_cast<void*>(nodes), words_of(nodes).c_str());
    std::fflush(stdout);
    while (std::getchar() != EOF) {}
    std::printf("%s\n", words_of(nodes).c_str());
    return 0;
}

int read_list(const char* text) {
    std::uint8_t token[NVLF_TOKEN_LEN];
    unhex(text, token);
    const Fabric fabric = attach();
    nvlf_mem* raw = nullptr;
    check(::nvlf_mem_import(fabric.get(), token, &raw), "nvlf_mem_import");
    const Mem mem{raw};
    Node* list = map(raw);
    std::printf("%p %s\n", static_cast<void*>(list), words_of(list).c_str());
    for (Node* node = list; node != nullptr; node = node->next)
        for (char* c = node->word; *c != '\0'; ++c)
            *c = static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    const std::string what = argc == 3 ? argv[1] : "";
    try {
        if (what == "write") return write_list(argv[2]);
        if (what == "read") return read_list(argv[2]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "shared_pointer: %s\n", error.what());
        return 1;
    }
    std::fprintf(stderr, "usage: shared_pointer write DEVICE | shared_pointer read TOKEN\n");
    return 2;
}
