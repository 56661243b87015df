#include "graph/device.h"

#include <charconv>

#include "base/check.h"

namespace framejit::graph {
namespace {

struct Row {
  DeviceType type;
  std::string_view name;
};
constexpr Row kRows[] = {{DeviceType::kCpu, "cpu"},   {DeviceType::kCuda, "cuda"},
                         {DeviceType::kXpu, "xpu"},   {DeviceType::kMps, "mps"},
                         {DeviceType::kMeta, "meta"}, {DeviceType::kPrivateUse1, "privateuseone"}};

bool parse_number(std::string_view text, int* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc{} && end == text.data() + text.size() && *out >= 0 && *out < 127;
}

}  // namespace

std::string to_string(Device device) {
  std::string text;
  for (const Row& row : kRows)
    if (row.type == device.type) text = row.name;
  if (text.empty()) text = fmt::format("device{}", static_cast<int>(device.type));
  if (device.index >= 0) text += fmt::format(":{}", device.index);
  return text;
}

std::optional<Device> parse_device(std::string_view text) {
  Device device;
  std::string_view name = text.substr(0, text.find(':'));
  int number = 0;
  if (name.size() != text.size()) {
    if (!parse_number(text.substr(name.size() + 1), &number)) return std::nullopt;
    device.index = static_cast<int8_t>(number);
  }
  for (const Row& row : kRows)
    if (row.name == name) {
      device.type = row.type;
      return device;
    }
  if (name.substr(0, 6) == "device" && parse_number(name.substr(6), &number)) {
    device.type = static_cast<DeviceType>(number);
    return device;
  }
  return std::nullopt;
}

}  // namespace framejit::graph
