# The types of steady.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

from swasim.runs cimport RunCall, RunEffect
from swasim.sanitizer.follow cimport hand_out, take_back
from swasim.sanitizer.giveback cimport GiveBack
from swasim.sanitizer.handout cimport HandOut
from swasim.sanitizer.shadow cimport PoolTruth, Truth

cdef int DECODE

@cython.final
cdef class Steady:
    cdef Truth truth
    cdef dict suspected
    cdef dict named
    cdef int64_t page_size
    cdef HandOut hand_out
    cdef GiveBack give_back
    cdef RunCall call
    cdef RunEffect effect
    cdef public object last
    cdef readonly int64_t full_available
    cdef readonly int64_t swa_available
    cpdef bint step(
        self, RunCall call, RunEffect effect, int64_t number, int64_t line, str op, str site,
        object seconds
    ) except -1
    cpdef bint follows(self, RunCall call, RunEffect effect, object moment) except -1
    @cython.locals(ours=RunCall, theirs=RunEffect)
    cpdef bint reads(self, object call, object effect) except -1
    cpdef carry_read_over(self, object moment)
    @cython.locals(truth=Truth)
    cpdef bint is_quiet(self) noexcept
    @cython.locals(truth=Truth, size=int64_t, change=int64_t)
    cpdef bint foresees(self, RunCall call, RunEffect effect) except -1
    cpdef carry_over(self, RunCall call, RunEffect effect, object moment)

@cython.locals(free=int64_t)
cdef bint agrees(PoolTruth pool, int64_t page_size, int64_t available, int64_t change) noexcept
