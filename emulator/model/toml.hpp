// SPDX-License-Identifier: MIT OR GPL-2.0-only
// toml.hpp - toml++ with the options of this library, which includes it from here alone: it is used header-only, and a
// copy that was built with other options must not be mixed in.
#pragma once

#include "model/diagnostic.hpp"

#include <string_view>

// No exceptions from the parser, and nesting that no stack can fail on: the schema needs three levels.
//
// toml++ 3.3 asserts that a table header begins like a key before it looks whether it does: "[=" would abort the process,
// and with NDEBUG, where its assertions become promises to the compiler, do anything. The check that follows reports the
// mistake properly, so the assertions are switched off; tests/fuzz/topology_fuzz.cc watches over what that leaves.
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

namespace nvlf::model {

inline Position at(const toml::source_region& region) { return {region.begin.line, region.begin.column}; }

inline std::string_view type_name(const toml::node& node) {
    switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a decimal number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
    }
}

} // namespace nvlf::model
