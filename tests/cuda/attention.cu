// SPDX-License-Identifier: BSD-3-Clause

// Compares attention in one pass on a GPU with attention by blocks of scores in double on the host.

#include <cstddef>
#include <string>

#include "cubist/engine/cuda/engine.hpp"

#include "attention_cases.hpp"
#include "checks.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

/// Copies a matrix from the host to the device.
template <class T>
class OnDevice
{
 public:
  explicit OnDevice(MatrixView<const T> host)
      : host_{host},
        buffer_(host.rows() * host.ld()),
        view_{buffer_.data(), host.rows(), host.cols(), host.ld()}
  {
    CudaEngine{}.upload(host, view_);
  }
  [[nodiscard]] MatrixView<T> view() const { return view_; }
  void download(MatrixView<T> to) const { CudaEngine{}.download(MatrixView<const T>{view_}, to); }

 private:
  MatrixView<const T> host_;
  CudaBuffer<T> buffer_;
  MatrixView<T> view_;
};

template <class T>
void compare(Comparison& found, const AttentionCase& c, std::size_t head_size)
{
  const CudaEngine engine;
  AttentionProblem<T> problem{c, head_size};
  const std::string what =
      element_name<T>() + ", heads of " + std::to_string(head_size) + ", " + c.name + ": ";
  const OnDevice<T> q{problem.q()}, k{problem.k()}, v{problem.v()}, d_o{problem.d_o()},
      o{problem.o()}, dq{problem.dq()}, dk{problem.dk()}, dv{problem.dv()};
  CudaBuffer<float> l(problem.rows()), d(problem.rows());
  const MatrixView<float> l_row{l.data(), {1, l.size()}}, d_row{d.data(), {1, d.size()}};
  using In = MatrixView<const T>;
  found.check(engine.fused_attention(problem.shape(), In{q.view()}, In{k.view()}, In{v.view()},
                                     o.view(), l_row),
              what + "is not supported");
  found.check(engine.fused_attention_gradients(problem.shape(), In{q.view()}, In{k.view()},
                                               In{v.view()}, In{o.view()}, l_row, In{d_o.view()},
                                               dq.view(), dk.view(), dv.view(), d_row),
              what + "has no gradients");
  o.download(problem.o()), dq.download(problem.dq());
  dk.download(problem.dk()), dv.download(problem.dv());
  for (const auto& [name, error] : problem.errors())
    found.check(error < problem.allowed(),
                what + name + " is off by " + std::to_string(error) + " of its largest element");
}

}  // namespace

void cubist::test::check_attention(Comparison& found)
{
  auto cases = attention_cases();
  cases.push_back({"several tiles", 2, 300, 300, 6, 3, true});
  for (const auto& c : cases)
    for (const std::size_t head_size : {64U, 128U})
    {
      compare<bfloat16>(found, c, head_size);
      compare<cubist::half>(found, c, head_size);
    }
}
