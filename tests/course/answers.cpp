// SPDX-License-Identifier: BSD-3-Clause
// Marks an answer to an exercise of docs/course.md: course_answers ANSWER [FILE], which writes a
// trace to FILE.json.

#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "1_all_reduce.hpp"
#include "2_summa.hpp"
#include "3_count.hpp"
#include "4_summa25d.hpp"
#include "5_mesh.hpp"
#include "course.hpp"

int main(int argc, char** argv)
{
  using namespace answers;
  namespace c = course;
  const std::string name = argc > 1 ? argv[1] : "";
  --argc, ++argv;
  const std::map<std::string, std::function<int()>> marked = {
      {"all_reduce", [&] { return c::check_all_reduce(argc, argv, all_reduce); }},
      {"all_reduce_whole", [&] { return c::check_all_reduce(argc, argv, all_reduce_whole); }},
      {"all_reduce_lacks_a_rank",
       [&] { return c::check_all_reduce(argc, argv, all_reduce_lacks_a_rank); }},
      {"all_reduce_counts_twice",
       [&] { return c::check_all_reduce(argc, argv, all_reduce_counts_twice); }},
      {"all_reduce_all_send", [&] { return c::check_all_reduce(argc, argv, all_reduce_all_send); }},
      {"all_reduce_of_the_library",
       [&] { return c::check_all_reduce(argc, argv, all_reduce_of_the_library); }},
      {"summa", [&] { return c::check_summa(argc, argv, summa); }},
      {"summa_wrong_owner", [&] { return c::check_summa(argc, argv, summa_wrong_owner); }},
      {"summa_without_messages",
       [&] { return c::check_summa(argc, argv, summa_without_messages); }},
      {"summa_long_panels", [&] { return c::check_summa(argc, argv, summa_long_panels); }},
      {"summa_crossed_calls", [&] { return c::check_summa(argc, argv, summa_crossed_calls); }},
      {"count", [&] { return c::check_count(argc, argv, sent_by_all, formula); }},
      {"count_of_one", [&] { return c::check_count(argc, argv, sent_by_one, formula); }},
      {"count_with_the_sum",
       [&] { return c::check_count(argc, argv, sent_with_the_sum, formula); }},
      {"count_without_padding",
       [&] { return c::check_count(argc, argv, sent_by_all, formula_without_padding); }},
      {"count_swapped", [&] { return c::check_count(argc, argv, sent_by_all, formula_swapped); }},
      {"summa25d",
       [&] { return c::check_summa25d(argc, argv, forward, sum_gradient, formula25d); }},
      {"summa25d_wrong_owner",
       [&] {
         return c::check_summa25d(argc, argv, forward_wrong_owner, sum_gradient, formula25d);
       }},
      {"summa25d_of_one_layer",
       [&] { return c::check_summa25d(argc, argv, forward, sum_of_one_layer, formula25d); }},
      {"summa25d_on_one_layer",
       [&] { return c::check_summa25d(argc, argv, forward, sum_on_one_layer, formula25d); }},
      {"summa25d_formula",
       [&] { return c::check_summa25d(argc, argv, forward, sum_gradient, formula_of_one_w); }},
      {"mesh", [&] { return c::check_mesh(argc, argv, fastest); }},
      {"mesh_2d", [&] { return c::check_mesh(argc, argv, fastest_2d); }},
      {"mesh_forward", [&] { return c::check_mesh(argc, argv, fastest_forward); }},
      {"mesh_square", [&] { return c::check_mesh(argc, argv, most_square); }},
      {"mesh_of_four", [&] { return c::check_mesh(argc, argv, too_few_ranks); }}};
  const auto answer = marked.find(name);
  if (answer != marked.end()) return answer->second();
  std::cerr << "got the answer '" << name << "', which is none; use one of";
  for (const auto& [known, run] : marked) std::cerr << ' ' << known;
  std::cerr << '\n';
  return 2;
}
