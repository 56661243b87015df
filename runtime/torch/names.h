// Named dimensions, which newer releases of torch do without. A graph does not hold them.
#pragma once

namespace framejit::torchlib {

template <class T>
bool has_names(const T& tensor) {
  if constexpr (requires { tensor.has_names(); }) {
    return tensor.has_names();
  } else {
    return false;
  }
}

}  // namespace framejit::torchlib
