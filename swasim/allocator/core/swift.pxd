# The types of swift.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

from swasim.allocator.core.pages cimport PageList
from swasim.allocator.core.swift_release cimport SwiftReleases, set_entries
from swasim.runs cimport RunCall, RunEffect

cdef int ALLOC, DECODE, EXTEND
cdef int64_t LONGEST

@cython.final
cdef class Swift:
    cdef object pair
    cdef object full
    cdef PageList full_free
    cdef PageList full_staged
    cdef PageList swa_free
    cdef PageList swa_staged
    cdef int64_t[::1] entries
    cdef int64_t entries_count
    cdef int64_t page_size
    cdef int shift
    cdef int64_t full_pages
    cdef int64_t swa_pages
    cdef int64_t full_limit
    cdef int64_t swa_limit
    cdef bint grows
    cdef bint asks_for_more
    cdef SwiftReleases releases

    @cython.locals(op=int, done=bint, full_pages=int64_t, swa_pages=int64_t)
    cpdef bint answer(self, RunCall call, RunEffect effect) except? -1
    cpdef take_back(self, RunEffect effect)
    @cython.locals(full=PageList, swa=PageList, full_at=int64_t[::1], swa_at=int64_t[::1],
                   full_head=Py_ssize_t, swa_head=Py_ssize_t, index=int64_t, slot=int64_t,
                   peer=int64_t, start=int64_t)
    cdef bint _alloc(self, int64_t need, RunEffect effect) except? -1
    @cython.locals(count=int64_t, page_size=int64_t, prefix_lens=int64_t[::1],
                   seq_lens=int64_t[::1], tokens=int64_t, pages=int64_t, index=int64_t,
                   prefix_len=int64_t, seq_len=int64_t, most=int64_t, taken=int64_t,
                   start=int64_t, rest=int64_t)
    cdef bint _extend(self, RunCall call, RunEffect effect) except? -1
    @cython.locals(count=int64_t, seq_lens=int64_t[::1], last_loc=int64_t[::1], ready=int64_t,
                   taken=int64_t, index=int64_t, starts=bint)
    cdef bint _decode(self, RunCall call, RunEffect effect) except? -1
    @cython.locals(full=int64_t, swa=int64_t)
    cdef bint _has_room(self, int64_t pages, int64_t merged_below) noexcept
    @cython.locals(peer=int64_t)
    cdef bint _grow(self, int64_t last, int64_t tokens, RunEffect effect) noexcept
    @cython.locals(page=int64_t, swa_page=int64_t)
    cdef bint _start_page(self, int64_t ahead, int64_t tokens, RunEffect effect) noexcept
    @cython.locals(page_size=int64_t)
    cdef bint _can_map(self, int64_t slot, int64_t peer, int64_t length) noexcept
    @cython.locals(entries=int64_t[::1], run=int64_t, slot=int64_t, peer=int64_t, length=int64_t,
                   held=int64_t, index=int64_t)
    cdef bint _map_and_take(self, int64_t pages, RunEffect effect) except? -1
    cdef int64_t _page_of(self, int64_t slot) noexcept
    cdef int64_t _offset_of(self, int64_t slot) noexcept
    cdef int64_t _pages_of(self, int64_t tokens) noexcept

cdef make_room(RunEffect effect, int64_t runs)
@cython.locals(count=Py_ssize_t, before=int64_t)
cdef void add_run(RunEffect effect, int64_t slot, int64_t peer, int64_t length) noexcept
