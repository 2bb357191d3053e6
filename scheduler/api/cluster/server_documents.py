"""Documents of servers and their GPUs in the OpenAPI document. Nothing here runs in a request."""

from scheduler.api.http.documents import document_of, page_of
from scheduler.selectors.cluster.rows import GpuRow, HolderRow, ServerDetailRow, ServerRow

HolderDocument = document_of(HolderRow, "HolderDocument")
GpuDocument = document_of(GpuRow, "GpuDocument", job=HolderDocument, guest=HolderDocument)
ServerRowDocument = document_of(ServerRow, gpus=GpuDocument)
ServerDocument = document_of(ServerDetailRow, "ServerDocument", gpus=GpuDocument)
ServerPage = page_of(ServerRowDocument, "ServerPage", "All servers.")
