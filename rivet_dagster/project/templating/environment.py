"""Jinja's sandbox, in which a rendering is pure, deterministic and bounded in time and size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import StrictUndefined
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Namespace

from rivet_dagster.errors import nearest
from rivet_dagster.model.text_lines import MacroCall, TextLocation
from rivet_dagster.project.templating.functions import (
    ATTRIBUTES,
    Functions,
    WordValue,
    call_method,
    format_percent,
    limit_filters,
    limit_tests,
)
from rivet_dagster.project.templating.limits import DEEPEST, LARGEST, OPERATIONS_OF_A_CALL
from rivet_dagster.project.templating.rendering_state import (
    Bound,
    Function,
    Hook,
    MacroOfFile,
    RenderingState,
    Returned,
    describe,
    format_value,
    text_of,
)
from rivet_dagster.project.templating.traced import TracedText, join_texts
from rivet_dagster.project.templating.tree import WRITTEN
from rivet_dagster.project.templating.words import Meaning, TemplateError

_OF_A_LOOP = ("_loop_vars", "_block_vars")
"""Arguments that Jinja passes with a call for functions that take its context, of which there are none here."""

_UNKNOWN = re.compile(r"No (filter|test) named '(.+)'\.")


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox of a project's templates.

    ``variables`` are the values of ``var`` by name: plain data, copied for each use so that no template changes them;
    ``bound`` names those that a run binds as parameters.
    """

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)
    concat = staticmethod(join_texts)

    def __init__(self, variables: Mapping[str, Any], bound: frozenset[str]) -> None:
        super().__init__(
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            optimized=False,
            cache_size=0,
            extensions=["jinja2.ext.do"],
        )
        self._state: list[RenderingState] = []  # a list, which overlays share
        self._macros: dict[str, Macro] = {}
        self.filters = limit_filters(self.filters, lambda: self.rendering.limits) | {WRITTEN: self._write}
        self.tests = limit_tests(self.tests, lambda: self.rendering.limits)
        self.globals = {
            **Functions(lambda: self.rendering, variables, bound).by_name(),
            "cycler": Cycler,
            "namespace": Namespace,
        }
        for name, run in self._hooks().items():
            setattr(self, name, Hook(run))

    @property
    def rendering(self) -> RenderingState:
        """The rendering at hand."""
        return self._state[-1]

    def declare_macros(self, macros: Iterable[str]) -> None:
        """Make the macros of files known to all templates, before the files themselves are run."""
        self.globals |= {name: MacroOfFile(name) for name in macros}

    def begin(self, meaning: Meaning) -> RenderingState:
        """Return the state of a new rendering."""
        self._state[:] = [RenderingState(meaning)]
        return self.rendering

    @property
    def known(self) -> tuple[str, ...]:
        """The names that every template knows."""
        return tuple(self.globals)

    def add_hint(self, message: str) -> str:
        """Return an error of Jinja's; where it is about an unknown filter or test, with the nearest known ones."""
        unknown = _UNKNOWN.search(message)
        if unknown is None:
            return message
        known = self.filters if unknown[1] == "filter" else self.tests
        return f"{message.rstrip('.')}{nearest(unknown[2], set(known) - {WRITTEN})}"

    # What compiled templates call, by the names that `tree` gives

    def _hooks(self) -> dict[str, Callable[..., Any]]:
        return {
            "rivet_text": self._text,
            "rivet_write": self._write,
            "rivet_called": self._called,
            "rivet_join": self._join,
            "rivet_operand": self._operand,
            "rivet_items": self._items,
            "rivet_step": self._step,
            "rivet_macro": self._macro_defined,
        }

    def _text(self, written: tuple[str, int, str | None]) -> TracedText:
        text, line, file = written
        self.rendering.limits.check_length(len(text))
        return TracedText(text, TextLocation(line, file), advances=True)

    def _write(self, value: Any, place: tuple[int, str | None]) -> TracedText:
        location = self.rendering.location = TextLocation(*place)
        text = value if isinstance(value, TracedText) else TracedText(format_value(value), location)
        self.rendering.limits.check_length(len(text))
        return text

    def _called(self, function: Any, place: tuple[int, str | None]) -> Any:
        self.rendering.location = TextLocation(*place)
        return function

    def _join(self, values: list[Any], place: tuple[int, str | None]) -> str:
        location = self.rendering.location = TextLocation(*place)
        texts = [value if isinstance(value, TracedText) else TracedText(text_of(value), location) for value in values]
        self.rendering.limits.check_length(sum(map(len, texts)))
        return join_texts(texts)

    def _operand(self, value: Any) -> Any:
        if isinstance(value, Bound):
            raise value.unknown()
        return value

    def _items(self, value: Any) -> Any:
        value = self._operand(value)
        return value if isinstance(value, str | list | tuple | dict) else list(value)

    def _step(self) -> bool:
        self.rendering.limits.count()
        return True

    def _macro_defined(self, name: str, macro: Macro) -> None:
        self._macros.setdefault(name, macro)  # of two with one name, which is an error, the first

    # What Jinja's sandbox asks

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call what templates may call; everything else is an error."""
        if type(__obj) is Hook:
            return __obj.run(*args)
        for name in _OF_A_LOOP:
            kwargs.pop(name, None)
        rendering = __self.rendering
        if isinstance(__obj, MacroOfFile):
            __obj = __self._macros[__obj.name]
        rendering.limits.count(OPERATIONS_OF_A_CALL)
        if isinstance(__obj, Macro | LoopContext):
            return __self._nested(__context, __obj, args, kwargs)
        if isinstance(__obj, Function):
            for argument in (*args, *kwargs.values()):
                if isinstance(argument, StrictUndefined):
                    str(argument)  # raises its own error
            return __obj.run(*args, **kwargs)
        if isinstance(__obj, WordValue):
            return __obj.call(args, kwargs)
        if __obj is Namespace or __obj is Cycler:
            return __obj(*args, **kwargs)
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, str | list | tuple | dict) and __self.is_safe_attribute(owner, name, __obj):
            return call_method(owner, name, args, kwargs, rendering.limits)
        if isinstance(owner, LoopContext | Cycler):
            return __obj(*args, **kwargs)
        if isinstance(__obj, StrictUndefined):
            str(__obj)  # raises its own error
        raise TemplateError(f"calls {describe(__obj)}, which is no function")

    def _nested(self, context: Context, called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a macro, or the loop at hand for its children."""
        rendering = self.rendering
        if rendering.depth >= DEEPEST:
            raise TemplateError(f"nests calls more than {DEEPEST} deep")
        if "caller" in kwargs and isinstance(called, Macro) and not (called.caller or called.catch_kwargs):
            raise TemplateError(f"gives a block to the macro '{called.name}', which has no place for it: caller()")
        location, before = rendering.location, rendering.calls
        call = (
            MacroCall(str(called.name or "caller"), location.line, location.file) if isinstance(called, Macro) else None
        )
        rendering.depth += 1
        rendering.calls = before if call is None else (call, *before)
        try:
            result = super().call(context, called, *args, **kwargs)
        except Returned as returned:
            if call is None:
                raise
            result = returned.value
        except Exception:
            if rendering.calls_at_error is None:
                rendering.calls_at_error = rendering.calls
            raise
        finally:
            rendering.depth -= 1
            rendering.calls, rendering.location = before, location
        return TracedText(result, parts=(result,), call=call) if isinstance(result, TracedText) else result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Return the result of an operator, where it is small enough."""
        limits = self.rendering.limits
        for value in (left, right):
            self._operand(value)
        if operator == "%" and isinstance(left, str):
            return format_percent(left, right, limits)
        if operator == "*":
            for sequence, times in ((left, right), (right, left)):
                if isinstance(sequence, str | list | tuple) and isinstance(times, int):
                    (limits.check_length if isinstance(sequence, str) else limits.count)(len(sequence) * max(times, 0))
        whole = isinstance(left, int) and isinstance(right, int)
        if operator == "**" and whole and abs(left) > 1 and left.bit_length() * right > 2 * LARGEST:
            raise TemplateError(f"makes a number of more than {LARGEST:,} bits")
        return limits.check_value(super().call_binop(context, operator, left, right))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute or an item. Raises TemplateError for those of a value that only a run knows."""
        self.rendering.limits.count()
        if isinstance(obj, Bound | Function | MacroOfFile):
            raise TemplateError(f"asks for '{attribute}' of {describe(obj)}, which has none")
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item or an attribute, as ``getattr`` does."""
        self.rendering.limits.count()
        if isinstance(obj, Bound | Function | MacroOfFile):
            raise TemplateError(f"asks for '{text_of(argument)}' of {describe(obj)}, which has none")
        return super().getitem(obj, argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether templates know an attribute; lists and mappings of their own they may change."""
        if isinstance(obj, Namespace):
            return not attr.startswith("_")
        kind = "str" if isinstance(obj, str) else type(obj).__name__
        return attr in ATTRIBUTES.get(kind, ())

    def wrap_str_format(self, value: Any) -> None:
        """Leave ``format`` to ``call``, which limits it."""
        return None
