# The types of lane.py where it is compiled.
cimport cython
from libc.stdint cimport int64_t

from swasim.allocator.core.swift cimport Swift
from swasim.plain cimport PlainReader
from swasim.runs cimport RunCall, RunEffect
from swasim.sanitizer.steady cimport Steady

cdef int DECODE

@cython.final
cdef class Lane:
    cdef readonly Py_ssize_t carried
    cdef public int64_t full_available
    cdef public int64_t swa_available
    cdef readonly int64_t full_before
    cdef readonly int64_t swa_before
    cdef object _left
    cdef Swift _swift
    cdef Steady _steady
    cdef PlainReader _reader
    cdef RunEffect _effect
    cdef RunCall _returned

    @cython.locals(reader=PlainReader, effect=RunEffect, call=RunCall, index=Py_ssize_t,
                   group_stop=Py_ssize_t, read=Py_ssize_t, last=Py_ssize_t)
    cpdef Py_ssize_t run(self, list events, Py_ssize_t number, Py_ssize_t line, Py_ssize_t start,
                         Py_ssize_t stop, Py_ssize_t wanted) except -1
    cpdef object take_left(self)
    cpdef RunCall last_call(self)
    cpdef object last_effect(self)
    @cython.locals(effect=RunEffect, returned=RunCall, recorded=RunCall, run=Py_ssize_t)
    cdef bint _returned_what_was_recorded(self) noexcept
