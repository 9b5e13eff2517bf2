"""Archives of loaded classes, from which a JVM of Spark starts in about half the time.

A cold start of Spark spends most of its time on loading and checking classes. Java can keep what it has loaded in a
file that the next JVM maps into its memory: class data sharing for applications (AppCDS, ``-XX:ArchiveClassesAtExit``),
from Java 25 on the ahead-of-time cache (JEP 514, ``-XX:AOTCacheOutput``). An archive fits one Java and one class path;
any other JVM ignores it.

jvm.py         what an archive is made for: Java, Spark, its class path and jars
place.py       the folder of the archives, and whether others could have written to it
store.py       the archives in that folder: find an intact one, add one, remove old ones
options.py     options of the JVM that concern archives
starting.py    whether Spark starts from an archive, and what happens where there is none yet
making.py      making an archive: by a command, or by a process that outlives the first run
examining.py   what `rivet-dagster doctor` tells
"""
