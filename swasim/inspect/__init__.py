"""One moment of a replay, one page, one row: what a person asks once a finding has a place.

`Inspector` answers again and again on one trace; `once` answers one question in one pass.
"""

from swasim.inspect.inspector import Inspector as Inspector
