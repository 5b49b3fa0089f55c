"""The faults that `poweron verify` found in the content store, by workflow and document."""

from itertools import groupby
from typing import Any, Final

from poweron_services.cli.output import counted, one_line, stdout
from poweron_services.client.content_check import CheckedContent, ContentFault

SHOWN: Final = 20  # workflows, and contents of each workflow; `--json` lists all
_FIELDS: Final = {
    "prompt_ref": "the prompt of a model",
    "answer_ref": "the answer of a model",
    "history_ref": "the history of earlier rounds",
    "all_calls": "the list of all model calls",
    "text": "the text of a web page",
    "key": "the key of the workflow, without which its contents cannot be verified",
}


def content_json(checked: CheckedContent) -> dict[str, Any]:
    """Return the result as `--json` prints it."""
    return {
        "referenced": checked.referenced,
        "stored": checked.stored,
        "unreferenced": checked.unreferenced,
        "read": checked.read,
        "faults": [
            {
                "workflowId": fault.workflow_id,
                "seq": fault.seq,
                "content": fault.name,
                "fault": fault.fault,
                "field": fault.field,
                "documentId": fault.document_id,
                "documentName": fault.document_name,
            }
            for fault in checked.faults
        ],
    }


def print_content(checked: CheckedContent) -> None:
    """Print the faults by workflow, and how many contents were checked."""
    workflows = [(id_, [*faults]) for id_, faults in groupby(checked.faults, key=lambda fault: fault.workflow_id)]
    for workflow_id, faults in workflows[:SHOWN]:
        stdout.print(f"Workflow {workflow_id}: {counted(len(faults), 'content')} are missing or damaged.")
        for fault in faults[:SHOWN]:
            stdout.print(f"  {_named(fault)}: {fault.fault}", soft_wrap=True)
        if len(faults) > SHOWN:
            stdout.print(f"  … and {len(faults) - SHOWN:,} more; `--json` names all.")
    if len(workflows) > SHOWN:
        stdout.print(f"… and {counted(len(workflows) - SHOWN, 'other workflow')}; `--json` names all.")
    stdout.print(_sum(checked, len(workflows)), soft_wrap=True)


def _named(fault: ContentFault) -> str:
    """Name the content for a user."""
    if fault.document_name is not None:
        return f"{one_line(fault.document_id or '')} {one_line(fault.document_name, 100)}"
    return f"event {fault.seq}, {_FIELDS.get(fault.field, 'a web page or a document that could not be read')}"


def _sum(checked: CheckedContent, workflows: int) -> str:
    read = f" {checked.read:,} were read and compared with their names." if checked.read else ""
    unused = f" {checked.unreferenced:,} more are stored that no event refers to." if checked.unreferenced else ""
    if not checked.faults:
        return f"The content store holds all contents that events refer to ({checked.referenced:,}).{read}{unused}"
    return (
        f"{len(checked.faults):,} of {checked.referenced:,} contents that events refer to are missing or damaged, in "
        f"{counted(workflows, 'workflow')}.{read}{unused} Restore them from a copy of the content store; "
        "POWERON_CONTENT says where it is."
    )
