// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Loads the weights of a transformer from files of Hugging Face: model.safetensors, or several
// files with an index. Each rank reads its own blocks. save_weights.hpp saves weights.
//
// Elements that one rank sends: none, or an all_reduce of one number if the files contain the table
// of a tied model twice.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/io/safetensors_folder.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/nn/transformer/save_weights.hpp"
#include "cubist/nn/transformer/tensor_names.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

inline constexpr const char* logits_name = "lm_head.weight";

/// Returns the tensor's name in these files. GPT-2's files on the hub lack the prefix
/// "transformer.", and files of a tied model may store its one table under either of its names.
[[nodiscard]] inline std::string name_in(const SafetensorsFolder& files, const std::string& name,
                                         bool tied)
{
  if (files.has(name)) return name;
  const std::string prefix = "transformer.";
  const std::string rest = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  if (files.has(rest)) return rest;
  const bool is_table = rest == "wte.weight" || rest == "model.embed_tokens.weight";
  return tied && is_table && files.has(logits_name) ? logits_name : name;
}

/// @throws DataError if the files contain the table of a tied model twice, with different values:
/// transformers 4 would compute the logits from one of them, transformers 5 from the other
template <class M>
void require_one_table(const SafetensorsFolder& files, const std::string& table, const M& mesh)
{
  if (!files.has(logits_name) || table == logits_name) return;
  const bool same = files.file_of(table).agrees(table, files.file_of(logits_name), logits_name,
                                                static_cast<std::uint64_t>(mesh.rank()),
                                                static_cast<std::uint64_t>(mesh.world().size()));
  const auto others = all_reduced(mesh, std::uint64_t{same ? 0U : 1U});
  require<DataError>(others == 0, files.path(), " has different values in ", logits_name, " and ",
                     table,
                     ", but config.json says that they are tied, so it is unclear how logits are "
                     "computed; set tie_word_embeddings to false there, or remove one of them");
}

/// The place of a parameter in the files.
struct StoredParameter
{
  std::string name;
  const SafetensorsFile* file;
  StoredMatrix matrix;
  std::size_t first_column;  // the parameter's first column in the matrix
};

/// @throws DataError, ShapeError as `load_weights` does for one parameter
template <class T, class P>
[[nodiscard]] StoredParameter find_stored(const SafetensorsFolder& files, const P& parameter,
                                          const TransformerConfig& config)
{
  const auto place = tensor_place(config, parameter.name);
  const auto name = name_in(files, place.name, config.tied);
  const SafetensorsFile& file = files.file_of(name);
  const StoredMatrix m = file.template matrix<T>(name, place.transposed);
  const Shape shape = parameter.shape();
  const Shape wanted{shape.rows, shape.cols * place.parts};
  require<ShapeError>(m.shape == wanted, file.path(), " has ", name, " of ",
                      op_shape(place.transposed, m.shape), ", but ", parameter.name, " needs ",
                      op_shape(place.transposed, wanted), "; use the config.json of these files");
  return {name, &file, m, place.part * shape.cols};
}

/// Whether a tensor that belongs to no parameter can be ignored: a mask, frequencies, or the second
/// name of a tied table.
[[nodiscard]] inline bool is_redundant(const std::string& name, bool tied)
{
  return name.ends_with(".attn.bias") || name.ends_with(".masked_bias") ||
         name.ends_with(".inv_freq") || (tied && name == logits_name);
}

/// @throws DataError for a tensor that is not a parameter of the transformer
inline void require_all_read(const SafetensorsFolder& files,
                             const std::vector<StoredParameter>& stored, bool tied)
{
  std::set<std::string> read;
  for (const auto& s : stored) read.insert(s.name);
  for (const auto& name : files.names())
    require<DataError>(read.count(name) > 0 || is_redundant(name, tied), files.path(),
                       " has a tensor ", name,
                       " that this transformer does not have, so the result would be another "
                       "model's; use the config.json of these files");
}

}  // namespace detail

/// Loads the parameters of a transformer from files of Hugging Face. F16, BF16, F32 and F64 are
/// converted to T, or to what the model stores (core/stored_weights.hpp). LoRA's matrices stay as
/// they are (nn/transformer/adapter.hpp). Every rank of the mesh calls it; idle ranks may, too.
/// @param path the folder, or its one safetensors file
/// @throws DataError for a tensor that is missing, of another type, or damaged, and for one that
/// the transformer does not have; ShapeError for one of another shape. After these errors, no
/// parameter has changed, unless a file was damaged, or changed during the call. NumericError for a
/// weight that is a NaN or infinite if the model stores weights in fewer bits.
template <class T, class M>
void load_weights(const std::filesystem::path& path, const Parameters<T, M>& parameters,
                  const TransformerConfig& config)
{
  if (parameters.empty() || !parameters.front().value.mesh.active()) return;
  const SafetensorsFolder files{path};
  std::vector<detail::StoredParameter> stored;
  Parameters<T, M> weights;
  for (const auto& p : parameters)
  {
    if (is_of_lora(p.name)) continue;
    weights.push_back(p);
    stored.push_back(detail::find_stored<T>(files, p, config));
  }
  detail::require_all_read(files, stored, config.tied);
  if (config.tied)
  {
    const auto table = tensor_place(config, "embedding.weight").name;
    detail::require_one_table(files, detail::name_in(files, table, true),
                              parameters.front().value.mesh);
  }
  for (std::size_t i = 0; i < weights.size(); ++i)
  {
    const auto& from = stored[i];
    const auto& p = weights[i];
    if (!p.stored)
      from.file->read(from.matrix, from.first_column, p.value);
    else
      p.stored->set({from.name + " in " + from.file->path(), from.matrix.transposed,
                     [&](Block block, MatrixView<T> to) {
                       block.cols.offset += from.first_column;
                       from.file->read(from.matrix, block, p.value.mesh.engine(), to);
                     }});
  }
}

}  // namespace cubist::CUBIST_ABI
