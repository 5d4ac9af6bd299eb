// SPDX-License-Identifier: BSD-3-Clause

// A library for LD_PRELOAD that records what a program does to its files, and checks at each rename
// that
//
//   - every descriptor through which the file was written had an fsync after its last write;
//   - the folder has an fsync after it;
//   - a description (*.json) that was removed from the folder before it had an fsync between them;
//   - a folder that was made for the file had an fsync of its parent.
//
// Otherwise a crash of the machine could leave an incomplete file under the final name, or the
// previous file, or an index that describes a mixture of files. The first violation ends the
// program with exit code 99 and a message. When the program ends, the number of checked renames
// goes to the file that the environment's CUBIST_DURABLE_RENAMES names. Tests interrupt calls by
// functions at the end of this file (support/interrupted.hpp). Only writes by pwrite and ftruncate
// count, which cubist's files use; renames of files that were written in other ways are not
// checked.

#include <cerrno>
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
  std::map<Inode, std::string> folders;     // folders with a rename after their last fsync
  std::set<Inode> written;
  std::map<Inode, std::string> removed;  // folders with a removed description and no fsync since
  std::map<Inode, std::string> made;     // folders with a new folder and no fsync since
  std::map<Inode, Inode> parents;        // parents of the folders that were made
  int renames = 0;
  long calls = -1;  // calls before the one to interrupt; negative: interrupt none
  bool names = false;
  bool dies = false;
  int error = 0;  // of the interrupted call
  bool interrupts = false;
  std::map<std::string, int> refused;  // calls to fail once, with their errors
  const char* interrupted = nullptr;
};

// The state is never destroyed, as other libraries may close files after this one has ended.
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

/// Finds the file of a descriptor, if it is a regular file or a folder.
bool find(int descriptor, Inode& inode)
{
  struct stat about = {};
  if (::fstat(descriptor, &about) != 0) return false;
  inode = {about.st_dev, about.st_ino};
  return S_ISREG(about.st_mode) || S_ISDIR(about.st_mode);
}

/// Finds the folder of a path, if it exists.
bool find_folder(const std::string& path, Inode& inode)
{
  const auto slash = path.rfind('/');
  const std::string parent = slash == path.npos ? "." : path.substr(0, slash + 1);
  struct stat about = {};
  if (::stat(parent.c_str(), &about) != 0) return false;
  inode = {about.st_dev, about.st_ino};
  return true;
}

[[nodiscard]] bool is_interrupting()
{
  const std::lock_guard lock{state().mutex};
  return state().interrupts;
}

/// Whether this call is the one to interrupt, and so must fail. If processes die, this ends the
/// process.
/// @param name  whether the call changes the name of a file
bool fails(const char* call, bool name)
{
  const std::lock_guard lock{state().mutex};
  State& s = state();
  if (const auto found = s.refused.find(call); found != s.refused.end())
  {
    errno = found->second;
    s.refused.erase(found);
    return true;
  }
  if (s.calls < 0 || (s.names && !name) || s.calls-- > 0) return false;
  s.interrupted = call;
  if (s.dies) ::_exit(98);
  errno = s.error;
  return true;
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
  if (fails("pwrite", false)) return -1;
  note_write(descriptor);
  return call(descriptor, data, size, to);
}

int ftruncate(int descriptor, off_t size) noexcept
{
  static auto* const call = next<int(int, off_t)>("ftruncate");
  if (fails("ftruncate", false)) return -1;
  note_write(descriptor);
  return call(descriptor, size);
}

int fsync(int descriptor)
{
  static auto* const call = next<decltype(fsync)>("fsync");
  if (fails("fsync", false)) return -1;
  const int result = is_interrupting() ? 0 : call(descriptor);
  Inode inode;
  if (result != 0 || !find(descriptor, inode)) return result;
  const std::lock_guard lock{state().mutex};
  if (const auto file = state().unsynced.find(inode); file != state().unsynced.end())
    file->second.erase(descriptor);
  state().folders.erase(inode);
  state().removed.erase(inode);
  state().made.erase(inode);
  return result;
}

