// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads whole tensors of a safetensors file on one rank: the results of another program.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cubist/io/element_type.hpp"
#include "cubist/io/safetensors_header.hpp"

#include "nn.hpp"

namespace cubist::test
{

class Reference
{
 public:
  explicit Reference(const std::string& path)
  {
    std::ifstream file{path, std::ios::binary | std::ios::ate};
    if (file) bytes_.resize(static_cast<std::size_t>(file.tellg()));
    file.seekg(0).read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
    if (bytes_.size() < 8) throw std::runtime_error{"no reference in " + path};
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), 8);
    data_ = 8 + length;
    header_ = parse_safetensors_header({bytes_.data() + 8, length}, bytes_.size() - data_, path);
  }

  [[nodiscard]] bool has(const std::string& name) const { return header_.find(name) != nullptr; }

  /// An F64 tensor as a matrix whose columns are the last dimension.
  [[nodiscard]] Global<double> matrix(const std::string& name) const
  {
    const auto& info = find(name, ElementType::f64);
    const std::size_t cols = info.shape.back();
    auto m = Global<double>::from_shape({(info.end - info.begin) / sizeof(double) / cols, cols});
    std::memcpy(m.data(), bytes_.data() + data_ + info.begin, info.end - info.begin);
    return m;
  }
  /// The elements of an I64 tensor.
  [[nodiscard]] std::vector<int> ids(const std::string& name) const
  {
    const auto& info = find(name, ElementType::i64);
    std::vector<int> all;
    for (std::uint64_t at = info.begin; at < info.end; at += sizeof(std::int64_t))
    {
      std::int64_t id = 0;
      std::memcpy(&id, bytes_.data() + data_ + at, sizeof id);
      all.push_back(static_cast<int>(id));
    }
    return all;
  }
  /// The names of all tensors, sorted.
  [[nodiscard]] std::vector<std::string> names() const
  {
    std::vector<std::string> all;
    for (const auto& tensor : header_.tensors) all.push_back(tensor.name);
    std::sort(all.begin(), all.end());
    return all;
  }
  [[nodiscard]] std::string bytes(const std::string& name) const
  {
    const auto& info = *header_.find(name);
    return {bytes_.data() + data_ + info.begin, info.end - info.begin};
  }
  [[nodiscard]] std::vector<std::size_t> shape(const std::string& name) const
  {
    const auto& shape = header_.find(name)->shape;
    return {shape.begin(), shape.end()};
  }

 private:
  [[nodiscard]] const TensorInfo& find(const std::string& name, ElementType type) const
  {
    const auto* info = header_.find(name);
    if (info == nullptr || info->type != type)
      throw std::runtime_error{"the reference has no " + name + " of this type"};
    return *info;
  }

  std::vector<char> bytes_;
  std::size_t data_ = 0;
  SafetensorsHeader header_;
};

}  // namespace cubist::test
