"""The policy compiler: from a document to the bytes that the native engine loads."""

from tidegate.compiler.calendars import year_of
from tidegate.compiler.policy import Compiled, compile_policy
from tidegate.compiler.rates import compile_rates
from tidegate.compiler.snapshot import Snapshot, compile_document

__all__ = ["Compiled", "Snapshot", "compile_document", "compile_policy", "compile_rates", "year_of"]
