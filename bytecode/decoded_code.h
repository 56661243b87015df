// A code object, decoded once: canonical instructions, control structure, static stack shapes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/py_ref.h"
#include "bytecode/decoded.h"

namespace framejit::bytecode {

// Immutable and shared: users cache it per code object. It does not keep the code object alive: whoever asks for `code`
// holds it, as a frame or a function of it does.
class DecodedCode : public Decoded {
 public:
  PyObject* code = nullptr;
  Ref consts;            // tuple
  Ref names;             // tuple of str
  Ref localsplus_names;  // tuple of str, one per slot of `slots`
  Ref name;
  Ref qualname;  // same as name before 3.11
  Ref filename;
  bool reads_globals = false;  // it looks up names that may be globals or builtins

  BorrowedRef const_at(int32_t index) const { return PyTuple_GET_ITEM(consts.get(), index); }
  BorrowedRef name_at(int32_t index) const { return PyTuple_GET_ITEM(names.get(), index); }
  BorrowedRef slot_name(int32_t slot) const { return PyTuple_GET_ITEM(localsplus_names.get(), slot); }
};
using DecodedCodePtr = std::shared_ptr<const DecodedCode>;

// Throws InternalError on bytecode that the running version's compiler never makes.
DecodedCodePtr decode(BorrowedRef code);

}  // namespace framejit::bytecode
