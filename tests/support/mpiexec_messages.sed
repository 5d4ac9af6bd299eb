# Deletes what mpiexec itself prints when processes fail: the frames of Open MPI 5 and MPICH, and the lines beside them.
/^-\{70,\}$/,/^-\{70,\}$/d
/^=\{70,\}$/,/^=\{70,\}$/d
/^Abort([0-9]*) on node /d
/^YOUR APPLICATION TERMINATED WITH/d
/^This typically refers to a problem with your application/d
/^Please see the FAQ page for debugging suggestions/d
