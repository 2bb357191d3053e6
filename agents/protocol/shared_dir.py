"""Names in the shared directory that both sides use."""

# Directories of jobs, each under the job's id: made and removed by agents, never by the control plane.
JOBS_DIR = "jobs"
# In one of them: the working directory of every attempt, of which pages and REST show the files.
JOB_DIR = "dir"
# One empty file for each job whose directory is to go, under the job's id: written by the control plane alone. An agent
# that may removes the directory; when nothing of it is left, the control plane removes the file.
REMOVALS_DIR = "removals"
# What is put before a job's id while its directory is being removed.
GONE = ".gone."
