"""One example of every event and request, for the documentation."""

from typing import Final

from poweron_events.actor import Actor
from poweron_events.archive_events import (
    ContentErased,
    RequestErasure,
    RequestExport,
    RequestRetention,
    WorkflowExported,
    WorkflowRetained,
)
from poweron_events.event import CriterionProgress, DocumentRef, Event, FailedCalls, ModelCall, UnreadDocument
from poweron_events.instance_events import InstanceEnded, InstanceStarted, OfferedAction, TokenPrice
from poweron_events.policy import Group, Policy, Rule
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
    EarlierRounds,
    InlineDocument,
    LabelledDocuments,
    PolicyApplied,
    RequestApproval,
    RequestBudget,
    RequestCancellation,
    Requester,
    RequestIdentity,
    RequestPause,
    RequestPolicy,
    RequestRefused,
    RequestResume,
    RequestRound,
    RequestRules,
    RequestWorkflow,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    StoredDocument,
    WorkflowRequested,
    workflow_id,
)
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    BudgetDenied,
    BudgetGranted,
    BudgetRequested,
    DeadlinePassed,
    PlannedAction,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskPlan,
    TaskReviewed,
    TasksPlanned,
    Totals,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalDenied,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    CallReserved,
    IterationTelemetry,
    Observation,
    ObservationRecorded,
    ParametersChanged,
    ParametersRejected,
    ParametersSchema,
    ParametersSet,
    Preview,
    RefinementDecided,
    SchemaField,
    SelectionRejected,
)

SOURCE: Final = "/crm/offers"
WORKFLOW: Final = workflow_id(SOURCE, "4711")
CONTENT: Final = "81e22dcd1938905c992fd674c7fe5c0966c0586201675b9b1eaa4d114df5b94a"
SHA256: Final = "ee53f58ebb398a79ec3b67b880a1efc39d9b2eea37f02626bab828456deee861"

_ASKED = RequestIdentity(source=SOURCE, id="4711")
_CLERK = Requester(name="Ada", language="en")
_ADA = Actor(id="ada", via="cli")
_CARLA = Actor(id="carla", via="cli")
_POLICY = Policy(
    name="office",
    apply=("admins",),
    groups={"admins": Group(members=("carla",)), "sales": Group(members=("ada", "bob", "dora"))},
    rules=(
        Rule(actions=("mail.*",), decision="approve", approvers=2, from_=("sales",), not_requester=True, expires="2d"),
        Rule(actions=("*",), decision="allow"),
    ),
)
_QUESTION = "What is the grand total of the estimate?"
_LABEL = "round1_task1_action1_extract"
_ESTIMATE = DocumentRef(
    document_id="r1d1", document_name="estimate.pdf", mime_type="application/pdf", size=48_211, content=CONTENT
)
_TEXT = DocumentRef(
    document_id="t1a1s1d1", document_name="estimate.md", mime_type="text/markdown", size=2_048, content=CONTENT
)
_UNREAD = UnreadDocument(
    document_name="scan.pdf",
    code="document_damaged",
    reason="'scan.pdf' is damaged, so nothing of it was read.",
    content=CONTENT,
)
_CALL = ModelCall(
    provider="builtin",
    model="extractive",
    template="selector.v1",
    template_sha256=SHA256,
    prompt_ref=CONTENT,
    answer_ref=CONTENT,
    input_tokens=812,
    output_tokens=64,
    duration_ms=9,
)
_MET = (CriterionProgress(criterion="The grand total is named.", met=True, progress=1000),)
_TOTALS = Totals(steps=1, input_tokens=4_060, output_tokens=320)

