# The types of plain.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

from swasim.runs cimport RunCall

cdef int ALLOC, EXTEND, DECODE, FREE, FREE_SWA, FREE_FULL
cdef int FREE_GROUP, FREE_SEGMENT, FREE_SWA_SEGMENT, FREE_FULL_SEGMENT
cdef int64_t NO_LOC, END_OF_SLOTS, MAX_SLOTS

@cython.final
cdef class PlainReader:
    cdef readonly RunCall call
    cdef readonly RunCall recorded
    cdef readonly str op
    cdef readonly str site
    cdef readonly object seconds
    cdef readonly bint has_out
    cdef int64_t _page_size

    cpdef Py_ssize_t read(self, list events, Py_ssize_t index, Py_ssize_t stop) except -1
    cdef bint _reads(self, object event) except -1
    cdef bint _reads_segment(self, object event, object kind) except -1
    cdef bint _reads_origin(self, object event) except -1
    @cython.locals(call=RunCall)
    cdef bint _reads_decode(self, object event) except -1
    @cython.locals(call=RunCall, count=Py_ssize_t, request=Py_ssize_t, prefix_len=int64_t)
    cdef bint _reads_extend(self, object event) except -1
    cdef bint _reads_alloc(self, object event) except -1
    cdef bint _reads_out(self, object out) except -1
    cdef bint _reads_release(self, object event, int op) except -1
    cdef bint _reads_piece(self, object event, int op) except -1
    @cython.locals(segments=list)
    cdef bint _reads_pieces(self, object event, int op) except -1
    @cython.locals(index=Py_ssize_t, plain=bint)
    cdef Py_ssize_t _reads_group(self, list events, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef bint _names_target(self, object event) except -1
    @cython.locals(named=int64_t, start=int64_t, end=int64_t)
    cdef bint _names(self, RunCall call, list items) except -1
