// What an entry holds in place of the program's objects that its guards compare with: a text that is compared by value
// needs to be an equal one only, and of a class among the keys of a dictionary only the identity counts.
#pragma once

#include <vector>

#include "graph/capture.h"
#include "runtime/cache/const_table.h"

namespace framejit::runtime {

// The objects of a capture. Texts and bytes that nothing but guards by value name are copies. In the tuples of guards
// on keys and on items of sets, objects that are worth watching are weak references, as same_plain_data() expects.
ConstTable objects_of(const graph::Capture& capture, const ObjectPool& pool);

// Those of the weak references: when one dies, so must the entry.
std::vector<PyObject*> weak_items(const graph::Capture& capture, const ConstTable& objects);

}  // namespace framejit::runtime
