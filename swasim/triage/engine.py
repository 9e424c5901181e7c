"""Lines to a report: what is kept per pool and rank while reading, and how it is summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from swasim.triage.meaning import Other, rule_for
from swasim.triage.pages import PageSizes
from swasim.triage.pressure import Pressure
from swasim.triage.report import (
    Fault,
    PageGuess,
    RankSeries,
    Sign,
    Terms,
    TriageReport,
)
from swasim.triage.shapes import PAGE_SIZE, PREFIX, Equation, clean, context_of, equations, usage
from swasim.triage.signals import SIGNAL_WORDS, SIGNALS, Signal
from swasim.triage.steps import next_steps
from swasim.triage.unread import UnreadLines
from swasim.wording import counted

_CONTEXT_LINES = 12
_MOST_RANKS = 512
_EXAMPLE_LENGTH = 300
_SEVERITIES = {"error": 0, "warning": 1, "note": 2}


@dataclass(slots=True)
class _Series:
    lines: int = 0
    first_line: int = 0
    last_line: int = 0
    first_off: int = 0
    last_off: int = 0
    balanced_before: int = 0
    last_balanced_line: int | None = None
    balanced_last: bool = False
    terms: Terms = field(default_factory=lambda: Terms(0, 0, 0, 0, 0, 0))
    when: str = ""
    shape: str = ""
    example: str = ""
    leaked: tuple[str, ...] = ()


@dataclass(slots=True)
class _Hits:
    signal: Signal
    lines: int = 0
    first_line: int = 0
    last_line: int = 0
    example: str = ""
    ranks: set[str] = field(default_factory=set)


def triage(lines: Iterable[str], *, page_size: int | None = None) -> TriageReport:
    """Read a server log's lines and say what their memory numbers mean.

    Args:
        lines: the log, line by line, with or without line ends. Read once, as a stream; memory
            does not grow with its length.
        page_size: tokens per page, at least 1; None reads it off the log where that is possible.

    Returns:
        The finished report. `found_fault` says whether a line shows a memory fault.
    """
    reader = _Reader(page_size)
    for line in lines:
        reader.feed(line)
    return reader.report()


class _Reader:
    def __init__(self, page_size: int | None) -> None:
        self._pages = PageSizes(page_size)
        self._pressure = Pressure()
        self._shapes: Counter[str] = Counter()
        self._series: dict[tuple[str, str], _Series] = {}
        self._hits: dict[str, _Hits] = {}
        self._totals: dict[str, int] = {}
        self._number = 0
        self._rank = ""
        self._context = ""
        self._context_left = 0
        self._unjudged = 0
        self._unread = UnreadLines(_EXAMPLE_LENGTH)

    def feed(self, raw: str) -> None:
        """Take one line."""
        self._number += 1
        line = clean(raw)
        prefixes = PREFIX.findall(line)
        if prefixes:
            self._rank = prefixes[-1].strip()
            self._context_left = 0
            self._unread.close()
        elif self._context_left:
            self._context_left -= 1
        header = context_of(line)
        self._page_size(line)
        seen = self._equations(line)
        seen = self._signals(line) or seen
        if seen:
            self._unread.explain()
        elif not self._usage(line):
            self._unread.look(self._number, line)
        if header:
            self._context, self._context_left = header, _CONTEXT_LINES

    def _page_size(self, line: str) -> None:
        if "page" not in line:
            return
        stated = PAGE_SIZE.search(line)
        if stated is not None:
            self._pages.state(int(stated[1]))

    def _equations(self, line: str) -> bool:
        carried = self._context if self._context_left else ""
        names: set[str] = set()
        for equation in equations(line, carried):
            names.add(equation.shape)
            self._add(equation, line)
        self._shapes.update(names)
        return bool(names)

    def _add(self, equation: Equation, line: str) -> None:
        terms = equation.terms
        self._totals[equation.pool] = terms.total
        if equation.pool in ("full", "swa", "kv") and equation.shape != "busy check total":
            self._pages.add(terms)
        rank = self._rank if equation.rank is None else equation.rank
        key = (equation.pool, rank)
        if key not in self._series and len(self._series) >= _MOST_RANKS:
            self._unjudged += 1
            return
        series = self._series.setdefault(key, _Series())
        if terms.off == 0 or (equation.when == "watchdog" and terms.off < 0):
            # A watchdog dump leaves out what running requests hold: too little is no fault there.
            series.balanced_last = True
            if not series.lines:
                series.balanced_before += 1
                series.last_balanced_line = self._number
            return
        series.balanced_last = False
        series.lines += 1
        if series.lines == 1:
            series.first_line, series.first_off = self._number, terms.off
            series.example = line.strip()[:_EXAMPLE_LENGTH]
        series.last_line, series.last_off = self._number, terms.off
        series.terms, series.when = terms, equation.when
        series.shape, series.leaked = equation.shape, equation.leaked or series.leaked

    def _signals(self, line: str) -> bool:
        seen = False
        if not any(word in line for word in SIGNAL_WORDS):
            return False
        for signal in SIGNALS:
            match = signal.pattern.search(line)
            if match is None:
                continue
            seen = True
            self._shapes[signal.shape] += 1
            hits = self._hits.setdefault(signal.shape, _Hits(signal, first_line=self._number))
            hits.lines += 1
            hits.last_line = self._number
            hits.example = hits.example or line.strip()[:_EXAMPLE_LENGTH]
            if len(hits.ranks) < _MOST_RANKS:
                hits.ranks.add(self._rank)
        return seen

    def _usage(self, line: str) -> bool:
        numbers = usage(line)
        if numbers is None:
            return False
        self._shapes["usage"] += 1
        self._pressure.add(numbers, self._number, self._rank, line.strip()[:_EXAMPLE_LENGTH])
        return True

    def report(self) -> TriageReport:
        """Sum up what was read."""
        page = self._pages.guess()
        unread = self._unread.report()
        faults = [*self._equation_faults(page), *map(_signal_fault, self._hits.values())]
        faults.extend(self._pressure.faults())
        faults.sort(key=lambda fault: (_SEVERITIES[fault.severity], fault.first_line))
        return TriageReport(
            lines=self._number,
            shapes=tuple(sorted(self._shapes.items(), key=lambda item: (-item[1], item[0]))),
            pool_totals=tuple(sorted(self._totals.items())),
            page=page,
            faults=tuple(faults),
            next=next_steps(faults, page, unread),
            cautions=self._cautions(),
            unread=unread,
        )

    def _cautions(self) -> tuple[str, ...]:
        cautions = []
        if self._pages.caution:
            cautions.append(self._pages.caution)
        if self._unjudged:
            cautions.append(
                f"{self._unjudged} pool lines of more than {_MOST_RANKS} ranks were not read"
            )
        return tuple(cautions)

    def _equation_faults(self, page: PageGuess) -> list[Fault]:
        groups: dict[tuple[str, Sign, Other], list[tuple[str, _Series]]] = {}
        for (pool, rank), series in sorted(self._series.items(), key=lambda item: item[0]):
            if series.lines:
                sign: Sign = "over" if series.last_off > 0 else "under"
                key = (pool, sign, self._other_state(pool, rank))
                groups.setdefault(key, []).append((rank, series))
        return [_equation_fault(*key, members, page) for key, members in groups.items()]

    def _other_state(self, pool: str, rank: str) -> Other:
        partner = {"full": "swa", "swa": "full"}.get(pool)
        series = self._series.get((partner, rank)) if partner else None
        if series is None:
            return "unknown"
        if series.balanced_last:
            return "balanced"
        return "over" if series.last_off > 0 else "under"


def _equation_fault(
    pool: str, sign: Sign, other: Other, members: list[tuple[str, _Series]], page: PageGuess
) -> Fault:
    worst = max((series for _, series in members), key=lambda series: abs(series.last_off))
    off = worst.last_off
    unit = _unit(pool)
    pages = _whole_pages(pool, off, page)
    one_page = pages in (-1, 1) and page.size_tokens != 1
    rule = rule_for(pool, sign, other, one_page)
    first = min((series for _, series in members), key=lambda series: series.first_line)
    return Fault(
        shape=worst.shape,
        severity="error",
        headline=_headline(pool, sign, off, unit, pages if page.size_tokens != 1 else None),
        meaning=" ".join([rule.says, *_remarks(pool, page, worst, members)]),
        pool=pool,
        sign=sign,
        off=off,
        off_pages=pages,
        lines=sum(series.lines for _, series in members),
        first_line=first.first_line,
        last_line=max(series.last_line for _, series in members),
        ranks=tuple(rank for rank, _ in members if rank),
        series=tuple(_finished(rank, series) for rank, series in members),
        growth=_growth(members, unit),
        example=first.example,
        families=rule.families,
        issues=rule.issues,
    )


def _unit(pool: str) -> str:
    if pool.startswith("mamba"):
        return "slots"
    return "rows" if pool == "req" else "tokens"


def _whole_pages(pool: str, off: int, page: PageGuess) -> int | None:
    size = page.size_tokens
    if size is None or _unit(pool) != "tokens" or off % size:
        return None
    return off // size


def _headline(pool: str, sign: Sign, off: int, unit: str, pages: int | None) -> str:
    names = {"kv": "KV", "swa": "SWA", "req": "request"}
    name = f"{names.get(pool, pool)} pool" if pool != "req" else "request table"
    amount = f"{abs(off)} {unit if abs(off) != 1 else unit[:-1]}"
    if pages is not None:
        amount += f" = {counted(abs(pages), 'page')}"
    word = "over: counted twice" if sign == "over" else "under: missing"
    return f"{name} {word}, {amount}"


def _remarks(
    pool: str, page: PageGuess, series: _Series, members: list[tuple[str, _Series]]
) -> list[str]:
    remarks = list(series.leaked)
    off, size = series.last_off, page.size_tokens
    if _unit(pool) == "tokens" and size and off % size:
        remarks.append(
            f"{abs(off)} is no multiple of the page size {size}: look at lengths that were "
            "counted in tokens (draft tails, bigram keys) before you look for lost pages."
        )
    terms = series.terms
    if off < 0 and series.when == "idle" and terms.uncached == 0 and terms.protected:
        remarks.append(
            "protected is not 0 at idle: a session or a lock that was never released holds part."
        )
    if len(members) > 1 and len({member.last_off for _, member in members}) == 1:
        remarks.append(f"All {len(members)} ranks show the same amount: logic, not a race.")
    return [remark if remark.endswith(".") else f"{remark}." for remark in remarks]


def _finished(rank: str, series: _Series) -> RankSeries:
    return RankSeries(
        rank,
        series.lines,
        series.first_line,
        series.last_line,
        series.first_off,
        series.last_off,
        series.balanced_before,
        series.last_balanced_line,
        series.terms,
        series.when,
    )


def _growth(members: list[tuple[str, _Series]], unit: str) -> str:
    rank, series = max(
        members, key=lambda member: (abs(member[1].last_off - member[1].first_off), member[1].lines)
    )
    if series.lines < 2 and not series.balanced_last:
        return ""
    where = f"rank {rank}: " if rank else ""
    span = f"{series.lines} lines ({series.first_line} to {series.last_line})"
    if series.balanced_last:
        return f"{where}later lines balance again: look for pages in flight, not for lost ones"
    if series.first_off == series.last_off:
        return f"{where}{series.first_off:+d} {unit} on {span}: one event, not a steady loss"
    return (
        f"{where}from {series.first_off:+d} to {series.last_off:+d} {unit} over {span}: "
        "it goes on happening"
    )


def _signal_fault(hits: _Hits) -> Fault:
    signal = hits.signal
    return Fault(
        shape=signal.shape,
        severity=signal.severity,
        headline=signal.headline,
        meaning=signal.says,
        pool=signal.pool,
        sign=None,
        off=None,
        off_pages=None,
        lines=hits.lines,
        first_line=hits.first_line,
        last_line=hits.last_line,
        ranks=tuple(sorted(rank for rank in hits.ranks if rank)),
        series=(),
        growth="",
        example=hits.example,
        families=signal.families,
        issues=signal.issues,
    )
