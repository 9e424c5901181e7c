# The types of giveback.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

from swasim.runs cimport Ints, RunCall, RunEffect
from swasim.sanitizer.entries cimport MappingTruth
from swasim.sanitizer.shadow cimport PoolTruth, Truth

cdef int64_t PAD_PAGE, OFFSET_BITS
cdef int FREE_FULL, FREE_GROUP, FREE_SWA, FREE_SWA_SEGMENT
cdef int64_t CELL, FILL, MARK, NOTE, OWNED, STANDING

@cython.final
cdef class GiveBack:
    cdef Truth truth
    cdef int64_t size
    cdef int64_t shift
    cdef int64_t cleared
    @cython.locals(
        truth=Truth, frees_full=bint, named=int64_t, run=Py_ssize_t, pages=int64_t, lost=int64_t
    )
    cdef bint is_right(self, RunCall call, RunEffect effect) except -1
    cdef bint _is_aligned(self, RunCall call) noexcept
    @cython.locals(size=int64_t, pages=int64_t, page=int64_t, offset=int64_t, count=int64_t)
    cdef int64_t _are_named(self, int64_t slot, int64_t left, bint frees_full) noexcept
    @cython.locals(full=PoolTruth, mapping=MappingTruth, cell=int64_t, first=int64_t, end=int64_t)
    cdef bint _is_named(
        self, int64_t page, int64_t offset, int64_t count, bint frees_full
    ) noexcept
    @cython.locals(
        size=int64_t, cleared=int64_t, lost=int64_t, run=Py_ssize_t, slot=int64_t, peer=int64_t,
        left=int64_t, page=int64_t, swa_page=int64_t, offset=int64_t, swa_offset=int64_t,
        count=int64_t, pages=int64_t
    )
    cdef int64_t _cuts_off(self, RunEffect effect) noexcept
    @cython.locals(full=PoolTruth, note=int64_t, end=int64_t)
    cdef bint _is_cleared(self, int64_t page, int64_t offset, int64_t count) noexcept
    @cython.locals(swa=PoolTruth, mark=int64_t, cell=int64_t)
    cdef int64_t _loses(self, int64_t swa_page, int64_t entries) noexcept
    @cython.locals(mapped=int64_t, run=Py_ssize_t, start=int64_t)
    cdef int64_t _count_mapped(self, RunCall call) noexcept
    @cython.locals(swa=PoolTruth, mapping=MappingTruth, index=Py_ssize_t, page=int64_t)
    cdef bint _are_cut_off(self, Ints swa_pages) except -1
    cdef int64_t _page(self, int64_t slot) noexcept

@cython.locals(index=Py_ssize_t, page=int64_t)
cdef bint were_marked(PoolTruth pool, Ints pages, int64_t mark) noexcept
