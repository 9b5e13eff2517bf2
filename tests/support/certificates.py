"""Certificates by which a server of the tests proves who it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from support.maven import missing


def make_certificate(folder: Path, owner: str | None) -> tuple[Path, Path]:
    """Make a certificate for this machine, its own authority, and its key, which the user ``owner`` can read.

    Skip where openssl is not installed, and fail in CI.
    """
    if shutil.which("openssl") is None:
        missing("no openssl on this machine (Debian: apt-get install openssl)")
    certificate, key = folder / "server.crt", folder / "server.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=rivet"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    if owner is not None:
        shutil.chown(key, owner, owner)
    key.chmod(0o600)
    return certificate, key
