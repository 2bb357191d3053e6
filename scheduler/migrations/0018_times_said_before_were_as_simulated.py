from django.db import migrations
from django.db.models import F


def keep_simulated(apps, schema_editor):
    """Until now the times said were those of the futures: what became of them tells how far to stretch the next."""
    estimates = apps.get_model("scheduler", "StartEstimate").objects
    estimates.update(simulated_p90_at=F("p90_at"), first_simulated_p90_at=F("first_p90_at"))


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0017_starts_said_with_what_became_of_them")]

    operations = [migrations.RunPython(keep_simulated, migrations.RunPython.noop)]
