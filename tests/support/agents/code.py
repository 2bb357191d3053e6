"""A content store as the control plane writes it, for tests of agents."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from agents.protocol.code import BLOBS_DIR, CODE_DIR, MANIFESTS_DIR, CodeFile, CodeLimits, CodeManifest


def store_put(shared: Path, files: Mapping[str, bytes], *, executable: str = "") -> str:
    """Put a folder into the store, and return the digest of its manifest."""
    rows = []
    for path, content in files.items():
        sha256 = hashlib.sha256(content).hexdigest()
        blob = blob_of(shared, content)
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        mode = "755" if path == executable else "644"
        rows.append(CodeFile(path=path, mode=mode, size=len(content), sha256=sha256))
    manifest = CodeManifest.of(rows, CodeLimits())
    target = shared / CODE_DIR / MANIFESTS_DIR / f"{manifest.digest}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(manifest.encode())
    return manifest.digest


def blob_of(shared: Path, content: bytes) -> Path:
    """Return where a content is."""
    sha256 = hashlib.sha256(content).hexdigest()
    return shared / CODE_DIR / BLOBS_DIR / sha256[:2] / sha256
