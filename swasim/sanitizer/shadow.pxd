# The types of shadow.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

from swasim.sanitizer.entries cimport MappingTruth, copied


cdef int64_t PAD_PAGE, CELL, STANDING, FILL, OWNERLESS, OWNED, QUEUED

@cython.final
cdef class PageTruth:
    cdef public bint live
    cdef public bint held
    cdef public int64_t copies
    cdef public object queued
    cdef public object allocated
    cdef public object released
    cdef public object mapped
    cdef public object fault
    @cython.locals(twin=PageTruth)
    cpdef PageTruth clone(self)

@cython.final
cdef class PoolTruth:
    cdef readonly str name
    cdef readonly str label
    cdef readonly int64_t size_pages
    cdef readonly dict pages
    cdef list by_id
    cdef int64_t[::1] cells
    cdef dict strange_fill
    cdef public int64_t free_pages
    cdef public int64_t live_pages
    cdef public int64_t pending_pages
    cdef public object excess
    cdef public object shortage
    cdef public bint overflown
    cdef public int64_t account_offset_pages
    cdef dict _before
    cpdef PoolTruth clone(self)
    cdef tuple _state(self, dict pages)
    @cython.locals(known=Py_ssize_t, room=Py_ssize_t)
    cdef reserve(self, int64_t pages)
    cpdef int64_t fill_of(self, int64_t page)
    @cython.locals(known=int64_t)
    cpdef int64_t fill_up(self, int64_t page, int64_t slots)
    cpdef set_fill(self, int64_t page, int64_t slots)
    cpdef begin_event(self)
    cpdef PageTruth peek(self, int64_t page)
    @cython.locals(truth=PageTruth)
    cpdef PageTruth touch(self, int64_t page)
    @cython.locals(truth=PageTruth)
    cdef PageTruth meet(self, int64_t page)
    @cython.locals(record=PageTruth, records=dict, size_pages=int64_t, page=int64_t)
    cpdef bint is_fresh(self, list pages)
    cpdef bint is_real(self, int64_t page)
    @cython.locals(truth=PageTruth)
    cpdef PageTruth take(self, int64_t page, object moment)
    @cython.locals(truth=PageTruth)
    cpdef put(self, int64_t page, object moment)
    @cython.locals(truth=PageTruth, page=int64_t)
    cpdef take_all(self, list pages, object moment)
    @cython.locals(record=PageTruth, records=dict, size_pages=int64_t, page=int64_t)
    cpdef bint is_held(self, list pages)
    @cython.locals(truth=PageTruth, page=int64_t)
    cpdef put_all(self, list pages, object moment)
    @cython.locals(truth=PageTruth)
    cpdef lose(self, int64_t page)
    @cython.locals(truth=PageTruth)
    cpdef queue(self, int64_t page, object moment)
    cdef void stand(self, int64_t page, int64_t standing) noexcept
    cdef _end_life(self, int64_t page, PageTruth truth)

@cython.final
cdef class Truth:
    cdef readonly object geometry
    cdef readonly PoolTruth full
    cdef readonly PoolTruth swa
    cdef readonly MappingTruth mapping
    cdef public object group
    cdef int64_t mark
    @cython.locals(twin=Truth)
    cpdef Truth clone(self)
    cpdef PoolTruth pool(self, str name)
    cpdef begin_event(self)
