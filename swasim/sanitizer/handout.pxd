# The types of handout.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

from swasim.runs cimport Ints, RunCall, RunEffect
from swasim.sanitizer.entries cimport MappingTruth
from swasim.sanitizer.shadow cimport PoolTruth, Truth

cdef int64_t NO_LOC, PAD_PAGE, UNMAPPED
cdef int ALLOC, DECODE
cdef int64_t CELL, MARK, OWNED, OWNERLESS, STANDING

@cython.final
cdef class HandOut:
    cdef Truth truth
    cdef int64_t size
    cdef int64_t shift
    cdef Py_ssize_t run
    cdef int64_t ahead
    @cython.locals(truth=Truth, used=int64_t)
    cdef bint is_right(self, RunCall call, RunEffect effect) except -1
    @cython.locals(size=int64_t, taken=Py_ssize_t, count=int64_t, slot=int64_t, peer=int64_t)
    cdef int64_t _gets_pages(self, RunEffect effect, int64_t used, int64_t slots) noexcept
    @cython.locals(
        full=PoolTruth, size=int64_t, requests=Py_ssize_t, used=int64_t, index=Py_ssize_t,
        last=int64_t, length=int64_t, prefix=int64_t, page=int64_t, offset=int64_t,
        growth=int64_t, room=int64_t
    )
    cdef int64_t _extends(self, RunCall call, RunEffect effect) noexcept
    @cython.locals(full=PoolTruth, mapping=MappingTruth, peer=int64_t, swa_page=int64_t)
    cdef bint _fills_up(
        self, RunEffect effect, int64_t last, int64_t page, int64_t offset, int64_t count
    ) noexcept
    @cython.locals(
        last_locs=Ints, lengths=Ints, requests=Py_ssize_t, slots=Ints, peers=Ints, runs=Ints,
        full_taken=Ints, swa_taken=Ints, full=PoolTruth, swa=PoolTruth, mapping=MappingTruth,
        full_known=Py_ssize_t, swa_known=Py_ssize_t, size=int64_t, mark=int64_t, used=int64_t,
        run=Py_ssize_t, ahead=int64_t, index=Py_ssize_t, slot=int64_t, prefix=int64_t,
        page=int64_t, offset=int64_t, cell=int64_t, peer=int64_t, swa_page=int64_t
    )
    cdef int64_t _decodes(self, RunCall call, RunEffect effect) noexcept
    @cython.locals(mapping=MappingTruth, run=Py_ssize_t, ahead=int64_t, part=int64_t)
    cdef bint _wrote(self, RunEffect effect, int64_t slot, int64_t peer, int64_t count) noexcept
    cdef int64_t _page(self, int64_t slot) noexcept

@cython.locals(index=Py_ssize_t, page=int64_t, cell=int64_t)
cdef bint are_free(PoolTruth pool, Ints pages, int64_t mark) except -1
cdef bint is_owned(PoolTruth pool, int64_t page) noexcept
