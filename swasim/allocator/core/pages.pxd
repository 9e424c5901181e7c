# The types of pages.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

from swasim.runs cimport Ints

@cython.final
cdef class PageList:
    cdef public int64_t[::1] at
    cdef public Py_ssize_t head
    cdef public Py_ssize_t count
    cpdef list tolist(self)
    @cython.locals(twin=PageList)
    cpdef PageList copy(self)
    cpdef replace(self, pages)
    cpdef merge(self, PageList other)
    cpdef list take(self, Py_ssize_t count)
    @cython.locals(fresh=int64_t[::1], count=Py_ssize_t)
    cpdef put_front(self, list pages)
    @cython.locals(fresh=int64_t[::1], count=Py_ssize_t, end=Py_ssize_t)
    cpdef put_back(self, list pages)
    @cython.locals(index=Py_ssize_t)
    cpdef take_to(self, Py_ssize_t count, Ints taken)
    @cython.locals(index=Py_ssize_t)
    cpdef put_front_from(self, Ints pages)
    @cython.locals(index=Py_ssize_t, end=Py_ssize_t)
    cpdef put_back_from(self, Ints pages)
    @cython.locals(fresh=int64_t[::1], head=Py_ssize_t, spare=Py_ssize_t)
    cdef _make_room(self, Py_ssize_t front, Py_ssize_t back)

@cython.locals(at=int64_t[::1], count=int64_t, run=int64_t, start=int64_t, index=int64_t)
cpdef spread(Ints starts, Ints lengths, int64_t most, Ints slots)
@cython.locals(at=int64_t[::1], count=Py_ssize_t, gap=Py_ssize_t, index=Py_ssize_t, page=int64_t,
               place=Py_ssize_t, repeats=Py_ssize_t)
cpdef bint sort(Ints pages) noexcept
