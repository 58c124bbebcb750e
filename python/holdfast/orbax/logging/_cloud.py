"""A logger that writes to Google Cloud Logging."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from holdfast.orbax.logging._base import AbstractLogger

_SEVERITIES = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclasses.dataclass
class CloudLoggerOptions:
    """Where entries are sent.

    Attributes:
        job_name: added to each entry.
        logger_name: the name of the log.
        client: a google.cloud.logging client; None means a new client with the
            machine's credentials.
        checkpoint_metadata: the program's own metadata.
    """

    job_name: str = "checkpoint_job"
    logger_name: str = "checkpoint_logger"
    client: Any | None = None
    checkpoint_metadata: Any | None = None


class CloudLogger(AbstractLogger):
    """Sends structured entries to Google Cloud Logging."""

    def __init__(self, options: CloudLoggerOptions | None = None) -> None:
        """Creates a logger.

        Args:
            options: CloudLoggerOptions.

        Raises:
            ImportError: no client is given, and google-cloud-logging is not
                installed.
        """
        self.options = options or CloudLoggerOptions()
        self.job_name = self.options.job_name
        self.log_name = self.options.logger_name
        self.logging_client = self.options.client or _make_client()
        self._logger = self.logging_client.logger(self.log_name)

    def log_entry(
        self, entry: dict[str, Any], severity: str | None = "INFO"
    ) -> None:
        """Sends an entry.

        Args:
            entry: the entry, to which the job's name is added.
            severity: DEBUG, INFO, WARNING, ERROR or CRITICAL; any other value
                means INFO.
        """
        entry["job_name"] = self.job_name
        known = severity if severity in _SEVERITIES else "INFO"
        self._logger.log_struct(entry, severity=known)


def _make_client() -> Any:
    try:
        cloud_logging = importlib.import_module("google.cloud.logging")
    except ImportError as error:
        raise ImportError(
            "CloudLogger needs google-cloud-logging, which is not installed:"
            " install it, or give a client in CloudLoggerOptions"
        ) from error
    return cloud_logging.Client()
