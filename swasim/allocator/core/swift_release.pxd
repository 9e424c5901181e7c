# The types of swift_release.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

from swasim.allocator.core.pages cimport PageList, sort, spread
from swasim.runs cimport Ints, RunCall, RunEffect

cdef int FREE_GROUP, OPERATIONS
cdef int FULL_SIDE, SWA_SIDE, FULL_IN_ROWS, SWA_IN_ROWS, MINDS_UNMAPPED

@cython.final
cdef class SwiftReleases:
    cdef object pair
    cdef PageList full_free
    cdef PageList full_staged
    cdef PageList swa_free
    cdef PageList swa_staged
    cdef int64_t[::1] entries
    cdef int64_t page_size
    cdef int bits
    cdef int64_t length_mask
    cdef int64_t full_limit
    cdef int64_t swa_limit
    cdef int64_t full_size
    cdef int64_t swa_size
    cdef int64_t[::1] ways
    cdef bint clears_pages
    cdef bint keeps_queue
    cdef PageList full_home
    cdef PageList swa_home
    cdef bint appends
    cdef Ints pieces
    cdef Ints queued
    cdef list queue_before

    @cython.locals(op=int, way=int, plain=bint)
    cpdef bint carry_out(self, RunCall call, RunEffect effect) except? -1
    @cython.locals(full=Py_ssize_t, swa=Py_ssize_t)
    cpdef take_back(self, RunEffect effect)
    cdef bint _has_leftovers(self) except? -1
    @cython.locals(named=int64_t, run=int64_t)
    cdef _leave_queue(self, RunCall call)
    @cython.locals(named=int64_t, run=int64_t, slot=int64_t, length=int64_t, runs=Ints)
    cdef bint _name_slots(self, RunCall call, int way, RunEffect effect) except? -1
    @cython.locals(entries=int64_t[::1], limit=int64_t, run=int64_t, slot=int64_t, end=int64_t,
                   peer=int64_t, length=int64_t, count=Py_ssize_t)
    cdef bint _read_slots(self, RunCall call, int minds_unmapped, RunEffect effect) noexcept
    @cython.locals(swa_in_rows=int, full_in_rows=int, sorts_first=bint)
    cdef bint _name_pages(self, RunCall call, int way, RunEffect effect) except? -1
    @cython.locals(pieces=Ints, page_size=int64_t, bits=int, run=int64_t, start=int64_t,
                   rest=int64_t, page=int64_t, length=int64_t)
    cdef bint _cut(self, RunCall call, int in_rows) except? -1
    @cython.locals(pieces=Ints, bits=int, index=int64_t)
    cdef bint _sort_pieces(self) noexcept
    @cython.locals(pieces=Ints, index=int64_t)
    cdef bint _is_once(self, Ints pages) except? -1
    @cython.locals(pieces=Ints, full=Ints, bits=int, index=int64_t)
    cdef _return_full(self, RunEffect effect)
    @cython.locals(entries=int64_t[::1], pieces=Ints, page_size=int64_t, swa=Ints, piece=int64_t,
                   length=int64_t, start=int64_t, peer=int64_t, page=int64_t, strange=int64_t,
                   index=int64_t)
    cdef bint _read_pieces(self, int minds_unmapped, RunEffect effect) except? -1
    @cython.locals(full=Ints, swa=Ints, full_pages=int64_t, swa_pages=int64_t)
    cdef bint _unmap_and_put(self, RunEffect effect) except? -1
    @cython.locals(entries=int64_t[::1], run=int64_t, slot=int64_t, peer=int64_t, length=int64_t,
                   strange=int64_t, index=int64_t)
    cdef bint _unmap_once(self, RunEffect effect) except? -1

@cython.locals(run=int64_t, slot=int64_t, peer=int64_t, index=int64_t)
cpdef set_entries(int64_t[::1] entries, RunEffect effect, int64_t runs, int mapped)
