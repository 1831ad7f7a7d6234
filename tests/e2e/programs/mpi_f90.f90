! SPDX-License-Identifier: Apache-2.0
! mpi_f90.f90 - with use mpi: prints what a tracer must have seen, as mpi_calls.c does.
program calls
  use mpi
  implicit none
  integer :: rank, size, ierr, i, peer, counts(16), offsets(16)
  integer :: comm
  integer :: requests(2)
  integer :: pair
  integer :: status(MPI_STATUS_SIZE)
  double precision :: sb(1024), rb(1024)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  sb = 1
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Barrier(comm, ierr)
  call say('coll barrier 0 0 0 -1')
  call MPI_Allreduce(sb, rb, 10, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
  call say('coll allreduce 80 80 0 -1')
  call MPI_Allreduce(MPI_IN_PLACE, rb, 10, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
  call say('coll allreduce 80 80 4 -1')
  call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierr)
  call MPI_Type_commit(pair, ierr)
  call MPI_Bcast(sb, 3, pair, 0, comm, ierr)
  if (rank == 0) call say('coll broadcast 24 0 0 0')
  if (rank /= 0) call say('coll broadcast 0 24 0 0')
  call MPI_Type_free(pair, ierr)
  do i = 1, size
    counts(i) = 2
    offsets(i) = 2 * (i - 1)
  end do
  call MPI_Allgatherv(sb, 2, MPI_DOUBLE_PRECISION, rb, counts, offsets, MPI_DOUBLE_PRECISION, comm, ierr)
  if (size == 2) call say('coll allgather 16 32 0 -1')
  call MPI_Iallreduce(sb, rb, 5, MPI_DOUBLE_PRECISION, MPI_SUM, comm, requests(1), ierr)
  call MPI_Ibarrier(comm, requests(2), ierr)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  call say('coll allreduce 40 40 1 -1')
  call say('coll barrier 0 0 1 -1')
  peer = 1 - rank
  if (rank == 0) then
    call MPI_Send(sb, 7, MPI_DOUBLE_PRECISION, peer, 1, comm, ierr)
    call say('send 56 1 1 0')
    call MPI_Isend(sb, 8, MPI_DOUBLE_PRECISION, peer, 2, comm, requests(1), ierr)
    call MPI_Wait(requests(1), status, ierr)
    call say('send 64 1 2 1')
  else
    call MPI_Recv(rb, 7, MPI_DOUBLE_PRECISION, peer, 1, comm, status, ierr)
    call say('recv 56 0 1 0')
    call MPI_Irecv(rb, 8, MPI_DOUBLE_PRECISION, peer, 2, comm, requests(1), ierr)
    call MPI_Wait(requests(1), status, ierr)
    call say('recv 64 0 2 1')
  end if
  call MPI_Sendrecv(sb, 4, MPI_DOUBLE_PRECISION, peer, 3, rb, 4, MPI_DOUBLE_PRECISION, peer, 3, comm, status, ierr)
  if (rank == 0) call say('send 32 1 3 0')
  if (rank == 0) call say('recv 32 1 3 0')
  if (rank == 1) call say('send 32 0 3 0')
  if (rank == 1) call say('recv 32 0 3 0')
  call MPI_Comm_free(comm, ierr)
  call MPI_Finalize(ierr)
contains
  subroutine say(text)
    character(len=*), intent(in) :: text
    write (*, '(i0,a,a)') rank, ' ', text
  end subroutine
end program
