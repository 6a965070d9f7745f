"""The CQL dialect for sqlglot: Spark SQL with windows after the streams of FROM."""

from __future__ import annotations

from string import ascii_uppercase
from typing import Any, ClassVar, NoReturn

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

from lowwater.cql.errors import cql_error, from_parser, set_position, suggestion
from lowwater.cql.functions import AGGREGATES
from lowwater.cql.nodes import (
    CLAUSES,
    PHRASES,
    SPELLING,
    UNITS,
    EarlyItem,
    KeepClause,
    Length,
    RankOf,
    RowNumber,
    StreamUnion,
    StreamWindow,
    WindowedStream,
    length,
    unit_of,
)
from lowwater.errors import CqlError

_PLACE = "a window must stand after a stream in FROM, or between SELECT and FROM"
_AFTER_A_STREAM = {
    "SLIDE", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "ON", "USING",
    "JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "ANTI", "SEMI", "NATURAL",
}  # fmt: skip
_STARTS_A_QUERY = (TokenType.SELECT, TokenType.DISTINCT, TokenType.L_PAREN)


class Cql(Spark):
    """The sqlglot dialect of CQL: Spark SQL with windows."""

    class Parser(SparkParser):
        """The parser of CQL; it reads windows in FROM, and keeps aggregates as plain calls."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {
            name: make
            for name, make in SparkParser.FUNCTIONS.items()
            if name.lower() not in AGGREGATES
        }
        # Keep the streams of FROM as a list: they are printed as a list again.
        JOINS_HAVE_EQUAL_PRECEDENCE = False

        def _parse_table(self, **options: Any) -> Any:  # type: ignore[override]  # passed on
            # Read no joins here: the window after the stream must be read before them.
            this = super()._parse_table(**{**options, "joins": False})
            return this if this is None or options.get("schema") else self._windowed(this)

        def _parse_bracket(self, this: Any = None) -> Any:
            if not self._at_window():
                return super()._parse_bracket(this)
            if isinstance(this, exp.Table):
                return this
            if this is None:
                self._refuse(_PLACE)
            return self._early(this)

        def _parse_projections(self) -> Any:
            items, more = super()._parse_projections()
            if items and self._at_window():  # after a name: count(*) AS n [RANGE …] FROM
                items[-1] = self._early(items[-1])
            return items, more

        def _early(self, item: exp.Expr) -> EarlyItem:
            early = EarlyItem(this=item, window=self._window())
            if self._curr.token_type != TokenType.FROM:
                raise cql_error(_PLACE, self.sql, early.args["window"])
            return early

        def _parse_table_alias(self, *args: Any, **options: Any) -> Any:
            if self._word() in ("KEEP", "SLIDE"):
                return None
            return super()._parse_table_alias(*args, **options)

        def _windowed(self, this: exp.Expr) -> exp.Expr:
            this = self._union_of(this)
            self._match(TokenType.WINDOW)
            if self._at_window():
                return WindowedStream(this=this, window=self._window())
            if self._match_text_seq("KEEP"):
                clause = KeepClause(this=this, keep=self._length())
                if self._match_text_seq("SLIDE"):
                    clause.set("slide", self._length())
                return clause
            return this

        def _union_of(self, this: exp.Expr) -> exp.Expr:
            members: list[Any] = [this]
            while self._at_stream_after_union():
                self._match(TokenType.UNION)
                self._match(TokenType.ALL)
                members.append(super()._parse_table())
            if len(members) == 1:
                return this
            alias = members[-1].args.get("alias")
            members[-1].set("alias", None)
            return StreamUnion(expressions=members, alias=alias)

        def _at_stream_after_union(self) -> bool:
            ahead = [token.token_type for token in self._tokens[self._index : self._index + 3]]
            after = [kind for kind in ahead[1:] if kind != TokenType.ALL]
            is_union = ahead[:1] == [TokenType.UNION]
            return is_union and bool(after) and after[0] not in _STARTS_A_QUERY

        def _at_window(self) -> bool:
            opens = bool(self._curr) and self._curr.token_type == TokenType.L_BRACKET
            return opens and bool(self._next) and self._next.text.upper() in CLAUSES

        def _window(self) -> StreamWindow:
            window = StreamWindow()
            set_position(window, self._curr.start)
            self._match(TokenType.L_BRACKET)
            while not self._match(TokenType.R_BRACKET):
                if self._match(TokenType.COMMA):
                    continue
                word = self._word()
                if word not in CLAUSES:
                    hint = suggestion(word, map(str.lower, CLAUSES))
                    if word == "REVISE":
                        hint = "REVISE is now ALLOWED LATENESS"
                    self._refuse(f"expected a clause of the window, or ], not {self._here()}", hint)
                if window.args.get(CLAUSES[word]):
                    self._refuse(f"{PHRASES.get(word, word)} stands twice in the window")
                self._advance()
                if word in PHRASES and not self._match_text_seq(*PHRASES[word].split()[1:]):
                    self._refuse(f"expected {PHRASES[word]}, not {word} {self._here()}")
                self._match(TokenType.EQ)
                window.set(CLAUSES[word], self._clause(word))
            return window

        def _clause(self, word: str) -> Any:
            if word in ("RANGE", "SLIDE", "GAP", "ALLOWED"):
                return self._length()
            if word == "ORIGIN":
                return self._origin()
            attributes = [self._name() if word == "PATTR" else self._attribute()]
            while word in ("WATTR", "WA", "PATTR") and self._at_another_name():
                self._match(TokenType.COMMA)
                attributes.append(self._name())
            return attributes if word == "PATTR" or len(attributes) > 1 else attributes[0]

        def _length(self) -> Length:
            at = self._position()
            if self._match_text_seq("UNBOUNDED"):
                return Length(this="UNBOUNDED", kind="unbounded")
            terms: list[tuple[str, str | None]] = []
            while (term := self._term()) is not None:
                terms.append(term)
            if not terms:
                self._refuse(f"expected a length like '5 minutes' or '10 rows', not {self._here()}")
            node = length(terms)
            if node is None:
                hint = "write it like 1 minute 30 seconds, or 10 rows"
                raise CqlError("these numbers and units do not make one length", self.sql, at, hint)
            set_position(node, at)
            return node

        def _term(self) -> tuple[str, str | None] | None:
            if self._match(TokenType.NUMBER):
                return self._prev.text, self._unit()
            word = self._word()
            number = word.rstrip(ascii_uppercase)  # 10min is one word
            unit = unit_of(word[len(number) :]) if number.isdigit() else None
            if unit is None:
                return None
            self._advance()
            return number, unit

        def _unit(self) -> str | None:
            word = self._word()
            unit = unit_of(word)
            if unit is not None:
                self._advance()
            elif word.isalpha() and word not in {*CLAUSES, *_AFTER_A_STREAM}:
                known = [*UNITS, *(f"{u}s" for u in UNITS if len(u) > 2)]  # noqa: PLR2004
                units = "units are microseconds to weeks, and rows"
                hint = suggestion(word, known, otherwise=units)
                self._refuse(f"{self._here()} is not a unit", hint)
            return unit

        def _attribute(self) -> exp.Expr:
            at = self._position()
            node: exp.Expr
            if self._match_text_seq("ROW", "-", "NUM"):
                node = RowNumber()
            elif self._word() == "RANK" and self._next.token_type == TokenType.L_PAREN:
                self._advance(2)
                node = RankOf(this=self._name())
                if not self._match(TokenType.R_PAREN):
                    self._refuse(f"expected ) after rank(…, not {self._here()}")
            else:
                node = self._name()
            set_position(node, at)
            return node

        def _at_another_name(self) -> bool:
            """Return whether the next tokens are a comma and a column, not a comma and a clause."""
            ahead = self._tokens[self._index : self._index + 3]
            kinds, words = [t.token_type for t in ahead], [t.text.upper() for t in ahead]
            if kinds[:1] != [TokenType.COMMA] or len(kinds) == 1:
                return False
            is_clause = words[1] in CLAUSES and kinds[1] != TokenType.IDENTIFIER
            ends = {TokenType.DOT, TokenType.COMMA, TokenType.R_BRACKET}
            return not is_clause and ({*kinds[2:]} <= ends or words[2] in CLAUSES)

        def _origin(self) -> exp.Expr:
            sign = "-" if self._match(TokenType.DASH) else ""
            if self._match(TokenType.NUMBER):
                return exp.Literal(this=sign + self._prev.text, is_string=False)
            if sign or not self._match(TokenType.STRING):
                self._refuse(f"expected a number, or a time in quotes, not {self._here()}")
            return exp.Literal.string(self._prev.text)

        def _name(self) -> exp.Expr:
            if self._word() in CLAUSES or not (name := self._parse_id_var()):
                self._refuse(f"expected a column, not {self._here()}")
            table = None
            if self._match(TokenType.DOT):
                table, name = name, self._parse_id_var()
            return exp.Column(this=name, table=table)

        def _word(self) -> str:
            token: Token | None = self._curr
            if not token or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
                return ""
            return str(token.text).upper()

        def _here(self) -> str:
            """Return the current word in quotes, for an error message."""
            word = self._curr.text if self._curr else ""
            return repr(word) if word else "the end of the text"

        def _position(self) -> int:
            """Return the position of the current word, or of the end of the text."""
            return self._curr.start if self._curr and self._curr.text else len(self.sql.rstrip())

        def _refuse(self, problem: str, hint: str | None = None) -> NoReturn:
            raise CqlError(problem, self.sql, self._position(), hint)

    class Generator(SparkGenerator):
        """The printer of CQL; it prints a syntax tree in normal form."""

        TRANSFORMS: ClassVar[dict[Any, Any]] = {**SparkGenerator.TRANSFORMS, **SPELLING}


def parse(text: str) -> exp.Expr:
    """Return the syntax tree of the CQL query `text`; raise CqlError if `text` is not one query."""
    try:
        trees = [tree for tree in Cql().parse(text) if tree is not None]
    except ParseError as problem:
        raise from_parser(problem, text) from None
    except TokenError as problem:
        raise CqlError(str(problem).splitlines()[0], text, len(text.rstrip())) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise CqlError("a text must be one query: SELECT … FROM …", text, 0)
    for early in list(trees[0].find_all(EarlyItem)):
        _move_window(early, text)
    return trees[0]


def _move_window(early: EarlyItem, text: str) -> None:
    """Move the window of `early` from the end of SELECT to the stream of FROM.

    If FROM has joins, first wrap them in a subquery, which then has the window.
    """
    select, window = early.parent, early.args["window"]
    if not isinstance(select, exp.Select) or "from_" not in select.args:
        raise cql_error(_PLACE, text, window)
    early.replace(early.this)
    source = select.args["from_"]
    if select.args.get("joins"):
        moved = {name: select.args.pop(name, None) for name in ("from_", "joins", "where")}
        inner = exp.Select(expressions=[exp.Star()], **{k: v for k, v in moved.items() if v})
        source = exp.From(this=exp.Subquery(this=inner))
        select.set("from_", source)
    if isinstance(source.this, WindowedStream | KeepClause):
        raise cql_error("the stream has two windows", text, window, "remove one of them")
    source.set("this", WindowedStream(this=source.this, window=window))


def normal_form(tree: exp.Expr) -> str:
    """Return the text of `tree` with uniform case, spaces and spelling of units.

    >>> normal_form(parse("select COUNT(*) from s [range 5 min, slide=1 min, wa ts]"))
    'SELECT count(*) FROM s [RANGE 5 minutes SLIDE 1 minute WATTR ts]'
    """
    return tree.sql(dialect=Cql, normalize_functions="lower", comments=False)
