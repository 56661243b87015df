// What a hit leaves: what must still be so for all of its guards to hold. Included by the evaluator and the builder
// only.
//
// A guard's outcome follows from memory: the words that its reads went through. The next check compares them as one
// flat list, holders before what they hold, so that each address is known to be alive when it is read: it is held by a
// word that was just seen to be what it was. Dictionaries give one word, their version, or none, where they are
// watched. An object is "pinned" if such a dictionary, or the program itself, has held it all the time; of any other
// only its address is known, and at that address may be a new object: its immutable value is asked again.
//
// What is not memory of a known place (C-level attributes, answers, the thread's state), or changed too often, runs as
// in the full program. A word that differs says only that something changed: the full program decides, and its next hit
// leaves a new snapshot.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/guards/dict_watch.h"
#include "runtime/guards/guard_ops.h"

namespace framejit::runtime {

using Memory __attribute__((may_alias)) = uint64_t;

struct GuardProgram::Snapshot {
  struct Word {
    const Memory* at;
    uint64_t value;
  };
  // What the front has read must be the object that it was.
  struct Root {
    uint32_t reg;
    PyObject* expected;
    uint32_t origin;
  };
  // A read whose result must be the object that it was.
  struct Reread {
    size_t words_before;
    Op op;
    PyObject* expected;
    uint32_t origin;
  };

  // Objects that must not be one of the known ones, nor each other.
  struct Apart {
    uint32_t guard;
    std::vector<PyObject*> known;
    std::vector<uint32_t> read;  // registers
  };

  struct Watched {
    const PyObject* dict;
    uint32_t origin;
  };

  std::vector<Op> front;  // needs the frame alone, so it tells entries apart before anything else is looked at
  std::vector<Root> roots;
  std::vector<Word> words;
  std::vector<uint32_t> origins;  // of words: who is to blame for a change, an index in GuardProgram::changes_
  std::vector<Reread> rereads;
  std::vector<Watched> watched;
  TensorRows tensors;
  std::vector<Op> late;
  std::vector<Apart> apart_sets;  // after all reads
  uint64_t hits = 0;
};

}  // namespace framejit::runtime
