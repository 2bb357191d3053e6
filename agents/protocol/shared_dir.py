"""Names in the shared directory that both sides use."""

# Directories of jobs, each under the job's id: made and removed by agents, never by the control plane.
JOBS_DIR = "jobs"
# In one of them: the working directory of every attempt, of which pages and REST show the files.
JOB_DIR = "dir"
# One empty file for each job whose directory is to go, under the job's id: written by the control plane alone. An agent
# that may removes the directory; when nothing of it is left, the control plane removes the file.
REMOVALS_DIR = "removals"
# One file for each request to remove some files of an ended job, ``<job id>.<event number>``, as JSON: the names of
# each path below its working directory. Written and, once all of them are gone, removed by the control plane alone.
FILE_REMOVALS_DIR = "file-removals"
# What is put before a job's id while its directory is being removed.
GONE = ".gone."
