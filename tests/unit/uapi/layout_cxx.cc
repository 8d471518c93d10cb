// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "layout.h"

int main() { print_layout(); }
