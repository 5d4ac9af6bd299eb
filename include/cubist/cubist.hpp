// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// All of cubist on one machine: the schemes, the networks, and ranks as threads.

#include "cubist/backend/threads.hpp"
#include "cubist/dist/complete.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/global.hpp"
#include "cubist/dist/redistribute.hpp"
#include "cubist/io/checkpoints.hpp"
#include "cubist/io/npy.hpp"
#include "cubist/io/safetensors.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/nn/mlp.hpp"
#include "cubist/nn/numerics_monitor.hpp"
#include "cubist/nn/optimizer.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/grid2d.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/megatron1d.hpp"
#include "cubist/scheme/summa25d.hpp"
#include "cubist/scheme/summa2d.hpp"
#include "cubist/testing/counting.hpp"
