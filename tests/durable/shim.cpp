// SPDX-License-Identifier: BSD-3-Clause

// A library for LD_PRELOAD that records what a program does to its files, and checks of each rename
// that
//
//   - every descriptor through which the file was written had an fsync after its last write;
//   - the folder has an fsync after it.
//
// Otherwise a crash of the machine could leave an incomplete file under the final name, or the
// previous one. The first violation ends the program, with exit code 99 and a message. At its end
// the program's number of checked renames goes to the file that the environment's
// CUBIST_DURABLE_RENAMES names. Writes by pwrite and ftruncate count, which cubist's files use;
// renames of files that were written otherwise are not checked.

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

using Inode = std::pair<dev_t, ino_t>;

struct State
{
  std::mutex mutex;
  std::map<Inode, std::set<int>> unsynced;  // descriptors with writes after their last fsync
  std::map<Inode, std::string> folders;     // those with a rename after their last fsync
  std::set<Inode> written;
  int renames = 0;
};

// Never destroyed, as other libraries may close files after this one has ended.
State& state()
{
  static State& s = *new State;
  return s;
}

template <class F>
F* next(const char* name)
{
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

/// The file of a descriptor, if it is a regular file or a folder.
bool find(int descriptor, Inode& inode)
{
  struct stat about = {};
  if (::fstat(descriptor, &about) != 0) return false;
  inode = {about.st_dev, about.st_ino};
  return S_ISREG(about.st_mode) || S_ISDIR(about.st_mode);
}

[[noreturn]] void fail(const std::string& what)
{
  std::fprintf(stderr, "not durable: %s\n", what.c_str());
  ::_exit(99);
}

void note_write(int descriptor)
{
  Inode inode;
  if (!find(descriptor, inode)) return;
  const std::lock_guard lock{state().mutex};
  state().unsynced[inode].insert(descriptor);
  state().written.insert(inode);
}

[[gnu::destructor]] void report()
{
  State& s = state();
  const std::lock_guard lock{s.mutex};
  if (!s.folders.empty())
    fail("no fsync of the folder after the rename to " + s.folders.begin()->second);
  const char* file = std::getenv("CUBIST_DURABLE_RENAMES");
  std::FILE* out = file != nullptr ? std::fopen(file, "a") : nullptr;
  if (out == nullptr) return;
  std::fprintf(out, "%d\n", s.renames);
  std::fclose(out);
}

}  // namespace

extern "C" {

ssize_t pwrite(int descriptor, const void* data, std::size_t size, off_t to)
{
  static auto* const call = next<decltype(pwrite)>("pwrite");
  note_write(descriptor);
  return call(descriptor, data, size, to);
}

int ftruncate(int descriptor, off_t size) noexcept
{
  static auto* const call = next<int(int, off_t)>("ftruncate");
  note_write(descriptor);
  return call(descriptor, size);
}

int fsync(int descriptor)
{
  static auto* const call = next<decltype(fsync)>("fsync");
  const int result = call(descriptor);
  Inode inode;
  if (result != 0 || !find(descriptor, inode)) return result;
  const std::lock_guard lock{state().mutex};
  if (const auto file = state().unsynced.find(inode); file != state().unsynced.end())
    file->second.erase(descriptor);
  state().folders.erase(inode);
  return result;
}

int rename(const char* from, const char* to) noexcept
{
  static auto* const call = next<int(const char*, const char*)>("rename");
  struct stat file = {};
  struct stat folder = {};
  const std::string target{to};
  const auto slash = target.rfind('/');
  const std::string parent = slash == target.npos ? "." : target.substr(0, slash + 1);
  const bool exists = ::stat(from, &file) == 0 && ::stat(parent.c_str(), &folder) == 0;
  const Inode inode{file.st_dev, file.st_ino};
  const std::lock_guard lock{state().mutex};
  const bool checked = exists && state().written.count(inode) > 0;
  if (checked)
  {
    const auto& descriptors = state().unsynced[inode];
    if (!descriptors.empty())
      fail("no fsync after the last write to " + std::string{from} + " by " +
           std::to_string(descriptors.size()) + " descriptors, before the rename to " + target);
  }
  const int result = call(from, to);
  if (result != 0 || !checked) return result;
  ++state().renames;
  state().unsynced.erase(inode);
  state().written.erase(inode);  // a file that is removed later may leave its number to another
  state().folders[{folder.st_dev, folder.st_ino}] = target;
  return result;
}

}  // extern "C"
