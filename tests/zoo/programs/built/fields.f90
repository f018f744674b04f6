! fields.f90 - a Fortran program over the runtime API: type-bound procedures, an OpenMP region, two call sites that leak.
! zoo: prints sum 523776.
module fields
  use iso_c_binding
  implicit none
  interface
    integer(c_int) function cudaMalloc(p, n) bind(C, name="cudaMalloc")
      import
      type(c_ptr) :: p
      integer(c_size_t), value :: n
    end function
    integer(c_int) function cudaFree(p) bind(C, name="cudaFree")
      import
      type(c_ptr), value :: p
    end function
    integer(c_int) function cudaMemcpy(to, from, n, kind) bind(C, name="cudaMemcpy")
      import
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: n
      integer(c_int), value :: kind
    end function
  end interface
  type :: field
    type(c_ptr) :: p = c_null_ptr
  contains
    procedure :: grow => field_grow
  end type
contains
  subroutine field_grow(this, n)
    class(field), intent(inout) :: this
    integer(c_size_t), intent(in) :: n
    if (cudaMalloc(this%p, n) /= 0) error stop 2
  end subroutine
end module

program main
  use fields
  implicit none
  type(field) :: a, b, c(4)
  real(c_double), target :: host(1024), back(1024)
  integer :: i
  host = [(real(i, c_double), i = 0, 1023)]
  call a%grow(3_c_size_t * 1048576)
  if (cudaMemcpy(a%p, c_loc(host), 8192_c_size_t, 1) /= 0) error stop 3
  if (cudaMemcpy(c_loc(back), a%p, 8192_c_size_t, 2) /= 0) error stop 3
  call store(5_c_size_t * 1048576)
  !$omp parallel do num_threads(2)
  do i = 1, 4
    call c(i)%grow(1048576_c_size_t)
    if (cudaFree(c(i)%p) /= 0) error stop 4
  end do
  print '(a,f0.0)', 'sum ', sum(back)
contains
  subroutine store(n)
    integer(c_size_t), intent(in) :: n
    if (cudaMalloc(b%p, n) /= 0) error stop 2
  end subroutine
end program
