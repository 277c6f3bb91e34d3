"""The shop's pipeline on a cluster: a master and two workers, started here, and the same command as ever.

    python -m examples.cluster.run

What is said after that goes to `seiche run`, such as `--conf spark.executor.memory=1g`.

The package has to be where the workers are. Here they use the same Python; elsewhere it is installed there, or shipped.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from examples.cluster.cluster import cluster
from seiche.spark.demo import files, pipeline_text


def main(folder: Path, *options: str) -> int:
    (folder / "shop.yaml").write_text(pipeline_text(), "utf-8")
    files.customers(folder)
    files.catalogue(folder)
    files.day(folder, 1)
    with cluster(folder) as master:
        command = [str(Path(sys.executable).parent / "seiche"), "run", str(folder / "shop.yaml"), "--master", master]
        settings = ["--conf", "spark.executor.memory=512m", "--conf", "spark.sql.shuffle.partitions=2"]
        return subprocess.run([*command, *settings, *options], check=False).returncode


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(Path(temporary), *sys.argv[1:]))
