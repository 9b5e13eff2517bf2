"""Which engine can read and write the tables of which catalog directly."""

from __future__ import annotations

from rivet_dagster.model.external_assets import DAGSTER
from rivet_dagster.model.plugins import CatalogTraits, EngineTraits, Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.relations import ArrowRows


class Reach:
    """The capabilities of a profile's engines on the tables of its catalogs; None stands for the workspace.

    An engine can use the catalogs that it lists, and the workspace, which also holds the rows of external assets.
    Unknown capabilities, of types that are not installed, count as present: the missing type has been reported.
    """

    def __init__(self, profile: Profile, plugins: Plugins) -> None:
        self._profile = profile
        self._plugins = plugins
        self._read: dict[tuple[str, str | None], bool] = {}
        self._written: dict[tuple[str, str | None], bool] = {}

    def reads(self, engine: str, catalog: str | None) -> bool:
        """Return whether the engine reads the tables of the catalog directly."""
        if (engine, catalog) not in self._read:
            facts, gives = self._engine(engine), self._catalog(catalog)
            possible = not facts or not gives or bool(facts.reads & gives.gives)
            possible = possible and not self._refuses(facts, catalog, is_written=False)
            self._read[engine, catalog] = possible and self._reaches(engine, catalog)
        return self._read[engine, catalog]

    def writes(self, engine: str, catalog: str | None) -> bool:
        """Return whether the engine writes the tables of the catalog; every engine can write Arrow."""
        if (engine, catalog) not in self._written:
            facts, gives = self._engine(engine), self._catalog(catalog)
            possible = not facts or not gives or ArrowRows in gives.gives or bool(facts.writes & gives.gives)
            possible = possible and not self._refuses(facts, catalog, is_written=True)
            self._written[engine, catalog] = possible and self._reaches(engine, catalog)
        return self._written[engine, catalog]

    def takes_arrow(self, engine: str) -> bool:
        """Return whether the engine can receive rows as Arrow through the process that runs it."""
        facts = self._engine(engine)
        return facts is None or ArrowRows in facts.reads

    def _reaches(self, engine: str, catalog: str | None) -> bool:
        spec, name = self._profile.engine(engine), self.named(catalog)
        if spec is None or name not in (*spec.catalogs, self._profile.workspace):
            return False
        facts = self._engine(engine)
        if facts is None or name in spec.catalogs:
            return True
        used = (self._profile.catalog(each) for each in (*spec.catalogs, name))
        return facts.refuses_catalogs([each for each in used if each is not None]) is None

    def _refuses(self, facts: EngineTraits | None, catalog: str | None, is_written: bool) -> bool:
        """Return whether the engine refuses each stored table of the catalog."""
        spec = self._profile.catalog(self.named(catalog))
        return bool(facts and spec and tuple(facts.refuses_table(spec, "parquet", {}, is_written)))

    def _engine(self, name: str) -> EngineTraits | None:
        return self._plugins.engine(self._profile.engine(name))

    def _catalog(self, name: str | None) -> CatalogTraits | None:
        spec = self._profile.catalog(self.named(name))
        return None if spec is None else self._plugins.catalogs.get(spec.type)

    def named(self, catalog: str | None) -> str:
        """Return the name of the catalog."""
        return self._profile.workspace if catalog in (None, DAGSTER) else catalog
