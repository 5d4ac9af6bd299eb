// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Includes the schemes, the networks, and ranks as threads. A program includes files (cubist/io/…),
// the planner (cubist/plan/…) and other backends itself.

#include "cubist/backend/threads.hpp"
#include "cubist/compiled/loops.hpp"
#include "cubist/gradients/gradient_accumulation.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/matrix/redistribute.hpp"
#include "cubist/matrix/sum_partial.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/pipeline/pipelined_mlp.hpp"
#include "cubist/scheme/catalogue.hpp"
#include "cubist/scheme/mesh.hpp"
#include "cubist/scheme/pipeline.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/learning_rate.hpp"
#include "cubist/training/loss_scale.hpp"
#include "cubist/training/numerics_monitor.hpp"
#include "cubist/training/sharded_optimizer.hpp"
#include "cubist/training/step.hpp"
#include "cubist/version.hpp"
