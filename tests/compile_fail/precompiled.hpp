// SPDX-License-Identifier: BSD-3-Clause
// The headers that the files in this folder include, parsed once for all of them.
#include "cubist/backend/threads.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/matrix/redistribute.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/summa25d.hpp"
#include "cubist/scheme/summa2d.hpp"
