// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The session of a program's communicator holds what products on it share: a duplicate of the
// communicator, cubist's communicator on top of that, and the memory that its ranks share. The
// first call on a communicator makes the session, which ends when the program frees the
// communicator or finalises MPI. It is an attribute of the communicator, because MPI and BLACS
// reuse the numbers of freed communicators.

#include <algorithm>
#include <array>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>
#include <sys/prctl.h>

#include <cubist/backend/mpi.hpp>
#include <cubist/comm/mpi/communicator.hpp>
#include <cubist/comm/mpi/cores.hpp>
#include <cubist/comm/mpi/group.hpp>
#include <cubist/comm/mpi/progress.hpp>
#include <cubist/comm/mpi/shutdown.hpp>
#include <cubist/engine/host/blas_threads.hpp>

#include "product_cache.hpp"
#include "shared_block.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// RAII: reduces this thread's timer slack, which by default makes short sleeps 50 us longer.
class ShortSleeps
{
 public:
  ShortSleeps()
      : before_{prctl(PR_GET_TIMERSLACK)}
  {
    prctl(PR_SET_TIMERSLACK, 1'000UL);
  }
  ShortSleeps(const ShortSleeps&) = delete;
  ShortSleeps& operator=(const ShortSleeps&) = delete;
  ~ShortSleeps()
  {
    if (before_ > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before_));
  }

 private:
  int before_;
};

class PblasSession
{
 public:
  /// Returns the session of a communicator. The first call is collective over the communicator.
  /// @throws CommunicationError unless MPI is initialised and not finalised
  [[nodiscard]] static PblasSession& of(MPI_Comm comm)
  {
    using boost::mpi::environment;
    require<CommunicationError>(
        environment::initialized() && !environment::finalized(),
        "got a product on a communicator while MPI is not running, so ranks could not exchange "
        "data; call it between MPI_Init and MPI_Finalize");
    void* found = nullptr;
    int exists = 0;
    mpi_check(MPI_Comm_get_attr(comm, key(), &found, &exists), "MPI_Comm_get_attr", "a product");
    if (exists != 0) return *static_cast<PblasSession*>(found);
    auto& session = *all().emplace_back(new PblasSession{comm});
    mpi_check(MPI_Comm_set_attr(comm, key(), &session), "MPI_Comm_set_attr", "a product");
    return session;
  }

  PblasSession(PblasSession&&) = delete;
  ~PblasSession()
  {
    if (is_broken()) shared_.abandon();
    products_.clear();
    world_.reset();
    end_communicators(*progress_, is_broken());
    if (is_broken()) leak_communicator(control_);
    progress_.reset();
  }

  [[nodiscard]] MpiCommunicator& world() { return *world_; }
  /// The number of BLAS threads that each rank may use while all ranks compute.
  [[nodiscard]] int threads() const { return threads_; }
  /// The number of cores on rank 0's node on which the ranks may run.
  [[nodiscard]] int cores() const { return cores_; }
  /// The number of ranks on a node if each node has as many consecutive ranks, except that the last
  /// may have fewer; else 1.
  [[nodiscard]] int ranks_of_node() const { return ranks_of_node_; }
  /// Memory for the operands of one product.
  [[nodiscard]] SharedBlock& shared() { return shared_; }

  /// The plans of earlier products.
  [[nodiscard]] ProductCache& products() { return products_; }

  /// Runs one call. An error on this rank is announced to the others, which then do not wait for
  /// it; after that, the communicator cannot be used for products.
  /// @throws what `f` throws, and PeerFailed if another rank has thrown
  template <class F>
  void run(F f)
  {
    const ShortSleeps sleeps;
    try
    {
      f();
    }
    catch (const PeerFailed&)
    {
      throw;
    }
    catch (const std::exception& e)
    {
      fail(e.what());
      throw;
    }
  }

 private:
  explicit PblasSession(MPI_Comm comm)
      : control_{comm, boost::mpi::comm_duplicate}
  {
    MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN);
    // There is no helper thread, because the program may have initialised MPI for one thread. A
    // program may have hundreds of contexts, so each begins with little memory.
    progress_ = std::make_shared<MpiProgress>(control_, false, std::nullopt, 2);
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(control_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    const Cores cores = Cores::of(node);
    const int rank = control_.rank();
    int here = 0;
    int lowest = 0;
    MPI_Comm_size(node, &here);
    MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, node);
    MPI_Comm_free(&node);
    std::array<int, 2> of_first{cores.node, here};
    MPI_Bcast(of_first.data(), 2, MPI_INT, 0, control_);
    std::tie(cores_, ranks_of_node_) = std::tuple_cat(of_first);
    const int first = rank / ranks_of_node_ * ranks_of_node_;
    int is_regular = lowest == first && here == std::min(ranks_of_node_, control_.size() - first);
    MPI_Allreduce(MPI_IN_PLACE, &is_regular, 1, MPI_INT, MPI_MIN, control_);
    if (is_regular == 0) ranks_of_node_ = 1;
    const int most = blas_threads();
    threads_ = most > 0 ? std::min(most, cores.process) : cores.process;
    const boost::mpi::communicator members{control_, boost::mpi::comm_duplicate};
    world_.emplace(std::make_shared<MpiGroup>(progress_, members, Mpi::options));
  }

  void fail(const std::string& what)
  {
    progress_->with_failures([&](MpiFailures& failures) { failures.broadcast_error(what); });
  }

  [[nodiscard]] bool is_broken() const
  {
    return progress_->with_failures([](const MpiFailures& f) { return f.is_broken(); });
  }

  static std::list<std::unique_ptr<PblasSession>>& all()
  {
    static auto& sessions = *new std::list<std::unique_ptr<PblasSession>>;
    return sessions;
  }

  /// Returns the key of the attribute. MPI_Finalize deletes the attributes of MPI_COMM_SELF first,
  /// while communicators still exist.
  static int key()
  {
    static const int number = [] {
      int of_comm = MPI_KEYVAL_INVALID;
      int of_self = MPI_KEYVAL_INVALID;
      MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &end, &of_comm, nullptr);
      MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &end_all, &of_self, nullptr);
      MPI_Comm_set_attr(MPI_COMM_SELF, of_self, nullptr);
      return of_comm;
    }();
    return number;
  }
  static int end(MPI_Comm, int, void* session, void*)
  {
    all().remove_if([&](const auto& s) { return s.get() == session; });
    return MPI_SUCCESS;
  }
  static int end_all(MPI_Comm, int, void*, void*)
  {
    all().clear();
    return MPI_SUCCESS;
  }

  boost::mpi::communicator control_;
  std::shared_ptr<MpiProgress> progress_;
  std::optional<MpiCommunicator> world_;
  int threads_ = 1;
  int cores_ = 1;
  int ranks_of_node_ = 1;
  SharedBlock shared_;
  ProductCache products_;
};

}  // namespace cubist::CUBIST_ABI::detail
