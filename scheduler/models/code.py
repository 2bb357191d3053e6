"""Folders that were sent for jobs. Their bytes are in ``<shared directory>/code``, stored once by content."""

from django.conf import settings
from django.db import models
from django.db.models import Q


class CodeFolder(models.Model):
    """One folder as it was sent: its manifest and all its contents are in the store."""

    digest = models.CharField(primary_key=True, max_length=64)  # SHA-256 of the manifest
    num_files = models.PositiveIntegerField()
    num_bytes = models.PositiveBigIntegerField()
    created_at = models.DateTimeField()
    used_at = models.DateTimeField()  # when it was last sent, or a job with it was last submitted

    class Meta:
        indexes = [models.Index(fields=["used_at"], name="code_folder_by_use")]  # what the clean-up looks at

    def __str__(self) -> str:
        return self.digest[:12]


class CodeSent(models.Model):
    """Who has sent a folder, and so has its contents: only these are not asked for again."""

    folder = models.ForeignKey(CodeFolder, on_delete=models.CASCADE, related_name="sent")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="code_sent")
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["folder", "user"], name="code_sent_once")]
        indexes = [models.Index(fields=["user", "-at"], name="code_sent_by_user")]  # what a user need not send again

    def __str__(self) -> str:
        return f"{self.folder_id[:12]} by {self.user_id}"


class CodeGit(models.Model):
    """A folder that git brought for a user: the same commit is not fetched twice while the folder is kept."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="code_git")
    source = models.CharField(max_length=64)  # SHA-256 of address, commit and folder in it
    folder = models.ForeignKey(CodeFolder, on_delete=models.CASCADE, related_name="git")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "source"], name="code_git_once")]

    def __str__(self) -> str:
        return f"{self.source[:12]} by {self.user_id}"


class CodeBlob(models.Model):
    """One content in the store, and how many folders hold it."""

    sha256 = models.CharField(primary_key=True, max_length=64)
    num_bytes = models.PositiveBigIntegerField()
    folders = models.PositiveIntegerField(default=0)

    class Meta:
        # contents that no folder holds any more
        indexes = [models.Index(fields=["sha256"], condition=Q(folders=0), name="code_blob_unheld")]

    def __str__(self) -> str:
        return self.sha256[:12]
