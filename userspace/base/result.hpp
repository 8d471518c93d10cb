// SPDX-License-Identifier: MIT OR GPL-2.0-only
// result.hpp - a value or the reason why there is none.
//
// The C side of the project speaks negative errno; inside C++ an errno that looks like an int is soon mistaken for a
// count. Errno is a type of its own, Result<T> holds it or a T, and neither can be ignored. g++ 12 has no
// std::expected; this is the part of it that we use.
#pragma once

#include <cerrno>
#include <type_traits>
#include <utility>
#include <variant>

namespace nvlf {

// A positive errno value. 0 means success and only occurs as the return value of functions that have no other result.
class [[nodiscard]] Errno {
public:
    constexpr Errno() noexcept = default;
    constexpr explicit Errno(int positive) noexcept : value_{positive} {}

    [[nodiscard]] constexpr int value() const noexcept { return value_; }
    // As the C APIs return it.
    [[nodiscard]] constexpr int negative() const noexcept { return -value_; }
    [[nodiscard]] constexpr bool failed() const noexcept { return value_ != 0; }
    friend constexpr bool operator==(Errno, Errno) noexcept = default;

private:
    int value_ = 0;
};

// The errno of a system call that just failed.
[[nodiscard]] inline Errno last_errno() noexcept { return Errno{errno}; }

template <class T>
class [[nodiscard]] Result {
    static_assert(!std::is_same_v<T, Errno>, "return Errno itself");

public:
    // Implicit, so that `return value;` and `return Errno{EPROTO};` both read naturally.
    Result(T value) noexcept(std::is_nothrow_move_constructible_v<T>)
        : state_{std::in_place_index<0>, std::move(value)} {}
    Result(Errno error) noexcept : state_{std::in_place_index<1>, error} {}

    [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }

    // Only after ok(); std::get keeps a check in all builds.
    [[nodiscard]] T& value() & { return std::get<0>(state_); }
    [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
    [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    // Errno{} (success) when there is a value.
    [[nodiscard]] Errno error() const noexcept {
        const Errno* e = std::get_if<1>(&state_);
        return e != nullptr ? *e : Errno{};
    }

private:
    std::variant<T, Errno> state_;
};

} // namespace nvlf
