// A placement: type and index. The numbers are those of c10::DeviceType.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace framejit::graph {

enum class DeviceType : int8_t { kCpu = 0, kCuda = 1, kXpu = 12, kMps = 13, kMeta = 14, kPrivateUse1 = 20 };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int8_t index = -1;  // -1: the current one of that type; always -1 for the CPU

  constexpr bool is_cpu() const { return type == DeviceType::kCpu; }
  constexpr bool is_cuda() const { return type == DeviceType::kCuda; }
  constexpr bool is_meta() const { return type == DeviceType::kMeta; }
  friend constexpr bool operator==(Device a, Device b) { return a.type == b.type && a.index == b.index; }
  friend constexpr bool operator!=(Device a, Device b) { return !(a == b); }
};

std::string to_string(Device device);  // "cpu", "cuda:0", "device12:3" for types without a name here
std::optional<Device> parse_device(std::string_view text);

}  // namespace framejit::graph
