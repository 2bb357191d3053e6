"""Reads of templates and views. A template is seen by the users who see its queue, a view by its user alone."""

from django.db.models import QuerySet

from scheduler.core.model.errors import NotFound
from scheduler.models import SavedView, SpecTemplate
from scheduler.selectors.queues.rows import TemplateRow
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, queues_submittable, queues_visible


def templates_visible(user: Actor) -> QuerySet[SpecTemplate]:
    """Return the templates of the queues that ``user`` sees, by queue and name."""
    return SpecTemplate.objects.select_related("queue", "owner").filter(queue__in=queues_visible(user))


def templates_offered(user: Actor) -> list[SpecTemplate]:
    """Return the templates of the queues that ``user`` may submit to."""
    return list(templates_visible(user).filter(queue__in=queues_submittable(user)))


def template_visible(user: Actor, template_id: int) -> SpecTemplate:
    """Return a template. Raises NotFound: there is none, or ``user`` may not see it; the two look alike."""
    template = templates_visible(user).filter(pk=template_id).first()
    if template is None:
        raise NotFound(f"There is no template {template_id} that you may see.")
    return template


def template_row(template: SpecTemplate) -> TemplateRow:
    """Return one template with its spec."""
    return {
        "id": str(template.pk),
        "name": template.name,
        "queue": template.queue.name,
        "owner": template.owner.username,
        "spec": template.spec,
        "created_at": iso(template.created_at),
    }


def views_of(user: Actor) -> list[SavedView]:
    """Return the views that ``user`` keeps, by name."""
    return list(SavedView.objects.filter(user_id=user.pk)) if user.is_authenticated else []
