// All inference rules, for the generated table.
#pragma once

#include "graph/infer/convolution.h"
#include "graph/infer/creation.h"
#include "graph/infer/indexing.h"
#include "graph/infer/linalg.h"
#include "graph/infer/normalisation.h"
#include "graph/infer/pointwise.h"
#include "graph/infer/random.h"
#include "graph/infer/reduction.h"
#include "graph/infer/spectral.h"
#include "graph/infer/views.h"
