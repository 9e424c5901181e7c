# The types of runs.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

cdef class Ints:
    cdef public int64_t[::1] at
    cdef public Py_ssize_t room
    cdef public Py_ssize_t count
    cpdef void push(self, int64_t value)
    cpdef reserve(self, Py_ssize_t count)
    @cython.locals(index=Py_ssize_t, count=Py_ssize_t)
    cpdef load(self, list values)
    @cython.locals(index=Py_ssize_t)
    cpdef list tolist(self)

cdef class RunCall:
    cdef public int op
    cdef public int64_t need_size
    cdef readonly Ints prefix_lens
    cdef readonly Ints seq_lens
    cdef readonly Ints last_loc
    cdef readonly Ints starts
    cdef readonly Ints lengths
    cdef public int64_t slots
    @cython.locals(last=Py_ssize_t)
    cpdef void name(self, int64_t start, int64_t length)
    cpdef void name_none(self)
    @cython.locals(slot=int64_t)
    cpdef bint read(self, call)

cdef class RunEffect:
    cdef readonly Ints full_taken
    cdef readonly Ints swa_taken
    cdef readonly Ints full_returned
    cdef readonly Ints swa_returned
    cdef readonly Ints slots
    cdef readonly Ints peers
    cdef readonly Ints lengths
    cdef public int64_t full_available
    cdef public int64_t swa_available
    cpdef void empty(self)
    @cython.locals(last=Py_ssize_t, before=int64_t)
    cpdef void entry_run(self, int64_t slot, int64_t peer, int64_t length)
    @cython.locals(
        slots=list, peers=list, others=list, slot=int64_t, peer=int64_t, index=Py_ssize_t
    )
    cpdef bint read(self, effect, bint allocated)
    @cython.locals(
        spread=list, count=Py_ssize_t, index=Py_ssize_t, run=Py_ssize_t, first=int64_t, at=int64_t
    )
    cpdef list _spread(self, Ints firsts)