int remove(const char* path) noexcept
{
  static auto* const call = next<int(const char*)>("remove");
  if (fails("remove", true)) return -1;
  struct stat file = {};
  const bool exists = ::stat(path, &file) == 0;
  const int result = call(path);
  if (result == 0 && exists)
  {
    // Another file may get the descriptor's number.
    const std::lock_guard lock{state().mutex};
    state().unsynced.erase({file.st_dev, file.st_ino});
    state().written.erase({file.st_dev, file.st_ino});
  }
  Inode folder;
  if (result != 0 || !std::string{path}.ends_with(".json") || !find_folder(path, folder))
    return result;
  const std::lock_guard lock{state().mutex};
  state().removed[folder] = path;
  return result;
}

int mkdir(const char* path, mode_t mode) noexcept
{
  static auto* const call = next<int(const char*, mode_t)>("mkdir");
  if (fails("mkdir", true)) return -1;
  const int result = call(path, mode);
  struct stat about = {};
  Inode parent;
  if (result != 0 || ::stat(path, &about) != 0 || !find_folder(path, parent)) return result;
  const Inode folder{about.st_dev, about.st_ino};
  const std::lock_guard lock{state().mutex};
  auto& parents = state().parents;
  // The number may belong to a folder that is gone, together with those in it; else parents could
  // form a ring.
  std::erase_if(parents, [&](const auto& entry) { return entry.second == folder; });
  parents[folder] = parent;
  state().made.erase(folder);
  state().made[parent] = path;
  return result;
}

int rename(const char* from, const char* to) noexcept
{
  static auto* const call = next<int(const char*, const char*)>("rename");
  if (fails("rename", true)) return -1;
  struct stat file = {};
  Inode folder;
  const std::string target{to};
  const bool exists = ::stat(from, &file) == 0 && find_folder(target, folder);
  const Inode inode{file.st_dev, file.st_ino};
  const std::lock_guard lock{state().mutex};
  State& s = state();
  const bool checked = exists && s.written.count(inode) > 0;
  if (checked)
  {
    const auto& descriptors = s.unsynced[inode];
    if (!descriptors.empty())
      fail("no fsync after the last write to " + std::string{from} + " by " +
           std::to_string(descriptors.size()) + " descriptors, before the rename to " + target);
    if (const auto other = s.removed.find(folder); other != s.removed.end())
      fail("no fsync after the removal of " + other->second + ", before the rename to " + target);
    for (auto at = s.parents.find(folder); at != s.parents.end(); at = s.parents.find(at->second))
      if (s.made.count(at->second) > 0)
        fail("no fsync after " + s.made[at->second] + " was made, before the rename to " + target);
  }
  const int result = call(from, to);
  if (result != 0 || !checked) return result;
  ++s.renames;
  s.unsynced.erase(inode);
  s.written.erase(inode);  // another file may later get the number of a removed file
  s.folders[folder] = target;
  return result;
}

/// Interrupts the call after `calls` others, or none if the number is negative. The call fails with
/// an error, or the process ends before it with exit code 98. From then on no fsync waits for the
/// disk.
/// @param names  whether only calls that change the name of a file count
/// @param error  the value of errno; 0: the process ends
void cubist_durable_interrupt(long calls, bool names, int error)
{
  const std::lock_guard lock{state().mutex};
  state().calls = calls;
  state().names = names;
  state().dies = error == 0;
  state().error = error;
  state().interrupts = true;
  state().interrupted = nullptr;
}

/// Makes the next call of this name fail, in any thread: "pwrite", "fsync".
/// @param error  the value of errno
void cubist_durable_refuse(const char* call, int error)
{
  const std::lock_guard lock{state().mutex};
  state().refused[call] = error;
}

/// The name of the interrupted call; null if there was none yet.
const char* cubist_durable_interrupted()
{
  const std::lock_guard lock{state().mutex};
  return state().interrupted;
}

}  // extern "C"
