"""Sync a source from Airflow before the tasks that read its tables.

Set EVENTLAKE_URL and EVENTLAKE_TOKEN (scope write) for the workers, and have the source only synced
on request: `eventlake schedule web --manual`.
"""

from datetime import datetime

from airflow.providers.standard.operators.python import PythonOperator
from airflow.providers.standard.sensors.python import PythonSensor
from airflow.sdk import DAG

from eventlake.client import Client


def start_sync(source: str, key: str) -> int:
    """Start a sync; a task that is tried again finds the run of the first try."""
    with Client() as client:
        number: int = client.start_sync(source, key=key)["id"]
        return number


def has_ended(run: int) -> bool:
    """Whether a run has ended; raises RunFailed, and so fails the task, if it failed."""
    with Client() as client:
        return client.has_ended(int(run))


with DAG("eventlake_web", start_date=datetime(2026, 1, 1), schedule="@hourly", catchup=False):
    start = PythonOperator(
        task_id="start",
        python_callable=start_sync,
        op_kwargs={"source": "web", "key": "{{ run_id }}/{{ task.task_id }}"},
    )
    # Between two looks the sensor has no worker, as a deferred task.
    PythonSensor(
        task_id="wait",
        python_callable=has_ended,
        op_kwargs={"run": start.output},
        mode="reschedule",
        poke_interval=15,
        timeout=3600,
    )
