"""Names of OpenTelemetry spans and attributes: those of the GenAI conventions (still in development), and our own.

From revision v1.41.0 of open-telemetry/semantic-conventions, the page on GenAI agent spans. No attribute contains
images or page contents: the attempt log has them, under the same IDs.
"""

SCHEMA = "https://opentelemetry.io/schemas/1.41.0"

OPERATION = "gen_ai.operation.name"
INVOKE_WORKFLOW = "invoke_workflow"
WORKFLOW_NAME = "gen_ai.workflow.name"
EXECUTE_TOOL = "execute_tool"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_TYPE_FUNCTION = "function"
ERROR_TYPE = "error.type"

WORKFLOW = "browser-automation"
TOOL_PREFIX = "browser."

TRACE_ID = "selfsurf.trace_id"
STEP_ID = "selfsurf.step_id"
PROVIDER = "selfsurf.provider"
RETRY_USED = "selfsurf.retry_used"
RETRYABLE = "selfsurf.error.retryable"
DECISION = "selfsurf.decision"
TO = "selfsurf.fallback.to"
REASON = "selfsurf.reason"
