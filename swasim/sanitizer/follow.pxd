# The types of follow.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

from swasim.runs cimport Ints, RunEffect
from swasim.sanitizer.entries cimport MappingTruth
from swasim.sanitizer.shadow cimport PageTruth, PoolTruth, Truth

cdef int64_t NO_SHIFT, CELL, STANDING, FILL, OWNED, OWNERLESS

cpdef int64_t page_shift(int64_t page_size) except? -2
cpdef int64_t page_at(int64_t slot, int64_t page_size, int64_t shift) noexcept
@cython.locals(
    full=PoolTruth, swa=PoolTruth, mapping=MappingTruth, record=PageTruth, size=int64_t,
    shift=int64_t, run=Py_ssize_t, slot=int64_t, peer=int64_t, left=int64_t, page=int64_t,
    swa_page=int64_t, offset=int64_t, count=int64_t
)
cpdef hand_out(Truth truth, RunEffect effect, object moment)
@cython.locals(mapping=MappingTruth, run=Py_ssize_t, index=Py_ssize_t)
cpdef take_back(Truth truth, RunEffect effect, object moment)
@cython.locals(index=Py_ssize_t, page=int64_t, record=PageTruth)
cdef take(PoolTruth pool, Ints pages, object moment)
@cython.locals(index=Py_ssize_t, page=int64_t, record=PageTruth)
cdef put(PoolTruth pool, Ints pages, object moment)
