"""Reading of one package: the project itself, or a package that is installed in it."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from rivet_dagster.dbt.declared import (
    MODEL,
    SEED,
    SNAPSHOT,
    TEST,
    Config,
    DbtLocation,
    DbtNode,
    Macro,
    Other,
    Package,
    Properties,
)
from rivet_dagster.dbt.files import (
    IGNORE_FILE,
    PackageFiles,
    ignore_matching,
    read_file,
    read_ignored,
    read_yaml_file,
    template_of,
)
from rivet_dagster.dbt.reading.config import (
    file_config,
    folder_configs,
    is_used,
    located_config,
    merge_configs,
    python_config,
    rendered_config,
)
from rivet_dagster.dbt.reading.project_file import ProjectFile
from rivet_dagster.dbt.reading.properties import FileProperties, PropertiesReader
from rivet_dagster.dbt.reading.versions import files_of_versions
from rivet_dagster.dbt.template import DOCS, MATERIALIZATION, DbtTemplate
from rivet_dagster.dbt.values import UnknownValueError, project_file_context
from rivet_dagster.project.text_file import TextError

_YAML = (".yml", ".yaml")
_COMMENT = re.compile(r"\{#.*?#\}|/\*.*?\*/|--[^\n]*", re.DOTALL)
_HOOKS = {"pre-hook": "pre_hook", "post-hook": "post_hook"}


class PackageReader:
    """Reads the package of a project file; ``outer`` is that of the whole project, None for the project itself."""

    def __init__(
        self, root: Path, project_file: ProjectFile, outer: ProjectFile | None, context: Mapping[str, Any]
    ) -> None:
        self._root, self._file, self._outer, self._context = root, project_file, outer, context
        self._problems: list[Other] = []
        try:
            is_ignored = read_ignored(root / project_file.folder)
        except TextError as error:
            location = DbtLocation(os.path.join(project_file.folder, IGNORE_FILE), error.line or 1)
            self._problems.append(Other("file", IGNORE_FILE, location, f"{error.message}; all files are read"))
            is_ignored = ignore_matching("")
        self._folder = PackageFiles(root, project_file.folder, is_ignored)
        self._others: list[Other] = [
            _hook(name, value, DbtLocation(project_file.file, line)) for name, value, line in project_file.hooks
        ]
        self._others += [
            Other("setting", key, DbtLocation(project_file.file, line), reason)
            for key, line, reason in project_file.unused
        ]

    def package(self) -> Package:
        """Return all that the package declares."""
        docs = self._docs()
        properties = self._properties(docs)
        read = properties.read
        macros = tuple(self._macros())
        nodes = [*self._models(read), *self._seeds(read), *self._snapshots(read), *self._tests(read)]
        self._others += [
            Other("analysis", PurePosixPath(below).stem, DbtLocation(file), "analyses have no counterpart")
            for file, below in self._files("analyses", (".sql",))
        ]
        self._others += [other for node in nodes for other in _hooks(node)]
        self._others += [
            Other("link", link, DbtLocation(link), "is a link to a folder, and dbt does not follow it either")
            for link in dict.fromkeys(self._folder.links(self._file.all_paths))
        ]
        described = {(node.kind, node.properties.name) for node in nodes if node.properties is not None}
        described |= {(MODEL, node.name) for node in nodes if node.version is not None}
        for (kind, name), patch in read.patches.items():
            if kind in (MODEL, SEED, SNAPSHOT) and (kind, name) not in described and patch.relation is None:
                reason = f"there is no {kind} of that name, so its description and tests have no place"
                self._problems.append(Other("properties", name, patch.location, reason))
        return Package(
            name=self._file.name,
            folder=self._file.folder,
            variables=self._file.variables,
            nodes=tuple(nodes),
            sources=tuple(read.sources),
            macros=macros,
            groups=read.groups,
            tests=self._file.trees["tests"],
            others=(*self._others, *read.others),
            problems=(*self._problems, *read.problems),
            exposures=tuple(read.exposures),
            unit_tests=tuple(read.unit_tests),
            fixtures={PurePosixPath(below).stem: file for file, below in self._files("tests", (".csv",))},
        )

    def _files(self, kind: str, extensions: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        return self._folder.below(self._file.paths[kind], extensions)

    def _trees(self, kind: str) -> list[tuple[str, Any]]:
        """Return the configuration trees that concern the package's nodes, those of the whole project last."""
        tree: tuple[str, Any] = (self._file.file, self._file.trees.get(kind, {}))
        return [tree] if self._outer is None else [tree, (self._outer.file, self._outer.trees.get(kind, {}))]

    def _docs(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        for file, _ in self._folder.below(self._file.docs_paths, (".md",)):
            template, wrong = template_of(self._root, file)
            if template is None:
                if wrong is not None:
                    self._problems.append(Other("docs", file, DbtLocation(file, wrong[1]), wrong[0]))
                continue
            blocks = (block for block in template.blocks() if block.kind == DOCS)
            texts |= {block.name: template.text[slice(*block.inner)].strip() for block in blocks}
        return texts

    def _properties(self, docs: Mapping[str, str]) -> PropertiesReader:
        def doc(name: str) -> str:
            if name not in docs:
                raise UnknownValueError(f"there is no docs block '{name}'")
            return docs[name]

        reader = PropertiesReader(self._file.name, self._context, doc, self._trees("sources"))
        for file, below in self._folder.below(self._file.all_paths, _YAML):
            try:
                value = read_yaml_file(self._root / file)
            except TextError as error:
                message = f"{error.message}; nothing of the file is used"
                self._problems.append(Other("properties", file, DbtLocation(file, error.line or 1), message))
                continue
            reader.add(value, file, PurePosixPath(below).parent.parts)
        return reader

    def _models(self, read: FileProperties) -> Iterator[DbtNode]:
        files = list(self._files("models", (".sql", ".py")))
        versions = dict(files_of_versions(read.patches, {PurePosixPath(below).stem for _, below in files}))
        for file, below in files:
            stem = PurePosixPath(below).stem
            folders = PurePosixPath(below).parent.parts
            name, version, latest = versions.get(stem, (stem, None, None))
            patch = read.patches.get((MODEL, name)) if version is None else version.properties
            v = None if version is None else version.v
            fqn = (self._file.name, *folders, name, *(() if v is None else (f"v{v}",)))
            if below.endswith(".py"):
                yield self._python_model(DbtNode(MODEL, self._file.name, name, file, fqn, properties=patch, version=v))
                continue
            template, wrong = template_of(self._root, file)
            config = self._config("models", fqn, patch, template, file)
            yield DbtNode(
                kind=MODEL,
                package=self._file.name,
                name=name,
                file=file,
                fqn=fqn,
                template=template,
                inner=None if template is None else (0, len(template.text)),
                config=config,
                properties=patch,
                version=v,
                is_latest=version is None or str(v) == str(latest),
                problem=None if wrong is None else (wrong[0], DbtLocation(file, wrong[1])),
            )

    def _python_model(self, node: DbtNode) -> DbtNode:
        in_python = python_config(self._root / node.file, node.file)
        config = self._config("models", node.fqn, node.properties, None, node.file, in_python=in_python)
        try:
            code, problem = read_file(self._root / node.file), None
        except TextError as error:
            code, problem = None, (error.message, DbtLocation(node.file, error.line or 1))
        return replace(node, config=config, code=code, problem=problem)

    def _seeds(self, read: FileProperties) -> Iterator[DbtNode]:
        for file, below in self._files("seeds", (".csv",)):
            path = PurePosixPath(below)
            fqn = (self._file.name, *path.parent.parts, path.stem)
            patch = read.patches.get((SEED, path.stem))
            config = self._config("seeds", fqn, patch, None, file)
            yield DbtNode(SEED, self._file.name, path.stem, file, fqn, config=config, properties=patch)

    def _snapshots(self, read: FileProperties) -> Iterator[DbtNode]:
        seen = set()
        paths = dict.fromkeys((*self._file.paths["snapshots"], *self._file.paths["models"]))
        for file, below in self._folder.below(paths, (".sql",)):
            template, wrong = template_of(self._root, file)
            folders = (*PurePosixPath(below).parent.parts, PurePosixPath(below).stem)
            if template is None:
                if wrong is not None and file.startswith(self._below_own("snapshots")):
                    problem = (wrong[0], DbtLocation(file, wrong[1]))
                    name = PurePosixPath(below).stem
                    yield DbtNode(SNAPSHOT, self._file.name, name, file, (self._file.name, *folders), problem=problem)
                continue
            for block in template.blocks():
                if block.kind != SNAPSHOT:
                    continue
                seen.add(block.name)
                fqn = (self._file.name, *folders, block.name)
                patch = read.patches.get((SNAPSHOT, block.name))
                config = self._config("snapshots", fqn, patch, template, file, block.inner)
                line = template.line(block.start)
                yield DbtNode(
                    SNAPSHOT, self._file.name, block.name, file, fqn, line, template, block.inner, config, patch
                )
        for (kind, name), patch in read.patches.items():
            if kind == SNAPSHOT and patch.relation is not None and name not in seen:
                fqn = (self._file.name, *patch.folder, name)
                config = self._config("snapshots", fqn, patch, None, patch.location.file)
                file, line = patch.location.file, patch.location.line
                yield DbtNode(SNAPSHOT, self._file.name, name, file, fqn, line, config=config, properties=patch)

    def _below_own(self, kind: str) -> tuple[str, ...]:
        return tuple(os.path.join(self._file.folder, path, "") for path in self._file.paths[kind])

    def _tests(self, read: FileProperties) -> Iterator[DbtNode]:
        for file, below in self._files("tests", (".sql",)):
            path = PurePosixPath(below)
            if path.parts[0] in ("generic", "fixtures"):
                continue
            template, wrong = template_of(self._root, file)
            fqn = (self._file.name, *path.parent.parts, path.stem)
            patch = read.patches.get((TEST, path.stem))
            config = self._config("tests", fqn, patch, template, file)
            problem = None if wrong is None else (wrong[0], DbtLocation(file, wrong[1]))
            inner = None if template is None else (0, len(template.text))
            yield DbtNode(
                TEST,
                self._file.name,
                path.stem,
                file,
                fqn,
                template=template,
                inner=inner,
                config=config,
                properties=patch,
                problem=problem,
            )

    def _macros(self) -> Iterator[Macro]:
        generic = [f"{path}/generic" for path in self._file.paths["tests"]]
        paths = (*self._file.paths["macros"], *generic)
        for file, _ in self._folder.below(paths, (".sql",)):
            template, wrong = template_of(self._root, file)
            if template is None:
                if wrong is not None:
                    message = f"{wrong[0]}; none of its macros is known"
                    self._problems.append(Other("macro", file, DbtLocation(file, wrong[1]), message))
                continue
            for block in template.blocks():
                if block.kind in ("macro", "test"):
                    yield Macro(self._file.name, block.name, template, block, file)
                elif block.kind == MATERIALIZATION:
                    location = DbtLocation(file, template.line(block.start))
                    reason = "materializations of one's own have no counterpart"
                    self._others.append(Other("materialization", block.name, location, reason))

    def _config(
        self,
        kind: str,
        fqn: Iterable[str],
        patch: Properties | None,
        template: DbtTemplate | None,
        file: str,
        within: tuple[int, int] | None = None,
        in_python: Config | None = None,
    ) -> Config:
        """Return the configuration of a node: its folders', its properties', its own, and last the whole project's."""
        fqn = tuple(fqn)
        context = project_file_context(self._context)
        trees = [[self._known(c, context) for c in folder_configs(tree, fqn, f)] for f, tree in self._trees(kind)]
        levels = list(trees[0])
        if patch is not None:
            levels.append(patch.config)
        if in_python is not None:
            levels.append(in_python)
        if template is not None:
            levels += self._in_file(template, file, within)
        return merge_configs([*levels, *(config for tree in trees[1:] for config in tree)])

    def _known(self, config: Config, context: Mapping[str, Any]) -> Config:
        """Return the configuration with its values rendered."""
        if not config.values:
            return config
        known, unknown = rendered_config(config, context)
        self._problems += [other for other in unknown if other not in self._problems]
        return known

    def _in_file(self, template: DbtTemplate, file: str, within: tuple[int, int] | None) -> Iterator[Config]:
        nodes = file_config(template, within or (0, len(template.text)), file, self._context)
        for unknown in nodes.unknown:
            key = "config()" if unknown.key is None else unknown.key
            location = DbtLocation(file, unknown.line)
            if is_used(key):
                self._problems.append(Other("config", key, location, unknown.reason))
                yield Config({}, {key: location}, {key: unknown.reason})
            else:
                yield located_config({key: (unknown.reason, unknown.line)}, file)
        yield from nodes.configs


_ONLY_OF_THE_WAREHOUSE = re.compile(r"(?:grant|revoke|analyze)\b", re.IGNORECASE)


def _hook(name: str, value: Any, location: DbtLocation) -> Other:
    """Return what is told of hooks, whose statements are texts, or mappings with ``sql``."""
    texts = [str(each.get("sql", "")) if isinstance(each, Mapping) else str(each) for each in _listed(value)]
    statements = [part.strip() for text in texts for part in _COMMENT.sub("", text).split(";")]
    if all(_ONLY_OF_THE_WAREHOUSE.match(statement) for statement in statements if statement):
        reason = (
            "is not needed: rights are given in the catalog and stay, and a run records statistics of what it writes"
        )
        return Other("hook", name, location, reason, is_needed=False)
    return Other("hook", name, location, "hooks have no counterpart")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _hooks(node: DbtNode) -> Iterator[Other]:
    for key in _HOOKS:
        if node.config.get(key):
            location = node.config.locations.get(key, node.location)
            yield _hook(f"{node.versioned_name}: {key}", node.config.get(key), location)
    if node.config.get("grants"):
        location = node.config.locations.get("grants", node.location)
        yield Other("grants", node.versioned_name, location, "grants are given in the catalog, not by a run")
