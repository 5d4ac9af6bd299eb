// SPDX-License-Identifier: BSD-3-Clause
// What the files in this folder include, parsed once for all of them.
#include "cubist/backend/threads.hpp"
#include "cubist/dist/global.hpp"
#include "cubist/dist/redistribute.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/nn/layers/linear.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/summa25d.hpp"
#include "cubist/scheme/summa2d.hpp"
