# The types of entries.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

cdef int64_t UNMAPPED, SHARED

cpdef int64_t page_of(int64_t slot, int64_t page_size) noexcept
cpdef int64_t[::1] copied(int64_t[::1] values, Py_ssize_t count, Py_ssize_t room)

@cython.locals(mapping=MappingTruth)
cpdef MappingTruth revived(object geometry, bytes table, bytes pointers, dict shared, dict beyond, dict stale)

@cython.final
cdef class MappingTruth:
    cdef readonly object geometry
    cdef readonly int64_t page_size
    cdef int64_t slot_limit
    cdef int64_t page_limit
    cdef int64_t room
    cdef int64_t page_room
    cdef int64_t[::1] table
    cdef int64_t[::1] pointers
    cdef dict shared
    cdef dict beyond
    cdef readonly dict stale
    @cython.locals(twin=MappingTruth)
    cpdef MappingTruth clone(self)
    cpdef int64_t entry(self, int64_t slot)
    @cython.locals(table=int64_t[::1], slot=int64_t)
    cpdef list read(self, list slots)
    cdef bint _has_room(self, list slots)
    @cython.locals(size=int64_t, slot=int64_t)
    cpdef bint is_mapped(self, int64_t full_page)
    cdef reserve(self, int64_t slots)
    cdef reserve_pages(self, int64_t pages)
    @cython.locals(old=int64_t, full_page=int64_t)
    cpdef write(self, int64_t slot, int64_t swa_slot)
    cdef put(self, int64_t slot, int64_t swa_slot)
    @cython.locals(table=int64_t[::1], slot=int64_t, swa_slot=int64_t)
    cdef _put_all(self, list slots, list swa_slots)
    @cython.locals(known=bint, owner=int64_t, count=int64_t, owners=dict)
    cdef point(self, int64_t swa_page, int64_t full_page, int64_t entries)
    @cython.locals(known=bint, owners=dict)
    cdef unpoint(self, int64_t swa_page, int64_t full_page, int64_t entries)
    @cython.locals(size=int64_t)
    cpdef add(self, list slots, list peers)
    @cython.locals(size=int64_t)
    cpdef remove(self, list slots, list peers)
    @cython.locals(mapped=int64_t, slot=int64_t)
    cdef int64_t count_mapped(self, int64_t start, int64_t end) noexcept
    @cython.locals(others=int64_t, at=int64_t)
    cdef bint leads(self, int64_t slot, int64_t peer, int64_t count) noexcept
    @cython.locals(at=int64_t)
    cdef void map_run(self, int64_t slot, int64_t peer, int64_t count) noexcept
    @cython.locals(at=int64_t)
    cdef void unmap_run(self, int64_t slot, int64_t count) noexcept
    cdef unpoint_all(self, int64_t swa_page)
    @cython.locals(count=int64_t)
    cpdef int64_t entries_to(self, int64_t swa_page)
    @cython.locals(count=int64_t)
    cpdef dict pointing_at(self, int64_t swa_page)
    @cython.locals(
        size=int64_t, full_page=int64_t, offset=int64_t, slot=int64_t, peer=int64_t
    )
    cpdef list slots_pointing_at(self, int64_t swa_page)
