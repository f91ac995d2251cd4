"""Lambda's Python runtime for one invocation, as a program: it reads the event from stdin, and writes a response file.

Source: https://docs.aws.amazon.com/lambda/latest/dg/python-handler.html, python-context.html there (2026-11)
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any


class Context:
    """The context object of a handler."""

    def __init__(self) -> None:
        variables = os.environ
        self.function_name = variables["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = variables["AWS_LAMBDA_FUNCTION_VERSION"]
        self.invoked_function_arn = variables["REHEARSAL_FUNCTION_ARN"]
        self.memory_limit_in_mb = variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.aws_request_id = variables["REHEARSAL_REQUEST_ID"]
        self.log_group_name = variables["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = variables["AWS_LAMBDA_LOG_STREAM_NAME"]

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the function is killed."""
        return max(int(float(os.environ["REHEARSAL_DEADLINE"]) * 1000 - time.time() * 1000), 0)


def main() -> None:
    """Run the handler."""
    sys.path[:1] = [os.environ["LAMBDA_TASK_ROOT"], *filter(None, [os.environ.get("REHEARSAL_OPT_PYTHON")])]
    event = json.load(sys.stdin)
    Path(os.environ["REHEARSAL_ANSWER"]).write_text(json.dumps(_answer(event)))


def _answer(event: Any) -> dict[str, Any]:
    module, _, name = os.environ["_HANDLER"].rpartition(".")
    try:
        handler = getattr(importlib.import_module(module.replace("/", ".")), name)
        answer = handler(event, Context())
        json.dumps(answer)
    except Exception as error:
        traceback.print_exc()
        trace = traceback.format_exc().splitlines()
        return {"error": {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": trace}}
    return {"answer": answer}


if __name__ == "__main__":
    main()
