from django.db import migrations

SHARES = ("afs-p", "themis")


def forget_late_s(apps, schema_editor):
    """Take the option ``late_s`` out of what is stored: the time between two rounds is known now, and does its work."""
    for model in ("Cluster", "Round"):
        rows = apps.get_model("scheduler", model).objects.filter(policy__in=SHARES)
        for row in rows.only("pk", "policy_options").iterator():
            if row.policy_options.pop("late_s", None) is not None:
                row.save(update_fields=["policy_options"])
    for shadow in apps.get_model("scheduler", "Shadow").objects.all():
        if shadow.chosen.get("policy_options", {}).pop("late_s", None) is not None:
            shadow.save(update_fields=["chosen"])
    # Snapshots that wait for the shadow were packed without the time between two rounds, and cannot be read any more.
    apps.get_model("scheduler", "ShadowRound").objects.filter(planned_at=None).delete()


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0015_idle_jobs")]

    operations = [migrations.RunPython(forget_late_s, migrations.RunPython.noop)]
