// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The main() of a fuzz target where there is no libFuzzer: runs every corpus file as it is, then mutations of them until
// the time is over. Blind, unlike libFuzzer, but it needs no clang, runs in every `make test`, and its mutations follow
// from a fixed seed: a failure is repeatable by its printed iteration (--only=N runs that one alone).
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" [[gnu::weak]] int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t max_input = 64 * 1024; // libFuzzer's habit: longer inputs find the same things, slower.

// splitmix64: the same sequence on every machine, which std::uniform_int_distribution does not promise.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_{seed} {}
    std::uint64_t next() {
        state_ += 0x9e3779b97f4a7c15U;
        auto z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }
    std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }

private:
    std::uint64_t state_;
};

void overwrite(Bytes& input, Random& random, std::uint64_t value, std::size_t width) {
    if (input.size() < width) return;
    std::memcpy(input.data() + random.below(input.size() - width + 1), &value, width);
}

// Values on which lengths, indices and sizes break.
std::uint64_t edge(Random& random) {
    static constexpr std::uint64_t edges[] = {0,          1,          0x7f,       0x80,  0xff,      0xffff,
                                              0x7fffffff, 0x80000000, 0xffffffff, ~0ULL, ~0ULL >> 1};
    return edges[random.below(std::size(edges))];
}

void mutate_once(Bytes& input, Random& random, const std::vector<Bytes>& corpus) {
    const auto at = [&] { return static_cast<std::ptrdiff_t>(random.below(input.size())); };
    switch (random.below(7)) {
    case 0:
        if (!input.empty()) input[random.below(input.size())] ^= static_cast<std::uint8_t>(1U << random.below(8));
        break;
    case 1: overwrite(input, random, random.next(), 1); break;
    case 2: overwrite(input, random, edge(random), std::size_t{1} << random.below(4)); break;
    case 3:
        if (!input.empty()) input.resize(random.below(input.size()));
        break;
    case 4: input.insert(input.end(), random.below(64) + 1, static_cast<std::uint8_t>(random.next())); break;
    case 5: // Repeats a piece of itself elsewhere: a second record, a key given twice.
        if (!input.empty()) {
            const auto from = at();
            const auto longest = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(input.size()) - from);
            const Bytes piece(input.begin() + from,
                              input.begin() + from + static_cast<std::ptrdiff_t>(1 + random.below(longest)));
            input.insert(input.begin() + at(), piece.begin(), piece.end());
        }
        break;
    case 6: { // The head of one, the tail of another.
        const auto& other = corpus[random.below(corpus.size())];
        if (other.empty() || input.empty()) break;
        input.resize(random.below(input.size()));
        input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(random.below(other.size())), other.end());
        break;
    }
    }
    if (input.size() > max_input) input.resize(max_input);
}

// An iteration is a function of its number, so that one can be repeated without those before it.
Bytes mutation(std::uint64_t iteration, const std::vector<Bytes>& corpus) {
    Random random{iteration};
    auto input = corpus[random.below(corpus.size())];
    for (auto n = 1 + random.below(4); n > 0; --n) mutate_once(input, random, corpus);
    return input;
}

std::uint64_t current = 0; // For the message of a crash.

// An exact-size heap copy, so that ASan sees a read past the end.
void execute(const Bytes& input) {
    auto* copy = static_cast<std::uint8_t*>(std::malloc(std::max<std::size_t>(input.size(), 1)));
    if (copy == nullptr) std::abort();
    if (!input.empty()) std::memcpy(copy, input.data(), input.size());
    LLVMFuzzerTestOneInput(copy, input.size());
    std::free(copy);
}

bool number(std::string_view text, std::uint64_t& ret_value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ret_value);
    return error == std::errc{} && end == text.data() + text.size();
}

std::vector<Bytes> read_corpus(const std::vector<std::string>& paths) {
    std::vector<std::filesystem::path> files;
    for (const auto& path : paths) {
        if (!std::filesystem::is_directory(path)) {
            files.emplace_back(path);
            continue;
        }
        for (const auto& entry : std::filesystem::recursive_directory_iterator{path})
            if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end()); // A directory's own order differs between machines.
    std::vector<Bytes> corpus;
    for (const auto& file : files) {
        std::ifstream in{file, std::ios::binary};
        if (!in) {
            std::fprintf(stderr, "cannot read %s\n", file.c_str());
            std::exit(2);
        }
        corpus.emplace_back(std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{});
    }
    return corpus;
}

// Async-signal-safe: it speaks for a process that is dying.
void announce(const char* what, std::uint64_t value) {
    std::array<char, 96> line{};
    const int length =
        std::snprintf(line.data(), line.size(), "%s%llu\n", what, static_cast<unsigned long long>(value));
    [[maybe_unused]] const auto written = ::write(2, line.data(), static_cast<std::size_t>(length));
}

void announce_iteration() { announce("fuzz_replay: to repeat this one alone: --only=", current); }

// Whoever dies says in which iteration. Sanitizers have a hook of their own and need their signals.
void announce_at_death() {
    if (__sanitizer_set_death_callback != nullptr) {
        __sanitizer_set_death_callback(announce_iteration);
        return;
    }
    for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
        struct sigaction action {};
        action.sa_handler = [](int received) {
            announce_iteration();
            ::raise(received); // With the default action, restored by SA_RESETHAND.
        };
        action.sa_flags = static_cast<int>(SA_RESETHAND); // Unsigned in the header, int in the struct.
        ::sigaction(number, &action, nullptr);
    }
}

} // namespace

int main(int argc, char** argv) {
    if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
    std::uint64_t seconds = 2;
    std::uint64_t only = 0;
    std::vector<std::string> paths;
    for (int i = 1; i < argc; ++i) {
        const std::string_view arg{argv[i]};
        constexpr std::string_view seconds_option{"--seconds="};
        constexpr std::string_view only_option{"--only="};
        bool good = true;
        if (arg.substr(0, seconds_option.size()) == seconds_option)
            good = number(arg.substr(seconds_option.size()), seconds);
        else if (arg.substr(0, only_option.size()) == only_option) good = number(arg.substr(only_option.size()), only);
        else if (arg.substr(0, 1) == "-") good = false;
        else paths.emplace_back(arg);
        if (!good) {
            std::fprintf(stderr, "usage: %s [--seconds=N] [--only=ITERATION] CORPUS...\n", argv[0]);
            return 2;
        }
    }
    const auto corpus = read_corpus(paths);
    if (corpus.empty()) {
        std::fprintf(stderr, "%s: no corpus: name a folder that holds at least one file\n", argv[0]);
        return 2;
    }
    announce_at_death();
    if (only != 0) {
        current = only;
        execute(mutation(only, corpus));
        return 0;
    }
    for (const auto& input : corpus) execute(input);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{seconds};
    for (current = 1; std::chrono::steady_clock::now() < end; ++current) execute(mutation(current, corpus));
    announce("iterations: ", current - 1);
    return 0;
}
