"""An import: a dbt project is read, translated, compiled, and written to a folder of its own.

What does not compile as a joint or a check is translated again: with the text that dbt has compiled where that is
there, else it is left out. So the project that is written compiles.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from rivet_dagster.collector import without_collector
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.dbt.reading.project import read_dbt_project
from rivet_dagster.dbt.report import LEFT_OUT, Refused, Report, ReportEntry, TranslatedProject
from rivet_dagster.dbt.translation.project import translate
from rivet_dagster.dbt.values import ImportEnvironment
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.loading import compile_directory
from rivet_dagster.secrets.variables import variables_in

_TEMPLATE = "RVT-212"
_VARIABLE = re.compile(r"var\('(\w+)'")


def import_dbt_project(directory: Path, target: Path, output: str | None = None) -> Report:
    """Write the project of joints that the dbt project in ``directory`` becomes to ``target``, and return the report.

    It is that of the ``output`` of dbt's profile, as with dbt's option ``--target``, else that of the profile's own.

    Raises RVT-130 for a target that is not empty, RVT-144 for one within the project, RVT-141 and RVT-142 without a
    project, RVT-145 without such an output. Then, and when it is interrupted, nothing is written.
    """
    with without_collector():
        return _import(directory.absolute(), target, output)


def _import(directory: Path, target: Path, output: str | None) -> Report:
    with _made(target):
        target = target.resolve()
        _check_target(directory, target)
    environment = ImportEnvironment(os.environ)
    project = read_dbt_project(directory, environment, output)
    with _beside(target) as staged:
        refused = Refused()
        while True:  # each round refuses more than the one before, or is the last one
            translation = translate(project, directory, refused, environment)
            with _made(target):
                _write(translation, directory, staged)
            assembly = _compiled(staged, translation)
            refusals = _refused(refused, translation, assembly)
            if refusals is None:
                break
            refused = refusals
            shutil.rmtree(staged)
            staged.mkdir()
        tests = [*_with_unit_tests(translation, assembly, staged)]
        with _made(target):
            if target.is_dir():
                target.rmdir()
            staged.rename(target)
    return translation.report.with_others(tests)


def _check_target(directory: Path, target: Path) -> None:
    if target == directory.resolve() or directory.resolve() in target.parents:
        raise RivetError("RVT-144", f"{target} is within {directory}, where nothing is written")
    if target.exists() and not target.is_dir():
        raise RivetError("RVT-130", f"{target} is no directory")
    if target.is_dir() and any(target.iterdir()):
        raise RivetError("RVT-130", f"{target} is not empty")


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside the target, which is removed unless it has been renamed."""
    with _made(target):
        made = [folder for folder in reversed((target.parent, *target.parent.parents)) if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=f".{target.name[:40]}-", dir=target.parent))
    try:
        staged.chmod(0o777 & ~_umask())
        yield staged
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        with suppress(OSError):  # another process may have put something there since
            for folder in reversed(made):
                folder.rmdir()
        raise


@contextmanager
def _made(target: Path) -> Iterator[None]:
    """Raise RVT-130 where the file system refuses something: a name that is too long, a link to itself, a full disk."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # before Python 3.13, a loop of links is a RuntimeError
        reason = error.strerror if isinstance(error, OSError) else None
        raise RivetError("RVT-130", f"{target} cannot be made: {reason or error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write(translation: TranslatedProject, directory: Path, staged: Path) -> None:
    for folder in translation.folders:
        (staged / folder).mkdir(parents=True, exist_ok=True)
    for path, text in translation.files.items():
        file = staged / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
    for path, source in translation.copies.items():
        file = staged / path
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(directory / source, file)


def _needed_at_import(error: Diagnostic, translation: TranslatedProject) -> frozenset[str]:
    """Return the variables that a template needs to be rendered: those of the message, else of the line it is about."""
    named = translation.importable.intersection(_VARIABLE.findall(error.message))
    lines = translation.files.get(error.file or "", "").splitlines()
    line = lines[error.line - 1] if error.line is not None and error.line <= len(lines) else ""
    return named or translation.importable.intersection(_VARIABLE.findall(line))


def _with_unit_tests(translation: TranslatedProject, assembly: CompiledAssembly, staged: Path) -> Iterator[ReportEntry]:
    """Write the tests of joints that are those of the plan, and yield what is told of each."""
    for test in translation.unit_tests(assembly):
        for path, text in test.files.items():
            (staged / path).parent.mkdir(parents=True, exist_ok=True)
            (staged / path).write_text(text, encoding="utf-8", newline="")
        reasons = _wrong_test(*next(iter(test.files.items())), assembly, staged) if test.files else []
        if reasons:
            (staged / next(iter(test.files))).unlink()
        yield test.entry if not reasons else replace(test.entry, status=LEFT_OUT, joint=None, reasons=tuple(reasons))


def _wrong_test(path: str, text: str, assembly: CompiledAssembly, staged: Path) -> list[str]:
    from rivet_dagster.project_tests.documents import documents_of, extend_documents
    from rivet_dagster.project_tests.parsing import parse_test
    from rivet_dagster.project_tests.prepared import prepare

    try:
        for document in extend_documents(documents_of(text, path)):
            prepare(parse_test(document), assembly, staged)
    except RivetError as error:
        return [f"{diagnostic.message} ({diagnostic.code})" for diagnostic in error.diagnostics]
    return []


def _compiled(staged: Path, translation: TranslatedProject) -> CompiledAssembly:
    """Return the plan of what was written; variables of the environment have any value."""
    environ = {**dict.fromkeys(variables_in(list(translation.variables)), "0"), **os.environ}
    assembly = compile_directory(staged, "default", environ=environ)
    shutil.rmtree(staged / ".rivet", ignore_errors=True)
    return assembly


def _refused(refused: Refused, translation: TranslatedProject, assembly: CompiledAssembly) -> Refused | None:
    """Return what was refused before and what the compiler refuses now; None if that is nothing."""
    joints = {name: list(reasons) for name, reasons in refused.joints.items()}
    checks, macros, imported = dict(refused.checks), dict(refused.macros), set(refused.imported)
    unplaced: list[Diagnostic] = []
    for error in assembly.errors:
        location = (error.file or "", error.line or 0)
        joint = translation.joint_files.get(error.file or "") or error.joint
        macro = translation.macro_at(*location)
        check = translation.check_lines.get(location) or translation.check_lines.get((error.file or "", 0))
        reason = f"{error.message} ({error.code})"
        needed = _needed_at_import(error, translation) if error.code == _TEMPLATE else set()
        if needed:
            imported |= needed
        elif check is not None:
            checks.setdefault(check, reason)
        elif macro is not None:
            macros.setdefault(macro, reason)
        elif joint is not None:
            line = translation.original_line(error.file or "", error.line)
            note = reason if line is None else f"{line}: {reason}"
            if note not in joints.setdefault(joint, []):
                joints[joint].append(note)
        else:
            unplaced.append(error)
    if not assembly.errors:
        unsaid = translation.unsaid()
        if unsaid == Refused():
            return None
        for joint, reasons in unsaid.joints.items():
            joints.setdefault(joint, []).extend(reasons)
        imported |= unsaid.imported
    refusals = Refused(joints, checks, macros, frozenset(imported))
    if refusals == refused:
        raise RivetError.of(unplaced or assembly.errors)
    return refusals
