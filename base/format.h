// fmt::format and its checks of format strings at compile time. What is not a template is compiled once, in format.cpp:
// fmt in its header-only form would cost each file that formats a string four seconds. A file that needs more than
// fmt::format (join, formatters of its own) includes <fmt/format.h> itself.
#pragma once

#include <fmt/core.h>
