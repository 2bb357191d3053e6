from pathlib import Path

from django.conf import settings
from django.db import migrations


def to_disk(apps, schema_editor):
    """Write uploaded traces, until now kept in their rows, where they are from now on."""
    folder = Path(settings.TRACES_DIR)
    for file in apps.get_model("scheduler", "TraceFile").objects.iterator(chunk_size=1):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / f"{file.pk}.trace").write_bytes(bytes(file.content))


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0010_limits_and_usage")]

    operations = [migrations.RunPython(to_disk, migrations.RunPython.noop)]