EXAMPLES: Final[tuple[Event, ...]] = (
    RequestWorkflow(
        prompt=_QUESTION,
        documents=(InlineDocument.of("note.txt", b"The grand total is 42.", "text/plain"),),
        requester=_CLERK,
    ),
    RequestRound(
        workflow_id=WORKFLOW,
        after_round=1,
        prompt="And what was repaired?",
        documents=(StoredDocument(document_name="estimate.pdf", content=CONTENT),),
    ),
    RequestCancellation(workflow_id=WORKFLOW, round=1, reason="The offer was withdrawn.", requester=_CLERK),
    RequestBudget(
        workflow_id=WORKFLOW,
        round=1,
        task=1,
        attempt=1,
        step=2,
        question=1,
        decision="approve",
        tokens=50_000,
        reason="It is worth that.",
        actor=_ADA,
    ),
    RequestPause(workflow_id=WORKFLOW, round=1, reason="We check the price list first.", actor=_ADA),
    RequestResume(workflow_id=WORKFLOW, round=1, reason="The price list is right.", actor=_ADA),
    RequestPolicy(policy=_POLICY, previous=SHA256, reason="Offers leave with two signatures.", actor=_CARLA),
    RequestRules(workflow_id=WORKFLOW, round=1, reason="Also what is open.", actor=_CARLA),
    RequestExport(workflow_id=WORKFLOW, format="bundle", reason="The sample of the third quarter.", actor=_CARLA),
    RequestErasure(
        workflow_id=WORKFLOW,
        documents=("r1d1",),
        reason="The customer asked for it.",
        legal_basis="GDPR Art. 17",
        actor=_ADA,
    ),
    RequestRetention(workflow_id=WORKFLOW, hold="case-2026-17", reason="The offer is disputed.", actor=_ADA),
    RequestApproval(
        workflow_id=WORKFLOW,
        round=1,
        task=1,
        attempt=1,
        step=1,
        parameters_sha256=SHA256,
        decision="approve",
        reason="Agreed.",
        requester=_CLERK,
    ),
    WorkflowRequested(
        round=1, prompt=_QUESTION, documents=(_ESTIMATE,), user_language="en", requester=_CLERK, request=_ASKED
    ),
    RoundRequested(
        round=2,
        prompt="And what was repaired?",
        request=RequestIdentity(source=SOURCE, id="4712"),
        earlier=EarlierRounds(
            last_round=1,
            history="[round 1, success] The grand total is 42.",
            documents=(LabelledDocuments(label="round1_request", documents=(_ESTIMATE,)),),
        ),
    ),
    CancellationRequested(
        round=1, request=RequestIdentity(source=SOURCE, id="4713"), reason="The offer was withdrawn.", requester=_CLERK
    ),
    RoundPaused(
        round=1,
        request=RequestIdentity(source=SOURCE, id="4715"),
        reason="We check the price list first.",
        actor=_ADA,
    ),
    RoundResumed(
        round=1, request=RequestIdentity(source=SOURCE, id="4716"), reason="The price list is right.", actor=_ADA
    ),
    RulesChanged(
        round=1,
        policy=_POLICY.terms(2, SHA256),
        reason="Also what is open.",
        actor=_CARLA,
        request=RequestIdentity(source=SOURCE, id="4717"),
    ),
    PolicyApplied(
        number=2,
        policy=_POLICY,
        sha256=SHA256,
        previous=CONTENT,
        reason="Offers leave with two signatures.",
        actor=_CARLA,
        request=RequestIdentity(source=SOURCE, id="4718"),
    ),
    InstanceStarted(
        instance="host-7-1a2b3c4d",
        release="0.4.0",
        roles=("executor", "planner"),
        settings={"POWERON_DENY": "web.crawl", "POWERON_MODEL": "openai:gpt-5"},
        models={"plan": ("openai:gpt-5",), "select": ("openai:gpt-5",)},
        prices=(TokenPrice(model="openai:gpt-5", prompt="1.25", answer="10", listed=True),),
        actions=(
            OfferedAction(action="document.extract", effect_class="pure"),
            OfferedAction(action="mail.send", effect_class="at_most_once", tool_sha256=SHA256, approve=True),
        ),
        allowed={"lookup": ("ai.*", "document.*", "web.*", "mail.*")},
        denied=("web.crawl",),
    ),
    InstanceEnded(instance="host-7-1a2b3c4d"),
    RequestRefused(
        request=RequestIdentity(source=SOURCE, id="4714"),
        reason="round_open",
        code="round_open",
        detail="Round 1 is still running; wait for its end or cancel it.",
    ),
    DocumentErased(
        documents=("r1d1",),
        reason="The customer asked for it.",
        legal_basis="GDPR Art. 17",
        requester=_CLERK,
        request=RequestIdentity(source=SOURCE, id="4715"),
    ),
    WorkflowExported(
        format="bundle",
        with_content=True,
        reason="The sample of the third quarter.",
        actor=_CARLA,
        request=RequestIdentity(source=SOURCE, id="4716"),
    ),
    ContentErased(
        documents=("r1d1",),
        contents=(CONTENT,),
        reason="The customer asked for it.",
        legal_basis="GDPR Art. 17",
        actor=_ADA,
        request=RequestIdentity(source=SOURCE, id="4717"),
    ),
    WorkflowRetained(
        hold="case-2026-17",
        reason="The offer is disputed.",
        actor=_ADA,
        request=RequestIdentity(source=SOURCE, id="4718"),
    ),
    CallReserved(
        round=1, task=0, attempt=0, step=0, reservation=1, input_tokens=4_210, output_tokens=16_000, cost_nano_usd=0
    ),
    TasksPlanned(
        round=1,
        tasks=(
            TaskPlan(
                objective="Find the grand total.",
                success_criteria=("The grand total is named.",),
                task_type="lookup",
            ),
        ),
        model_call=_CALL,
    ),
    ActionsPlanned(
        round=1,
        task=1,
        attempt=1,
        actions=(
            PlannedAction(
                action="document.extract",
                action_objective="Read the estimate.",
                required_input_documents=("docList:round1_request",),
                parameters={"documentList": ["docList:round1_request"]},
            ),
        ),
        model_call=_CALL,
    ),
    ActionSelected(
        round=1,
        task=1,
        attempt=1,
        step=1,
        action="document.extract",
        action_objective="Read the estimate.",
        required_input_documents=("docList:round1_request",),
        parameters_context="The user wants the grand total.",
        parameters_schema=ParametersSchema(fields=(SchemaField(name="aiPrompt", description="What to look for."),)),
        model_call=_CALL,
    ),
    SelectionRejected(
        round=1,
        task=1,
        attempt=1,
        step=1,
        try_=1,
        reason="'mail.send' is not an action of this task; choose one of document.extract.",
        detail="It is denied; denied are mail.",
        code="action_not_allowed",
        model_call=_CALL,
    ),
    ParametersSet(
        round=1,
        task=1,
        attempt=1,
        step=1,
        given={"aiPrompt": "grand total"},
        parameters={"aiPrompt": "grand total", "documentList": ["docList:round1_request"]},
        model_call=_CALL,
    ),
    ParametersRejected(
        round=1,
        task=1,
        attempt=1,
        step=1,
        try_=1,
        reason="'aiPrompt' must be a text.",
        code="parameter_invalid",
        model_call=_CALL,
    ),
    ApprovalRequested(
        round=1, task=1, attempt=1, step=1, parameters_sha256=SHA256, action="mail.send", expires_ms=86_400_000
    ),
    ApprovalGranted(
        round=1,
        task=1,
        attempt=1,
        step=1,
        parameters_sha256=SHA256,
        reason="Agreed.",
        requester=_CLERK,
        request=RequestIdentity(source=SOURCE, id="4716"),
    ),
    ApprovalDenied(
        round=1, task=1, attempt=1, step=1, parameters_sha256=SHA256, reason="No one answered within a day."
    ),
    ApprovalEscalated(round=1, task=1, attempt=1, step=1, parameters_sha256=SHA256, to=("heads",)),
    ParametersChanged(
        round=1,
        task=1,
        attempt=1,
        step=1,
        parameters_sha256=SHA256,
        parameters={"to": "sales@example.com", "documentList": ["docList:round1_request"]},
        reason="Only to our own people.",
        actor=_ADA,
        request=RequestIdentity(source=SOURCE, id="4719"),
    ),
    ActionStarted(
        round=1,
        task=1,
        attempt=1,
        step=1,
        try_=1,
        action="document.extract",
        claim="9f3c51d2a7e84b06",
        worker="host-7-1a2b3c4d",
        effect_class="pure",
        deadline_ms=210_000,
    ),
    ActionCompleted(
        round=1,
        task=1,
        attempt=1,
        step=1,
        try_=1,
        success=True,
        outcome="done",
        documents=(_TEXT,),
        unread=(_UNREAD,),
        result_label=_LABEL,
        duration_ms=412,
    ),
    ObservationRecorded(
        round=1,
        task=1,
        attempt=1,
        step=1,
        observation=Observation(
            success=True,
            result_label=_LABEL,
            documents_count=1,
            previews=(Preview(name="estimate.md", mime="text/markdown", snippet="Grand total: 42"),),
            unread=(_UNREAD,),
            notes=("1 document was read.",),
        ),
        summary="Read estimate.pdf: the grand total is 42.",
    ),
    RefinementDecided(
        round=1,
        task=1,
        attempt=1,
        step=1,
        decision="stop",
        reason="The grand total is known.",
        code="criteria_met",
        classification="success",
        criteria_progress=_MET,
        iteration=IterationTelemetry(input_tokens=2_436, output_tokens=192, duration_ms=455),
        model_call=_CALL,
    ),
    TaskReviewed(
        round=1,
        task=1,
        attempt=1,
        status="success",
        reason="It is named.",
        code="criteria_met",
        criteria_progress=_MET,
        model_call=_CALL,
    ),
    AnswerRejected(
        round=1,
        task=1,
        attempt=1,
        step=1,
        try_=1,
        stage="refine",
        reason="The answer is not one JSON object.",
        code="answer_unreadable",
        model_call=_CALL,
    ),
    StageFailed(
        round=1,
        task=1,
        attempt=1,
        step=1,
        stage="select",
        error="The model did not answer for 300 s.",
        code="stage_timeout",
        tries=4,
        failed_calls=(FailedCalls(code="model_busy", count=4, duration_ms=910),),
    ),
    BudgetRequested(
        round=1,
        task=1,
        attempt=1,
        step=2,
        question=1,
        stage="select",
        code="token_budget",
        reason="The round's budget of 5,000 tokens leaves 620 tokens, and the next call may take 1,480 tokens.",
        totals=_TOTALS,
        expires_ms=604_800_000,
    ),
    BudgetGranted(
        round=1,
        task=1,
        attempt=1,
        step=2,
        question=1,
        tokens=50_000,
        reason="It is worth that.",
        actor=_ADA,
        request=RequestIdentity(source=SOURCE, id="4717"),
    ),
    BudgetDenied(round=1, task=1, attempt=1, step=2, question=1, reason="It was not answered in time."),
    DeadlinePassed(round=1, due_ms=1_795_221_000_000),
    RoundCompleted(
        round=1,
        message="The grand total is 42 (estimate.pdf, page 2).",
        documents=(_TEXT,),
        totals=_TOTALS,
        model_calls=(_CALL,),
    ),
    RoundFailed(
        round=1,
        message="The request could not be completed. The model did not answer for 300 s.",
        totals=_TOTALS,
        reason="The model did not answer for 300 s.",
        code="stage_timeout",
    ),
    RoundCancelled(
        round=1,
        message="The round was cancelled. Reason: The offer was withdrawn.",
        totals=_TOTALS,
        reason="The offer was withdrawn.",
    ),
)
