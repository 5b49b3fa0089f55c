"""The pages for people, written on the server; scripts only add live updates and shortcuts."""

from typing import Final

from fastapi import APIRouter

from poweron_services.door import document_page, step_page, workflow_list_page, workflow_page
from poweron_services.door.page_rendering import STATIC, problem_page, rendered

__all__: Final = ["STATIC", "problem_page", "rendered", "router"]

router = APIRouter()
for routes in (
    workflow_list_page.router,
    workflow_list_page.forms,
    workflow_page.router,
    workflow_page.forms,
    document_page.router,
    step_page.router,
):
    router.include_router(routes)
