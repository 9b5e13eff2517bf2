import glob, os
import pytest
from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.testing.catalog import CatalogConformance
home=os.path.expanduser('~/.m2/repository/')
JARS=[home+'org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.12.0/iceberg-spark-runtime-4.1_2.13-1.12.0.jar']+glob.glob(home+'org/xerial/sqlite-jdbc/*/*.jar')[-1:]
@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    p=tmp_path_factory.mktemp('spark')
    return PySparkEngine(EngineSpec("spark","pyspark",options={"master":"local[2]","config":{"spark.ui.enabled":False,"spark.sql.shuffle.partitions":2,"spark.driver.memory":"1g","spark.sql.session.timeZone":"Europe/Berlin","spark.jars":",".join(JARS),"spark.sql.extensions":"org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions","spark.sql.warehouse.dir":str(p),"spark.driver.extraJavaOptions":"-XX:TieredStopAtLevel=1"}}))
class Conf(CatalogConformance):
    kind="hadoop"
    @pytest.fixture
    def session(self, engine, tmp_path):
        with engine.session() as session:
            cat=self.new_catalog(tmp_path)
            for k,v in cat.session_needs("pyspark").config.items():
                if k!="spark.sql.extensions": session.spark.conf.set(k,v)
            session.spark.conf.set("spark.sql.adaptive.enabled","false")
            yield session
class TestHadoop(Conf):
    def new_catalog(self, folder):
        return IcebergCatalog(CatalogSpec("lake"+str(abs(hash(str(folder)))),"iceberg",{"catalog":"hadoop","warehouse":str(folder/"wh"),"default-namespace":"shop"}),folder)
class TestSqlite(Conf):
    def new_catalog(self, folder):
        return IcebergCatalog(CatalogSpec("lake"+str(abs(hash(str(folder)))),"iceberg",{"catalog":"jdbc","uri":f"jdbc:sqlite:{folder}/c.db","warehouse":str(folder/"wh"),"default-namespace":"shop","jdbc.schema-version":"V1"}),folder)
